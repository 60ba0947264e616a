"""What remains of transfers when they run beside the work: an exact recurrence, without a search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from codedag.ir import Link


@dataclass(frozen=True, slots=True)
class Overlap:
    """How long work and transfers take together, and what of it is waiting for transfers alone."""

    seconds: float
    exposed_seconds: float
    transfers: list[tuple[int, float, float]]  # of each bucket: which link, start, end


def overlap(seconds: Sequence[float], nbytes: Sequence[int], links: Sequence[Link], bucket_nbytes: int = 0) -> Overlap:
    """What a sequence of steps takes if each one's bytes are sent while the next ones work.

    Bytes are gathered until there are `bucket_nbytes`; what is left is sent after the last step.  A bucket goes over
    the link where it ends first; links that share an engine take turns.
    """
    free = {link.turn: 0.0 for link in links}
    transfers: list[tuple[int, float, float]] = []
    for ready, size in _buckets(seconds, nbytes, bucket_nbytes):
        starts = [max(ready, free[link.turn]) for link in links]
        ends = [
            start + one.latency_seconds + size / one.bytes_per_second for start, one in zip(starts, links, strict=True)
        ]
        at = ends.index(min(ends))
        free[links[at].turn] = ends[at]
        transfers.append((at, starts[at], ends[at]))
    work = sum(seconds)
    total = max([work, *(end for _, _, end in transfers)])
    return Overlap(total, total - work, transfers)


def _buckets(seconds: Sequence[float], nbytes: Sequence[int], least: int) -> list[tuple[float, int]]:
    """When each bucket is full, and its bytes; steps without bytes send nothing."""
    found: list[tuple[float, int]] = []
    now, held = 0.0, 0
    for own, size in zip(seconds, nbytes, strict=True):
        now, held = now + own, held + size
        if held and held >= least:
            found.append((now, held))
            held = 0
    return [*found, (now, held)] if held else found


def idle_seconds(busy: Iterable[tuple[float, float]], makespan: float) -> float:
    """How much of a plan no op works: what its transfers could not hide."""
    covered, until = 0.0, 0.0
    for start, end in sorted(busy):
        covered += max(end - max(start, until), 0.0)
        until = max(until, end)
    return max(makespan - covered, 0.0)
