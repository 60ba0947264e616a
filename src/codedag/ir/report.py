"""The final facts of `codedag run`: the claimed gain, what is slow, what was changed or declined, and the proof."""

from __future__ import annotations

from typing import Literal

import msgspec

from codedag.ir.events import Mark
from codedag.ir.fields import Factor, Line, Natural, Seconds, Share


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the changed program computed the same: how many results were compared and differed, and how.

    `unverified` results had been used unchecked before the first difference was found.
    """

    identical: bool
    checked: Natural
    mismatches: Natural
    how: str
    unverified: Natural = 0


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One change that was made: what, where (`file:line`), and the seconds of its calls before and after."""

    what: str
    where: str
    kind: str = ""
    variant: str = ""
    equivalence: str = ""
    reason: str = ""
    seconds: Seconds | None = None
    baseline_seconds: Seconds | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    calls: Natural = 0  # that ran as the variant, in all processes; the checked ones ran both ways
    checked: Natural = 0
    saved_seconds: float | None = None  # the change's account; below zero where the variant was slower
    spent_seconds: Seconds | None = None  # keys, misses, guards, copies and checks, also where they did not help
    state: str = ""  # such as in-use or taken-back; empty in reports that had none
    reason_code: str = ""  # of `reason`, for programs
    kept_nbytes: Natural | None = None  # what a memo kept in memory, at most; None = it is no memo, or not known


class Declined(msgspec.Struct, frozen=True, kw_only=True):
    """One change that was not made, the reason, and the seconds that were at stake."""

    what: str
    where: str
    reason: str
    seconds: Seconds | None = None
    reason_code: str = ""


class HotFunction(msgspec.Struct, frozen=True, kw_only=True):
    """One function as the sampler saw it: its own time, and its time with all that it calls.

    `share` is `total_seconds` of the CPU time of the whole process.
    """

    name: str
    file: str
    line: Line = 0
    package: str = ""  # the installed package that has it; empty = the user's own code
    self_seconds: Seconds = 0.0
    total_seconds: Seconds = 0.0
    share: Share = 0.0


class HotLine(msgspec.Struct, frozen=True, kw_only=True):
    """One source line and the time spent on it, calls included; `share` is of the process's CPU time."""

    file: str
    line: Line
    seconds: Seconds
    share: Share = 0.0


class HotCall(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the call tree of a sampled run: one place in one function, by its callers, which stand before it.

    Seconds are those of no node below it.  `text` is what is called or computed there, of the user's own code.
    """

    parent: int  # number of the caller's node in the list, -1 = none
    name: str
    file: str
    line: Line = 0
    text: str = ""
    package: str = ""
    self_seconds: Seconds = 0.0
    waiting_seconds: Seconds = 0.0


class HotProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A worker process as its own sampler saw it."""

    process: Natural
    seconds: Seconds
    cpu_seconds: Seconds = 0.0
    waiting_seconds: Seconds = 0.0


class HotTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The program's outermost repeated work (batch, item, request): where it is, and how long one took."""

    file: str
    line: Line = 0
    name: str = ""
    period_seconds: Seconds = 0.0
    turns: Natural = 0


class Heat(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time of the program went, as a sampler saw it; functions and lines hottest first."""

    sampled_seconds: Seconds
    cpu_seconds: Seconds = 0.0  # of the whole process: what every `share` is of
    waiting_seconds: Seconds = 0.0  # of all threads: asleep, or blocked on a lock, a file or a process
    own_seconds: Seconds = 0.0  # CodeDAG's own CPU time, part of `cpu_seconds`
    is_biased: bool = False  # whether some code could not be sampled as often as other code
    functions: list[HotFunction] = msgspec.field(default_factory=list)
    lines: list[HotLine] = msgspec.field(default_factory=list)
    calls: list[HotCall] = msgspec.field(default_factory=list)  # the call tree
    workers: list[HotProcess] = msgspec.field(default_factory=list)
    worker_calls: list[HotCall] = msgspec.field(default_factory=list)  # of all of them
    turn: HotTurn | None = None


class Block(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Some successive turns of the program, timed together, all of them with the changes or all without."""

    start: Seconds  # since the program began
    seconds: Seconds
    turns: Natural
    changed: bool = False
    void: bool = False  # not used for the verdict: a turn in it was an outlier, or something else disturbed it


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """The speed of the program over time: blocks of turns in order, and a mark where a change was made or undone."""

    unit: str = "turn"  # what a turn is here: batch, item, request
    blocks: list[Block] = msgspec.field(default_factory=list)
    marks: list[Mark] = msgspec.field(default_factory=list)


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The gain that this run measured: seconds of a turn without the changes over seconds with them.

    A claim is `known` only if enough pairs of blocks, one with and one without the changes, were timed in this run.
    """

    known: bool = False
    ratio: Factor | None = None
    low: Factor | None = None
    high: Factor | None = None
    pairs: Natural = 0
    clock: Literal["wall", "cpu"] = "wall"
    reason_code: str = ""  # why it is not known, for programs
    reason: str = ""  # the same, as a sentence for people
    start_seconds: Seconds = 0.0  # wall time that CodeDAG added before and after the program
    next_run: str = ""  # what the next run does differently, as a sentence, if this one was slower

    def __post_init__(self) -> None:
        if not self.known:
            return
        for name in ("ratio", "low", "high"):
            if getattr(self, name) is None:
                raise ValueError(f"{name}: is missing in a claim that is known")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError("low: is above high")


class OwnCosts(msgspec.Struct, frozen=True, kw_only=True):
    """What CodeDAG itself kept and spent in the run."""

    kept_nbytes: Natural = 0  # of results that were kept to be used again, at most
    cpu_seconds: Seconds = 0.0  # of its threads and checks, in this process
    start_seconds: Seconds = 0.0  # on the clock, before and after the program
    processes: Natural = 0  # beside the program: parsing and proving


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """report.json: gain is baseline over optimised (1.0 = same), with an interval; None = not measured.

    Seconds and gain are of the whole process, our own work before and after the program included.  A report that has a
    `claim` is judged by it; `gain`, `steady_gain` and `void` are estimates from single calls.
    """

    format: Literal["codedag/report"] = "codedag/report"
    version: Literal[1] = 1
    baseline_seconds: Seconds | None = None
    optimised_seconds: Seconds | None = None
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    verdict: Proof
    changes: list[Change] = msgspec.field(default_factory=list)
    declined: list[Declined] = msgspec.field(default_factory=list)
    void: str = ""  # why the gain cannot be told after all
    steady_gain: float | None = None  # without our own work, once the changes are made
    steady_low: float | None = None
    steady_high: float | None = None
    workers: Natural = 0  # processes beside the program's own that told what they did
    claim: Claim | None = None
    heat: Heat | None = None
    speed: Speed | None = None
    own: OwnCosts | None = None
