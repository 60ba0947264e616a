"""What a run keeps for the next one: the proofs that it wanted and ended before are asked for first."""

from __future__ import annotations

import pytest

from codedag.autopilot.proven import TRIES, Store
from codedag.instrument.launch import Target

MEDIAN, SOBEL = ("scipy.ndimage.median_filter", "cv2"), ("scipy.ndimage.sobel", "cv2")


@pytest.fixture
def store(tmp_path, codedag_home):
    script = tmp_path / "program.py"
    script.write_text("pass\n")
    return lambda: Store(Target(str(script)))


def test_what_a_run_ended_before_is_asked_for_first_by_the_next_ones(store):
    store().keep([], [], [], [SOBEL, MEDIAN, MEDIAN])
    for _ in range(TRIES):
        again = store()
        assert again.load() is not None
        assert again.first() == [MEDIAN, SOBEL]
        again.keep([], [], [], [MEDIAN, SOBEL])
    last = store()
    assert last.load() is not None
    assert last.first() == []  # they would not end in the next run either
    last.keep([], [], [], [MEDIAN])
    again = store()
    again.load()
    assert [(each.source, each.tries) for each in again.wanted] == [(MEDIAN[0], TRIES + 1)]


def test_an_entry_goes_when_nothing_is_left_of_it(store):
    store().keep([], [], [], [MEDIAN])
    assert store().path.exists()
    store().keep([], [], [], [])
    assert not store().path.exists()


def test_entries_of_earlier_versions_are_read(store):
    store().keep([], [], [], [MEDIAN])
    path = store().path
    path.write_text(path.read_text().replace('"wanted"', '"else"'))
    found = store()
    assert found.load() is not None
    assert found.first() == []
