"""The search for a better plan: forward-backward rounds, then annealing, along one fixed path.

The path depends on the instance and the seed only.  A budget decides how far along it we go, counted in steps of the
simulator and not in seconds: so the same seed gives the same plan, and a larger budget never a worse one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from codedag.plan import exact
from codedag.plan.classes import tied
from codedag.plan.kway import parts
from codedag.plan.problem import NEVER, Problem
from codedag.plan.solution import Timetable
from codedag.plan.strategies import SMALL, Candidate, Context, candidates, cooked, drawn

#: Steps of the simulator per second, times (PUs + 4); measured are 1.6 to 5 times that (bench/planner.py), so that a
#: machine must be busy before the clock ends a search.
STEPS_PER_SECOND = 180e6
#: The steps of a budget take about half of it. The clock ends the search when this thread has run for so many budgets
#: and so many seconds more, so that a busy machine gives the same plan, later; and at last when so many have gone by.
LATE, LATER_SECONDS = 3.0, 1.0
PATIENCE, PATIENCE_SECONDS = 10.0, 20.0
#: The first annealing is this part of a second; each later one is as long as all before it.
FIRST_STAGE_SECONDS = 1 / 64
#: Above this size a step of annealing is too small a part of the plan to matter.
LARGEST_ANNEALED = 60_000
#: Small graphs are annealed for this long at least: that is less than what starting takes, and lists may miss the best.
LEAST_SECONDS = 1.2 * FIRST_STAGE_SECONDS
ROUNDS = 5
CLASS_MOVES = 60
#: This part of every stage goes to list schedules with weights by lot.
LOTS = 1 / 8
#: Temperatures as parts of the makespan: cold first (what a short budget needs), then warmer.
TEMPERATURES = ((5e-5, 1e-5), (2e-4, 2e-5), (5e-4, 2e-5), (1e-3, 2e-5))
#: In smaller graphs one op is a larger part of the makespan: these are for 1000 ops, and grow as graphs shrink.
WARM, WARM_BELOW, WARM_FOR = ((3e-3, 1e-4), (1e-3, 5e-5)), 300, 1000
CLUSTERS = 0.2


@dataclass(slots=True)
class Found:
    """The best plan so far, everything that was tried, and what bounds the makespan from below."""

    best: Candidate
    tried: list[Candidate] = field(default_factory=list)
    bound: float = 0.0
    truncated: bool = False
    steps: float = 0.0
    table: Timetable | None = None  # only where times are stated because of memory
    ends: list[Candidate] = field(default_factory=list)  # the best one before and after each whole stage
    ended: bool = False  # whether the search could not go on, whatever the budget

    def offer(self, candidate: Candidate) -> bool:
        """Whether the candidate is better than what we had; then it is the best."""
        self.tried.append(Candidate(candidate.name, b"", b"", candidate.makespan))
        if candidate.makespan >= self.best.makespan:
            return False
        self.best = candidate
        return True


@dataclass(slots=True)
class Clock:
    """How many steps, and until when, in seconds that this thread runs and that go by: they only cut the path short."""

    steps: float
    deadline: float = 0.0
    end: float = 0.0

    @classmethod
    def of(cls, problem: Problem, seconds: float, *, timed: bool = True) -> Clock:
        """The clock of a budget for an instance, with deadlines for slow and busy machines."""
        steps = seconds * steps_per_second(problem)
        end = time.monotonic() + PATIENCE * seconds + PATIENCE_SECONDS
        return cls(steps, latest(seconds), end) if timed else cls(steps)

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return self.end > 0 and time.monotonic() > self.end


def latest(budget: float) -> float:
    """When the clock ends a search that begins now, in seconds that this thread has run."""
    return time.thread_time() + LATE * budget + LATER_SECONDS


def steps_per_second(problem: Problem) -> float:
    """How many steps a second of budget is: fewer where the plan does not fit into a core's own memory."""
    return STEPS_PER_SECOND / (problem.k + 4) * (1.0 if problem.n <= SMALL else 0.5)


Progress = Callable[[float], None]


