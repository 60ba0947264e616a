"""What calls took in the traced run: those of operations, and the program's own code between them."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from codedag.ir import Graph, Op
from codedag.ir.events import Event, Events

FEW = 5  # calls of which the usual one means something
FAR = 3.0  # times the middle call: one that was held up
LONG_SECONDS = 0.004  # a slice of the scheduler: every call of this length is held up as much as the whole run was

Kept = Mapping[int, Sequence[Event]]


@dataclass(frozen=True, slots=True)
class Calls:
    """What single calls of an op took in the traced run: the fastest, the usual one, and their mean."""

    fastest: float
    usual: float
    mean: float

    def undisturbed(self, held_up: float) -> float:
        """What a call takes if it is let run, in a run that was held up for this share of its time.

        Short calls are held up seldom and for long: the usual one was not. Long ones are all held up, as much as the
        run was.
        """
        share = self.mean * (1 - held_up)
        return min(self.usual, share if self.fastest > LONG_SECONDS else max(self.fastest, share))


def usual(kept: Sequence[float], others: int = 0, others_seconds: float = 0.0) -> float:
    """The mean of some calls without the first, which loads and compiles things, and those far above the middle.

    The others are short ones of which only the sum is known.
    """
    later = kept[1:] or ([] if others else kept)
    most = FAR * (median(later) if len(later) > others else others_seconds / others)
    near = [each for each in later if each <= most]
    return (sum(near) + others_seconds) / (len(near) + others)


def calls_of(graph: Graph, events: Events) -> dict[int, Calls]:
    """The calls of ops that had one shape and called nothing else.

    A busy machine holds up some calls for milliseconds, and the first one loads things; the sum over all of them would
    be that of the machine.
    """
    kept, found = kept_of(events), dict[int, Calls]()
    for op in graph.ops:
        alone = op.total_seconds <= op.self_seconds * 1.001
        if op.count >= FEW and "*" not in op.in_sig and alone and op.kind not in ("region", "source"):
            found[op.id] = _calls(op, [call.end - call.start for call in kept[op.id]])
    return found


def _calls(op: Op, kept: Sequence[float]) -> Calls:
    mean, others = op.self_seconds / op.count, max(op.count - len(kept), 0)
    left = max(op.self_seconds - sum(kept), 0.0)
    fastest = min([*kept, left / others] if others else kept)
    return Calls(fastest, min(usual(kept, others, left), mean), mean)


def kept_of(events: Events) -> defaultdict[int, list[Event]]:
    """The calls of each op that were kept."""
    kept: defaultdict[int, list[Event]] = defaultdict(list)
    for call in events.calls:
        kept[call.op].append(call)
    return kept


def own_code(graph: Graph, events: Events, recorder_seconds: float, held_up: float) -> dict[int, float]:
    """What each function of the program took itself over all its calls: its time without that of its operations.

    Calls that moved no data are no operations, and count here; what recording cost beside what was taken out of all
    times is left out. The first call of a function loads and compiles things, so the usual one counts.
    """
    kept, found = kept_of(events), dict[int, float]()
    inside: defaultdict[int, list[Op]] = defaultdict(list)
    for op in graph.ops:
        inside[op.parent].append(op)
    for op in graph.ops:
        if op.kind == "region":
            recording = recorder_seconds * sum(each.count for each in inside[op.id])
            own = _own_seconds(op, inside[op.id], kept, held_up) - recording
            found |= {op.id: own} if own > 0 else {}
    return found


def _own_seconds(region: Op, inside: Sequence[Op], kept: Kept, held_up: float) -> float:
    """The time of a function without that of its operations: the usual call, where each of them was kept."""
    calls = kept.get(region.id, ())
    if len(calls) != region.count or region.count < FEW:
        return (region.total_seconds - sum(op.total_seconds for op in inside)) * (1 - held_up)
    rest = sum(max(op.total_seconds - sum(_durations(kept.get(op.id, ()))), 0.0) for op in inside) / region.count
    left = [call.end - call.start - rest for call in calls]
    for op in inside:
        for at, seconds in _placed(calls, kept.get(op.id, ())):
            left[at] -= seconds
    left = [max(each, 0.0) for each in left]
    return Calls(min(left), usual(left), sum(left[1:]) / (len(left) - 1)).undisturbed(held_up) * region.count


def _placed(calls: Sequence[Event], inner: Sequence[Event]) -> Iterator[tuple[int, float]]:
    """In which of the calls each inner one ended, and how long that took."""
    lanes: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)
    for at, call in enumerate(calls):
        lanes[call.lane].append((call.end, at))
    for own in lanes.values():
        own.sort()
    for call in inner:
        ends = lanes[call.lane]
        place = bisect_left(ends, (call.end, -1))
        if place < len(ends):
            yield ends[place][1], call.end - call.start


def _durations(calls: Sequence[Event]) -> Iterator[float]:
    return (call.end - call.start for call in calls)
