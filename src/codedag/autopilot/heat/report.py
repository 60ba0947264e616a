"""Report types of the sampling profiler: hot functions, loops, and the program's turn."""

from __future__ import annotations

from typing import NamedTuple


class HotLine(NamedTuple):
    """CPU seconds below one instruction of a function; `offset` indexes `co_positions()` by half of it."""

    line: int
    offset: int
    cumulative_seconds: float


class HotFunction(NamedTuple):
    """CPU and waiting seconds of one function, in all threads.

    A recursive function counts once in a sample.  `below_turn_seconds` are those of samples in which the frame of the
    turn lies further out on the stack; for the turn's own function, those inside its loop.  Recent seconds decay with
    a half-life of ten seconds.
    """

    file: str
    qualname: str
    first_line: int
    self_seconds: float
    cumulative_seconds: float
    below_turn_seconds: float
    recent_seconds: float
    recent_self_seconds: float
    waiting_seconds: float
    lines: tuple[HotLine, ...]


class HotLoop(NamedTuple):
    """A frame that stays while its position goes back, in one thread.

    `is_call`: no bytecode loop surrounds the position; a C function (map, sorted, apply) calls again and again from it.
    `is_period_upper_bound`: turns are about as short as the distance of two looks, some were not seen.
    """

    file: str
    qualname: str
    first_line: int
    loop_first_line: int
    loop_last_line: int
    start_offset: int
    end_offset: int
    thread: int
    depth: int
    is_call: bool
    turns_at_least: int
    period_seconds: float
    period_cpu_seconds: float
    is_period_upper_bound: bool
    cumulative_seconds: float
    recent_seconds: float
    last_seen_seconds_ago: float


class HotCall(NamedTuple):
    """A node of the call tree: one call in one function, by its callers; callers come first in a tree.

    `parent` is the number of the caller's node, -1 for none.  `line` to `end_column` are where the call is written,
    -1 where that is not known.  Seconds are those of no node below it: of what is called in C, or of the code itself.
    """

    parent: int
    file: str
    qualname: str
    first_line: int
    line: int
    column: int
    end_line: int
    end_column: int
    self_seconds: float
    waiting_seconds: float


class HeatReport(NamedTuple):
    """What the sampler has seen since its start, without pauses.

    `cpu_seconds` and `waiting_seconds` are sums over all threads that have Python states; `unseen_cpu_seconds` of them
    were used while no Python frame was on the thread's stack.  `turn_seconds` are the CPU seconds below the turn, over
    the same samples as each function's `below_turn_seconds`.  `is_biased`: sampled by a thread that needs the
    interpreter lock, which meets code where the lock is given up.
    """

    cpu_seconds: float
    wall_seconds: float
    waiting_seconds: float
    unseen_cpu_seconds: float
    recent_cpu_seconds: float
    own_cpu_seconds: float
    rate_hz: float
    samples: int
    rejected_samples: int
    is_biased: bool
    functions: tuple[HotFunction, ...]
    loops: tuple[HotLoop, ...]
    turn: HotLoop | None
    turn_seconds: float
