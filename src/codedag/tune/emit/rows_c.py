"""The C text of a staged program: pieces of rows go through all stages while they are in a cache.

`int codedag_kernel(const void *const *in, void *out, char *scratch, long row0, long rows, long segment)` returns
something else than 0 if the result is not sure to be numpy's. A program that uses exp or log has several segments,
between which numpy's own function runs on the scratch memory.
"""

# ruff: noqa: E501 - lines of C are kept whole
from __future__ import annotations

import math
from dataclasses import dataclass

from codedag.tune.emit.element_c import BITS, SIZES, TYPES, Body, is_float
from codedag.tune.emit.head import HEAD, SYMBOL
from codedag.tune.emit.sums_c import SUMS, reduction_text
from codedag.tune.program.program import Buffer, Load, contiguous, loads_of
from codedag.tune.schedule.loop_axes import Loop, Place, expanded, merged
from codedag.tune.schedule.stages import Stage, Staged, factors_of, row_step

Point = dict[str, int | str]
ALIGN = 64
SHORT = 16  # innermost loops up to this are joined with the next one, their parameters repeated


@dataclass(frozen=True, slots=True)
class Text:
    """A C text, what its scratch memory holds, and its segments with the library call after each."""

    source: str
    scratch_nbytes: int
    calls: tuple[tuple[str, int, int, str, int], ...]  # function, offset in, offset out, type, elements of a row
    rows_cap: int


