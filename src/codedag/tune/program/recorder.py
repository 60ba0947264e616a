"""The recorder of a function: buffers and statements, written down one operation after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from codedag.tune.declined import CannotTune, current_line, declined
from codedag.tune.program.program import Affine, Buffer, Expr, Program, Reduction, Statement, loads_of

if TYPE_CHECKING:
    from codedag.tune.program.record import Recorded

TYPES = ("f4", "f8", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "b1")
NBYTES_MAX = 1 << 30  # of one array of a recording
Array = Any


def type_of(dtype: Any, what: str = "") -> str:
    """The short name of a type that programs know; CannotTune else."""
    short: str = np.dtype(dtype).str[1:]
    if short not in TYPES or not np.dtype(dtype).isnative:
        why = f"arrays of type {np.dtype(dtype)} are not written down"
        raise CannotTune(f"{what or current_line()}: {why}", hint=_TYPES_HINT)
    return short


_TYPES_HINT = f"Types are {', '.join(TYPES)}."


@dataclass
class Recorder:
    """The statements that recorded arrays have written down so far."""

    made: Callable[[Recorder, str, Array], Recorded]  # the stand-in of a buffer
    inputs: list[str] = field(default_factory=list)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)

    def given(self, name: str, array: Array) -> Recorded:
        """The stand-in of an argument."""
        type_of(array.dtype, f"argument {len(self.inputs)}")
        self.inputs.append(name)
        return self._kept(name, array)

    def _kept(self, name: str, shadow: Array) -> Recorded:
        if shadow.nbytes > NBYTES_MAX:
            raise declined(f"an array of {shadow.nbytes:,} bytes is too large to be tuned ({NBYTES_MAX:,} at most)")
        itemsize = max(shadow.itemsize, 1)
        strides = tuple(step // itemsize for step in shadow.strides)
        self.buffers[name] = Buffer(name, type_of(shadow.dtype), tuple(shadow.shape), strides)
        return self.made(self, name, shadow)

    def append(
        self, shadow: Array, expr: Expr, how: str, reduction: Reduction | None = None, reduced: Sequence[int] = ()
    ) -> Recorded:
        """The array of one more statement."""
        name = f"t{len(self.statements)}"
        axes = [(f"d{k}", extent) for k, extent in enumerate(shadow.shape)]
        axes += [(f"r{k}", extent) for k, extent in enumerate(reduced)]
        made = self._kept(name, np.asarray(shadow))
        self.statements.append(Statement(name, tuple(axes), expr, how, reduction, current_line()))
        return made

    def program(self, name: str, result: str) -> Program:
        """The program that ends with this array; views that it does not need are left out."""
        needed, kept = {result}, []
        for one in reversed(self.statements):
            if one.target in needed:
                kept.append(one)
                needed |= {load.buffer for load in loads_of(one.expr)}
            elif one.how != "view":
                raise CannotTune(f"{one.line}: this value is computed and not used, but numpy might warn of it")
        buffers = {name: buffer for name, buffer in self.buffers.items() if name in needed or name in self.inputs}
        return Program(name, tuple(self.inputs), buffers, tuple(reversed(kept)), result)


def natural_index(shape: Sequence[int], out_shape: Sequence[int]) -> tuple[Affine, ...]:
    """The index of an operand that is broadcast to `out_shape`."""
    ahead = len(out_shape) - len(shape)
    return tuple(
        Affine() if extent == 1 and out_shape[ahead + k] != 1 else Affine(((f"d{ahead + k}", 1),))
        for k, extent in enumerate(shape)
    )
