"""Programs that map each small integer to one number by channel: 256 or 65,536 values say all about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from codedag.tune.program.evaluate import OPERATIONS
from codedag.tune.program.program import Const, Expr, Load, Op, loads_of
from codedag.tune.schedule.loop_axes import Loop, Place, merged
from codedag.tune.schedule.stages import Staged, factors_of

SMALL = ("u1", "i1", "i2")
CHANNELS_MAX = 16
Array = Any


@dataclass(frozen=True, slots=True)
class ByteMap:
    """`out[p*out_pixel + c*out_channel] = f_c(x[p*pixel + c*channel])` for all pixels and channels."""

    staged: Staged
    data: Load
    pixels: int
    channels: int
    pixel: int
    channel: int
    out_pixel: int
    out_channel: int

    @property
    def expr(self) -> Expr:
        """What is done to one element."""
        return self.staged.stages[-1].expr

    def values(self) -> Array:
        """Every value of the element's type."""
        info = np.iinfo(self.staged.program.buffers[self.data.buffer].dtype)
        return np.arange(info.min, info.max + 1).astype(info.dtype)

    def table(self, arrays: Sequence[Array]) -> tuple[Array, Array | None]:
        """What every value becomes in every channel, and the same before the last cast from float64 to float32.

        Raises FloatingPointError where numpy would warn.
        """
        known = dict(zip(self.staged.program.inputs, arrays, strict=True))
        expr = self.expr
        with np.errstate(all="raise", under="ignore"):
            whole = self._value(expr, known)
            is_cast = isinstance(expr, Op) and expr.name == "cast" and expr.dtype == "f4"
            before = self._value(expr.args[0], known) if is_cast and isinstance(expr, Op) else None
        shape = (len(self.values()), self.channels)
        return np.broadcast_to(whole, shape), before if before is None else np.broadcast_to(before, shape)

    def _value(self, expr: Expr, known: dict[str, Array]) -> Array:
        if isinstance(expr, Const):
            return np.asarray(expr.value, expr.dtype)
        if isinstance(expr, Load):
            if expr == self.data:
                return self.values()[:, None]
            array = known[expr.buffer].reshape(-1)
            factors = factors_of(expr, self.staged.program.buffers[expr.buffer])
            step = next((f for name, f in factors.items() if name and f), 0)
            return array[factors[""] :: step][None, : self.channels] if step else array[factors[""]]
        args = [self._value(one, known) for one in expr.args]
        return args[0].astype(expr.dtype) if expr.name == "cast" else OPERATIONS[expr.name](*args)

    def line(self, arrays: Sequence[Array]) -> tuple[Array, Array] | None:
        """Slope and offset in float64 whose value, rounded once to float32, is the table's for every value; or None."""
        table, before = self.table(arrays)
        if table.dtype != np.float32 or before is None or before.dtype != np.float64:
            return None
        values = self.values().astype(np.float64)
        slope = (before[-1] - before[0]) / (values[-1] - values[0])
        offset = before[0] - values[0] * slope
        found = (values[:, None] * slope + offset).astype(np.float32)
        fits = np.isfinite(table).all() and found.tobytes() == np.ascontiguousarray(table).tobytes()
        return (slope, offset) if fits else None


def byte_map_of(staged: Staged) -> ByteMap | None:
    """The map that a program is, or None if it is another thing."""
    program, stage = staged.program, staged.stages[-1]
    loads = list(dict.fromkeys(loads_of(stage.expr)))
    if len(staged.stages) != 1 or stage.reduction is not None or not stage.target.size:
        return None
    data = [load for load in loads if program.buffers[load.buffer].dtype in SMALL and _is_large(load, staged)]
    if len(data) != 1 or sum(load.buffer == data[0].buffer for load in loads) != 1:
        return None
    factors = factors_of(data[0], program.buffers[data[0].buffer])
    if factors[""]:
        return None
    moving = [
        {name for name, f in factors_of(load, program.buffers[load.buffer]).items() if name and f}
        for load in loads
        if load != data[0]
    ]
    axes = set().union(*moving) if moving else set()
    if len(axes) > 1 or any(f < 0 for f in factors.values()):
        return None
    return _map_of(staged, data[0], factors, next(iter(axes), ""))


def _is_large(load: Load, staged: Staged) -> bool:
    buffer = staged.program.buffers[load.buffer]
    return buffer.size == staged.stages[-1].target.size


def _map_of(staged: Staged, data: Load, factors: dict[str, int], channel: str) -> ByteMap | None:
    stage = staged.stages[-1]
    extents = dict(stage.axes)
    channels = extents.get(channel, 1)
    if channels > CHANNELS_MAX:
        return None
    steps = {f"d{k}": step for k, step in enumerate(stage.target.strides)}
    places = [Place("", "", steps, 0), Place("", "", factors, 0)]
    loops = [Loop(name, extent) for name, extent in stage.axes if name != channel and extent != 1]
    loops = sorted(loops, key=lambda loop: -steps[loop.name])
    loops, _ = merged(loops, places)
    if len(loops) > 1:
        return None
    name, pixels = (loops[0].name, loops[0].extent or 1) if loops else ("", 1)
    return ByteMap(
        staged, data, pixels, channels, factors.get(name, 0) if name else 0, factors.get(channel, 0) if channel else 0,
        steps.get(name, 0), steps.get(channel, 0),
    )  # fmt: skip
