"""The judge of all changes: compares the program's own turns with and without them, and takes back what is slower.

It is pure: it has no thread and no global state, and its clock is passed in.  Whoever times the program's turns asks
`begins()` and `enabled()` before each block and gives the block to `block()`.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from codedag.autopilot.judge.change import Change, Evidence, Interval, Reason, State
from codedag.autopilot.judge.contrast import ROUND_BLOCKS, Block, Contrast, Decision
from codedag.autopilot.judge.losses import Losses
from codedag.autopilot.judge.policy import POLICY, KindPolicy, Policy
from codedag.ir.verdict import Code

__all__ = ["Block", "Decision", "Judge", "Verdict"]

CPU_GAIN_MIN = 1.02  # CPU time without over with, from which a change that turns do not show is kept
Ids = frozenset[int]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided, of which changes, and what it rests on."""

    decision: Decision
    changes: Ids = frozenset()  # that the decision is about: KEEP: now in use; otherwise: taken back now
    evidence: Evidence | None = None
    retry_at: float | None = None  # seconds of the judge's clock

    @property
    def rememberable(self) -> bool:
        """Whether a later run may rely on it."""
        return self.evidence is not None and self.evidence.rememberable


OPEN = Verdict(Decision.OPEN)


class Judge:
    """Decides which changes the next block runs with, and from blocks and accounts which changes stay."""

    def __init__(self, policy: Policy = POLICY, clock: Callable[[], float] = lambda: 0.0, seed: int = 0) -> None:
        self.policy, self._clock, self._random = policy, clock, random.Random(seed)
        self.changes: dict[int, Change] = {}
        self._active: set[int] = set()
        self._contrasts: dict[Ids, Contrast] = {}
        self._contrast: Contrast | None = None  # of the round that is under way
        self._plan: deque[bool] = deque()
        self._round: list[Block] = []
        self._began = clock()
        self._turn_seconds: deque[float] = deque(maxlen=ROUND_BLOCKS)  # of the latest blocks
        self._block_turns = policy.block_turns_min
        self._suspects: list[Ids] = []  # the two halves of `_guilty`, compared in turns
        self._guilty: Ids = frozenset()  # what is known to be slower as a whole
        self._retry_at: dict[int, float] = {}
        self._retries: dict[int, int] = {}
        self.losses = Losses(policy)
        self._is_doubted = False  # an account contradicts what turns have shown: they are asked again

    def now(self) -> float:
        """The seconds of its clock."""
        return self._clock()

    # -- which changes there are

    def add(self, change: Change) -> None:
        """Takes on a change that the program can run with from the next block on."""
        if not change.is_in_program:
            change.move_to(State.ON_TRIAL, self._clock())
        self.changes[change.id] = change
        self._active.add(change.id)
        self._restart()

    def trust(self, change: Change) -> None:
        """Takes a change that an earlier run kept as in use: it is compared now and then, not half of the time."""
        if change.state is State.ON_TRIAL:
            self._in(change.id, Reason(Code.FASTER, "an earlier run found it faster"), None)
            self._restart()

    def remove(self, change: Change, reason: Reason) -> None:
        """Takes a change back for a reason that is not its speed: a result that differed, an end of the run."""
        self._out({change.id}, reason, change.evidence)
        self._retry_at.pop(change.id, None)

    @property
    def active(self) -> Ids:
        """The changes that are in the program, in use or on trial."""
        return frozenset(self._active)

    def carry_over_turns(self) -> int:
        """How many turns after a flip are not counted."""
        rows = [self.policy.kind(self.changes[each].move) for each in self._active]
        return max((row.carry_over_turns for row in rows), default=1)

    # -- blocks

    def block_turns(self) -> int:
        """How many turns are counted in the next block; the same in all blocks of a round."""
        return self._block_turns

    def _measure_turns(self) -> None:
        """Chooses the turns of a block before it begins: one that ends by the clock would favour its long turns."""
        if self._turn_seconds:
            contrast = self._contrast or Contrast(frozenset(), self.policy, 0.0)
            self._block_turns = contrast.block_turns(min(self._turn_seconds))

    def begins(self) -> bool:
        """Whether the next block runs with all changes; otherwise `enabled()` says with which."""
        now = self._clock()
        self._revive(now)
        if not self._plan:
            self._begin_round(now)
            self._measure_turns()
        self._began = now
        return self._plan[0] if self._plan else True

    def enabled(self) -> Ids:
        """The changes that are on in the block that `begins` spoke of."""
        off = self._plan and not self._plan[0] and self._contrast is not None
        return self.active - self._contrast.changes if off and self._contrast is not None else self.active

    def block(self, block: Block) -> Verdict:
        """Takes in the block that has ended; what its round decides."""
        now, contrast = self._clock(), self._contrast
        if block.is_usable:
            self._turn_seconds.append(block.seconds / block.turns)
        if contrast is None or not self._plan:
            return OPEN
        if not self._plan[0]:
            contrast.went_off(now - self._began)
        if block.on is not self._plan[0] or not contrast.takes(block):
            self._abandon_round()
            return OPEN
        self._plan.popleft()
        self._round.append(block)
        if len(self._round) < ROUND_BLOCKS:
            return OPEN
        contrast.add(self._round, now)
        self._abandon_round()
        return self._decide(contrast, now)

    def _begin_round(self, now: float) -> None:
        changes = self._compared()
        if not changes:
            return
        contrast = self._contrasts.get(changes)
        if contrast is None:
            contrast = self._contrasts[changes] = Contrast(changes, self.policy, now)
            if not self._suspects and not self._on_trial(changes) and not self._is_doubted:
                contrast.keep(now)  # all were judged one by one: these rounds only measure the whole
        if contrast.may_go_off(now):
            first = self._random.random() < 0.5
            self._contrast, self._plan = contrast, deque((first, not first, not first, first))

    def _compared(self) -> Ids:
        """The changes that the next round goes without: suspects, else those on trial, else all; no filling memo."""
        if self._suspects:
            return min(self._suspects, key=self._rounds_of)
        ready = frozenset(each for each in self._active if not self.losses.is_filling(self.changes[each]))
        return self._on_trial(ready) or ready

    def _rounds_of(self, changes: Ids) -> int:
        return self._contrasts[changes].rounds if changes in self._contrasts else 0

    def _on_trial(self, changes: Iterable[int]) -> Ids:
        return frozenset(each for each in changes if self.changes[each].state is State.ON_TRIAL)

    def _abandon_round(self) -> None:
        self._plan.clear()
        self._round, self._contrast = [], None

    def _restart(self) -> None:
        """Forgets what was measured: the set of changes is another one."""
        self._abandon_round()
        self._contrasts.clear()
        self._suspects, self._guilty, self._is_doubted = [], frozenset(), False

    # -- verdicts by turns

    def _decide(self, contrast: Contrast, now: float) -> Verdict:
        decision = contrast.look()
        if self._suspects:
            return self._searched(contrast, decision)
        if decision is Decision.SLOWER:
            return self._slower(contrast)
        if decision is Decision.KEEP:
            return self._keep(contrast, now)
        return self._end_trial(contrast, now) if self._is_over(contrast, now) else OPEN

    def _keep(self, contrast: Contrast, now: float) -> Verdict:
        evidence = contrast.evidence()
        contrast.keep(now)
        self._is_doubted = False
        for each in self._on_trial(contrast.changes):
            self._in(each, Reason(Code.FASTER, "the program's turns are faster with it"), evidence)
        return Verdict(Decision.KEEP, contrast.changes, evidence)

    def _slower(self, contrast: Contrast) -> Verdict:
        """Takes back a single change; of several, the culprit is looked for by halves."""
        if len(contrast.changes) == 1:
            return self._take_back(contrast.changes, contrast)
        self._accuse(contrast.changes)
        return OPEN

    def _accuse(self, changes: Ids) -> None:
        ordered = sorted(changes)
        self._guilty, middle = changes, len(ordered) // 2
        self._suspects = [frozenset(ordered[:middle]), frozenset(ordered[middle:])]
        for half in self._suspects:
            self._contrasts.pop(half, None)

    def _searched(self, contrast: Contrast, decision: Decision) -> Verdict:
        """The next step of the search: into the half that is slower; without one, everything accused is taken back."""
        if decision is Decision.SLOWER:
            return self._slower(contrast)
        if decision is Decision.KEEP:  # so it is the other half that is slower
            (other,) = (half for half in self._suspects if half != contrast.changes)
            if len(other) == 1:
                return self._take_back(other, contrast)
            self._accuse(other)
        elif min(map(self._rounds_of, self._suspects)) >= self.policy.search_rounds_max:
            return self._take_back(self._guilty, contrast)
        return OPEN

    def _take_back(self, changes: Ids, contrast: Contrast) -> Verdict:
        """Takes changes back that are slower; in noise for a while, otherwise for good."""
        evidence = contrast.evidence()
        if not evidence.rememberable and self._can_retry(changes):
            return self._rest(changes, evidence)
        self._out(changes, Reason(Code.SLOWER, _slower_text(evidence)), evidence)
        return Verdict(Decision.SLOWER, changes, evidence)

    # -- the end of a trial that turns did not decide

    def _is_over(self, contrast: Contrast, now: float) -> bool:
        seconds, rounds = self.policy.trial_seconds_max, self.policy.trial_rounds_max
        return bool(self._on_trial(contrast.changes)) and (now - contrast.began >= seconds or contrast.rounds >= rounds)

    def _end_trial(self, contrast: Contrast, now: float) -> Verdict:
        """Keeps what its account or the CPU time shows to gain; takes back the rest."""
        evidence, cpu = contrast.evidence(), contrast.interval(contrast.cpu)
        saves_cpu = cpu is not None and cpu.low > CPU_GAIN_MIN
        trial = self._on_trial(contrast.changes)
        kept = frozenset(each for each in trial if saves_cpu or self.losses.believed_net(self.changes[each]) > 0)
        for each in kept:
            self._in(each, Reason(Code.SAVED, "its account shows a gain; the turns are no slower"), evidence)
        if trial == kept:
            contrast.keep(now)
            return Verdict(Decision.KEEP, kept, evidence)
        if _is_wide(evidence, self.policy) and self._can_retry(trial - kept):
            return self._rest(trial - kept, evidence)
        self._out(trial - kept, Reason(Code.NO_GAIN, "neither turns nor account show a gain"), evidence)
        return Verdict(Decision.NO_GAIN, trial - kept, evidence)

    # -- taken back for a while

    def _can_retry(self, changes: Ids) -> bool:
        return all(self._retries.get(each, 0) < self._row(each).retries_max for each in changes)

    def _rest(self, changes: Ids, evidence: Evidence) -> Verdict:
        now = self._clock()
        self._out(changes, Reason(Code.NOISY, "blocks without a change differ too much for a verdict"), evidence)
        for each in changes:
            count = self._retries[each] = self._retries.get(each, 0) + 1
            self._retry_at[each] = now + self._row(each).retry_seconds * 2 ** (count - 1)
        return Verdict(Decision.RETRY, changes, evidence, max(self._retry_at[each] for each in changes))

    def _revive(self, now: float) -> None:
        for each in [each for each, at in self._retry_at.items() if at <= now]:
            del self._retry_at[each]
            self.changes[each].move_to(State.ON_TRIAL, now, Reason(Code.RETRIED, "tried again after noise"))
            self._active.add(each)
            self._restart()

    # -- verdicts by account

    def decide_by_account(self, change: Change) -> Verdict:
        """Takes back a change that has spent more than it saved since its account was best, beyond its grace.

        Where turns have shown a gain, they are asked again instead.
        """
        if not change.is_in_program or not self.losses.shows(change, self._clock()):
            return OPEN
        if _is_proven(change):
            self._doubt(change)
            return OPEN
        code = Code.NEVER_HIT if self.losses.is_filling(change) and not change.account.served else Code.LOSS
        account, evidence = change.account, self.losses.evidence(change)
        text = f"it spent {account.spent:.2f} s and saved {account.saved:.2f} s"
        self._out({change.id}, Reason(code, text), evidence)
        return Verdict(Decision.SLOWER, frozenset({change.id}), evidence)

    def _doubt(self, change: Change) -> None:
        """Measures anew, and as often as at first; the account starts over."""
        self.losses.start_over(change, self._clock())
        self._restart()
        self._is_doubted = True

    # -- the claim

    def contrast(self) -> Contrast | None:
        """The comparison of all changes with none, if it has begun."""
        return self._contrasts.get(
            frozenset(each for each in self._active if not self.losses.is_filling(self.changes[each]))
        )

    @property
    def gain(self) -> Interval | None:
        """The time of a turn as written over the time with all changes; None without enough blocks."""
        contrast = self.contrast()
        return None if contrast is None else contrast.interval()

    # -- transitions

    def _row(self, each: int) -> KindPolicy:
        return self.policy.kind(self.changes[each].move)

    def _in(self, each: int, reason: Reason, evidence: Evidence | None) -> None:
        change = self.changes[each]
        change.evidence = evidence
        change.move_to(State.IN_USE, self._clock(), reason)

    def _out(self, changes: Iterable[int], reason: Reason, evidence: Evidence | None) -> None:
        for each in changes:
            change = self.changes[each]
            change.evidence = evidence
            if change.is_in_program:
                change.move_to(State.TAKEN_BACK, self._clock(), reason)
            self._active.discard(each)
            self.losses.forget(change)
        self._restart()


def _is_wide(evidence: Evidence, policy: Policy) -> bool:
    return evidence.gain is None or evidence.gain.high / evidence.gain.low > policy.wide_ratio


def _is_proven(change: Change) -> bool:
    """Whether turns have shown a gain."""
    gain = change.evidence.gain if change.evidence is not None else None
    return change.state is State.IN_USE and gain is not None and gain.low > 1


def _slower_text(evidence: Evidence) -> str:
    gain = f"{evidence.gain.middle:.2f}x, " if evidence.gain is not None else ""
    return f"the program's turns are slower with it: {gain}{evidence.blocks} blocks"
