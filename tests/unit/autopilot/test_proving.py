"""Proofs that nobody waits for: what waits is done once the answer is there, in order, and hears of the end."""

from __future__ import annotations

import contextlib
import importlib.machinery
import sys
import types

import pytest

from codedag.autopilot import proving as proving_module
from codedag.autopilot.applied import Watch
from codedag.autopilot.budget import Budget
from codedag.autopilot.proving import LITTLE, Proving, WhenProven
from codedag.backends import apart
from codedag.backends.apart import ENDED
from codedag.backends.registry import EXACT, find
from codedag.ir.verdict import Code, No, Yes


class Substitution:
    """Something with a name that a prover can be asked for."""

    def __init__(self, name):
        self.name = self.source = name
        self.into = "there"
        self.module = "codedag.backends.median_"


class Prover:
    """A prover that answers when the test says so."""

    def __init__(self):
        self.verdicts, self.asked, self.answers, self.rested = {}, [], set(), 0
        self.running = False

    def known(self, substitution):
        return self.verdicts.get(substitution.name)

    def is_running(self):
        return self.running

    def is_asked(self):
        return False

    def begin(self, substitution):
        self.asked.append(substitution.name)
        self.running = True
        return True

    def has_answered(self):
        return self.asked[-1] in self.answers

    def answer(self, substitution, verdict):
        self.verdicts[substitution.name] = verdict
        self.answers.add(substitution.name)

    def __call__(self, substitution):
        return self.verdicts[substitution.name]

    def rest(self):
        self.rested += 1

    def end(self):
        pass

    def forget(self):
        self.asked.clear()


@pytest.fixture
def proving():
    seconds = iter([0.0])
    budget = Budget(lambda: next(seconds, 20.0), advance_seconds=100.0)
    made = Proving(False, contextlib.nullcontext, lambda: True, budget)
    made._prover = Prover()
    return made


def test_short_calls_are_proven_beside_longer_ones_for_which_the_process_runs(proving):
    short, shorter = Substitution("short"), Substitution("shorter")
    proving.soon(short, lambda: None, lambda: 0.5)
    proving.soon(shorter, lambda: None, lambda: 0.2)
    assert not proving.waits()  # no process is started for so little
    proving.soon(Substitution("long"), lambda: None, lambda: 5.0)
    for name in ("long", "short"):
        assert proving.waits()
        proving.look()
        assert proving._prover.asked[-1] == name
        proving._prover.answer(Substitution(name), Yes)
        proving.look()
    assert not proving.waits()


def test_what_waits_is_done_in_order_once_the_answers_are_there(proving):
    one, other, done = Substitution("one"), Substitution("other"), []
    for each in (one, other):
        proving.soon(each, lambda each=each: done.append((each.name, proving(each))), lambda: 9.0)
    proving.look()
    proving.look()
    assert (proving._prover.asked, done) == (["one"], [])
    proving.rest()
    assert not proving._prover.rested  # it is at work
    proving._prover.answer(one, Yes)
    proving.look()
    proving._prover.answer(other, No("it differs"))
    proving.look()  # known meanwhile: nobody is asked
    assert done == [("one", Yes), ("other", No("it differs"))]
    assert proving._prover.asked == ["one"]
    assert not proving.waits()
    proving.rest()
    assert proving._prover.rested == 1


def test_no_proof_begins_before_its_calls_took_long_and_the_longest_come_first(proving):
    seconds, done = {"short": 0.1, "long": 0.25}, []
    for each in map(Substitution, seconds):
        proving.soon(each, lambda each=each: done.append(proving(each)), lambda each=each: seconds[each.name])
    assert not proving.waits()
    seconds.update(short=3.0, long=4.0)
    assert proving.waits()
    proving.look()
    assert proving._prover.asked == ["long"]
    proving.end()
    for then in proving.left():
        then()
    assert done == [No(ENDED, Code.ENDED), No(LITTLE)]
    assert proving.unproven == {"short": ("short", "there"), "long": ("long", "there")}  # for the next run


def test_what_would_have_saved_little_is_not_asked_for_by_the_next_run(proving):
    proving.soon(Substitution("short"), lambda: None, lambda: 0.3)
    proving.end()
    for then in proving.left():
        then()
    assert proving.unproven == {}


def test_what_waits_at_the_end_hears_that_there_will_be_no_proof(proving):
    one, done = Substitution("one"), []
    proving.soon(one, lambda: done.append(proving(one)), lambda: 9.0)
    proving.look()
    proving.end()
    assert not proving.waits()
    for then in proving.left():
        then()
    assert done == [No(ENDED, Code.ENDED)]


def test_a_process_that_was_forked_asks_again(proving):
    one, done = Substitution("one"), []
    proving.soon(one, lambda: done.append(proving(one)), lambda: 9.0)
    proving.look()
    proving.forget()
    proving.look()
    assert proving._prover.asked == ["one"]
    proving._prover.answer(one, Yes)
    proving.look()
    assert done == [Yes]


def test_the_same_prover_can_be_asked_both_ways(codedag_home):
    registry = pytest.importorskip("codedag.backends.registry")
    pytest.importorskip("scipy")
    pytest.importorskip("cv2")
    names = ("scipy.ndimage.median_filter", "scipy.ndimage.minimum_filter")
    median, least = (registry.find(name, "cpu")[0] for name in names)
    prover = apart.Prover()
    assert prover.begin(median)
    assert not prover.begin(least)
    assert prover(least) is Yes  # waits for the first one's answer too
    assert prover.known(median) is Yes
    assert prover.has_answered()
    prover.close()
    assert not prover.begin(median)


