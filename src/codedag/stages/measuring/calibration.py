"""Calibration data of int8 variants (--calibration FILE.npz): one half calibrates, the other measures the error."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from codedag.stages.model import Arrays, BadInput, StagedModel
from codedag.stages.npz import npz_bytes, read_npz
from codedag.stages.reference import draw
from codedag.stages.sizes import GRAPH, Sizes

#: Items that pass through the model at once.
BATCH = 8


@dataclass
class Calibration:
    """Inputs of a model in batches: those that calibrate, and those that did not and measure."""

    model: StagedModel
    calibrating: list[Arrays]
    held_out: list[Arrays]

    @cached_property
    def digest(self) -> str:
        """The data in one number."""
        whole = hashlib.sha256()
        for arrays in (*self.calibrating, *self.held_out):
            whole.update(npz_bytes(arrays))
        return whole.hexdigest()

    @cached_property
    def calibrating_tensors(self) -> list[Arrays]:
        """Every tensor of the reference for the inputs that calibrate."""
        return [self.model.run(arrays) for arrays in self.calibrating]

    @cached_property
    def held_out_tensors(self) -> list[Arrays]:
        """Every tensor of the reference for the inputs that do not."""
        return [self.model.run(arrays) for arrays in self.held_out]

    def at(self, sizes: Sizes) -> Arrays:
        """Inputs of these sizes from data that did not calibrate, repeated or cropped; edges are drawn."""
        import numpy as np

        found = draw(self.model, sizes)
        for name in self.model.inputs:
            if name == "edge_index" and tuple(self.model.sizes) == GRAPH:
                continue
            array = np.concatenate([each[name] for each in self.held_out]) if found[name].ndim else found[name]
            for axis, wanted in enumerate(found[name].shape):
                array = np.take(array, np.arange(wanted) % array.shape[axis], axis=axis)
            found[name] = np.ascontiguousarray(array)
        return found


def read_calibration(path: Path, model: StagedModel) -> Calibration:
    """The calibration data of a file; raises BadInput naming the file and the array that does not fit."""
    return calibration_of(model, read_npz(path), path)


def calibration_of(model: StagedModel, arrays: Arrays, path: Path | str) -> Calibration:
    """The calibration data of arrays by input; raises BadInput naming where they came from and what does not fit."""
    missing = [name for name in model.inputs if name not in arrays]
    if missing:
        raise BadInput(f"{path}: there is no array `{missing[0]}`", hint=f"The model reads {', '.join(model.inputs)}.")
    empty = next((name for name in model.inputs if not arrays[name].size), None)
    if empty:
        raise BadInput(f"{path}: array `{empty}` is empty")
    halves = _graph_halves(path, model, arrays) if tuple(model.sizes) == GRAPH else _halves(path, model, arrays)
    return Calibration(model, *halves)


def _few(path: Path | str, what: str) -> BadInput:
    hint = "Half of the data calibrates, the other half measures the error: give more."
    return BadInput(f"{path}: {what} are too few to calibrate", hint=hint)


def _halves(path: Path | str, model: StagedModel, arrays: Arrays) -> tuple[list[Arrays], list[Arrays]]:
    """The first and the second half of the items along the leading size, in batches."""
    steps = {name: _step(model, name) for name in model.inputs}
    count = min(len(arrays[name]) // step for name, step in steps.items() if step)
    if count < 2:
        raise _few(path, f"{count} items")
    batch = BATCH if _is_batched(model) else 1
    half = count // 2
    return (
        list(_batches(path, model, arrays, steps, range(0, half, batch), half)),
        list(_batches(path, model, arrays, steps, range(half, count, batch), count)),
    )


def _is_batched(model: StagedModel) -> bool:
    return any(isinstance(model.tensors[name].shape[0], str) for name in model.inputs if model.tensors[name].shape)


def _step(model: StagedModel, name: str) -> int:
    """The rows of an array that are one item; 0 if all items share it."""
    shape = model.tensors[name].shape
    if not shape:
        return 0
    if isinstance(shape[0], str):
        return 1
    return 0 if _is_batched(model) else shape[0]


def _batches(
    path: Path | str, model: StagedModel, arrays: Arrays, steps: dict[str, int], starts: range, end: int
) -> Iterator[Arrays]:
    import numpy as np

    from codedag.stages.execution.running import checked_input

    for start in starts:
        stop = min(start + starts.step, end)
        rows: Arrays = {
            name: np.ascontiguousarray(arrays[name][start * step : stop * step]) if step else arrays[name]
            for name, step in steps.items()
        }
        yield checked_input(model, rows, str(path))


def _graph_halves(path: Path | str, model: StagedModel, arrays: Arrays) -> tuple[list[Arrays], list[Arrays]]:
    """The first and the second half of the nodes, each with the edges among them."""
    from codedag.stages.execution.running import checked_input

    checked = checked_input(model, arrays, str(path))
    half = len(checked["x"]) // 2
    first, second = _among(checked, 0, half), _among(checked, half, len(checked["x"]))
    if not half or not first["edge_index"].size or not second["edge_index"].size:
        raise _few(path, f"{len(checked['x'])} nodes with {checked['edge_index'].shape[1]} edges")
    return [first], [second]


def _among(arrays: Arrays, start: int, stop: int) -> Arrays:
    import numpy as np

    edges: Any = arrays["edge_index"]
    inside = ((edges >= start) & (edges < stop)).all(axis=0)
    return {
        **arrays,
        "x": np.ascontiguousarray(arrays["x"][start:stop]),
        "edge_index": np.ascontiguousarray(edges[:, inside] - start),
    }
