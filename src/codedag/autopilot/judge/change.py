"""The record of one change to the program: its state, its account and the log of its transitions.

The report, the store between runs and the reports of worker processes read only this record.  It is plain data.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from codedag.ir.verdict import Code


class State(StrEnum):
    """Where a change stands in its life."""

    PROPOSED = "proposed"  # found by a move, nothing done yet
    PROVING = "proving"  # compared with the original outside of the program
    ON_TRIAL = "on-trial"  # in the program, the judge has not decided
    IN_USE = "in-use"  # in the program, the judge keeps it
    TAKEN_BACK = "taken-back"  # was in the program, which runs as written there now
    DECLINED = "declined"  # never was in the program


#: The states that may follow each state.
LEGAL: dict[State, frozenset[State]] = {
    State.PROPOSED: frozenset({State.PROVING, State.ON_TRIAL, State.DECLINED}),
    State.PROVING: frozenset({State.ON_TRIAL, State.DECLINED}),
    State.ON_TRIAL: frozenset({State.IN_USE, State.TAKEN_BACK}),
    State.IN_USE: frozenset({State.TAKEN_BACK}),
    State.TAKEN_BACK: frozenset({State.ON_TRIAL}),  # a retry
    State.DECLINED: frozenset({State.PROPOSED}),  # the obstacle is gone, such as a library that was not loaded
}


class IllegalTransition(Exception):  # noqa: N818 - reads as what happened
    """A state that cannot follow the present one: an error in CodeDAG, never in the program."""


class Reason(msgspec.Struct, frozen=True):
    """Why a change is in its state: a code for programs, a sentence for people."""

    code: Code
    text: str = ""


class Interval(msgspec.Struct, frozen=True):
    """A ratio of times, as written over with changes: its estimate and the bounds of its confidence interval."""

    low: float
    middle: float
    high: float


class Evidence(msgspec.Struct, frozen=True):
    """What a verdict rests on: the gain, how many blocks were compared, and how far blocks without a change differ."""

    gain: Interval | None
    blocks: int
    noise: float  # 0.05: blocks in the same state agree within 5 %
    rememberable: bool  # whether a later run may rely on it


class Account(msgspec.Struct):
    """What a change has brought and cost, in seconds of the program's threads."""

    saved: float = 0.0  # of the calls that it served
    spent: float = 0.0  # keys, misses, guards, copies, checks: also where the change did not help
    calls: int = 0
    served: int = 0  # calls whose result was the change's own; of a memo, its hits
    checked: int = 0  # calls that were compared with the original
    mismatches: int = 0
    nbytes: int = 0  # memory that it holds

    @property
    def net(self) -> float:
        """Seconds saved less seconds spent."""
        return self.saved - self.spent


class Place(msgspec.Struct, frozen=True):
    """Where a change is made: sites of one function in a file."""

    file: str = ""
    sha256: str = ""
    function: str = ""
    sites: tuple[int, ...] = ()
    line: int = 0
    end_line: int = 0


Transition = tuple[float, State, Reason | None]


class Change(msgspec.Struct):
    """One change: what it is, where it is, how it fared."""

    id: int  # unique in one process
    move: str  # substitute, fuse, remember, recall, rows, settings
    place: Place
    what: str
    variant: str = ""
    equivalence: str = "exact"
    is_known: bool = False  # an earlier run has kept it
    account: Account = msgspec.field(default_factory=Account)
    evidence: Evidence | None = None
    log: list[Transition] = msgspec.field(default_factory=list)  # seconds of the run, the new state, why

    @property
    def state(self) -> State:
        """The state that the last transition led to."""
        return self.log[-1][1] if self.log else State.PROPOSED

    @property
    def reason(self) -> Reason | None:
        """Why it is in its state."""
        return self.log[-1][2] if self.log else None

    @property
    def is_in_program(self) -> bool:
        """Whether the program runs with it, on trial or for good."""
        return self.state in (State.ON_TRIAL, State.IN_USE)

    def move_to(self, state: State, seconds: float, reason: Reason | None = None) -> None:
        """Notes a transition at this time of the run; IllegalTransition if it cannot follow the present state."""
        if state not in LEGAL[self.state]:
            raise IllegalTransition(f"change {self.id} ({self.what}): {self.state} -> {state}")
        self.log.append((seconds, state, reason))
