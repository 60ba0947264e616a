"""The axes of a sum of products, sorted by the arrays that they belong to (stack, rows, columns, inner)."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

from codedag.tune.program.program import Load, Op, Program

CONSTANT_MAX = 64  # extents up to here are constants of the C: 9x9 stacks were 17x numpy with them, 2.2x without


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: its extent, and the place of its extent among the arguments of a kernel."""

    name: str
    extent: int
    place: int
    parts: tuple[str, ...] = ()  # the axes of the program that it stands for, slowest first; none: itself

    @property
    def text(self) -> str:
        """The extent as C: a constant if it is small."""
        return str(self.extent) if self.extent <= CONSTANT_MAX else f"n[{self.place}]"


@dataclass(frozen=True, slots=True)
class Contraction:
    """`c[stack, rows, columns] += a[stack, rows, inner] * b[stack, inner, columns]`, each with any number of axes.

    The operands are swapped if the fastest axis of the result belongs to the first one.
    """

    dtype: str
    axes: tuple[Axis, ...]
    a: tuple[str, ...]  # axes of each array, slowest first
    b: tuple[str, ...]
    c: tuple[str, ...]
    swapped: bool
    how: str  # matmul | einsum
    inner_order: tuple[str, ...] = ()

    def group(self, in_a: bool, in_b: bool, in_c: bool) -> tuple[Axis, ...]:
        """The axes that are in exactly these arrays."""
        wanted = (in_a, in_b, in_c)
        return tuple(
            axis for axis in self.axes if wanted == (axis.name in self.a, axis.name in self.b, axis.name in self.c)
        )

    stack = property(lambda self: self.group(True, True, True))
    rows = property(lambda self: self.group(True, False, True))
    columns = property(lambda self: self.group(False, True, True))
    inner = property(lambda self: self.group(True, True, False))

    def axis(self, name: str) -> Axis:
        """The axis of this name."""
        return next(axis for axis in self.axes if axis.name == name)

    def stride(self, array: tuple[str, ...], name: str) -> str:
        """By how many elements an axis moves on in an array, as C."""
        later = [self.axis(other).text for other in array[array.index(name) + 1 :]] if name in array else ["0"]
        return "*".join(later) or "1"

    def step(self, array: tuple[str, ...], name: str) -> int:
        """The same as a number, for the extents of the task."""
        if name not in array:
            return 0
        total = 1
        for other in array[array.index(name) + 1 :]:
            total *= self.axis(other).extent
        return total

    def extents(self, sizes: dict[str, int]) -> dict[str, int]:
        """The extents of the axes, given those of the axes of the program."""
        return {axis.name: math.prod(sizes[part] for part in axis.parts or (axis.name,)) for axis in self.axes}

    @property
    def adds_lines(self) -> bool:
        """Whether both operands lie in order along the one axis that is summed over."""
        names = [axis.name for axis in self.inner]
        return len(names) == 1 and self.a[-1:] == self.b[-1:] == (names[0],)

    @property
    def flops(self) -> int:
        """Operations of the whole sum."""
        total = 2
        for axis in self.axes:
            total *= axis.extent
        return total

    @property
    def nbytes(self) -> int:
        """Bytes of all three arrays."""
        total = 0
        for array in (self.a, self.b, self.c):
            size = 4 if self.dtype == "f4" else 8
            for name in array:
                size *= self.axis(name).extent
            total += size
        return total


def axis_names(load: Load) -> list[str]:
    """The axis along each place of a load; none where one element serves a whole stack."""
    return [index.terms[0][0] if index.terms else "" for index in load.index]


def contraction_of(program: Program) -> Contraction | None:
    """The contraction that a program is, or None if it is another thing."""
    if len(program.statements) != 1:
        return None
    one = program.statements[0]
    word = one.how.partition(" ")[0]
    if word not in ("matmul", "einsum") or not isinstance(one.expr, Op):
        return None
    loads = [load for load in one.expr.args if isinstance(load, Load)]
    if tuple(load.buffer for load in loads) != program.inputs or program.result.dtype not in ("f4", "f8"):
        return None
    names = [tuple(name for name in axis_names(load) if name) for load in loads]
    axes = tuple(Axis(name, extent, place) for place, (name, extent) in enumerate(one.axes))
    result = tuple(axis.name for axis in axes if axis.name.startswith("d"))
    swapped = bool(result) and result[-1] in names[0] and result[-1] not in names[1]
    a, b = reversed(names) if swapped else names
    return joined(Contraction(program.result.dtype, axes, a, b, result, swapped, word))


def joined(contraction: Contraction) -> Contraction:
    """The same with neighbouring axes of the result as one, where they are neighbours in every array that has them."""
    for one, other in itertools.pairwise(contraction.c):
        arrays = [array for array in (contraction.a, contraction.b, contraction.c) if one in array or other in array]
        if all((one, other) in itertools.pairwise(array) for array in arrays):
            return joined(_joined(contraction, one, other))
    return contraction


def _joined(contraction: Contraction, one: str, other: str) -> Contraction:
    name, (first, second) = f"{one}{other}", (contraction.axis(one), contraction.axis(other))
    own = Axis(name, first.extent * second.extent, 0, (*(first.parts or (one,)), *(second.parts or (other,))))
    kept = [own if axis.name == one else axis for axis in contraction.axes if axis.name != other]
    arrays = [
        tuple(name if axis == one else axis for axis in array if axis != other)
        for array in (contraction.a, contraction.b, contraction.c)
    ]
    axes = tuple(replace(axis, place=place) for place, axis in enumerate(kept))
    return replace(contraction, axes=axes, a=arrays[0], b=arrays[1], c=arrays[2])
