"""The loop program: statements over affine indices, one for each array operation, with the order of every sum.

A statement iterates over its own axes `d0`, `d1`, ... (the target's) and `r0`, `r1`, ... (reduced ones). Loads are
affine in them. `how` names the numpy operation that the statement stands for, so that numpy evaluates it with its own
bits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

FORMAT, VERSION = "codedag/loop-program", 1
Term = tuple[str, int]  # axis, factor


@dataclass(frozen=True, slots=True)
class Affine:
    """A sum of axes times whole numbers, plus a whole number."""

    terms: tuple[Term, ...] = ()
    offset: int = 0

    def __str__(self) -> str:
        parts = [name if factor == 1 else f"{factor}*{name}" for name, factor in self.terms]
        return " + ".join([*parts, *([str(self.offset)] if self.offset or not parts else [])])

    def moved(self, index: dict[str, Affine]) -> Affine:
        """The same sum with axes replaced by sums of other axes."""
        total: dict[str, int] = {}
        offset = self.offset
        for name, factor in self.terms:
            inner = index.get(name, Affine(((name, 1),)))
            offset += factor * inner.offset
            for axis, own in inner.terms:
                total[axis] = total.get(axis, 0) + factor * own
        return Affine(tuple((axis, f) for axis, f in total.items() if f), offset)


@dataclass(frozen=True, slots=True)
class Load:
    """An element of a buffer."""

    buffer: str
    index: tuple[Affine, ...]
    kind: Literal["load"] = "load"


@dataclass(frozen=True, slots=True)
class Const:
    """A number of one type."""

    value: float
    dtype: str
    kind: Literal["const"] = "const"


@dataclass(frozen=True, slots=True)
class Op:
    """An operation on elements, computed in the type of its result (comparisons: of its first operand)."""

    name: str
    dtype: str
    args: tuple[Expr, ...]
    kind: Literal["op"] = "op"


Expr = Load | Const | Op


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction over axes of a statement; `order` is one of `orders.ORDERS`, or empty if nobody asked."""

    op: str
    axes: tuple[str, ...]
    order: str = ""


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array: its name, type and extents; `strides` in elements, as numpy lays it out."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """The elements of the array."""
        return math.prod(self.shape)

    @property
    def is_c_contiguous(self) -> bool:
        """Whether the elements lie one after the other, the last axis fastest."""
        step = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides or contiguous(self.shape)), strict=True):
            if extent != 1 and stride != step:
                return False
            step *= extent
        return True


@dataclass(frozen=True, slots=True)
class Statement:
    """One array operation: `target[d0, d1, ...] = expr`, or a reduction of it."""

    target: str
    axes: tuple[tuple[str, int], ...]  # all that are iterated over, and their extents
    expr: Expr
    how: str  # ufunc | view | copy | reduce AXES | matmul | einsum TEXT
    reduction: Reduction | None = None
    line: str = ""  # of the function that was recorded


@dataclass(frozen=True, slots=True)
class Program:
    """Inputs, statements in order, and the buffer that is the result."""

    name: str
    inputs: tuple[str, ...]
    buffers: dict[str, Buffer]
    statements: tuple[Statement, ...]
    output: str

    def __str__(self) -> str:
        """The program as text, a line for each buffer that is given and for each statement."""
        head = [f"program {self.name}"]
        head += [f"  input {name}: {_type_text(self.buffers[name])}" for name in self.inputs]
        return "\n".join([*head, *(f"  {_statement_text(self, one)}" for one in self.statements)])

    @property
    def result(self) -> Buffer:
        """The buffer of the result."""
        return self.buffers[self.output]

    def encoded(self) -> str:
        """The program as JSON."""
        facts = asdict(self)
        return json.dumps({"format": FORMAT, "version": VERSION, **facts})


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, in elements, of an array whose last axis is fastest."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def decoded(text: str) -> Program:
    """The program of such a JSON text."""
    facts = json.loads(text)
    buffers = {
        name: Buffer(b["name"], b["dtype"], tuple(b["shape"]), tuple(b["strides"]))
        for name, b in facts["buffers"].items()
    }
    statements = tuple(_statement(one) for one in facts["statements"])
    return Program(facts["name"], tuple(facts["inputs"]), buffers, statements, facts["output"])


def _statement(facts: dict[str, Any]) -> Statement:
    reduction = facts["reduction"]
    made = Reduction(reduction["op"], tuple(reduction["axes"]), reduction["order"]) if reduction else None
    axes = tuple((name, extent) for name, extent in facts["axes"])
    return Statement(facts["target"], axes, _expr(facts["expr"]), facts["how"], made, facts["line"])


def _expr(facts: dict[str, Any]) -> Expr:
    if facts["kind"] == "load":
        index = tuple(Affine(tuple((a, f) for a, f in one["terms"]), one["offset"]) for one in facts["index"])
        return Load(facts["buffer"], index)
    if facts["kind"] == "const":
        return Const(facts["value"], facts["dtype"])
    return Op(facts["name"], facts["dtype"], tuple(_expr(one) for one in facts["args"]))


def loads_of(expr: Expr) -> Iterator[Load]:
    """Every load of an expression, in order."""
    if isinstance(expr, Load):
        yield expr
    elif isinstance(expr, Op):
        for one in expr.args:
            yield from loads_of(one)


def expr_text(expr: Expr) -> str:
    """An expression as it is printed."""
    if isinstance(expr, Load):
        return f"{expr.buffer}[{', '.join(map(str, expr.index))}]"
    if isinstance(expr, Const):
        return f"{expr.dtype}({expr.value!r})"
    return f"{expr.name}.{expr.dtype}({', '.join(map(expr_text, expr.args))})"


def _type_text(buffer: Buffer) -> str:
    return f"{buffer.dtype}[{', '.join(map(str, buffer.shape))}]"


def _statement_text(program: Program, one: Statement) -> str:
    buffer = program.buffers[one.target]
    index = ", ".join(name for name, _ in one.axes if name.startswith("d"))
    head = f"{'output ' if one.target == program.output else ''}{one.target}: {_type_text(buffer)}"
    if one.reduction is None:
        return f"{head}  [{index}] = {expr_text(one.expr)}"
    order = f" in order {one.reduction.order!r}" if one.reduction.order else ""
    over = ", ".join(f"{axis}<{dict(one.axes)[axis]}" for axis in one.reduction.axes)
    return f"{head}  [{index}] = {one.reduction.op} over {over}{order}: {expr_text(one.expr)}"
