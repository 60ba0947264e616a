"""A module given as text, recorded on one call and then run with its chains applied, all in this process."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codedag.autopilot.moves import find
from codedag.backends.effects import Effects
from codedag.instrument import sites as site_module
from codedag.instrument.program import Program
from codedag.instrument.sites import PASS
from codedag.migrate.fuse.chain import Chain
from codedag.migrate.trial import Trial
from codedag.trace.recorder import Recorder

PATH = "/generated/program.py"


class NeverDue(Trial):
    """A trial without checks: the fused result itself is what the program gets."""

    def due(self) -> bool:
        self.calls += 1
        return False


class Kernel:
    """Looks the table up by numpy: slow, and right for every layout."""

    def apply(self, view: Any, table: Any, rows: tuple[int, ...], out: Any) -> None:
        import numpy as np

        row = np.zeros((1,) * view.ndim, np.intp)
        for axis, step in enumerate(rows):
            shape = [1] * view.ndim
            shape[axis] = -1
            row = row + step * np.arange(view.shape[axis]).reshape(shape)
        out[...] = table[row, view]


def kernels(view: Any, rows: Any, table: Any, out: Any) -> Any:
    return Kernel()


@dataclass
class Fused:
    module: types.ModuleType
    program: Program
    chains: list[Chain] = field(default_factory=list)

    @property
    def trial(self) -> Trial:
        (chain,) = self.chains
        return chain.trial

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)


def executed(code: types.CodeType) -> types.ModuleType:
    module = types.ModuleType("generated")
    exec(code, vars(module))
    return module


def fuse(source: str, warm: Callable[[Any], Any], *, kernels: Any = kernels, trial: type[Trial] = NeverDue) -> Fused:
    """The module after `warm(module)` was recorded and every chain that was found was applied."""
    program = Program([Path("/generated")])
    module = executed(program.load(PATH, source.encode()))
    recorder = Recorder(program.names)
    site_module.native.start(recorder, program.names)
    try:
        warm(module)
    finally:
        site_module.native.stop()
    return Fused(module, program, apply_chains(program, recorder, kernels, trial))


def apply_chains(
    program: Program, recorder: Recorder, kernels: Any = kernels, trial: type[Trial] = NeverDue
) -> list[Chain]:
    """Every chain in what was recorded so far, applied."""
    file, chains = program.files[PATH], []
    for owner in sorted(file.owners()):
        program.settle(PATH, owner)
        for found in find.chains(file, owner, [t for t in recorder.templates if t.site.info.owner == owner]):
            between = [file.sites[i] for i in found.between if file.sites[i].mode == PASS]
            chains.append(Chain(found.links, between, kernels, trial("chain"), Effects()))
            program.plan(PATH, owner, chains[-1].variants())
    return chains


def plain(source: str) -> types.ModuleType:
    return executed(compile(source, "/generated/plain.py", "exec", dont_inherit=True))