class Pilot:
    """As much of a pilot as changes that wait for a proof ask for."""

    def __init__(self, prove):
        self.prove, self.allow, self.applied, self.installed, self.wrapped = prove, (EXACT,), [], [], []
        self.planning = self.observed = self.background = self
        self.recalled, self.program, self.recorder = self, self, self
        self.watches, self.templates = {("x.py", "f"): Watch(0.0, 1e-9)}, []

    def is_beside(self):
        return True

    def apply_call(self, file, owner, call):
        if self.prove(call.substitution):
            self.applied.append(call.site)

    def around(self, recall, file, owner):
        self.wrapped.append(recall)

    def install(self, path, owners):
        self.installed.append((path, owners))


class Call:
    """A found call of a substitution that this program may use."""

    site = 0

    def __init__(self, name):
        self.substitution = Substitution(name)
        self.substitution.equivalence, self.substitution.needs, self.substitution.source = EXACT, "", name
        self.substitution.available = lambda: Yes


class File:
    """A file with one site, whose results may be kept."""

    path = "x.py"

    def __init__(self, recall=None):
        variant = recall.run if recall is not None else None
        self.sites = [type("Site", (), {"variant": variant})()]
        self.infos = [types.SimpleNamespace(line=1)]


class Recall:
    """What keeps the results of a site."""

    recalls = True

    def run(self):
        """Stands at the site."""


@pytest.fixture
def pilot(proving, monkeypatch):
    monkeypatch.setattr(Substitution, "available", lambda self: Yes, raising=False)
    monkeypatch.setattr("codedag.migrate.substitute.usable.Substitution", Substitution)
    return Pilot(proving)


def test_what_is_known_is_put_in_at_once_and_the_rest_when_it_is_proven(pilot):
    made, recall = WhenProven(pilot), Recall()
    known, later = Call("json.known"), Call("json.later")
    pilot.prove._prover.answer(known.substitution, Yes)
    made.apply(File(), "f", known, now=False)
    assert (pilot.applied, pilot.prove.waits()) == ([0], False)
    made.apply(File(recall), "f", later, now=False)
    pilot.prove.look()
    assert (pilot.applied, pilot.prove.waits()) == ([0], True)
    pilot.prove._prover.answer(later.substitution, Yes)
    pilot.prove.look()
    assert (pilot.applied, pilot.installed, pilot.wrapped) == ([0, 0], [("x.py", ["f"])], [recall])


def test_what_cannot_be_proven_leaves_the_function_as_it_is(pilot):
    call = Call("json.later")
    WhenProven(pilot).apply(File(), "f", call, now=False)
    pilot.prove.look()
    pilot.prove._prover.answer(call.substitution, No("it differs"))
    pilot.prove.look()
    assert (pilot.applied, pilot.installed, pilot.prove.waits()) == ([], [], False)


class LooksForThePilot:
    """A sleep during which the program's thread ends its import, after some looks."""

    def __init__(self, spec):
        self.spec, self.looks = spec, 0

    def __call__(self, _):
        self.looks += 1
        self.spec._initializing = self.looks < 3


@pytest.fixture
def half_loaded(monkeypatch):
    module = types.ModuleType("scipy.half_loaded")
    module.__spec__ = importlib.machinery.ModuleSpec("scipy.half_loaded", None)
    module.__spec__._initializing = True
    monkeypatch.setitem(sys.modules, "scipy.half_loaded", module)
    sleeps = LooksForThePilot(module.__spec__)
    monkeypatch.setattr(proving_module.time, "sleep", sleeps)
    return sleeps


def test_what_the_program_is_just_importing_is_waited_for_beside_it(half_loaded, proving):
    pytest.importorskip("scipy.ndimage")
    pytest.importorskip("cv2")
    median = find("scipy.ndimage.median_filter", "cpu")[0]
    proving._prover.answer(median, Yes)
    assert proving.permits(median, [EXACT]) == Yes
    assert half_loaded.looks == 3


def test_the_programs_own_thread_never_waits_for_an_import(half_loaded, proving):
    pytest.importorskip("scipy.ndimage")
    pytest.importorskip("cv2")
    proving._is_beside = lambda: False
    median = find("scipy.ndimage.median_filter", "cpu")[0]
    assert proving.permits(median, [EXACT]) == No("scipy.half_loaded is still being loaded")
    assert half_loaded.looks == 0


def test_nobody_waits_for_an_import_once_the_program_has_ended(half_loaded, proving):
    pytest.importorskip("scipy.ndimage")
    pytest.importorskip("cv2")
    proving.end()
    median = find("scipy.ndimage.median_filter", "cpu")[0]
    assert proving.permits(median, [EXACT]) == No("scipy.half_loaded is still being loaded")


def test_no_proof_is_asked_for_that_the_budget_does_not_pay(proving):
    poor = Proving(False, contextlib.nullcontext, lambda: True, Budget(lambda: 0.0))
    poor._prover = Prover()
    one = Substitution("one")
    poor.soon(one, lambda: None, lambda: 9.0)
    assert not poor.waits()
    poor.ahead([("one", "there")])
    assert poor._prover.asked == []
    assert poor.is_refused(one, 9.0)
    assert poor.unproven == {"one": ("one", "there")}
    assert not proving.is_refused(one, 9.0)
