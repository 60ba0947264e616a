"""A function's substitutes on trial, for the calls that reach a library patch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from sys import _getframe
from threading import get_ident
from types import CodeType, FrameType
from typing import Any

from codedag.backends.proof import near
from codedag.backends.registry import Substitution
from codedag.ir.verdict import No, Verdict
from codedag.migrate.guard import Failed, attempt
from codedag.migrate.patches import proxies
from codedag.migrate.patches.bandit import ORIGINAL, Ballot, Bandit
from codedag.migrate.placement.contexts import Contexts, is_user_file
from codedag.migrate.placement.modes import Different, Mode
from codedag.migrate.substitute import nan_check
from codedag.migrate.substitute.clock import clock_for
from codedag.migrate.substitute.describe import described, shape_class
from codedag.migrate.trial import Trial, made

REASONS = 50  # different reasons that are counted per function; the rest are counted together
ACCOUNT = 256  # declined calls between two looks at what they cost and what is saved
REFUSED = 100  # calls of one class that no guard took, after which they are no longer asked
TIMED = 8  # one in so many calls of a settled choice is timed
NEVER = f"none of {REFUSED} calls of this size was taken"
ELSEWHERE = "the plan does not name this place"
TURN = "the original's turn in the comparison of speeds"
_proving: set[int] = set()  # the threads in which a proof asks originals


@contextmanager
def as_written() -> Iterator[None]:
    """A block in which functions that are replaced run as written in this thread: a proof asks what others call too."""
    thread = get_ident()
    if thread in _proving:
        yield
        return
    _proving.add(thread)
    try:
        yield
    finally:
        _proving.discard(thread)


@dataclass(slots=True)
class Arm:
    """One substitute and the trial that it is on."""

    substitution: Substitution
    trial: Trial


@dataclass(slots=True)
class _Running:
    """A call that a substitute has answered."""

    arm: Arm
    at: int
    ballot: Ballot
    args: tuple[Any, ...]
    keywords: dict[str, Any]


class Dispatcher:
    """Substitutes on trial: each declines what its guard declines, and is checked against the original now and then.

    Called in the place of a function, from the program's own frame.
    """

    def __init__(
        self,
        *substitutions: Substitution,
        mode: Mode | None = None,
        contexts: Contexts[str] | None = None,
        demote: bool = True,
    ) -> None:
        self.mode = mode or Mode()
        self.contexts = None if contexts is None or contexts.everywhere else contexts
        self._everywhere = "" if contexts is None else contexts.best(()) or ""  # the unit, where the place is all one
        self.moved = [0, 0, 0]  # bytes to a device, bytes back, and inputs that were there already
        self.declined: Counter[str] = Counter()
        self.proofs = 0  # calls by a proof of ours, not by the program
        self.choice = Bandit(len(substitutions))
        self.arms = [Arm(one, self._trial(one)) for one in substitutions]
        self._clock = clock_for(one.pu for one in substitutions)  # one for all, as they are compared with each other
        self.demote = demote and not self.mode.always  # what only watches need not be fast
        self.on_stop: Callable[[], None] | None = None
        self.on_device: Callable[[], None] | None = None  # told once, of the first call that may go to one
        self._outside: dict[int, CodeType] = {}  # code that no entry of the plan means
        self._declines, self._spent = 0, 0.0  # calls that were declined since, and the seconds that this took

    def _trial(self, substitution: Substitution) -> Trial:
        trial = Trial(substitution.name, every=self.mode.every, first=self.mode.first, ignores_speed=True)
        trial.on_stop = self._stopped
        return trial

    def _stopped(self) -> None:
        if self.on_stop is not None and not self.active:
            self.on_stop()

    @property
    def active(self) -> bool:
        """Whether any of the substitutes is still in use."""
        return any(arm.trial.active for arm in self.arms)

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        """A substitute's result; or that the original must run, alone or for comparison."""
        if _proving and get_ident() in _proving:
            self.proofs += 1
            return proxies.native.DECLINED
        frame = None if self.contexts is None else _getframe(1)
        if frame is not None and id(frame.f_code) in self._outside:
            return self._decline(ELSEWHERE)
        answer = attempt(self._answer, frame, args, keywords)
        return self._decline(f"a part of CodeDAG failed: {answer.reason}") if type(answer) is Failed else answer

    def _answer(self, frame: FrameType | None, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        started = self._clock()
        unit = self.place_of(frame)
        if frame is not None and self.contexts is not None and not unit:
            if len(self._outside) < REASONS and self.contexts.never_from(frame.f_code):
                self._outside[id(frame.f_code)] = frame.f_code
            return self._decline(ELSEWHERE)
        if not self._moves:
            return self._decide(args, keywords, started)
        if self.on_device is not None:
            told, self.on_device = self.on_device, None
            attempt(told)
            started = self._clock()
        from codedag.backends.on_device import tally, using  # only here: it needs numpy

        before = tally.now()
        with using(unit):
            answer = self._decide(args, keywords, started)
        self.moved = [old + b - a for old, a, b in zip(self.moved, before, tally.now(), strict=True)]
        return answer

    @property
    def _moves(self) -> bool:
        """Whether one of the substitutes runs on a device of torch, which must be told on which one."""
        return any(arm.substitution.stays for arm in self.arms)

    def place_of(self, frame: FrameType | None) -> str:
        """The unit on which the plan wants a call made from this frame, or empty."""
        if self.contexts is None:
            return self._everywhere
        return self.contexts.of(frame) or ""

    def _decide(self, args: tuple[Any, ...], keywords: dict[str, Any], started: float) -> Any:
        """A substitute's result; or that the original must run."""
        ballot = self.choice.ballot(shape_class(args, keywords))
        taking = self._taking(ballot, args, keywords)
        if not taking:
            self._account(started)
            return proxies.native.DECLINED
        at = self._pick(ballot, taking)
        if at == ORIGINAL:
            self.declined[TURN] += 1
            return proxies.native.Then(partial(self._timed, ballot, self._clock()))
        return self._run(_Running(self.arms[at - 1], at, ballot, args, keywords), started)

    def _taking(self, ballot: Ballot, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[int]:
        """The substitutes that take this call; the last reason is counted if there are none."""
        if self.demote and ballot.refusals >= REFUSED:
            self._decline(NEVER)
            return []
        taking, reason = [], "it is not faster for calls of this size"
        for at, arm in enumerate(self.arms, 1):
            if not arm.trial.active:
                reason = arm.trial.reason
            elif at not in ballot.closed:
                verdict = attempt(arm.substitution.accepts, args, keywords)
                if not isinstance(verdict, Failed) and verdict:
                    taking.append(at)
                else:
                    reason = getattr(verdict, "reason", "the guard failed")
                    arm.trial.decline(self._short(reason), lasting=self.demote)
        ballot.refusals = 0 if taking else ballot.refusals + 1
        if not taking:
            self._decline(reason)
            self._stopped()  # somebody else may listen to the trials and not tell us
        return taking

    def _account(self, started: float) -> None:
        """Ends everything if declining calls has taken longer than the substitutes have saved."""
        self._declines += 1
        if self._declines % TIMED == 0:  # for all of them: to read the clock takes as long as some guards
            self._spent += TIMED * (self._clock() - started)
        if self._declines % ACCOUNT or not self.demote or self._spent < self.choice.saved_seconds():
            return
        saved = max(self.choice.saved_seconds(), 0.0)
        reason = f"deciding took {self._spent:.3g} s for {self._declines} declined calls, and {saved:.3g} s were saved"
        for arm in self.arms:
            arm.trial.stop(reason)

    def _pick(self, ballot: Ballot, taking: list[int]) -> int:
        if not self.demote:
            return min(taking, key=lambda at: self.arms[at - 1].trial.calls)
        young = [at for at in taking if ballot.is_young(at)]
        if young and self.mode.checks:  # both run, so that their times are of the same call
            return min(young, key=lambda at: ballot.timings[at].count)
        picked = ballot.pick()
        return picked if picked == ORIGINAL or picked in taking else taking[0]

    def _run(self, call: _Running, started: float) -> Any:
        trial = call.arm.trial
        due, before = self._due(trial, call), made()
        result = attempt(call.arm.substitution.run, *call.args, **call.keywords)
        if isinstance(result, Failed):
            (trial.decline if result.expected else trial.failed)(self._short(result.reason))
            return self._decline(result.reason)
        excused = trial.excuses(before)
        if due or (self.mode.checks and bool(attempt(_suspicious, result, call))):
            seconds = None if excused else self._clock() - started
            return proxies.native.Then(partial(self._compare, call, result, seconds, self._clock()))
        call.ballot.served[call.at] += 1
        if self.demote and not excused and (call.ballot.calls % TIMED == 0 or call.ballot.is_young(call.at)):
            attempt(call.ballot.add, call.at, self._clock() - started)
            attempt(self._look, call.at)
        return result

    def _due(self, trial: Trial, call: _Running) -> bool:
        due = trial.due()
        if not self.mode.checks:
            return False
        return self.mode.always or due or (self.demote and call.ballot.is_young(call.at))

    def _timed(self, ballot: Ballot, started: float, original: Any) -> None:
        seconds = self._clock() - started
        attempt(ballot.add, ORIGINAL, seconds)
        for at in range(1, len(self.arms) + 1):
            attempt(self._look, at)

    def _compare(self, call: _Running, result: Any, seconds: float | None, between: float, original: Any) -> None:
        original_seconds = self._clock() - between
        verdict = attempt(self._recorded, call, result, original, original_seconds, seconds)
        if self.demote and seconds is not None:
            attempt(call.ballot.add_pair, call.at, original_seconds, seconds)
            attempt(self._look, call.at)
        if isinstance(verdict, No) and self.mode.raises:
            trial = call.arm.trial
            hint = "Leave this substitution out of the plan, and report it."
            raise Different(f"{trial.what}{trial.evidence}: {verdict.reason}", hint=hint)

    def _recorded(
        self, call: _Running, result: Any, original: Any, original_seconds: float, seconds: float | None
    ) -> Verdict | Failed:
        """What the comparison says; the trial knows it then."""
        trial, promise = call.arm.trial, call.arm.substitution.equivalence
        verdict = attempt(near, original, result, promise)
        if isinstance(verdict, No):
            verdict = self._explained(verdict, call, result, original)
        trial.record(original_seconds, seconds or 0.0, verdict, excused=seconds is None)
        return verdict

    def _explained(self, verdict: No, call: _Running, result: Any, original: Any) -> Verdict:
        """The verdict with the place of a NaN or infinity; the call itself is kept in words."""
        if not call.arm.trial.evidence:
            call.arm.trial.evidence = f"{attempt(described, call.args, call.keywords)} at {_user_line()}"
        place = attempt(nan_check.first_odd, result, original)
        return No(f"{verdict.reason}; {place}") if place and not isinstance(place, Failed) else verdict

    def _look(self, at: int) -> None:
        """Takes a substitute back that is not faster for any class of calls."""
        arm = self.arms[at - 1]
        reason = self.choice.lost(at) if arm.trial.active else ""
        if reason:
            arm.trial.stop(reason)

    def _decline(self, reason: str) -> Any:
        counts = self.declined
        counts[reason if reason in counts else self._short(reason)] += 1
        return proxies.native.DECLINED

    def _short(self, reason: str) -> str:
        return reason if reason in self.declined or len(self.declined) < REASONS else "other reasons"

    @property
    def checked(self) -> int:
        """The calls for which both ran."""
        return sum(arm.trial.checked for arm in self.arms)

    @property
    def mismatches(self) -> int:
        """The calls for which the results differed."""
        return sum(arm.trial.mismatches for arm in self.arms)

    @property
    def reason(self) -> str:
        """Why no substitute is in use any more; empty while one is."""
        return "" if self.active else "; ".join(dict.fromkeys(arm.trial.reason for arm in self.arms))

    def gain(self) -> float:
        """The best gain of the substitutes that are in use, or of those that were; 0 if none was measured."""
        if not self.demote:
            return max((arm.trial.gain() for arm in self.arms), default=0.0)
        gains = [(arm.trial.active, self.choice.gain(at)) for at, arm in enumerate(self.arms, 1)]
        return max([gain for active, gain in gains if active] or [gain for _, gain in gains], default=0.0)


def _suspicious(result: Any, call: _Running) -> bool:
    """Whether there is a NaN or infinity in the result that no input explains."""
    return nan_check.odd(result) and not nan_check.any_odd((*call.args, *call.keywords.values()))


def _user_line() -> str:
    """File and line of the program from which the present call is made."""
    frame: Any = _getframe(1)
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "an unknown line"
