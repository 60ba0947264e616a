"""A whole model on one runtime in the caller's process: torch tensors in, fresh torch tensors out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from codedag.stages.execution.pu_pool import BlockPrograms
from codedag.stages.model import Arrays, StagedModel
from codedag.stages.runners import Runner, runner_of

Run = Callable[[Sequence[Any]], dict[str, Any]]  # tensors in the order of the model's inputs -> tensors by name


class DeviceValue:
    """A whole model on one runtime of this process; nothing is sent to another one."""

    def __init__(self, model: StagedModel, pu: str, directory: Path, keep: Any = None, variant: str = "") -> None:
        self._model, self._pu = model, pu
        self._keep = keep  # the folder of its files
        self._block = model.block(1, len(model.stages))
        self._program = BlockPrograms(model, directory).of(self._block, pu, variant)
        self._runner: Runner = runner_of(pu, torch.get_num_threads())

    def at(self, sizes: dict[str, int]) -> Run:
        """The model compiled for these sizes, as a function of tensors."""
        import numpy as np

        inputs, outputs = (
            {name: np.zeros(self._model.tensors[name].at(sizes), self._model.tensors[name].dtype) for name in names}
            for names in (self._block.inputs, self._block.outputs)
        )
        loaded = self._runner.load(self._program, sizes, inputs, outputs)
        names = self._model.inputs
        call = getattr(loaded, "call", None) or functools.partial(_copied, loaded, inputs, outputs)
        from_numpy = torch.from_numpy
        handed_on = [(name, at) for at, name in enumerate(names) if name in self._model.outputs]

        def run(tensors: Sequence[Any]) -> dict[str, Any]:
            arrays = {name: tensor.numpy() for name, tensor in zip(names, tensors, strict=True)}
            made = {name: from_numpy(array) for name, array in call(arrays).items()}
            for name, at in handed_on:
                made[name] = tensors[at]
            return made

        return run


def _copied(loaded: Any, inputs: Arrays, outputs: Arrays, arrays: Mapping[str, Any]) -> Arrays:
    """Results by a runtime that works on its own arrays only."""
    for name, array in inputs.items():
        array[...] = arrays[name]
    loaded.bring()
    loaded.run()
    loaded.fetch()
    return {name: array.copy() for name, array in outputs.items()}