class Writer:
    """Writes the stages of one program for one point."""

    def __init__(self, staged: Staged, point: Point) -> None:
        self.staged, self.point = staged, point
        self.cap = min(int(point.get("rows", 1)), max(staged.rows, 1)) if staged.rows_axes else 1
        self.offsets: dict[str, int] = {}
        self.nbytes = 0
        self.fills: list[str] = []
        self.functions: list[str] = []
        program = staged.program
        self.buffers: dict[str, Buffer] = {name: program.buffers[name] for name in program.inputs}
        for stage in staged.stages:
            self.buffers[stage.target.name] = stage.target
        for stage in staged.stages[:-1]:
            if stage.call:  # the function writes over its argument
                self.offsets[stage.target.name] = self.offsets[next(loads_of(stage.expr)).buffer]
                continue
            self._reserve(stage.target.name, self.cap * self.inner(stage.target) * SIZES[stage.target.dtype])

    def _reserve(self, name: str, nbytes: int) -> int:
        self.offsets[name] = self.nbytes
        self.nbytes += -(-max(nbytes, 1) // ALIGN) * ALIGN
        return self.offsets[name]

    def inner(self, buffer: Buffer) -> int:
        """Elements of one row of a buffer."""
        return math.prod(buffer.shape[self.staged.rows_axes :])

    def text(self) -> Text:
        """The whole text."""
        segments, calls = self._segments()
        bodies = "".join(
            f"static int segment{k}(const void *const *in, char *restrict out, char *restrict scratch, long row0, long rows)\n"
            f"{{\n    int odd = 0; (void)in; (void)out; (void)scratch; (void)row0; (void)rows;\n{{fills{k}}}{text}    return odd;\n}}\n"
            for k, text in enumerate(segments)
        )
        fills = f"    if (row0 == 0) {{\n{''.join(self.fills)}    }}\n" if self.fills else ""
        for k in range(len(segments)):
            bodies = bodies.replace(f"{{fills{k}}}", fills if k == 0 else "")
        source = f"{HEAD}{BITS}{SUMS}{''.join(self.functions)}{bodies}{self._entry(len(segments))}"
        return Text(source, self.nbytes + ALIGN, calls, self.cap)

    def _entry(self, segments: int) -> str:
        head = (
            f"int {SYMBOL}(const void *const *in, void *out, char *scratch, long row0, long rows, long segment)\n"
            "{\n    int odd = 0;\n    clear();\n"
        )
        if segments == 1:
            loop = (
                f"    (void)segment;\n    for (long r = 0; r < rows; r += {self.cap})\n"
                f"        odd |= segment0(in, out, scratch, row0 + r, rows - r < {self.cap} ? rows - r : {self.cap});\n"
            )
        else:
            cases = "".join(
                f"    case {k}: odd = segment{k}(in, out, scratch, row0, rows); break;\n" for k in range(segments)
            )
            loop = f"    switch (segment) {{\n{cases}    }}\n"
        return f"{head}{loop}    return odd | raised() << 1;\n}}\n"

    def _segments(self) -> tuple[list[str], tuple[tuple[str, int, int, str, int], ...]]:
        texts, calls = [""], []
        for number, stage in enumerate(self.staged.stages):
            if stage.call:
                source = next(loads_of(stage.expr)).buffer
                target = stage.target
                calls.append(
                    (stage.call, self.offsets[source], self.offsets[target.name], target.dtype, self.inner(target))
                )
                texts.append("")
            elif stage.reduction is not None:
                texts[-1] += self._reduction(number, stage)
            else:
                texts[-1] += self._elements(stage)
        return texts, tuple(calls)

    # where things lie

    def place(self, load: Load) -> Place:
        """How a load moves along rows and axes."""
        buffer = self.buffers[load.buffer]
        factors = dict(factors_of(load, buffer))
        count = self.staged.rows_axes
        shape = self.staged.stages[-1].target.shape[:count]
        row = row_step(load, buffer, shape) or 0
        base = factors.pop("")
        for k in range(count):
            factors.pop(f"d{k}", None)
        if load.buffer in self.offsets:
            row = self.inner(buffer)
        return Place(self._base(load.buffer, row), buffer.dtype, {"row": row, **factors}, base)

    def places(self, stage: Stage) -> dict[Load, Place]:
        """How every load of a stage moves."""
        return {load: self.place(load) for load in dict.fromkeys(loads_of(stage.expr))}

    def _base(self, name: str, row: int) -> str:
        """The C pointer to the first element of the first row of this piece."""
        kind = TYPES[self.buffers[name].dtype]
        if name in self.offsets:
            return f"(({kind} *)(scratch + {self.offsets[name]}))"
        if name in self.staged.program.inputs:
            return f"((const {kind} *)in[{self.staged.program.inputs.index(name)}] + row0*{row}L)"
        return f"(({kind} *)out + row0*{row}L)"

    def target(self, stage: Stage) -> Place:
        """How the target of a stage moves."""
        buffer, count = stage.target, self.staged.rows_axes
        steps = contiguous(buffer.shape) if buffer.name in self.offsets or not buffer.strides else buffer.strides
        factors = {f"d{k}": steps[k] for k in range(count, len(buffer.shape))}
        row = self.inner(buffer)
        return Place(self._base(buffer.name, row), buffer.dtype, {"row": row, **factors}, 0)

    def loops(self, stage: Stage) -> list[Loop]:
        """The loops over rows and over the target's own axes."""
        own = [Loop(name, extent) for name, extent in stage.kept[self.staged.rows_axes :]]
        return [*([Loop("row", None)] if self.staged.rows_axes else []), *own]

    def expand(self, place: Place, outer: Loop, inner: Loop) -> Place:
        """A parameter that repeats along the next loop, written out once, so that both loops become one."""
        assert outer.extent is not None
        assert inner.extent is not None
        size = outer.extent * inner.extent
        offset = self._reserve(f"expanded{len(self.fills)}", size * SIZES[place.dtype])
        kind, step = TYPES[place.dtype], place.factors.get(inner.name, 0)
        self.fills.append(
            f"    {{ {kind} *e = ({kind} *)(scratch + {offset}); const {kind} *p = {place.base} + {place.offset};\n"
            f"      for (long o = 0; o < {outer.extent}; o++) for (long i = 0; i < {inner.extent}; i++)"
            f" e[o*{inner.extent} + i] = p[i*{step}]; }}\n"
        )
        return Place(f"(({kind} *)(scratch + {offset}))", place.dtype, {outer.name: inner.extent, inner.name: 1}, 0)

    # stages

    def walked(self, stage: Stage) -> tuple[list[Loop], Place, dict[Load, Place]]:
        """The loops over all elements of a stage, the innermost ones joined where memory allows it, and its arrays."""
        places, target = self.places(stage), self.target(stage)
        loads = list(places)
        loops = [loop for loop in self.loops(stage) if loop.extent != 1]
        key = target if self.point.get("walk", "out") == "out" or not loads else places[loads[0]]
        if len(loops) > 1:
            loops = sorted(loops, key=lambda loop: -abs(key.factors.get(loop.name, 0)))
        every = [target, *places.values()]
        if self.point.get("expand", 1) and len(loops) > 1 and _is_short(loops[-1]):
            every = expanded(every, loops, self.expand)
        loops, every = merged(loops, every)
        return loops, every[0], dict(zip(loads, every[1:], strict=True))

    def _elements(self, stage: Stage) -> str:
        loops, target, places = self.walked(stage)
        inner = loops[-1] if loops else Loop("one", 1)
        outer = loops[:-1]
        names: dict[Load, str] = {}
        pointers = f"{_typed(target)} *restrict o = {target.at(outer)};\n"
        for load, place in places.items():
            names[load] = f"p{len(names)}"
            pointers += f"const {_typed(place)} *{names[load]} = {place.at(outer)};\n"
        step = {load: place.factors.get(inner.name, 0) for load, place in places.items()}
        for load, place in places.items():
            if not step[load]:  # read once: the compiler cannot know that the loop does not write there
                pointers += f"const {_typed(place)} h{names[load]} = {names[load]}[0];\n"
        body = Body(
            lambda load: (f"{names[load]}[i*{step[load]}L]" if step[load] else f"h{names[load]}", places[load].dtype)
        )
        value, dtype = body.value(stage.expr)
        if is_float(dtype) and stage is self.staged.stages[-1]:
            body.tell_nan(value)
        head = "".join(f"    for (long {loop.name} = 0; {loop.name} < {loop.text}; {loop.name}++)\n" for loop in outer)
        unroll = f"#pragma GCC unroll {self.point['unroll']}\n" if int(self.point.get("unroll", 1)) > 1 else ""
        lines = "\n            ".join(body.lines)
        return (
            f"{head}    {{\n        {pointers}        const long count = {inner.text};\n{unroll}"
            f"        for (long i = 0; i < count; i++) {{\n            {lines}\n"
            f"            o[i*{target.factors.get(inner.name, 0)}L] = {value};\n        }}\n    }}\n"
        )

    def _reduction(self, number: int, stage: Stage) -> str:
        function, text = reduction_text(number, stage, self.loops(stage), self.target(stage), self.places(stage))
        self.functions.append(function)
        return text


def _is_short(loop: Loop) -> bool:
    return loop.extent is not None and loop.extent <= SHORT


def _typed(place: Place) -> str:
    return TYPES[place.dtype]


def rows_text(staged: Staged, point: Point) -> Text:
    """The C text of a staged program for one point."""
    return Writer(staged, point).text()


def flags_of(point: Point) -> tuple[str, ...]:
    """Flags of the compiler that belong to a point."""
    return ("-fno-math-errno", "-fwrapv", f"-mprefer-vector-width={8 * int(point['vb'])}")
