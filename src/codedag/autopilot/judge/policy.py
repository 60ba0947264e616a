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
    #: The same where an earlier run has kept it: a memo begins empty in every run, and its first calls only fill it.
    known_grace_seconds: float = 0.25
    grace_share: float = 0.002  # of the time since it began, on top
    carry_over_turns: int = 1  # turns after a flip that still have the other state's work in them
    retry_seconds: float = 30.0  # until a change that was taken back in noise is tried again; doubles each time
    retries_max: int = 2


#: One row a kind.  Where no measurement is named, the number is chosen and tests hold the behaviour it gives.
KINDS: dict[str, KindPolicy] = {
    # pays from its first call on, or never
    "substitute": KindPolicy(),
    # its first call builds a table or loads a kernel
    "fuse": KindPolicy(grace_seconds=0.1),
    # has no hit in a program's first epoch: a judge of its first 20 blocks kills what pays later
    "remember": KindPolicy(hits_before_verdict=8, fill_share_max=0.02),
    # fills for a whole pass over the data, within its own share of the time (migrate/memo/items.py), and goes on to
    # fill one dataset while another hits: an account that judged by the first hits ended it in a pass over MNIST
    "items": KindPolicy(hits_before_verdict=64, fill_share_max=0.12, grace_share=0.1, grace_seconds=0.5),
    # admitted only after an argument was seen twice, so it needs no fill budget: one cost a scipy.signal program 0.55x
    # for 20 s
    # as for items: each value is followed once, which takes about as long as making it
    "memoise": KindPolicy(hits_before_verdict=16, fill_share_max=0.12, grace_share=0.1, grace_seconds=0.3),
    "recall": KindPolicy(hits_before_verdict=4, grace_seconds=0.02),
    # one call may be the whole program: there is no second block to wait for
    "rows": KindPolicy(grace_seconds=0.5, known_grace_seconds=0.5),
    # threads and allocators keep what an earlier block queued: DataLoaders prefetch two batches a worker
    "settings": KindPolicy(carry_over_turns=3, grace_seconds=0.2, retry_seconds=60.0),
}


@dataclass(frozen=True, slots=True)
class Policy:
    """What the judge must know of blocks, verdicts and how much time it may take from the changes."""

    # Three turns: one long turn must not be the whole block.  50 ms: the judge takes 50 us a block, on a busy machine.
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
    least_ratio: float = 1.002  # a smaller difference is none
    # A large difference is decided earlier: all pairs of the first rounds must show this ratio, in one direction.
    clear_looks: Mapping[int, float] = field(default_factory=lambda: {2: 1.5, 4: 1.10, 6: 1.10})
    outlier_ratio: float = 3.0  # a block this much longer than its kind's median is void
    outlier_window: int = 9  # blocks whose median it is
    outlier_turn_ratio: float = (
        20.0  # a block with a turn this much longer than its mean one is void: a suspend, an epoch
    )
    noise_max: float = 0.05  # up to here a verdict is remembered: blocks from a busy hour said 0.16x of what was 1.1x
    trial_seconds_max: float = 50.0  # then the accounts decide
    trial_rounds_max: int = 240
    search_rounds_max: int = 60  # for each half of the suspects
    wide_ratio: float = 1.10  # an interval wider than this at the end of a trial says nothing
    confidence: float = 0.95  # of the claimed interval
    gain_rounds_min: int = 4  # fewer: no claim
    phase_rounds: int = (
        8  # in a row far from all earlier ones: the program is in another phase, and these are forgotten
    )
    rounds_kept: int = 256
    #: Share of the seconds an account says it saved that is believed where there are no turns.  Compared calls run with
    #: warm caches, which flatters a variant: sums of calls claimed 1.17x for a program at 0.55x.
    saved_share_believed: float = 0.8
    kinds: Mapping[str, KindPolicy] = field(default_factory=lambda: KINDS)

    def kind(self, move: str) -> KindPolicy:
        """The row of a kind of change; an unknown one is treated like a substitution."""
        return self.kinds.get(move) or KindPolicy()


POLICY = Policy()
