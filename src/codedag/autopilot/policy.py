"""Constants of the judge: one row for each kind of change, and those of blocks and verdicts, with their reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class KindPolicy:
    """What the judge must know of one kind of change."""

    hits_before_verdict: int = 0  # served calls before its blocks are compared
    fill_share_max: float = 0.0  # share of the time since it began that it may spend before these hits
    grace_seconds: float = 0.05  # loss that its account may show
    grace_share: float = 0.002  # of the time since it began, on top
    carry_over_turns: int = 1  # turns after a flip that still have the other state's work in them
    retry_seconds: float = 30.0  # until a change that was taken back in noise is tried again; doubles each time
    retries_max: int = 2


#: One row a kind.  Grace of 50 ms: compared calls and the first table or proof of a variant cost 5 to 40 ms once.
KINDS: dict[str, KindPolicy] = {
    # pays from its first call on, or never
    "substitute": KindPolicy(),
    # the first call of a chain builds a table or loads a kernel (up to 40 ms); two deferred values may be under way
    "fuse": KindPolicy(grace_seconds=0.1),
    # has no hit in a program's first epoch; keys and copies of decoded pictures took 0.3 to 2 % of a turn where they
    # later paid 15x a call, and 3 to 45 % where they never did
    "remember": KindPolicy(hits_before_verdict=8, fill_share_max=0.02),
    # is admitted only after an argument was seen twice, so it needs no fill budget: 0.55x for 20 s was the price of one
    "recall": KindPolicy(hits_before_verdict=4, grace_seconds=0.02),
    # one call may be the whole program: there is no second block to wait for
    "rows": KindPolicy(grace_seconds=0.5),
    # threads and allocators keep what an earlier block queued: two batches are prefetched per worker
    "settings": KindPolicy(carry_over_turns=3, grace_seconds=0.2, retry_seconds=60.0),
}


@dataclass(frozen=True, slots=True)
class Policy:
    """What the judge must know of blocks, verdicts and how much time it may take from the changes."""

    # Three turns: one long turn in a block must not be the block.  50 ms: the clock, a flip and a callback cost 20 us.
    block_turns_min: int = 3
    block_seconds_min: float = 0.05
    # Where three in eight blocks in the same state differ by 10 %, turns are of unlike length.  Then blocks become
    # four times as long, up to a second, and a multiple of ten turns: programs log, save and test every 10 or 50 turns.
    block_seconds_max: float = 1.0
    unlike_ratio: float = 1.10
    unlike_rounds: int = 8
    unlike_growth: int = 4
    unlike_period_turns: int = 10
    # Share of the time without a change, by seconds since its trial began.  Half at first: a change whose blocks are
    # hard to tell apart costs little while it is off, and one that is easy to tell is decided in a second or two.
    off_shares: tuple[tuple[float, float], ...] = ((0.0, 0.5), (60.0, 0.02), (600.0, 0.005))
    off_share_kept: float = 0.05  # after KEEP, in the first minute too
    # Probability of any wrong verdict in a trial; spent over looks as 1/k^2, so that looking often stays honest.
    error_rate: float = 0.03
    first_look: int = 7  # rounds of four blocks; fewer cannot show 3 % by a rank test (2^-6 = 1.6 %)
    look_growth: float = 1.41
    least_ratio: float = 1.002  # a smaller difference is none: alignment of code and memory makes as much
    # A large difference is decided earlier: all pairs of the first four rounds must show 10 %, in one direction.
    clear_looks: tuple[int, ...] = (4, 6)
    clear_ratio: float = 1.10
    outlier_ratio: float = 3.0  # a block this much longer than its kind's median is void
    outlier_window: int = 9  # blocks whose median it is
    noise_max: float = 0.05  # up to here a verdict is remembered: blocks from a busy hour said 0.16x of what was 1.1x
    trial_seconds_max: float = 50.0  # then the accounts decide
    trial_rounds_max: int = 320
    search_rounds_max: int = 60  # for each half of the suspects
    wide_ratio: float = 1.10  # an interval wider than this at the end of a trial says nothing
    confidence: float = 0.95  # of the claimed interval
    gain_rounds_min: int = 6  # fewer: no claim
    rounds_kept: int = 512
    #: Share of the seconds an account says it saved that is believed where there are no turns: compared calls run with
    #: warm caches, so they flatter the variant by up to a fifth.
    saved_share_believed: float = 0.8
    kinds: Mapping[str, KindPolicy] = field(default_factory=lambda: KINDS)

    def kind(self, move: str) -> KindPolicy:
        """The row of a kind of change; an unknown one is treated like a substitution."""
        return self.kinds.get(move) or KindPolicy()


POLICY = Policy()
