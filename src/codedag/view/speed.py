"""Speed of a program over time, from its blocks of turns: bins for a line of block characters, rates, fewer blocks."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from codedag.ir import Block, Speed

BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = "_.-=+*#@"
MARK, ASCII_MARK = "│", "|"
CELLS_MIN = 8  # below this a line shows no course
BLOCKS_MAX = 600  # that a page draws: more than one for each two pixels of its chart


class Rates(msgspec.Struct, frozen=True):
    """Seconds of one turn as written and with the changes; None = there was no such block."""

    plain: float | None
    changed: float | None


def rates(speed: Speed) -> Rates:
    """The median seconds of a turn, of blocks without and of blocks with changes."""
    return Rates(_median_period(speed, changed=False), _median_period(speed, changed=True))


def _median_period(speed: Speed, changed: bool) -> float | None:
    periods = sorted(b.seconds / b.turns for b in valid(speed.blocks) if b.changed is changed)
    return periods[len(periods) // 2] if periods else None


def valid(blocks: Iterable[Block]) -> list[Block]:
    """The blocks that say how fast the program was."""
    return [block for block in blocks if block.turns and block.seconds > 0 and not block.void]


def plural(unit: str) -> str:
    """The unit of a turn in the plural."""
    return unit + ("es" if unit.endswith(("s", "x", "ch", "sh")) else "s")


def rate_text(period: float, unit: str) -> str:
    """The speed as turns per second, or as the seconds of one turn if that is longer than a second."""
    if period >= 1:
        return f"{period:.3g} s per {unit}"
    return f"{1 / period:,.0f} {plural(unit)}/s" if period <= 0.01 else f"{1 / period:.3g} {plural(unit)}/s"


def rates_text(speed: Speed) -> str:
    """The speed without and with the changes, such as `29.4 -> 52.8 batches/s`."""
    told = [rate_text(period, speed.unit) for period in (rates(speed).plain, rates(speed).changed) if period]
    if len(told) == 2 and told[0].partition(" ")[2] == told[1].partition(" ")[2]:
        told[0] = told[0].partition(" ")[0]
    return " -> ".join(told)


def sparkline(speed: Speed, width: int, ascii_only: bool = False) -> str:
    """The speed over time as block characters with a mark before the cell of each change; empty if there is no room.

    A cell shows the blocks with changes once there are some, so that the blocks without do not hide the gain.
    """
    bars, mark = (ASCII_BARS, ASCII_MARK) if ascii_only else (BARS, MARK)
    marked = sorted({round(one.seconds, 3) for one in speed.marks})
    room = min(len(marked), width // 4)  # many changes at once must not hide the speed
    count = width - room
    if count < CELLS_MIN or not valid(speed.blocks):
        return ""
    values, end = _cells(speed, count)
    top = max(value for value in values if value is not None)
    at = set(sorted({min(int(seconds / end * count), count - 1) for seconds in marked})[:room])
    cells = [" " if value is None else bars[_level(value / top)] for value in values]
    return "".join((mark if cell in at else "") + text for cell, text in enumerate(cells))


def _level(part: float) -> int:
    return min(int(part * len(BARS)), len(BARS) - 1)


def _cells(speed: Speed, count: int) -> tuple[list[float | None], float]:
    """The mean speed in equal spans of time (None: no block), and when the last of them ends.

    A block counts in every span that it covers.
    """
    blocks = valid(speed.blocks)
    end = max(max(block.start + block.seconds for block in blocks), *(m.seconds for m in speed.marks), 1e-9)
    sums = [[[0.0, 0.0], [0.0, 0.0]] for _ in range(count)]
    for block in blocks:
        first, last = (min(int(t / end * count), count - 1) for t in (block.start, block.start + block.seconds))
        for cell in range(first, last + 1):
            part = sums[cell][block.changed]
            part[0] += block.turns / (last - first + 1)
            part[1] += block.seconds / (last - first + 1)
    chosen = [changed if changed[1] else plain for plain, changed in sums]
    return [turns / seconds if seconds else None for turns, seconds in chosen], end


def fewer(blocks: list[Block], most: int = BLOCKS_MAX) -> list[Block]:
    """The blocks, or if there are more than so many, one for each kind of block in equal spans of time."""
    if len(blocks) <= most:
        return blocks
    spans = max(most // 2, 1)
    end = max(block.start for block in blocks) or 1.0
    kinds: dict[tuple[int, bool, bool], list[Block]] = {}
    for block in blocks:
        at = min(int(block.start / end * spans), spans - 1)
        kinds.setdefault((at, block.changed, block.void), []).append(block)
    return sorted(map(_joined, kinds.values()), key=lambda block: block.start)


def _joined(blocks: list[Block]) -> Block:
    first = min(blocks, key=lambda block: block.start)
    seconds, turns = sum(block.seconds for block in blocks), sum(block.turns for block in blocks)
    return Block(start=first.start, seconds=seconds, turns=turns, changed=first.changed, void=first.void)
