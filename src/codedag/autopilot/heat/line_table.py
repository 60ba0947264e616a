"""Line numbers of bytecode offsets, decoded from a copied `co_linetable` (CPython 3.11 and later)."""

from __future__ import annotations

_NO_LOCATION, _LONG, _NO_COLUMNS, _ONE_LINE_FIRST, _ONE_LINE_LAST = 15, 14, 13, 10, 12
_UNIT_BYTES = 2


def lines_of(table: bytes, first_line: int) -> list[int]:
    """The line of each code unit; 0 where an instruction has none."""
    lines: list[int] = []
    line, at = first_line, 0
    while at < len(table):
        kind, units = (table[at] >> 3) & 15, (table[at] & 7) + 1
        at += 1
        line += _line_step(table, at, kind)
        lines.extend([0 if kind == _NO_LOCATION else line] * units)
        while at < len(table) and not table[at] & 128:
            at += 1
    return lines


def positions_of(table: bytes, first_line: int) -> list[tuple[int, int, int, int]]:
    """First line, column, last line and column of each code unit as `co_positions()` has them; -1 where unknown."""
    found: list[tuple[int, int, int, int]] = []
    line, at = first_line, 0
    while at < len(table):
        kind, units = (table[at] >> 3) & 15, (table[at] & 7) + 1
        at += 1
        line += _line_step(table, at, kind)
        found.extend([_position(table, at, kind, line)] * units)
        while at < len(table) and not table[at] & 128:
            at += 1
    return found


def _position(table: bytes, at: int, kind: int, line: int) -> tuple[int, int, int, int]:
    if kind == _NO_LOCATION:
        return -1, -1, -1, -1
    if kind == _NO_COLUMNS:
        return line, -1, line, -1
    if kind == _LONG:
        numbers = []
        for _ in range(4):
            numbers.append(_varint(table, at))
            while table[at] & 64:
                at += 1
            at += 1
        return line, numbers[2] - 1, line + numbers[1], numbers[3] - 1
    if kind >= _ONE_LINE_FIRST:
        return line, table[at], line, table[at + 1]
    return line, kind * 8 + (table[at] >> 4), line, kind * 8 + (table[at] >> 4) + (table[at] & 15)


def _line_step(table: bytes, at: int, kind: int) -> int:
    if kind in (_LONG, _NO_COLUMNS):
        number = _varint(table, at)
        return -(number >> 1) if number & 1 else number >> 1
    return kind - _ONE_LINE_FIRST if _ONE_LINE_FIRST <= kind <= _ONE_LINE_LAST else 0


def _varint(table: bytes, at: int) -> int:
    number, shift = 0, 0
    while at < len(table):
        number |= (table[at] & 63) << shift
        if not table[at] & 64:
            break
        shift += 6
        at += 1
    return number


def line_at(lines: list[int], offset: int, default: int) -> int:
    """The line of the instruction at a byte offset."""
    unit = offset // _UNIT_BYTES
    found = lines[unit] if 0 <= unit < len(lines) else 0
    return found or default


def line_range(lines: list[int], start: int, end: int, default: int) -> tuple[int, int]:
    """The first and the last line between two byte offsets, both included."""
    inside = [line for line in lines[start // _UNIT_BYTES : end // _UNIT_BYTES + 1] if line]
    return (min(inside), max(inside)) if inside else (default, default)
