"""Int8 cells of a staged model: the quantised file of a block on a PU, compared with the reference up to an error."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from codedag.ir.verdict import No
from codedag.stages.execution.verify import nearness
from codedag.stages.measuring.cells import Cell, key_of
from codedag.stages.measuring.measure import Measurer, Tensors, Timed, program_of
from codedag.stages.measuring.quantise import INT8, Quantised, Quantiser
from codedag.stages.model import Arrays, Block
from codedag.stages.runners import Program

if TYPE_CHECKING:
    from codedag.stages.measuring.arena import Arena
    from codedag.stages.measuring.calibration import Calibration

#: Runtimes that run the quantised file.
PUS = ("ort:cpu", "ov:cpu")


@dataclass
class Int8Measurer(Measurer):
    """Measures int8 files at inputs that did not calibrate; a cell beyond the largest allowed error is failed."""

    variant: ClassVar[str] = INT8
    calibration: Calibration = None  # type: ignore[assignment]  # needed, but those before it have defaults
    max_error: float = 0.0

    def __post_init__(self) -> None:
        self._float32 = Measurer(self.model, self.directory, self.kept, self.settings, up=self.up)
        self._quantiser = Quantiser(self.model, self.directory, self.calibration)
        self._files: dict[str, Quantised] = {}

    def tensors(self, size: dict[str, int], arena: Arena) -> Tensors:
        """The tensors for inputs that did not calibrate."""
        return Tensors(self.model, size, arena, self.calibration.at(size))

    def _program(self, block: Block, of_torch: bool) -> Program | No:
        found = self._quantiser.of(block)
        if isinstance(found, No):
            return found
        self._files[block.name] = found
        return replace(program_of(self.model, block, self.directory), onnx=str(found.path))

    def _is_missing(self, block: Block, size: dict[str, int], pu: str, version: str) -> bool:
        """Whether a cell was not measured yet; one that failed for an error that is allowed now was not."""
        cell = self.kept.get(self.key(block, size, pu, version), self.settings.repeats, self.settings.timeout_seconds)
        return cell is None or (cell.status == "failed" and cell.error is not None and cell.error <= self.max_error)

    def key(self, block: Block, size: dict[str, int], pu: str, version: str) -> str:
        """The key of a quantised cell."""
        program = self.program(block, pu)
        content = program.reason.encode() if isinstance(program, No) else Path(program.onnx).read_bytes()
        made = hashlib.sha256(content).hexdigest()
        return key_of(INT8, made, size, pu, version, self.settings.threads, self.settings.static)

    def _entries(self, block: Block, pus: Sequence[str], tensors: Tensors) -> list[dict[str, Timed]]:
        """The cells in int8 and in float32, timed in turn: figures of another hour would be no comparison."""
        int8 = {pu: self._loaded(block, pu, tensors) for pu in pus}
        able = [pu for pu, each in int8.items() if each.cell.status == "ok"]
        return [int8, {pu: self._float32._loaded(block, pu, tensors).anew() for pu in able}]

    def _compare(self, cell: Cell, tensors: Tensors, outputs: Arrays) -> None:
        """The error of a cell is the larger of that on its PU at this size, and that on all that did not calibrate."""
        near = {name: nearness(tensors.arrays[name], array, self.max_error) for name, array in outputs.items()}
        worst = max(self._files[cell.block].error, *(each.worst for each in near.values()))
        cell.error = worst if isfinite(worst) else None
        wrong = next((f"`{name}`: {each.wrong}" for name, each in near.items() if each.wrong), "")
        if wrong and cell.error is None:
            cell.status, cell.reason = "failed", f"its int8 result {wrong}"
        elif worst > self.max_error:
            cell.status, cell.reason = "failed", f"its int8 error is {worst:.2g}; {self.max_error:g} is allowed"
