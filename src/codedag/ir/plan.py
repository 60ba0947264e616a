"""A plan: which variant of each operation runs where, what is changed, and what that should bring."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from codedag.ir.fields import Joules, Line, Natural, NBytes, OpId, Seconds

#: The kinds of changes that can be made again from their place in the source alone.
MOVES = ("fuse", "substitute", "remember", "recall", "memoise", "items")


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A source file the plan was made for; another hash means that the plan is stale there."""

    file: str
    sha256: str


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Where one op runs and as which variant; name, context, file and line let a replay find it again."""

    op: OpId
    name: str
    context: str
    file: str
    line: Line
    pu: str
    variant: str


class Move(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change: its kind (fuse, substitute, ...), the ops it covers, and what applies of the rest."""

    kind: str
    ops: list[OpId]
    id: str = ""
    variant: str = ""
    file: str = ""
    line: Line = 0
    end_line: Line = 0
    function: str = ""
    sites: list[Natural] = msgspec.field(default_factory=list)
    chain: list[str] = msgspec.field(default_factory=list)
    equivalence: str = ""
    reason: str = ""
    seconds: Seconds | None = None
    baseline_seconds: Seconds | None = None
    gain_low: float | None = None
    gain_high: float | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """When one op runs: it occupies its PU from start to end, in seconds from the start of the plan."""

    op: OpId
    start: Seconds
    end: Seconds


class Transfer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """When the value of one op is copied from one PU to another."""

    op: OpId
    src: str
    dst: str
    start: Seconds
    end: Seconds


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What was chosen for one op (`pu/variant`), what came second, and why."""

    op: OpId
    chosen: str
    runner_up: str = ""
    why: str = ""


class Strategy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one strategy of the search found: its makespan by the simulator."""

    name: str
    makespan_seconds: Seconds


class Peak(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The most bytes that are alive at once on a PU, and what it has."""

    pu: str
    nbytes: NBytes
    memory_nbytes: NBytes


class Segment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Ops of one PU that can run as a unit: no path leaves it and comes back."""

    pu: str
    ops: list[OpId]


class Tradeoff(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A plan that no other one found beats in time, memory and, where the PUs have watts, energy."""

    name: str
    makespan_seconds: Seconds
    peak_nbytes: NBytes
    joules: Joules | UnsetType = UNSET


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """plan.json: everything that is needed to replay the plan, and what it was predicted to bring."""

    format: Literal["codedag/plan"] = "codedag/plan"
    version: Literal[1] = 1
    sources: list[Source]
    placement: list[Placement]
    moves: list[Move]
    schedule: list[Step] = msgspec.field(default_factory=list)
    transfers: list[Transfer] = msgspec.field(default_factory=list)
    makespan_seconds: Seconds
    lower_bound_seconds: Seconds
    baseline_seconds: Seconds
    decisions: list[Decision] = msgspec.field(default_factory=list)
    truncated: bool = False
    strategy: str = ""
    strategies: list[Strategy] = msgspec.field(default_factory=list)
    baseline: str = ""
    peaks: list[Peak] = msgspec.field(default_factory=list)
    simulated: list[str] = msgspec.field(default_factory=list)
    segments: list[Segment] = msgspec.field(default_factory=list)
    front: list[Tradeoff] = msgspec.field(default_factory=list)
    joules: Joules | UnsetType = UNSET  # of all ops, where every PU has watts

    def __repr__(self) -> str:
        """A line: a plan of a large program would fill the screen."""
        what = f"{len(self.placement)} ops placed, {len(self.moves)} moves"
        times = f"{self.makespan_seconds:.3g} s (baseline {self.baseline_seconds:.3g} s)"
        return f"<Plan {self.strategy or 'by hand'}: {what}, {times}>"
