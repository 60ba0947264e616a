"""Cells are kept one by one, and what a kill leaves half-written is measured again."""

from __future__ import annotations

import pytest

from codedag.ir import CannotWrite
from codedag.stages.measuring.cells import FILE, Cell, Cells, key_of


def cell(key: str = "a", **facts: object) -> Cell:
    made = {"total_ms": [2.0, 3.0], "transfer_ms": [0.5, 0.5], **facts}
    return Cell({"nodes": 10, "edges": 20}, "ort:cpu", "1", key, **made)


def test_a_cell_comes_back_as_it_was(tmp_path):
    Cells(tmp_path).add(cell())
    assert Cells(tmp_path).all() == [cell()]


def test_fewer_calls_than_wanted_are_not_enough(tmp_path):
    cells = Cells(tmp_path)
    cells.add(cell())
    assert cells.get("a", 2) == cell()
    assert cells.get("a", 3) is None
    assert cells.get("b", 1) is None


def test_a_failure_is_known_whatever_was_wanted(tmp_path):
    cells = Cells(tmp_path)
    cells.add(cell(status="failed", reason="it hung", total_ms=[], transfer_ms=[]))
    assert cells.get("a", 50).reason == "it hung"


def test_what_was_not_tried_or_had_too_little_time_is_tried_again(tmp_path):
    cells = Cells(tmp_path)
    cells.add(cell("a", status="failed", again=True, total_ms=[], transfer_ms=[]))
    cells.add(cell("b", status="failed", limit_seconds=60.0, total_ms=[], transfer_ms=[]))
    assert cells.get("a", 1, 60.0) is None
    assert cells.get("b", 1, 60.0) is not None
    assert cells.get("b", 1, 600.0) is None


@pytest.mark.parametrize("cut", [1, 20, 100])
def test_a_line_that_was_being_written_costs_itself(tmp_path, cut):
    cells = Cells(tmp_path)
    cells.add(cell("a"))
    cells.add(cell("b"))
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[:-cut])
    again = Cells(tmp_path)
    again.add(cell("c"))
    kept = [each.key for each in Cells(tmp_path).all()]
    assert kept == (["a", "b", "c"] if cut == 1 else ["a", "c"])


def test_further_calls_are_added_and_a_cut_line_costs_only_them(tmp_path):
    cells = Cells(tmp_path)
    cells.add(cell("a"))
    cells.add(cell("b"))
    cells.more(cells.begun("a"), [4.0], [0.5])
    cells.more(cells.begun("b"), [5.0], [0.5])
    assert [each.total_ms for each in Cells(tmp_path).all()] == [[2.0, 3.0, 4.0], [2.0, 3.0, 5.0]]
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[:-5])
    again = Cells(tmp_path)
    assert [each.total_ms for each in again.all()] == [[2.0, 3.0, 4.0], [2.0, 3.0]]
    assert again.get("a", 3) is not None
    assert again.get("b", 3) is None


def test_compute_is_never_negative():
    assert cell(total_ms=[1.0, 2.0], transfer_ms=[1.5, 0.5]).compute_ms == [0.0, 1.5]


def test_the_newest_of_a_key_counts_and_a_pu_can_be_forgotten(tmp_path):
    cells = Cells(tmp_path)
    cells.add(cell())
    cells.add(cell(total_ms=[9.0], transfer_ms=[0.0]))
    assert [each.total_ms for each in Cells(tmp_path).all()] == [[9.0]]
    cells.forget("ort:cpu")
    assert cells.all() == []


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    with pytest.raises(CannotWrite, match="what was measured before is kept"):
        Cells(tmp_path / "nowhere").add(cell())


def test_keys_differ_with_what_they_hold():
    assert key_of("a", {"nodes": 1}) != key_of("a", {"nodes": 2})
    assert key_of("a", {"x": 1, "y": 2}) == key_of("a", {"y": 2, "x": 1})
