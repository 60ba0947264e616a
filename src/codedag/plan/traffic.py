"""The bytes that chains of operations move, one by one and as one walk over memory, and what that predicts.

A prediction only says what to try first and what to expect: whether a chain stays fused is decided by measuring it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codedag.ir import Graph, Op
from codedag.ir.machine import Pu

_ARRAY = re.compile(r"(u?int|float|complex|bool)(\d*)\[([\d,]*)\]")


@dataclass(frozen=True, slots=True)
class Traffic:
    """The bytes of one call: those that each operation of a chain moves, and those that one kernel would move."""

    each_nbytes: tuple[int, ...]
    fused_nbytes: int

    @property
    def unfused_nbytes(self) -> int:
        """The bytes that all operations move together."""
        return sum(self.each_nbytes)


def sizes(signature: str) -> list[int] | None:
    """The bytes of each array of a signature such as `uint8[4,3],float64[2]`; None if one has no fixed size."""
    rest = _ARRAY.sub("", signature).replace(",", "").strip()
    if "[" in rest:
        return None
    return [
        math.prod(map(int, filter(None, extents.split(",")))) * (max(int(bits or 8) // 8, 1))
        for _, bits, extents in _ARRAY.findall(signature)
    ]


def traffic(graph: Graph, chain: Sequence[int]) -> Traffic | None:
    """The bytes that a chain of operations moves, each feeding the next; None where a size is not known."""
    each: list[int] = []
    outside, made = 0, -1
    for number in chain:
        op = graph.op(number)
        taken, given = sizes(op.in_sig), sizes(op.out_sig)
        if taken is None or given is None or (made >= 0 and made not in taken):
            return None
        each.append(sum(taken) + sum(given))
        outside += sum(taken) - max(made, 0)
        made = sum(given)
    return Traffic(tuple(each), outside + max(made, 0)) if each else None


def rate(pu: Pu, nbytes: int) -> float:
    """The most bytes per second that were seen where so many bytes fit: in a cache, or in memory."""
    levels = [one for one in pu.stream_levels or () if one.seconds > 0]
    fitting = [one.nbytes / one.seconds for one in levels if one.nbytes >= nbytes]
    slowest = pu.stream_bytes_per_second
    memory = [float(slowest)] if isinstance(slowest, float) else []
    return max([*fitting, *memory], default=math.inf)


@dataclass(frozen=True, slots=True)
class Work:
    """Seconds that computing takes, however fast bytes move: of each operation of a chain, and of one kernel."""

    each_seconds: tuple[float, ...] = ()
    fused_seconds: float = 0.0


def predicted(moved: Traffic, pu: Pu, kernel_seconds: float | None = None, work: Work | None = None) -> float:
    """How many times faster one kernel should be than the operations one by one, by what they move and compute.

    `kernel_seconds` is what launching the kernel costs, if that is not what launching an operation costs.
    """
    launch = pu.launch_seconds if kernel_seconds is None else kernel_seconds
    work = work or Work()
    floors = work.each_seconds or (0.0,) * len(moved.each_nbytes)
    moves = [nbytes / rate(pu, nbytes) for nbytes in moved.each_nbytes]
    apart = sum(pu.launch_seconds + max(pair) for pair in zip(moves, floors, strict=True))
    together = launch + max(moved.fused_nbytes / rate(pu, moved.fused_nbytes), work.fused_seconds)
    return apart / together if together > 0 else 1.0


def candidates(graph: Graph, fits: Callable[[Op], bool]) -> list[list[int]]:
    """The longest chains of operations that fit, in which nothing else reads what one hands to the next."""
    ops = {op.id: op for op in graph.ops}
    later = {src for src, _ in graph.carried}
    follows: dict[int, int] = {}
    for op in ops.values():
        readers = graph.successors(op.id) if fits(op) and op.id not in later else ()
        if len(readers) == 1 and _hands_on(op, ops[readers[0]]) and fits(ops[readers[0]]):
            follows.setdefault(readers[0], op.id)  # of two that are handed to one, the first
    before = {src: dst for dst, src in follows.items()}
    chains = []
    for first in (one for one in before if one not in follows):
        chain = [first]
        while chain[-1] in before:
            chain.append(before[chain[-1]])
        chains.append(chain)
    return chains


def _hands_on(op: Op, reader: Op) -> bool:
    return op.count == reader.count and op.parent == reader.parent and "[" in op.out_sig
