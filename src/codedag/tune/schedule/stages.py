"""Stages of a program: what is written to memory when element-wise operations are fused into their users.

A stage is a reduction, an argument or result of a library function (exp, log), a value that is kept apart, or the
result of the program. Its expression loads only arguments and earlier stages. Rows are the leading axes that all
stages share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from codedag.tune.declined import CannotTune
from codedag.tune.program.orders import ACROSS, ANY, PLANES, ask_order, leading_count
from codedag.tune.program.program import (
    Affine,
    Buffer,
    Const,
    Expr,
    Load,
    Op,
    Program,
    Reduction,
    Statement,
    contiguous,
    loads_of,
)
from codedag.tune.schedule.loop_axes import Loop, Place, merged

KEPT_MAX = 1 << 24  # elements of a value that is written to memory because a reshape follows
CALLS = ("exp", "log", "log10")  # numpy's own, on pieces that fit a cache


@dataclass(frozen=True, slots=True)
class Stage:
    """One buffer that is written: over which axes, by which expression, reduced how, or by which library function."""

    target: Buffer
    axes: tuple[tuple[str, int], ...]
    expr: Expr
    reduction: Reduction | None = None
    call: str = ""  # then expr is a load of the argument's stage
    leading: int = 0  # reduced axes that are outside of the planes, if they are added up plane after plane
    is_ordered: bool = True  # False: the function runs on another layout than numpy's, where it may be another one

    @property
    def kept(self) -> tuple[tuple[str, int], ...]:
        """The axes of the target."""
        return tuple(axis for axis in self.axes if axis[0].startswith("d"))

    @property
    def reduced(self) -> tuple[tuple[str, int], ...]:
        """The axes that are reduced."""
        return tuple(axis for axis in self.axes if not axis[0].startswith("d"))


@dataclass(frozen=True, slots=True)
class Staged:
    """The stages of a program, in order; the last one is the result."""

    program: Program
    stages: tuple[Stage, ...]
    rows_axes: int  # leading axes that all stages share

    @property
    def rows(self) -> int:
        """Turns of the loop around all stages."""
        return math.prod(self.stages[-1].target.shape[: self.rows_axes])


def choices_of(program: Program) -> tuple[str, ...]:
    """Values that may be fused into their users or kept apart: those that are used more than once."""
    uses: dict[str, int] = {}
    for one in program.statements:
        for name in {load.buffer for load in loads_of(one.expr)}:
            uses[name] = uses.get(name, 0) + 1
    return tuple(
        one.target
        for one in program.statements
        if uses.get(one.target, 0) > 1 and one.how == "ufunc" and not _is_call(one.expr) and one.axes
        and program.buffers[one.target].size > 1
    )  # fmt: skip


def _is_call(expr: Expr) -> bool:
    return isinstance(expr, Op) and expr.name in CALLS


def staged(program: Program, apart: tuple[str, ...] = ()) -> Staged:
    """The stages of a program, with some values kept apart."""
    made = _Stager(program, apart)
    for statement in program.statements:
        made.add(statement)
    return made.done()


class _Stager:
    """Fuses statements into stages, one after the other."""

    def __init__(self, program: Program, apart: tuple[str, ...]) -> None:
        self.program, self.apart = program, apart
        self.fused: dict[str, tuple[tuple[tuple[str, int], ...], Expr]] = {}
        self.names: dict[str, str] = {}  # of stages that compute the same as an earlier one
        self.stages: list[Stage] = []
        self.extents: dict[str, int] = {}  # of the axes of the present statement

    def add(self, statement: Statement) -> None:
        """One more statement."""
        self.extents = dict(statement.axes)
        if statement.how.partition(" ")[0] in ("matmul", "einsum"):
            raise CannotTune(f"{statement.line or self.program.name}: {self._why_no_product(statement)}")
        expr, name = self._inlined(statement.expr), statement.target
        if statement.reduction is not None:
            reduction, leading = self._ordered(statement)
            if not self._lies_in_line(expr, statement, reduction, leading):
                self._keep_apart(next(iter(loads_of(statement.expr))).buffer)
                expr = self._inlined(statement.expr)
            self._stage(statement, expr, reduction, leading)
        elif _is_call(expr):
            assert isinstance(expr, Op)
            self._called(statement, expr)
        elif name == self.program.output or name in self.apart:
            self._stage(statement, expr, None, 0)
        else:
            self.fused[name] = (statement.axes, expr)

    def _why_no_product(self, statement: Statement) -> str:
        dtype = self.program.buffers[statement.target].dtype
        if dtype not in ("f4", "f8"):
            return f"a product of type {dtype} is not scheduled (f4 and f8 are)"
        if len(self.program.statements) > 1:
            return "a product within other operations is not scheduled yet"
        return "a product of an array with itself, or with arguments that it does not use, is not scheduled"

    def _ordered(self, statement: Statement) -> tuple[Reduction, int]:
        """The reduction with its order, and how many of its axes lie outside of planes."""
        assert statement.reduction is not None
        source = self.program.buffers[next(iter(loads_of(statement.expr))).buffer]
        axes = tuple(int(one) for one in statement.how.split()[1:])
        target = self.program.buffers[statement.target]
        order = ask_order(source, axes, statement.reduction.op, target.dtype)
        leading = leading_count(len(source.shape), axes) if order == PLANES else 0
        return replace(statement.reduction, order=order), leading

    def _lies_in_line(self, expr: Expr, statement: Statement, reduction: Reduction, leading: int) -> bool:
        """Whether what is reduced can be walked as one line, or is added up across it anyway."""
        if reduction.order in (ACROSS, ANY):
            return True
        known = {stage.target.name: stage.target for stage in self.stages} | self.program.buffers
        places = [Place("", "", factors_of(load, known[load.buffer]), 0) for load in loads_of(expr)]
        loops = [Loop(name, extent) for name, extent in _reduced(statement)[leading:] if extent != 1]
        return len(merged(loops, places)[0]) <= 1

    def _keep_apart(self, name: str) -> None:
        """Writes a value that was to be fused to memory."""
        if name in self.fused:
            axes, expr = self.fused.pop(name)
            shape = self.program.buffers[name].shape
            self.stages.append(
                Stage(Buffer(name, self.program.buffers[name].dtype, shape, contiguous(shape)), axes, expr)
            )

    def _called(self, statement: Statement, expr: Op) -> None:
        """A library function: its argument becomes a stage, which the function then overwrites."""
        buffer = self.program.buffers[statement.target]
        argument = Buffer(f"{buffer.name}_in", buffer.dtype, buffer.shape, contiguous(buffer.shape))
        self.stages.append(Stage(argument, statement.axes, expr.args[0]))
        index = tuple(Affine(((f"d{k}", 1),)) for k in range(len(buffer.shape)))
        target = Buffer(buffer.name, buffer.dtype, buffer.shape, contiguous(buffer.shape))
        source = self.program.buffers[next(iter(loads_of(statement.expr))).buffer]
        ordered = source.is_c_contiguous and buffer.is_c_contiguous
        self.stages.append(
            Stage(target, statement.axes, Load(argument.name, index), None, expr.name, is_ordered=ordered)
        )
        if statement.target == self.program.output:
            copied = Buffer(f"{buffer.name}_out", buffer.dtype, buffer.shape, buffer.strides)
            self.stages.append(Stage(copied, statement.axes, Load(buffer.name, index)))

    def _stage(self, statement: Statement, expr: Expr, reduction: Reduction | None, leading: int) -> None:
        for stage in self.stages:
            if (
                reduction
                and (stage.expr, stage.reduction) == (expr, reduction)
                and stage.reduced == _reduced(statement)
            ):
                shape = self.program.buffers[statement.target].shape
                if math.prod(shape) == stage.target.size:
                    self.names[statement.target] = stage.target.name
                    return
        target = self.program.buffers[statement.target]
        self.stages.append(Stage(target, statement.axes, expr, reduction, leading=leading))

    def _inlined(self, expr: Expr) -> Expr:
        if isinstance(expr, Op):
            return Op(expr.name, expr.dtype, tuple(self._inlined(one) for one in expr.args))
        if isinstance(expr, Const):
            return expr
        if expr.buffer in self.names:
            return self._renamed(expr)
        if expr.buffer not in self.fused:
            return expr
        axes, inner = self.fused[expr.buffer]
        if len(expr.index) != len(axes):
            return self._through_reshape(expr, axes, inner)
        if isinstance(inner, Op) and not self._takes_all(expr.index, axes):
            self._keep_apart(expr.buffer)  # numpy computes what is cut off too, and may warn of it
            return expr
        return _moved(inner, {name: index for (name, _), index in zip(axes, expr.index, strict=True)})

    def _takes_all(self, index: tuple[Affine, ...], axes: tuple[tuple[str, int], ...]) -> bool:
        """Whether the present statement reads every element of an array with these axes."""
        return all(
            extent == 1 or (len(at.terms) == 1 and abs(at.terms[0][1]) == 1 and self.extents[at.terms[0][0]] == extent)
            for at, (_, extent) in zip(index, axes, strict=True)
        )

    def _renamed(self, load: Load) -> Expr:
        """A load of a stage that is the same as an earlier one, which may have other axes of extent 1."""
        shape = self.program.buffers[load.buffer].shape
        other = next(s.target for s in self.stages if s.target.name == self.names[load.buffer])
        steps, flat = contiguous(shape), Affine()
        for index, step, extent in zip(load.index, steps, shape, strict=True):
            if extent != 1:
                flat = Affine(
                    (*flat.terms, *((a, f * step) for a, f in index.terms)), flat.offset + step * index.offset
                )
        if other.shape == shape:
            return Load(other.name, load.index)
        kept = [index for index, extent in zip(load.index, shape, strict=True) if extent != 1]
        places = iter(kept)
        return Load(other.name, tuple(next(places) if extent != 1 else Affine() for extent in other.shape))

    def _through_reshape(self, load: Load, axes: tuple[tuple[str, int], ...], inner: Expr) -> Expr:
        """A reshape that only splits axes can be fused; before one that joins them, the value is written to memory."""
        shape = tuple(extent for _, extent in axes)
        index = _split(load.index[0], shape, self.extents)
        if index is None:
            if math.prod(shape) > KEPT_MAX:
                line = next(one.line for one in self.program.statements if one.target == load.buffer)
                raise CannotTune(f"{line}: so many elements are not kept before a reshape that joins axes")
            self._keep_apart(load.buffer)
            return load
        return _moved(inner, {name: at for (name, _), at in zip(axes, index, strict=True)})

    def done(self) -> Staged:
        """The stages, and the rows that they share."""
        if not self.stages or self.stages[-1].target.name.removesuffix("_out") != self.program.output:
            raise CannotTune(f"{self.program.name}: the result is a view of something else")
        stages = tuple(self.stages)
        most = len(stages[-1].target.shape)
        rows = (
            0
            if len(stages) == 1
            else next(count for count in range(most, -1, -1) if _shares(self.program, stages, count))
        )
        return Staged(self.program, stages, rows)


def _reduced(statement: Statement) -> tuple[tuple[str, int], ...]:
    return tuple(axis for axis in statement.axes if not axis[0].startswith("d"))


def _moved(expr: Expr, index: dict[str, Affine]) -> Expr:
    if isinstance(expr, Load):
        return Load(expr.buffer, tuple(one.moved(index) for one in expr.index))
    if isinstance(expr, Op):
        return Op(expr.name, expr.dtype, tuple(_moved(one, index) for one in expr.args))
    return expr


def _split(flat: Affine, shape: tuple[int, ...], extents: dict[str, int]) -> tuple[Affine, ...] | None:
    """The index of an array whose flat index this is, if every term stays within one axis."""
    if flat.offset:
        return None
    steps, found = contiguous(shape), []
    for k, step in enumerate(steps):
        above = steps[k - 1] if k else math.inf
        terms = tuple((a, f // step) for a, f in flat.terms if step <= f < above and f % step == 0)
        if sum((extents[a] - 1) * f for a, f in terms) >= shape[k]:
            return None
        found.append(Affine(terms))
    return tuple(found) if sum(len(one.terms) for one in found) == len(flat.terms) else None


def _shares(program: Program, stages: tuple[Stage, ...], count: int) -> bool:
    """Whether these leading axes are the same in all stages, so that one row can go through all of them."""
    if not count:
        return True
    shape = stages[-1].target.shape[:count]
    own = {stage.target.name for stage in stages}
    buffers = {stage.target.name: stage.target for stage in stages} | {n: program.buffers[n] for n in program.inputs}
    for stage in stages:
        if stage.target.shape[:count] != shape or 0 in shape:
            return False
        if not stage.target.is_c_contiguous:
            return False
        for load in loads_of(stage.expr):
            if load.buffer in own and load.index[:count] != tuple(Affine(((f"d{k}", 1),)) for k in range(count)):
                return False
            if row_step(load, buffers[load.buffer], shape) is None:
                return False
    return True


def row_step(load: Load, buffer: Buffer, shape: tuple[int, ...]) -> int | None:
    """By how many elements a load moves on from row to row; None if that differs."""
    factors = factors_of(load, buffer)
    wanted = None
    for k in reversed(range(len(shape))):
        factor, inside = factors.get(f"d{k}", 0), math.prod(shape[k + 1 :])
        if shape[k] == 1:
            continue
        if wanted is None:
            if factor % inside:
                return None
            wanted = factor // inside
        if factor != wanted * inside:
            return None
    return wanted or 0


def factors_of(load: Load, buffer: Buffer) -> dict[str, int]:
    """By how many elements each axis moves a load on, in a buffer whose elements lie in order."""
    steps = contiguous(buffer.shape) if len(load.index) == len(buffer.shape) else (1,)
    factors: dict[str, int] = {"": 0}
    for index, step in zip(load.index, steps, strict=True):
        factors[""] += index.offset * step
        for name, factor in index.terms:
            factors[name] = factors.get(name, 0) + factor * step
    return factors