def search(
    context: Context, budget: float, seed: int = 0, progress: Progress | None = None, *, solver: bool = True,
    timed: bool = True, whole: bool = False,
) -> Found | None:  # fmt: skip
    """The best plan within the budget, or None if no strategy gives a plan that can run.

    With `whole` no stage is begun that cannot be ended: what comes after depends on where stages end.
    """
    searched = max(budget, LEAST_SECONDS) if context.problem.n < WARM_BELOW else budget
    clock = Clock.of(context.problem, searched, timed=timed)
    first = candidates(context)
    best = next(first, None)
    if best is None:
        return None
    found = Found(best, [best])
    for candidate in first:
        found.offer(candidate)
    found.bound = max(float(context.model.path_bound(context.ahead)), context.priced[0])
    rounds(context, found)
    structures(context, found)
    found.ends.append(found.best)
    if searched > 0:
        stages(context, found, clock, seed, progress, whole)
    if budget > 0 and solver:
        solved(context, found, budget, seed)
    return found


def structures(context: Context, found: Found) -> None:
    """Parts of the graph as placements, and whole classes of ops moved together; small graphs only."""
    if context.problem.k < 2 or context.problem.n > SMALL:
        return
    for candidate in parts(context):
        if candidate.makespan < NEVER:
            found.offer(candidate)
    found.offer(tied(context, found.best, CLASS_MOVES))


def solved(context: Context, found: Found, budget: float, seed: int) -> None:
    """The constraint solver's plan and bound, where it is installed and the graph small enough."""
    if context.problem.n > exact.LARGEST or found.best.makespan <= found.bound or not exact.available():
        return
    candidate, bound, late = exact.polish(context, found.best, budget, seed)
    found.offer(candidate)
    found.truncated |= late
    found.bound = max(found.bound, bound)


def rounds(context: Context, found: Found, most: int = ROUNDS) -> None:
    """Forward-backward: list schedules that look ahead along the plan that the last one gave."""
    model, current = context.model, found.best
    for number in range(most if context.problem.k > 1 else 0):
        tails = model.tails(current.place, current.order)
        rank = model.ranked(current.place, tails)
        price = (0.0, 1.0, 4.0, 8.0, 16.0)[number % 5]
        ahead = model.look_from(current.place, tails)
        after = context.listed("forward-backward", rank, ahead, (1.0, 0.7, 0.4, 0.9)[number % 4], price)
        if after is None:
            return
        current = after if found.offer(after) or after.makespan < 1.02 * found.best.makespan else found.best


def stage_seconds() -> Iterator[float]:
    """How long the stages are: each as long as all before it."""
    size = FIRST_STAGE_SECONDS
    yield size
    while True:
        yield size
        size *= 2


def lots(context: Context, found: Found, numbers: Random, steps: float) -> None:
    """List schedules with weights by lot, as many as the steps allow."""
    each = 3.0 * (context.problem.k + 1) * context.problem.n
    for _ in range(int(steps / each)):
        candidate = cooked(context, drawn(numbers))
        if candidate is not None:
            found.offer(candidate)
        found.steps += each


def _temperature(n: int, number: int) -> tuple[float, float]:
    table, warmth = (WARM, WARM_FOR / n) if n < WARM_BELOW else (TEMPERATURES, 1.0)
    hot, cold = table[number % len(table)]
    return warmth * hot, warmth * cold


def stages(
    context: Context, found: Found, clock: Clock, seed: int, progress: Progress | None, whole: bool = False
) -> None:
    """Anneals in stages, each as long as all before it, until the steps are used up."""
    for number, seconds in enumerate(stage_seconds()):
        total, left = seconds * steps_per_second(context.problem), clock.steps - found.steps
        found.ended = not 2 <= context.problem.n <= LARGEST_ANNEALED or found.best.makespan <= found.bound
        if left <= (total * (1 + LOTS) if whole else 0) or found.ended:
            return
        lots(context, found, Random(seed * 1_000_003 + number), min(left, total * LOTS))
        left = clock.steps - found.steps
        if left <= 0:
            return
        hot, cold = _temperature(context.problem.n, number)
        makespan, place, order, steps, late = context.model.anneal(
            found.best.place, found.best.order, context.ahead, total, min(total, left), hot, cold, CLUSTERS,
            (seed * 1_000_003 + number) & (2**64 - 1), clock.deadline,
        )  # fmt: skip
        found.steps += max(steps, 1.0)
        if makespan < NEVER:
            found.offer(Candidate("annealing", place, order, makespan))
        found.ends.append(found.best)
        if progress is not None:
            progress(min(1.0, found.steps / clock.steps))
        if late or clock.late:
            found.truncated = True
            return
