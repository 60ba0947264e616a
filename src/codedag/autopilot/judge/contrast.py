"""The comparison of the program with and without one set of changes, in rounds of four blocks (ABBA).

A round has the order with, without, without, with, or the reverse, drawn at random.  Its two pairs of neighbours give
one log ratio, in which a linear drift cancels.  Its two middle blocks are in the same state and show the noise.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from codedag.autopilot.judge.change import Evidence, Interval
from codedag.autopilot.judge.intervals import bounds, few_bounds, median, sign
from codedag.autopilot.judge.policy import Policy

ROUND_BLOCKS = 4
_LEAST_OUTLIER_BLOCKS = 5  # blocks before one can be called an outlier


class Decision(StrEnum):
    """What the judge says."""

    OPEN = "open"  # not known yet
    KEEP = "keep"
    SLOWER = "slower"
    NO_GAIN = "no-gain"  # the trial ended without a gain in turns or account
    RETRY = "retry"  # taken back in noise; tried again later


@dataclass(frozen=True, slots=True)
class Block:
    """Some turns of the program that were timed together."""

    on: bool
    turns: int
    seconds: float
    cpu: float
    dirty: bool = False  # something was compared, swapped or proven meanwhile, or a turn was far longer than the others

    @property
    def is_usable(self) -> bool:
        """Whether the times can be compared at all; a clock that jumped gives none that can."""
        return not self.dirty and self.turns > 0 and 0 < self.seconds < math.inf

    def wall_log(self) -> float:
        """The logarithm of the seconds of a turn."""
        return math.log(self.seconds / self.turns)

    def cpu_log(self) -> float:
        """The logarithm of the CPU seconds of a turn; below a microsecond there is none."""
        return math.log(max(self.cpu / self.turns, 1e-6))


@dataclass(slots=True)
class Contrast:
    """All rounds in which one set of changes was on and off."""

    changes: frozenset[int]
    policy: Policy
    began: float  # seconds
    kept: bool = False
    wall: list[float] = field(default_factory=list)  # log of the time without over the time with, one a round
    cpu: list[float] = field(default_factory=list)
    same: list[float] = field(default_factory=list)  # log ratio of two blocks in the same state
    since: float = 0.0  # when the first of these rounds ended
    off_seconds: float = 0.0  # in the present stage of `policy.off_shares`
    off_block_seconds: float = 0.0  # of the latest block without the changes
    stage: int = 0
    stage_began: float = 0.0
    block_seconds: float = 0.0
    _tested: int = 0  # rounds before the present test
    _looks: int = 0
    _next_look: int = 0
    _pairs: list[tuple[float, float]] = field(default_factory=list)
    _recent: dict[bool, deque[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        window = self.policy.outlier_window
        self._recent = {True: deque(maxlen=window), False: deque(maxlen=window)}
        self._next_look, self.stage_began = self.policy.first_look, self.began
        self.block_seconds = self.policy.block_seconds_min

    # -- how often

    def may_go_off(self, now: float) -> bool:
        """Whether another round stays within the share of time that may pass without the changes."""
        shares = self.policy.off_shares
        stage = sum(1 for since, _ in shares if now - self.began >= since) - 1
        if stage != self.stage:
            self._enter(stage, now)
        share = min(shares[stage][1], self.policy.off_share_kept) if self.kept else shares[stage][1]
        if share >= 0.5:
            return True
        expected = self.off_seconds + 2 * self.off_block_seconds
        return expected <= share * (now - self.stage_began + 4 * self.off_block_seconds)

    def _enter(self, stage: int, now: float) -> None:
        self.stage, self.stage_began, self.off_seconds = stage, now, 0.0

    def went_off(self, seconds: float) -> None:
        """Notes that a block without the changes has passed, with the turns of it that are not counted."""
        self.off_seconds += seconds
        self.off_block_seconds = seconds

    # -- what was measured

    def block_turns(self, turn_seconds: float) -> int:
        """How many turns of this length make a block."""
        turns = max(self.policy.block_turns_min, math.ceil(self.block_seconds / turn_seconds))
        period = self.policy.unlike_period_turns
        return turns if self.block_seconds <= self.policy.block_seconds_min else period * math.ceil(turns / period)

    def takes(self, block: Block) -> bool:
        """Whether a block counts: it is clean, and not far longer than others in its state."""
        if not block.is_usable:
            return False
        value, recent = block.wall_log(), self._recent[block.on]
        middle = median(recent) if len(recent) >= _LEAST_OUTLIER_BLOCKS else value
        recent.append(value)  # also an outlier: if more follow, the program has changed its speed
        return value - middle <= math.log(self.policy.outlier_ratio)

    def add(self, blocks: Sequence[Block], now: float) -> None:
        """Takes in a round of four blocks."""
        self.since = self.since if self.wall else now
        on_second = 1 if blocks[1].on else -1
        walls, cpus = [block.wall_log() for block in blocks], [block.cpu_log() for block in blocks]
        pair = on_second * (walls[0] - walls[1]), on_second * (walls[3] - walls[2])
        self._pairs.append(pair)
        self.wall.append(sum(pair) / 2)
        self.cpu.append(on_second * (cpus[0] - cpus[1] + cpus[3] - cpus[2]) / 2)
        self.same.append(walls[1] - walls[2])
        if self._are_unlike():
            longer = self.block_seconds * self.policy.unlike_growth
            self.block_seconds = min(longer, self.policy.block_seconds_max)
            self._forget(len(self.wall), now)
        elif self._is_new_phase():
            self._forget(len(self.wall) - self.policy.phase_rounds, now)
            self._next_look = self.policy.first_look
        self._forget(len(self.wall) - self.policy.rounds_kept, self.since)

    def _are_unlike(self) -> bool:
        """Whether blocks in the same state differ so much that longer ones are needed."""
        count = self.policy.unlike_rounds
        if len(self.same) % count or self.block_seconds >= self.policy.block_seconds_max:
            return False
        return sorted(map(abs, self.same[-count:]))[5 * count // 8] > math.log(self.policy.unlike_ratio)

    def _is_new_phase(self) -> bool:
        """Whether the latest rounds all lie beyond nine in ten of the earlier ones, on the same side."""
        count = self.policy.phase_rounds
        if len(self.wall) % count or len(self.wall) < 2 * count:
            return False
        earlier, latest = sorted(self.wall[:-count]), self.wall[-count:]
        tenth = len(earlier) // 10
        return min(latest) > earlier[-1 - tenth] or max(latest) < earlier[tenth]

    def _forget(self, count: int, since: float) -> None:
        """Drops the earliest rounds; the present test goes on with those that are left."""
        if count > 0:
            for values in (self.wall, self.cpu, self.same, self._pairs):
                del values[:count]
            self._tested, self.since = max(self._tested - count, 0), since
            self._next_look = max(self.policy.first_look, self._next_look - count)

    @property
    def rounds(self) -> int:
        """How many rounds were taken in, of those that are kept."""
        return len(self.wall)

    def interval(self, values: Sequence[float] | None = None) -> Interval | None:
        """The gain with the confidence that is claimed; None if there are too few rounds."""
        values = self.wall if values is None else values
        if len(values) < self.policy.gain_rounds_min:
            return None
        found = bounds(values, 1 - self.policy.confidence) or few_bounds(values)
        return None if found is None else Interval(*(math.exp(each) for each in found))

    def noise(self) -> float:
        """How far blocks in the same state may differ, with the same confidence; of few, how far they did."""
        if not self.same:
            return math.inf
        found = bounds(self.same, 1 - self.policy.confidence) or (min(self.same), 0.0, max(self.same))
        return math.expm1(max(abs(found[0]), abs(found[2])))

    def evidence(self) -> Evidence:
        """What a verdict on these changes rests on."""
        noise = self.noise()
        known = noise < math.inf
        return Evidence(
            self.interval(), ROUND_BLOCKS * self.rounds, noise if known else -1.0, noise <= self.policy.noise_max
        )

    # -- the test

    def look(self) -> Decision:
        """KEEP or SLOWER if the rounds of the present test show it, at a look that the error rate pays for."""
        count = len(self.wall) - self._tested
        ratio = self.policy.clear_looks.get(count)
        if ratio is not None and (clear := self._clear(ratio)) is not Decision.OPEN:
            return self._decided(clear)
        if count < self._next_look:
            return Decision.OPEN
        self._looks += 1
        self._next_look = max(count + 1, math.ceil(count * self.policy.look_growth))
        error = self.policy.error_rate * 6 / (math.pi * self._looks) ** 2  # the errors of all looks add up to the rate
        values = self.wall[self._tested :]
        found = sign(values, error)
        if not found or abs(median(values)) < math.log(self.policy.least_ratio):
            return Decision.OPEN
        return self._decided(Decision.KEEP if found > 0 else Decision.SLOWER)

    def _clear(self, ratio: float) -> Decision:
        """The decision if every single pair shows a large difference in the same direction."""
        pairs = [each for pair in self._pairs[self._tested :] for each in pair]
        large = math.log(ratio)
        if min(pairs) > large:
            return Decision.KEEP
        return Decision.SLOWER if max(pairs) < -large else Decision.OPEN

    def _decided(self, decision: Decision) -> Decision:
        """Begins the next test: a later one may find that the program has changed."""
        self._tested, self._next_look = len(self.wall), self.policy.first_look
        return decision

    def keep(self, now: float) -> None:
        """Measures more rarely from now on."""
        if not self.kept:
            self.kept = True
            self._enter(self.stage, now)
