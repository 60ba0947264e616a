"""The roofline of an operation: its work and its bytes against the peaks that were measured here."""

from __future__ import annotations

from typing import Any

from codedag.ir import Pu
from codedag.ir.costs import Roofline
from codedag.profile.leaves import arrays_in

# Products of matrices by the last part of their name; everything else is counted as one operation per element.
_PRODUCTS = frozenset({"matmul", "dot", "mm", "bmm", "inner", "imatmul", "linear"})
OVERHEAD = 8.0  # beyond so many times what the peaks allow, a short call is bound by neither
SHORT_SECONDS = 20e-6  # what a call of a library costs in Python, with some room


def work_of(name: str, args: tuple[Any, ...], result: Any) -> float:
    """The operations of a call: two per element of each product of matrices, else one per element that it touches."""
    given = arrays_in(args)
    if name.rpartition(".")[2] in _PRODUCTS and given and given[0].ndim:
        made = sum(int(array.size) for array in arrays_in(result)) or 1
        return 2.0 * made * int(given[0].shape[-1])
    return float(max([int(array.size) for array in (*given, *arrays_in(result))], default=1))


def roofline_of(pu: Pu | None, seconds: float, work: float, nbytes: int) -> Roofline | None:
    """Where the call stands below the peaks of the PU; None where these were not measured."""
    if pu is None or not isinstance(pu.flop_per_second, float) or not isinstance(pu.stream_bytes_per_second, float):
        return None
    compute, memory = work / pu.flop_per_second, nbytes / bandwidth_of(pu, nbytes)
    floor = max(compute, memory)
    bound = "compute" if compute > memory else "memory"
    if seconds < SHORT_SECONDS and seconds > OVERHEAD * floor:
        bound = "overhead"
    return Roofline(
        work_flop=work, moved_nbytes=nbytes, intensity=work / max(nbytes, 1), bound_by=bound,  # type: ignore[arg-type]
        floor_seconds=floor, share_of_peak=floor / seconds if seconds > 0 else 0.0,
    )  # fmt: skip


def bandwidth_of(pu: Pu, nbytes: int) -> float:
    """The most bytes per second that were seen where so many bytes fit: in a cache, or in memory."""
    slowest = float(pu.stream_bytes_per_second or 1.0)
    fitting = [each.nbytes / each.seconds for each in pu.stream_levels or () if each.nbytes >= nbytes and each.seconds]
    return max([slowest, *fitting])
