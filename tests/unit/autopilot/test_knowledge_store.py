"""The store of what is known of a program: what it keeps, what it forgets and why, and what damages it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import msgspec
import pytest
from msgspec.structs import replace

from codedag.autopilot import knowledge_store
from codedag.autopilot.applied import Applied
from codedag.autopilot.judge.change import Change, Place, Reason, State
from codedag.autopilot.judge.losses import Losses
from codedag.autopilot.judge.policy import POLICY
from codedag.autopilot.knowledge import NOTHING_RUNS, TAKEN_BACK, Evidence, KnownChange, Proven, RunLength
from codedag.autopilot.knowledge_store import (
    NBYTES_MAX,
    NOTHING_RUNS_MAX,
    PROOF_TRIES_MAX,
    RUNS_KEPT,
    RunFacts,
    Store,
    is_open,
    taken_back,
)
from codedag.instrument.launch import Target
from codedag.ir.errors import CannotWrite
from codedag.ir.report import HotFunction, HotTurn
from codedag.ir.sha256 import sha256
from codedag.ir.verdict import Code
from codedag.migrate.trial import Trial

MEDIAN, SOBEL = ("scipy.ndimage.median_filter", "cv2"), ("scipy.ndimage.sobel", "cv2")
NOT_FASTER = "not faster here: 0.90x over 6 interleaved batches"


@pytest.fixture
def script(tmp_path, codedag_home):
    script = tmp_path / "program.py"
    script.write_text("pass\n")
    return script


@pytest.fixture
def store(script):
    return lambda *args: Store(Target(str(script), args))


def move(script, **facts):
    digest = sha256(script.read_bytes()).hexdigest()
    told = {"kind": "fuse", "function": "f", "sites": [1, 2], "chain": ["numpy.add", "numpy.multiply"], **facts}
    return Proven(file=str(script), sha256=digest, **told)


def length(seconds=2.0, *arguments, ended=0.0):
    return RunLength(wall_seconds=seconds, arguments=list(arguments), ended=ended)


def applied(reason="", kind="substitute", names=("Photos.__getitem__",), pairs=((2.0, 1.0),), mismatches=0):
    trial = Trial("items", checked=len(pairs), pairs=list(pairs), mismatches=mismatches)
    if reason:
        trial.stop(reason)
    return Applied(kind, "a.py", "Photos.__getitem__", [3], list(names), trial, "2 threads")


def pilot(*changes):
    observed = SimpleNamespace(unplanned=[])
    return SimpleNamespace(judging=None, applied=list(changes), observed=observed, refused=[])


# -- proofs that a run ended before


def test_what_a_run_ended_before_is_asked_for_first_by_the_next_ones(store):
    store().keep(RunFacts(unproven=[SOBEL, MEDIAN, MEDIAN]))
    for _ in range(PROOF_TRIES_MAX):
        again = store()
        assert again.load() is not None
        assert again.first() == [MEDIAN, SOBEL]
        again.keep(RunFacts(unproven=[MEDIAN, SOBEL]))
    last = store()
    assert last.load() is not None
    assert last.first() == []  # they would not end in the next run either
    last.keep(RunFacts(unproven=[MEDIAN]))
    again = store()
    assert [(each.source, each.tries) for each in again.load().wanted] == [(MEDIAN[0], PROOF_TRIES_MAX + 1)]


def test_a_file_goes_when_nothing_is_left_of_it(store):
    store().keep(RunFacts(unproven=[MEDIAN]))
    assert store().path.exists()
    store().keep(RunFacts())
    assert not store().path.exists()


# -- what is kept


def test_everything_comes_back(store, script):
    hot = HotFunction(name="f", file=str(script), line=3, self_seconds=1.0, total_seconds=2.0, share=0.5)
    turn = HotTurn(file=str(script), line=9, name="main", period_seconds=0.1, turns=20)
    facts = RunFacts(
        changes=[move(script)], libraries=["numpy"], kernels=[(1, 3), (1, 3)], length=length(), functions=[hot],
        turn=turn, files={str(script): move(script).sha256},
    )  # fmt: skip
    store().keep(facts)
    found = store().load()
    assert [change.key for change in found.in_use()] == [move(script).key]
    assert found.changes[0].versions["numpy"]
    assert (found.kernels, found.heat, found.turn, found.runs) == ([(1, 3)], [hot], turn, [length()])
    store().keep(RunFacts(length=length(3.0, ended=1.0)))  # a run that was not told what is known replaces it
    assert store().load().changes == []


def test_other_arguments_begin_with_what_is_known(store, script):
    store("--seed", "1").keep(RunFacts(changes=[move(script)], length=length(2.0, "--seed", "1")))
    found = store("--seed", "2", "--lr", "0.1").load()
    assert [change.key for change in found.in_use()] == [move(script).key]


def test_looser_equivalences_are_another_file(script):
    exact, ulp = Store(Target(str(script))), Store(Target(str(script)), ["ulp"])
    assert exact.path != ulp.path
    assert ulp.path == Store(Target(str(script)), ["ulp"]).path


def test_only_the_last_runs_are_kept_and_give_the_expected_length(store):
    for number in range(RUNS_KEPT + 3):
        again = store()
        again.load()
        again.keep(RunFacts(length=length(float(number), "--epochs", "9" if number % 2 else "1", ended=float(number))))
    found = store().load()
    assert [run.wall_seconds for run in found.runs] == [float(n) for n in range(3, RUNS_KEPT + 3)]
    assert found.expected_seconds(["--epochs", "1"]) in (4.0, 6.0, 8.0)
    assert found.expected_seconds(["--epochs", "3"]) in (6.0, 7.0)


def test_seconds_that_changes_saved_count_as_the_program_s(store):
    store().keep(RunFacts(length=replace(length(2.0), saved_seconds=3.0)))
    assert store().load().expected_seconds() == 5.0


def test_without_a_sampler_the_heat_of_the_run_before_stays(store, script):
    hot = HotFunction(name="f", file=str(script), share=0.5)
    store().keep(RunFacts(functions=[hot], length=length()))
    again = store()
    again.load()
    again.keep(RunFacts(length=length(ended=1.0)))
    assert store().load().heat == [hot]


# -- what is forgotten


def test_an_edit_of_one_file_forgets_what_belongs_to_that_file(store, script, tmp_path):
    other = tmp_path / "other.py"
    other.write_text("x = 1\n")
    files = {str(path): sha256(path.read_bytes()).hexdigest() for path in (script, other)}
    hot = [HotFunction(name="f", file=path, share=0.3) for path in files]
    store().keep(RunFacts(functions=hot, files=files, length=length(), found_nothing=True))
    assert store().load().nothing is not None
    other.write_text("x = 2\n")
    found = store().load()
    assert [each.file for each in found.heat] == [str(script)]
    assert list(found.files) == [str(script)]
    assert found.nothing is None


def test_a_file_that_was_only_touched_is_the_same(store, script):
    files = {str(script): sha256(script.read_bytes()).hexdigest()}
    store().keep(RunFacts(files=files, length=length()))
    os.utime(script, (1, 1))
    assert list(store().load().files) == [str(script)]


def test_another_version_of_a_library_forgets_the_changes_that_name_it(store, script):
    numpy, median = move(script), move(script, kind="substitute", sites=[7], chain=[MEDIAN[0]], variant="scipy")
    store().keep(RunFacts(changes=[numpy, median], libraries=["numpy", "scipy"]))
    path = store().path
    content = json.loads(path.read_text())
    for change in content["changes"]:
        if "scipy" in change["versions"]:
            change["versions"]["scipy"] = "0.1"
    path.write_text(json.dumps(content))
    again = store()
    assert [change.key for change in again.load().in_use()] == [numpy.key]
    assert "made with scipy 0.1, here is" in again.why_not


def test_a_change_of_an_unknown_library_holds_for_the_versions_of_all(store, script):
    store().keep(RunFacts(changes=[move(script, chain=["no_such_library.f", "len"])], libraries=["msgspec"]))
    assert set(store().load().changes[0].versions) == {"numpy", "msgspec"}


# -- what was taken back


def test_what_was_taken_back_is_kept_with_its_evidence():
    program = SimpleNamespace(files={"a.py": SimpleNamespace(sha256="0")})
    slow, wrong = applied(NOT_FASTER, pairs=[(1.0, 2.0)] * 5), applied("it differed", mismatches=1)
    ended = SimpleNamespace(judging=None, applied=[applied(), slow, wrong], program=program)
    found = taken_back(ended, Target("a.py", ("--lr", "1")))
    assert [(each.state, each.reason_code) for each in found] == [(TAKEN_BACK, "slower"), (TAKEN_BACK, "mismatch")]
    assert found[0].reason == NOT_FASTER
    assert found[0].evidence.blocks == 5
    assert found[0].evidence.arguments == ["--lr", "1"]


def test_a_verdict_by_account_has_no_noise_and_can_be_read_again(store, script):
    """Its noise, -1 for unknown, made the whole file unreadable to the next run."""
    program = SimpleNamespace(files={str(script): SimpleNamespace(sha256=sha256(script.read_bytes()).hexdigest())})
    slow = applied(NOT_FASTER)
    slow.path = str(script)
    change = Change(
        1, "substitute", Place(str(script)), "f", evidence=Losses(POLICY).evidence(Change(1, "fuse", Place(), "f"))
    )
    change.move_to(State.ON_TRIAL, 1.0)
    change.move_to(State.TAKEN_BACK, 2.0, Reason(Code.LOSS, "it spent more than it saved"))
    judging = SimpleNamespace(made={1: (change, slow)})
    ended = SimpleNamespace(judging=judging, applied=[slow], program=program)
    found = taken_back(ended, Target(str(script), ()))
    assert found[0].evidence.noise is None
    store().keep(RunFacts(changes=found, length=length()))
    again = store()
    assert again.load() is not None
    assert again.why_not == ""


def _stopped(script, code="slower", **evidence):
    facts = msgspec.structs.asdict(move(script))
    told = Evidence(**{"share": 0.2, "nbytes": 1000, "blocks": 8, "load": 0.5, **evidence})
    return KnownChange(**facts, state=TAKEN_BACK, reason_code=code, reason=NOT_FASTER, evidence=told)


@pytest.mark.parametrize(
    ("evidence", "share", "nbytes", "is_tried"),
    [
        ({}, 0.2, 1000, False),
        ({}, 0.3, 1900, False),
        ({}, 0.4, 1000, True),
        ({}, 0.1, 1000, True),
        ({}, 0.2, 2000, True),
        ({"blocks": 2}, 0.2, 1000, True),
        ({"load": 3.0}, 0.2, 1000, True),
        ({"load": 3.0, "noise": 0.01}, 0.2, 1000, False),
        ({"noise": 0.2}, 0.2, 1000, True),
        ({"code": "never-hit", "blocks": 0, "load": 3.0}, 0.2, 1000, False),
        ({"code": "loss", "blocks": 0, "load": 3.0}, 0.2, 1000, True),
    ],
)
def test_what_was_not_faster_is_tried_again_if_share_or_size_differ(
    store, script, evidence, share, nbytes, is_tried
):  # fmt: skip
    store().keep(RunFacts(changes=[_stopped(script, **evidence)]))
    found = store().load()
    assert found.in_use() == []
    told = found.not_worth_a_trial("fuse", str(script), [1, 2], [], share, nbytes)
    assert (told == "") is is_tried
    assert found.not_worth_a_trial("fuse", str(script), [1], [], share, nbytes) == ""
    assert found.not_worth_a_trial("fuse", str(script), [1, 2], ["--all"], share, nbytes) == ""


def test_what_was_taken_back_stays_known_until_its_file_changes(store, script):
    store().keep(RunFacts(changes=[_stopped(script)]))
    again = store()
    again.load()
    again.keep(RunFacts(length=length(), files={str(script): move(script).sha256}))
    assert [change.state for change in store().load().changes] == [TAKEN_BACK]
    again = store()
    again.load()
    again.keep(RunFacts(length=length(), files={str(script): "another"}))
    assert store().load().changes == []


def test_a_change_that_pays_again_is_in_use_again(store, script):
    store().keep(RunFacts(changes=[_stopped(script)]))
    again = store()
    again.load()
    again.keep(RunFacts(changes=[move(script)]))
    assert [change.key for change in store().load().in_use()] == [move(script).key]


# -- nothing to gain


def test_a_run_that_ended_before_a_change_was_judged_says_nothing():
    assert is_open(pilot(applied(pairs=())))
    assert not is_open(pilot(applied(), applied(NOT_FASTER)))
    assert not is_open(pilot(applied(kind="recall", pairs=())))
    observed = SimpleNamespace(unplanned=[("a.py", "f")])
    assert is_open(SimpleNamespace(judging=None, applied=[], observed=observed, refused=[]))


def _looked(store, *args, **facts):
    """A run that looked at everything, after what is known was loaded."""
    again = store(*args)
    again.load()
    again.keep(RunFacts(length=length(2.0, *args), **{"found_nothing": True, **facts}))
    return store(*args).load().nothing


def _rests(store, *args):
    """Whether a run does nothing."""
    again = store(*args)
    again.load()
    if again.nothing() is None:
        return False
    again.count_rest()
    return True


def test_nothing_to_gain_is_remembered_for_some_runs_and_then_for_longer(store):
    assert _looked(store).runs == NOTHING_RUNS
    assert [_rests(store) for _ in range(NOTHING_RUNS + 1)] == [True] * NOTHING_RUNS + [False]
    assert _looked(store).runs == 2 * NOTHING_RUNS
    for _ in range(10):
        while _rests(store):
            pass
        assert _looked(store).runs <= NOTHING_RUNS_MAX
    assert _looked(store).runs == NOTHING_RUNS_MAX


def test_it_holds_for_all_arguments(store):
    _looked(store, "--seed", "1")
    assert _rests(store, "--seed", "1")
    assert _rests(store, "--seed", "2")
    assert _looked(store, "--seed", "2").runs == NOTHING_RUNS, "no second look at the same run"


@pytest.mark.parametrize("seconds", [0.1, 3600.0])
def test_very_short_and_very_long_runs_say_nothing(store, seconds):
    again = store()
    again.keep(RunFacts(length=length(seconds), found_nothing=True))
    assert store().load().nothing is None


def test_a_change_that_pays_ends_it(store, script):
    assert _looked(store) is not None
    assert _looked(store, changes=[move(script)], found_nothing=False) is None


def test_another_version_of_a_library_ends_it(store):
    _looked(store, libraries=["numpy"])
    path = store().path
    content = json.loads(path.read_text())
    content["nothing"]["versions"]["numpy"] = "0.1"
    path.write_text(json.dumps(content))
    assert store().load().nothing is None


# -- what may be wrong with the file


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff" * 100,
        b"[]",
        b"{}",
        b'{"format": "codedag/knowledge", "version": 2}',
        b'{"format": "codedag/proven", "version": 1, "moves": []}',
        b"[" * 100_000,
        b" " * (NBYTES_MAX + 10),
    ],
    ids=["empty", "bytes", "list", "nothing in it", "version", "old format", "deep", "large"],
)
def test_a_damaged_file_is_said_and_replaced(store, content):
    path = store().path
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    again = store()
    assert again.load() is None
    assert "cannot be read" in again.why_not
    assert "\n" not in again.why_not
    again.keep(RunFacts(length=length()))
    assert store().load().runs == [length()]


def test_any_prefix_of_a_file_begins_afresh(store, script):
    store().keep(RunFacts(changes=[move(script)], length=length()))
    content = store().path.read_bytes()
    for end in range(0, len(content) - 1, 7):
        store().path.write_bytes(content[:end])
        assert store().load() is None


def test_a_file_that_cannot_be_written_is_said(store, script):
    path = store().path
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    path.parent.write_text("in the way")
    again = store()
    assert (again.load(), again.why_not) == (None, "")
    with pytest.raises(CannotWrite):
        again.keep(RunFacts(length=length()))
    again.count_rest()


def test_the_oldest_files_are_dropped(store, script, monkeypatch):
    monkeypatch.setattr(knowledge_store, "PROGRAMS_MAX", 2)
    for number in range(4):
        one = Store(Target(str(script)), [str(number)])
        one.keep(RunFacts(length=length()))
        os.utime(one.path, (number, number))
    store().keep(RunFacts(length=length()))
    left = [Store(Target(str(script)), [str(n)]).path.exists() for n in range(4)]
    assert left == [False, False, False, True]


def test_a_run_beside_this_one_loses_nothing(store, script):
    first, second = store(), store()
    assert first.load() is second.load() is None
    first.keep(RunFacts(changes=[move(script)], length=length(ended=1.0)))
    second.keep(RunFacts(changes=[move(script, sites=[4, 5])], length=length(ended=2.0)))
    found = store().load()
    assert {tuple(change.sites) for change in found.in_use()} == {(1, 2), (4, 5)}
    assert [run.ended for run in found.runs] == [1.0, 2.0]


def test_what_a_run_beside_this_one_still_knew_does_not_come_back(store, script):
    store().keep(RunFacts(changes=[move(script)], length=length()))
    first, second = store(), store()
    first.load(), second.load()
    second.keep(RunFacts(changes=[move(script)], length=length(ended=1.0)))
    first.keep(RunFacts(length=length(ended=2.0)))  # it no longer holds
    assert store().load().changes == []


def test_eight_runs_at_once_leave_a_whole_file(store, script):
    code = (
        "import sys\n"
        "from codedag.autopilot.knowledge_store import RunFacts, Store, length_of\n"
        "from codedag.instrument.launch import Target\n"
        "target = Target(sys.argv[1], (sys.argv[2],))\n"
        "for _ in range(20):\n"
        "    store = Store(target)\n"
        "    store.load()\n"
        "    assert not store.why_not, store.why_not\n"
        "    store.keep(RunFacts(unproven=[(sys.argv[2] * 1000, 'cv2')], length=length_of(1.0, target)))\n"
    )
    runs = [subprocess.Popen([sys.executable, "-c", code, str(script), str(number)]) for number in range(8)]
    assert [run.wait(120) for run in runs] == [0] * 8
    assert len(store().load().runs) == RUNS_KEPT
    assert [path.name for path in store().path.parent.iterdir()] == [store().path.name]


def test_functions_without_anything_to_change_are_left_alone_for_some_runs(store, script):
    key, files = (str(script), "f"), {str(script): move(script).sha256}
    store().keep(RunFacts(barren=[key], files=files, length=length()))
    for _ in range(NOTHING_RUNS):
        again = store()
        assert again.load().left_alone() == {key}
        again.keep(RunFacts(files=files, length=length()))
    looked = store()
    assert looked.load().left_alone() == frozenset()  # it is looked at once more
    looked.keep(RunFacts(barren=[key], files=files, length=length()))
    found = store().load()
    assert [(each.left, each.runs) for each in found.barren] == [(2 * NOTHING_RUNS, 2 * NOTHING_RUNS)]
    script.write_text("def f():\n    return 2\n")
    assert store().load().barren == []
