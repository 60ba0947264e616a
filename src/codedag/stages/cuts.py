"""Cuts of a dataflow graph into convex stages: narrow topological orders, balanced work by dynamic programming."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any

from codedag.stages.model import BadModel

#: What work and bytes cost when a cut is judged: only their ratio matters (a core of a laptop, a copy in its memory).
FLOP_PER_SECOND, BYTES_PER_SECOND = 2e10, 5e9
#: A byte that crosses a cut is written by one stage and read by another, and perhaps copied between devices.
CROSSING_WEIGHT = 4.0
#: What a cut of middling width costs, as a share of a stage's time; it grows with the logarithm of the width, so that
#: a stage may be a third longer than another to spare a cut three times as wide.
WIDTH_WEIGHT = 0.15
#: The same for a cut before a light operation that continues what comes before it (an activation after a product):
#: runtimes fuse the two.
LIGHT_WEIGHT, LIGHT_SHARE = 0.05, 0.05
#: Whole numbers of a shape: they may cross any cut, and are no reason to say that it does not separate.
TINY_NBYTES = 64
STAGES_MIN, STAGES_MAX, UNITS_PER_STAGE = 2, 8, 4


@dataclass(frozen=True, slots=True)
class Unit:
    """Operations that are not divided: their names, the values they read and make, and their work."""

    members: tuple[str, ...]
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    flop: float = 0.0
    is_view: bool = False  # moves no bytes: its time is nothing

    def with_constant(self, other: Unit) -> Unit:
        """This unit and one before it that reads nothing, as one."""
        reads = tuple(name for name in self.reads if name not in other.makes)
        return Unit((*other.members, *self.members), reads, (*other.makes, *self.makes), self.flop + other.flop)


@dataclass(frozen=True)
class Flow:
    """Units in an order in which they can run, the bytes of their values, and the values that must come out."""

    units: Sequence[Unit]
    nbytes: Mapping[str, float]
    outputs: tuple[str, ...]

    @cached_property
    def producer(self) -> dict[str, int]:
        """The place of the unit that makes each value; inputs of the model have none."""
        return {name: at for at, unit in enumerate(self.units) for name in unit.makes}

    @cached_property
    def readers(self) -> dict[str, list[int]]:
        """The places of the units that read each value."""
        found: dict[str, list[int]] = {}
        for at, unit in enumerate(self.units):
            for name in dict.fromkeys(unit.reads):
                found.setdefault(name, []).append(at)
        return found

    def before(self, at: int) -> set[int]:
        """The places of the units that a unit needs directly."""
        return {self.producer[name] for name in self.units[at].reads if name in self.producer}

    def seconds(self, at: int) -> float:
        """The rough time of a unit, by its arithmetic and by the bytes that it touches."""
        unit = self.units[at]
        if unit.is_view:
            return 0.0
        sizes = (self.nbytes.get(name, 0.0) for name in (*unit.reads, *unit.makes))
        touched = sum(size for size in sizes if isfinite(size))
        return max(unit.flop / FLOP_PER_SECOND, touched / BYTES_PER_SECOND)

    def width(self, name: str) -> float:
        """The bytes of a value; very many if it cannot pass between stages."""
        return min(self.nbytes.get(name, 0.0), 1e15)

    def ordered(self, order: Sequence[int]) -> Flow:
        """The same units in another order."""
        return Flow([self.units[at] for at in order], self.nbytes, self.outputs)


Groups = list[list[Unit]]


def folded(flow: Flow) -> Flow:
    """The same work where each constant belongs to the first unit that reads it: no stage consists of constants."""
    units: list[Unit | None] = list(flow.units)
    for at in range(len(units)):
        here = units[at]
        if here is None or here.reads:
            continue
        reader = min((place for name in here.makes for place in flow.readers.get(name, ()) if place > at), default=None)
        if reader is not None:
            units[reader] = _need(units[reader]).with_constant(here)
            units[at] = None
    return Flow([unit for unit in units if unit is not None], flow.nbytes, flow.outputs)


def _need(unit: Unit | None) -> Unit:
    if unit is None:
        raise AssertionError("a unit that reads is never folded away")
    return unit


def cut(flow: Flow, stages: int | None = None, what: str = "the graph") -> Groups:
    """The units in stages: as many as are asked for, else a few by the size of the graph."""
    flow = folded(flow)
    count = len(flow.units)
    heavy = sum(not unit.is_view for unit in flow.units)
    wanted = stages or min(STAGES_MAX, max(STAGES_MIN, heavy // UNITS_PER_STAGE), count)
    if not 1 <= wanted <= count:
        raise BadModel(f"{what} has {count} operations; it cannot be cut into {wanted} stages")
    greedy = flow.ordered(narrow_order(flow))
    for number in range(wanted, 0, -1):
        best = min((Line(flow, number), Line(greedy, number)), key=lambda line: line.cost)
        if isfinite(best.cost):
            return best.groups()
        if stages:
            raise BadModel(
                f"{what} cannot be cut into {stages} stages: values that cannot pass between files are in the way"
            )
    raise BadModel(f"{what} cannot be cut")


def narrow_order(flow: Flow) -> list[int]:
    """A topological order in which, at each step, the unit comes next that leaves the fewest bytes alive."""
    waiting = {at: len(flow.before(at)) for at in range(len(flow.units))}
    unread = {name: len(places) for name, places in flow.readers.items()}
    ready = [at for at, count in waiting.items() if count == 0]
    order: list[int] = []
    while ready:
        at = min(ready, key=lambda each: (_growth(flow, each, unread), each))
        ready.remove(at)
        order.append(at)
        for name in dict.fromkeys(flow.units[at].reads):
            unread[name] -= 1
        for follower in {place for name in flow.units[at].makes for place in flow.readers.get(name, ())}:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                ready.append(follower)
    return order


def _growth(flow: Flow, at: int, unread: Mapping[str, int]) -> float:
    """The bytes that a unit adds to what is alive, less those that it is the last to read."""
    unit = flow.units[at]
    made = sum(flow.width(name) for name in unit.makes if name in flow.readers or name in flow.outputs)
    ended = (name for name in dict.fromkeys(unit.reads) if unread[name] == 1 and name in flow.producer)
    return made - sum(flow.width(name) for name in ended)


class Line:
    """Units in one order, cut at the places that cost least: uneven work and bytes that cross."""

    def __init__(self, flow: Flow, stages: int) -> None:
        self._flow, self._stages = flow, stages
        self._ends, self.cost = self._solve()

    def groups(self) -> Groups:
        """The units of each stage."""
        units, starts = list(self._flow.units), [0, *self._ends]
        return [units[start:end] for start, end in zip(starts, [*self._ends, len(units)], strict=True)]

    def crossing(self) -> list[float]:
        """The bytes alive between each two neighbours; inputs of the model are there for every stage."""
        alive = [0.0] * (len(self._flow.units) + 1)
        for name, start in self._flow.producer.items():
            end = max(self._flow.readers.get(name, [start]))
            for place in range(start + 1, end + 1):
                alive[place] += self._flow.nbytes.get(name, 0.0)
        return alive

    def _before_light(self, share: float) -> list[float]:
        """The fee of a cut before each unit that is light and reads what the unit before it made."""
        units, fees = self._flow.units, [0.0]
        for at in range(1, len(units)):
            goes_on = not set(units[at - 1].makes).isdisjoint(units[at].reads)
            fees.append(LIGHT_WEIGHT if goes_on and self._flow.seconds(at) < LIGHT_SHARE * share else 0.0)
        return [*fees, 0.0]

    def _solve(self) -> tuple[list[int], float]:
        """The places of the cuts, and their cost: sum of (stage seconds)^2 x stages / total, and of the crossings."""
        import numpy as np

        count = len(self._flow.units)
        ends = np.concatenate([[0.0], np.cumsum([self._flow.seconds(at) for at in range(count)])])
        total = float(ends[-1]) or 1.0
        share = total / self._stages
        fees = _fees(np.array(self.crossing()), share) + np.array(self._before_light(share)) * share
        best = ends**2 * (self._stages / total)
        best[0] = np.inf
        choices = []
        for _ in range(self._stages - 1):
            best, chosen = _extended(best, ends, fees, self._stages / total)
            choices.append(chosen)
        return _walked_back(choices, count), float(best[count])


def _fees(crossing: Any, share: float) -> Any:
    """The cost of a cut at each place, by the bytes that cross it."""
    import numpy as np

    some = crossing[(crossing > 0) & np.isfinite(crossing)]
    middling = float(np.median(some)) if some.size else 1.0
    widths = np.log2(1 + crossing / middling) * (WIDTH_WEIGHT * share)
    return crossing * (CROSSING_WEIGHT / BYTES_PER_SECOND) + widths


def _extended(best: Any, ends: Any, fees: Any, scale: float) -> tuple[Any, Any]:
    """The best costs with one stage more, and where its cut is, for each end."""
    import numpy as np

    count = len(ends)
    made, chosen = np.full(count, np.inf), np.zeros(count, dtype=np.int64)
    for end in range(2, count):
        costs = best[1:end] + fees[1:end] + (ends[end] - ends[1:end]) ** 2 * scale
        place = int(np.argmin(costs))
        made[end], chosen[end] = costs[place], place + 1
    return made, chosen


def _walked_back(choices: list[Any], count: int) -> list[int]:
    ends: list[int] = []
    at = count
    for chosen in reversed(choices):
        at = int(chosen[at])
        ends.insert(0, at)
    return ends


# -- cuts at names


def cut_at(flow: Flow, names: Sequence[str], inputs: Iterable[str], what: str) -> Groups:
    """The units in stages that end at named values; raises BadModel if a name is not there or does not separate.

    Values that run beside each other are one cut if all of them are named.
    """
    flow, given = folded(flow), list(dict.fromkeys(names))
    _check_names(flow, given, set(inputs), what)
    rest = sorted(given, key=lambda name: flow.producer[name])
    groups: Groups = []
    taken: set[int] = set()
    while rest:
        inside, rest = _next_boundary(flow, rest, set(given), taken, what)
        groups.append([flow.units[at] for at in sorted(inside - taken)])
        taken = inside
    if len(taken) == len(flow.units):
        raise BadModel(f"{what}: the cut at `{given[-1]}` does not separate: nothing comes after it")
    return [*groups, [unit for at, unit in enumerate(flow.units) if at not in taken]]


def _check_names(flow: Flow, names: Sequence[str], inputs: set[str], what: str) -> None:
    import difflib

    for name in names:
        if name in inputs:
            raise BadModel(f"{what}: the cut at `{name}` does not separate: it is an input, nothing comes before it")
        if name not in flow.producer:
            near = difflib.get_close_matches(name, flow.producer, 3)
            hint = f"Near it: {', '.join(near)}." if near else "`codedag stages show MODEL` names what crosses cuts."
            raise BadModel(f"{what} has no tensor `{name}` to cut at", hint=hint)


def _next_boundary(
    flow: Flow, rest: list[str], named: set[str], taken: set[int], what: str
) -> tuple[set[int], list[str]]:
    """The units up to the next cut, and the names that are left."""
    inside = set(taken)
    for count, name in enumerate(rest, 1):
        inside |= ancestors(flow, flow.producer[name])
        around = [each for each in crossing_of(flow, inside) if each not in named]
        if not around and inside != taken:
            return inside, [each for each in rest[count:] if flow.producer[each] not in inside]
    inside = taken | ancestors(flow, flow.producer[rest[0]])
    around = [each for each in crossing_of(flow, inside) if each not in named]
    shown = ", ".join(f"`{each}`" for each in around[:4]) or "nothing"
    raise BadModel(
        f"{what}: the cut at `{rest[0]}` does not separate: {shown} goes around it",
        hint="Name these too, or cut elsewhere.",
    )


def ancestors(flow: Flow, at: int) -> set[int]:
    """The places of a unit and of all that it needs."""
    found, todo = {at}, [at]
    while todo:
        fresh = flow.before(todo.pop()) - found
        found |= fresh
        todo.extend(fresh)
    return found


def crossing_of(flow: Flow, inside: set[int]) -> list[str]:
    """The values that are made inside and read outside, without whole numbers of shapes."""
    return [
        name
        for name, at in flow.producer.items()
        if at in inside
        and flow.nbytes.get(name, 0.0) > TINY_NBYTES
        and any(place not in inside for place in flow.readers.get(name, ()))
    ]
