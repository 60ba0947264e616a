"""Speed over time: the line of block characters, its marks, rates, and fewer blocks for a page."""

from __future__ import annotations

import random

import pytest
from synthetic_reports import speed as synthetic_speed

from codedag.ir import Block, Mark, Speed
from codedag.view.speed import BARS, fewer, rate_text, rates, rates_text, sparkline


def _speed(*periods: float, switched: int = 99, **more: object) -> Speed:
    """Blocks of 10 turns, a second of the run apart, from number `switched` on with changes."""
    blocks = [
        Block(start=float(at), seconds=10 * period, turns=10, changed=at >= switched)
        for at, period in enumerate(periods)
    ]
    return Speed(unit="batch", blocks=blocks, **more)  # type: ignore[arg-type]


def test_a_gain_is_a_step_and_a_mark_stands_before_it():
    found = _speed(*[0.1] * 10, *[0.05] * 10, switched=10, marks=[Mark(name="resize", seconds=10.0)])
    line = sparkline(found, 21)
    before, _, after = line.partition("│")
    assert len(line) <= 21
    assert set(before) == {"▅"}
    assert set(after) == {"█"}


def test_blocks_without_changes_do_not_hide_the_gain():
    found = _speed(*[0.1] * 8, *[0.05, 0.1] * 4, switched=8)
    comparing = [
        Block(start=b.start, seconds=b.seconds, turns=10, changed=b.changed and b.seconds < 1) for b in found.blocks
    ]
    line = sparkline(Speed(blocks=comparing), 8)
    assert line == "▅▅▅▅████"


@pytest.mark.parametrize("width", range(8, 40))
@pytest.mark.parametrize("marks", [0, 1, 7, 100])
def test_the_line_is_never_wider_than_its_room(width, marks):
    found = synthetic_speed(1.8, random.Random(width))
    found = Speed(blocks=found.blocks, marks=[Mark(name="m", seconds=float(at)) for at in range(marks)])
    line = sparkline(found, width)
    assert 8 <= len(line) <= width or width - min(marks, width // 4) < 8
    assert set(line) <= set(BARS + "│ ")


def test_what_has_no_valid_block_has_no_line():
    assert sparkline(Speed(), 60) == ""
    assert sparkline(Speed(blocks=[Block(start=0.0, seconds=1.0, turns=4, void=True)]), 60) == ""
    assert sparkline(Speed(blocks=[Block(start=0.0, seconds=1.0, turns=0)]), 60) == ""
    assert sparkline(_speed(0.1, 0.1), 4) == ""
    assert sparkline(Speed(blocks=[Block(start=0.0, seconds=0.0, turns=4)] * 2), 60) == ""


def test_a_screen_without_block_characters_has_a_line_all_the_same():
    found = _speed(*[0.1] * 10, *[0.05] * 10, switched=10, marks=[Mark(name="resize", seconds=10.0)])
    assert sparkline(found, 21, ascii_only=True).isascii()


def test_rates_are_medians_of_blocks_without_and_with():
    found = _speed(0.1, 0.1, 0.9, 0.05, 0.05, switched=3)
    assert (rates(found).plain, rates(found).changed) == (pytest.approx(0.1), pytest.approx(0.05))
    assert rates_text(found) == "10 -> 20 batches/s"
    assert rates_text(_speed(0.1)) == "10 batches/s"
    assert rates_text(Speed()) == ""


@pytest.mark.parametrize(
    ("period", "unit", "words"),
    [(2.5, "epoch", "2.5 s per epoch"), (0.1, "batch", "10 batches/s"), (0.0001, "item", "10,000 items/s")],
)
def test_a_rate_has_a_unit_that_reads_well(period, unit, words):
    assert rate_text(period, unit) == words


def test_fewer_blocks_have_the_same_turns_seconds_and_kinds():
    blocks = synthetic_speed(1.8, random.Random(1), seconds=900.0).blocks
    assert len(blocks) > 600
    found = fewer(blocks, 100)
    assert len(found) <= 200
    for of in (lambda b: b.turns, lambda b: b.seconds):
        for kind in {(b.changed, b.void) for b in blocks}:
            same = [sum(of(b) for b in some if (b.changed, b.void) == kind) for some in (blocks, found)]
            assert same[0] == pytest.approx(same[1])
    assert [b.start for b in found] == sorted(b.start for b in found)
    assert fewer(blocks[:5], 100) == blocks[:5]
