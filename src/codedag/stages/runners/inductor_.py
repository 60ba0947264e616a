"""torch.compile: the block of the eager runner, compiled with sizes that stay symbolic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from codedag.stages.runners.torch_ import Runner as EagerRunner
from codedag.stages.runners.torch_ import store_results


class Runner(EagerRunner):
    """Compiles blocks by Inductor."""

    def compiled(self, module: Any) -> Callable[..., Any]:
        """The module as compiled code; a graph that cannot be compiled as one is an error, never half eager."""
        if self._device.type == "cpu":
            store_results(self._torch, module, by_operators=False)
        made: Callable[..., Any] = self._torch.compile(module, dynamic=True, fullgraph=True)
        return made
