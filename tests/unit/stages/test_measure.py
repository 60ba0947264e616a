"""The calls of a cell are spread over the turns of its size, and a process that ends costs the other cells nothing."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from small_sage import SIZES, exported, small

from codedag.stages.measuring.cells import Cells
from codedag.stages.measuring.measure import Measurer, Settings

PU = "numba:cpu"


def measured(folder, repeats, kind=Measurer):
    """The cells of two stages after a profile."""
    measurer = kind(small(), exported(), Cells(folder), Settings(warmup=0, repeats=repeats))
    with ExitStack() as stack:
        measurer.start([PU], stack)
        measurer.run([SIZES], [small().block(number, number) for number in (4, 7)])
    return {cell.block: cell for cell in Cells(folder).all()}, measurer.measured


@pytest.mark.slow
def test_a_cell_is_continued(tmp_path):
    first, count = measured(tmp_path, 3)
    assert count == 2
    more, count = measured(tmp_path, 5)
    assert count == 2
    for block, cell in first.items():
        assert len(cell.total_ms) == 3
        assert more[block].total_ms[:3] == cell.total_ms
        assert len(more[block].total_ms) == len(more[block].transfer_ms) == 5
    assert measured(tmp_path, 4)[1] == 0


class Killed(Measurer):
    """The process is gone after its first two calls."""

    turns = 0

    def _take_turn(self, team):
        self.turns += 1
        if self.turns == 3:
            self.up[PU].process._process.kill()
        super()._take_turn(team)


@pytest.mark.slow
def test_a_process_that_ends_costs_the_cell_that_it_was_asked_for(tmp_path):
    cells, _ = measured(tmp_path, 4, Killed)
    status = {block: cell.status for block, cell in cells.items()}
    assert sorted(status.values()) == ["failed", "ok"], status
    good = next(cell for cell in cells.values() if cell.status == "ok")
    assert len(good.total_ms) == 4
    bad = next(cell for cell in cells.values() if cell.status == "failed")
    assert "the process of numba:cpu ended" in bad.reason
    assert bad.total_ms == []
