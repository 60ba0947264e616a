"""Reports of worker processes: which changes they recommend, how they are joined, and what a broken report does."""

from __future__ import annotations

from pathlib import Path

import pytest

from codedag.autopilot.processes.report_folder import BEGUN, WorkerReports
from codedag.autopilot.processes.worker_report import (
    CHECKED_CALLS_MIN,
    Proven,
    Share,
    WorkerReport,
    join,
    read,
    thinned,
)
from codedag.migrate.trial import Trial

MOVE = Proven(kind="fuse", file="/a.py", sha256="0", function="f", sites=[1, 2], chain=["x", "y"])


def _share(checked: int = CHECKED_CALLS_MIN, mismatches: int = 0, active: bool = True, reason: str = "") -> Share:
    pairs = [(2.0, 1.0)] * checked
    return Share(
        move=MOVE,
        calls=100,
        checked=checked,
        mismatches=mismatches,
        active=active,
        reason=reason,
        declined={"why": 2},
        pairs=pairs,
    )


def _reported(folder: Path, process: int, *shares: Share, started: float = 0.0, seconds: float = 1.0) -> None:
    report = WorkerReport(process=process, parent=1, started=started, seconds=seconds, shares=list(shares))
    report.write(folder)


def _crew(folder: Path) -> WorkerReports:
    crew = WorkerReports(folder / "workers", process=1)
    crew.prepare()
    return crew


def test_what_one_worker_has_proven_is_recommended(tmp_path):
    crew = _crew(tmp_path)
    assert not crew.read()
    _reported(crew.folder, 2, _share())
    assert crew.read()
    assert crew.proven() == [MOVE]
    assert not crew.read(), "nothing is new"


@pytest.mark.parametrize(
    "shares",
    [
        [_share(checked=CHECKED_CALLS_MIN - 1)],
        [_share(), _share(mismatches=1, active=False, reason="it differed")],
        [_share(), _share(active=False, reason="not faster")],
    ],
    ids=["hardly checked", "wrong once", "as often slow as fast"],
)
def test_what_is_not_recommended(tmp_path, shares):
    crew = _crew(tmp_path)
    for number, share in enumerate(shares):
        _reported(crew.folder, 2 + number, share)
    crew.read()
    assert crew.proven() == []


def test_a_report_that_is_not_one_is_noted_and_the_others_are_read(tmp_path):
    crew = _crew(tmp_path)
    _reported(crew.folder, 2, _share())
    (crew.folder / "3.json").write_text('{"format": "codedag/worker", "version": 1, "process": "three"}')
    crew.read()
    assert len(crew.reports) == 1
    assert "3.json" in crew.bad[0]
    found, bad = read([crew.folder / "2.json", crew.folder / "none.json"])
    assert len(found) == len(bad) == 1


def test_a_worker_tells_only_news_and_its_last_word(tmp_path):
    crew = _crew(tmp_path)
    crew.in_fork((0, 0))
    told = []
    crew.write(told.append, BEGUN)
    crew.write(told.append, (1,))
    crew.write(told.append, (1,))
    assert len(told) == 2
    crew.write(told.append, (1,), last=True)
    assert [report.ended for report in told] == [False, False, True]


def test_a_folder_that_is_gone_does_not_come_back(tmp_path):
    crew = _crew(tmp_path)
    crew.in_fork((0, 0))
    crew.folder.rmdir()
    crew.write(lambda report: None, (1,), last=True)
    assert not crew.folder.exists()
    assert "cannot write" in crew.failure


def test_joined_trials_add_up():
    own = Trial("x y")
    own.calls, own.checked, own.pairs = 10, 8, [(3.0, 1.0)] * 8
    joined = join(own, [_share(), _share()])
    assert (joined.calls, joined.checked, joined.active) == (210, 8 + 2 * CHECKED_CALLS_MIN, True)
    assert joined.declined == {"why": 4}
    assert own.calls == 10, "the trial itself stays as it is"


def test_a_difference_in_one_process_ends_the_change_everywhere():
    joined = join(Trial("x"), [_share(), _share(mismatches=1, active=False, reason="it differed")])
    assert not joined.active
    assert joined.reason == "it differed"
    assert joined.mismatches == 1


def test_mostly_slow_is_slow():
    slow = [_share(active=False, reason="not faster") for _ in range(2)]
    assert not join(Trial("x"), [_share(), *slow]).active
    assert join(Trial("x"), [_share(), _share(), _share(), *slow]).active


def test_timings_are_thinned_evenly():
    pairs = [(float(n), 1.0) for n in range(1000)]
    assert thinned(pairs, 10) == [(float(n), 1.0) for n in range(0, 1000, 100)]
    assert thinned(pairs[:5], 10) == pairs[:5]


def test_a_report_is_not_lost_beside_one_that_is_being_written(tmp_path, monkeypatch):
    """What a worker writes lies beside its report for a moment, and may be gone before it is looked at."""
    crew = _crew(tmp_path)
    _reported(crew.folder, 7, _share())
    _reported(crew.folder, 8, _share())
    (crew.folder / ".9.json.5af3").symlink_to(tmp_path / "gone")  # found in the folder, but not there any more
    assert crew.read()
    assert {report.process for report in crew.reports} == {7, 8}
    assert crew.bad == []


def test_a_report_that_goes_away_meanwhile_does_not_take_others_with_it(tmp_path):
    crew = _crew(tmp_path)
    for process in (5, 7, 8):
        _reported(crew.folder, process, _share())
    (crew.folder / "6.json").symlink_to(tmp_path / "gone")
    assert crew.read()
    assert {report.process for report in crew.reports} == {5, 7, 8}
