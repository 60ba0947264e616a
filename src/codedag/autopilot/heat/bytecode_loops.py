"""Loops of a code object as ranges of bytecode offsets, found by its backward jumps."""

from __future__ import annotations

from types import CodeType

Range = tuple[int, int]


def loops_of(code: CodeType) -> list[Range]:
    """First and last offset of each loop; ranges that overlap without one holding the other are one loop."""
    import dis  # only the Python sampler needs it

    ranges: list[Range] = []
    for instruction in dis.get_instructions(code):
        if "JUMP_BACKWARD" in instruction.opname and not instruction.opname.endswith("NO_INTERRUPT"):
            ranges = _with(ranges, (int(instruction.argval), instruction.offset))
    return ranges


def _with(ranges: list[Range], new: Range) -> list[Range]:
    for old in ranges:
        is_apart = new[0] > old[1] or new[1] < old[0]
        is_nested = (new[0] > old[0] and new[1] <= old[1]) or (old[0] > new[0] and old[1] <= new[1])
        if not is_apart and not is_nested:
            rest = [each for each in ranges if each != old]
            return _with(rest, (min(old[0], new[0]), max(old[1], new[1])))
    return [*ranges, new]


def loop_around(ranges: list[Range], one: int, other: int) -> Range | None:
    """The smallest loop that holds both offsets."""
    around = [each for each in ranges if each[0] <= min(one, other) and max(one, other) <= each[1]]
    return min(around, key=lambda each: each[1] - each[0], default=None)
