"""One call site with a substitute: guarded, checked, demoted, and never a second effect."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from codedag.backends.registry import EXACT, Equivalence
from codedag.ir.verdict import No, Verdict, Yes
from codedag.migrate.substitute import call as substitute_module
from codedag.migrate.substitute import clock as clock_module
from codedag.migrate.substitute.call import FAILURES, Substitute
from codedag.migrate.trial import FIRST, FUTILE, Trial


@dataclass
class Info:
    index: int = 7
    file: str = "/generated/user.py"
    line: int = 12
    owner: str = "Net.f"


@dataclass
class Site:
    info: Info = field(default_factory=Info)


class Clock:
    """Time that passes only when a function says so."""

    now = 0.0
    waited = 0.0  # seconds in which the machine did something else

    def perf_counter(self) -> float:
        return self.now + self.waited

    def thread_time(self) -> float:
        return self.now


@dataclass
class Setting:
    """A substitution of `original` by `other`, with counts of how often each ran."""

    clock: Clock = field(default_factory=Clock)
    original_seconds: float = 0.2
    other_seconds: float = 0.1
    ran: list[str] = field(default_factory=list)
    verdict: Any = Yes
    other: Any = field(default_factory=lambda: lambda *args, **keywords: sum(args))
    source: str = "library.total"
    equivalence: Equivalence = EXACT
    part_check: None = None
    pu: str = "cpu"

    def total(self, *args: Any, **keywords: Any) -> Any:
        self.ran.append("original")
        self.clock.now += self.original_seconds
        return sum(args)

    def __post_init__(self) -> None:
        self.function = self.total  # one bound method, so that identity holds
        self.trial = Trial("total")
        self.variant = Substitute(Site(), self, self.trial).variants()[7]

    # -- the face of a Substitution

    def original(self) -> Any:
        return self.function

    def accepts(self, args: Any, keywords: Any) -> Verdict:
        return self.verdict(args) if callable(self.verdict) else self.verdict

    def run(self, *args: Any, **keywords: Any) -> Any:
        self.ran.append("other")
        self.clock.now += self.other_seconds
        return self.other(*args, **keywords)


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch):
    def make(**facts: Any) -> Setting:
        clock = facts.setdefault("clock", Clock())
        monkeypatch.setattr(substitute_module, "perf_counter", clock.perf_counter)
        monkeypatch.setattr(clock_module, "perf_counter", clock.perf_counter)
        monkeypatch.setattr(clock_module, "thread_time", clock.thread_time)
        monkeypatch.setattr(clock_module, "is_fine", lambda one: True)
        return Setting(**facts)

    return make


def test_the_first_calls_are_checked_and_later_ones_run_the_substitute_alone(setting):
    one = setting()
    for _ in range(FIRST):
        assert one.variant(one.function, 1, 2) == 3
    assert one.ran == ["other", "original"] * FIRST
    one.trial._due = 10**9
    one.ran.clear()
    assert one.variant(one.function, 1, 2) == 3
    assert one.ran == ["other"]


def test_declined_calls_run_as_written_and_are_counted(setting):
    one = setting(verdict=lambda args: Yes if args[0] > 0 else No("not positive"))
    assert one.variant(one.function, 0, 5) == 5
    assert one.variant(one.function, -1, 5) == 4
    assert one.variant(sum, [4, 5]) == 9
    assert one.trial.declined == {"not positive": 2, "another function than library.total is called here": 1}
    assert (one.ran, one.trial.calls) == (["original"] * 2, 0)


def test_a_guard_that_fails_declines(setting):
    def broken(args: Any) -> Verdict:
        raise ZeroDivisionError("guard")

    one = setting(verdict=broken)
    assert one.variant(one.function, 1, 2) == 3
    assert list(one.trial.declined) == ["ZeroDivisionError: guard"]


def test_slower_is_taken_back(setting):
    one = setting(other_seconds=0.195)
    for _ in range(FIRST + 5):
        assert one.variant(one.function, 1, 2) == 3
    assert not one.trial.active
    assert one.trial.reason.startswith("not faster here: 1.03x")
    assert one.ran[-5:] == ["original"] * 5


def busy(*args: Any) -> int:
    """The total, for which a busy machine lets the substitute wait, and the original never."""
    busy.clock.waited += 20.0  # type: ignore[attr-defined]
    return sum(args)


@pytest.mark.parametrize(("pu", "active"), [("cpu", True), ("numba:cpu", True), ("ov:cpu", False), ("cuda", False)])
def test_a_busy_machine_takes_nothing_back_where_the_thread_itself_does_the_work(setting, pu, active):
    one = setting(other=busy, pu=pu)
    busy.clock = one.clock  # type: ignore[attr-defined]
    assert [one.variant(one.function, 1, 2) for _ in range(3 * FIRST)] == [3] * (3 * FIRST)
    assert one.trial.active is active
    assert (round(one.trial.gain(), 2) == 2.0) is active


def test_a_difference_is_taken_back_and_never_seen(setting):
    one = setting(other=lambda *args: float(sum(args)))
    results = [one.variant(one.function, 1, 2) for _ in range(4)]
    assert [type(r) for r in results] == [int] * 4
    assert (one.trial.mismatches, one.trial.checked, one.trial.active) == (1, 1, False)
    assert "differed from the original's" in one.trial.reason
    assert one.ran == ["other", *["original"] * 4]


def test_failing_runs_fall_back_and_end_after_three(setting):
    def broken(*args: Any) -> Any:
        raise MemoryError("no room")

    one = setting(other=broken)
    for _ in range(5):
        assert one.variant(one.function, 1, 2) == 3
    assert one.ran == ["other", "original"] * FAILURES + ["original"] * 2
    assert one.trial.reason == f"it failed {FAILURES} times (MemoryError: no room)"


@pytest.mark.parametrize("checked", [True, False])
def test_an_exception_of_the_original_comes_once_and_unchanged(setting, checked):
    one = setting()
    if not checked:
        one.trial.calls, one.trial._due = FIRST, 10**9
    with pytest.raises(TypeError) as caught:
        one.variant(one.function, 1, "2")
    assert str(caught.value) == "unsupported operand type(s) for +: 'int' and 'str'"
    assert one.ran.count("original") == 1
    assert caught.value.__context__ is None


def test_a_comparison_that_fails_takes_the_change_back(setting):
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise ValueError("ask somebody else")

        __hash__ = None

    one = setting(other=lambda *args: Odd())
    one.function = lambda *args: Odd()
    assert type(one.variant(one.function, 1)) is Odd
    assert not one.trial.active


def test_a_change_that_never_gets_its_call_is_taken_back(setting):
    one = setting(verdict=No("wrong dtype"))
    for _ in range(FUTILE + 10):
        one.variant(one.function, 1, 2)
    assert one.trial.reason == f"it could take none of {FUTILE} calls (wrong dtype)"
    assert one.trial.declined["wrong dtype"] == FUTILE


def test_an_interrupt_inside_the_substitute_goes_through(setting):
    def interrupted(*args: Any) -> Any:
        raise KeyboardInterrupt

    one = setting(other=interrupted)
    with pytest.raises(KeyboardInterrupt):
        one.variant(one.function, 1)


@pytest.mark.parametrize("verdict", [Yes, No("never")])
def test_keywords_named_like_ours_reach_the_function(setting, verdict):
    one = setting(verdict=verdict, other=lambda **keywords: keywords)
    one.function = lambda **keywords: keywords
    assert one.variant(one.function, function=1, args=2, self=3) == {"function": 1, "args": 2, "self": 3}


def test_a_function_behind_a_library_patch_is_taken_and_compared_with_the_original(setting):
    from codedag.migrate.patches import proxies

    one = setting()
    stand = proxies.make(one.function)
    proxies.native.set_layers(stand, (proxies.native.Layer(lambda *args: "patched"),))
    for _ in range(FIRST):
        assert one.variant(stand, 1, 2) == 3
    assert one.ran == ["other", "original"] * FIRST
    assert (one.trial.checked, one.trial.mismatches) == (FIRST, 0)


def test_a_nan_without_a_reason_is_compared_at_once(setting):
    one = setting(other=lambda *args: float("nan") if args[0] == 9 else sum(args))
    one.trial.calls = one.trial.checked = FIRST
    one.trial._due = 10**9
    assert one.variant(one.function, 1.0, 2.0) == 3.0
    assert one.trial.checked == FIRST
    assert one.variant(one.function, 9.0, 2.0) == 11.0
    assert (one.trial.mismatches, one.trial.active, one.trial.unverified) == (1, False, 1)
    assert "11.0 is not nan" in one.trial.reason
    assert one.trial.evidence == "(9.0, 2.0)"


def test_a_method_is_the_function_of_its_class_with_the_object_first():
    import numpy as np

    class Own:
        def double(self, x):
            return 2 * x

    own, array, rows = Own(), np.ones(3), [1, 2]
    assert substitute_module.unbound(own.double, (4,)) == (Own.double, (own, 4))
    assert substitute_module.unbound(rows.count, (1,)) == (list.count, (rows, 1))
    function, args = substitute_module.unbound(array.mean, (0,))
    assert function is np.mean
    assert args[0] is array
    assert args[1:] == (0,)
    assert substitute_module.unbound(len, (rows,)) == (len, (rows,))
