"""From measured cells to the cost table of a run: one row per operation and PU, the best variant that may be used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from codedag.backends.registry import Equivalence
from codedag.ir import Alternative, CostRow, CostTable, Graph, Machine, No, Op, Pu
from codedag.ir.costs import Measured
from codedag.profile.figures import Figures, are_tied
from codedag.profile.model import CostModel, Point
from codedag.profile.profiler import Contest
from codedag.profile.roofline import roofline_of
from codedag.profile.sample import Samples
from codedag.profile.store import Cell
from codedag.profile.traced import Calls
from codedag.profile.variants import FRESH, ORIGINAL, REUSED, Variant

CLEARLY = 1.1  # times the seconds of a call measured alone
LEAST_SECONDS = 5e-6  # below, what the recorder itself takes is not small
BUSY = 0.1  # the share of its time that a run waited for a processor, beyond which its times are not its own
SLICE_SECONDS = 0.002  # on a busy machine each call of this length is put aside for others, and says nothing
OWN_CODE = "as traced: the program's own code between operations"
NOT_REACHED = "it was not measured within the budget; run `codedag profile` again to go on"


@dataclass(frozen=True, slots=True)
class Place:
    """What a call at its place in the program takes beyond one measured alone: times the work, and so much more."""

    work: float = 1.0
    more: float = 0.0

    def of(self, seconds: float) -> float:
        """The seconds at this place of a call that was measured alone."""
        return seconds * self.work + self.more


@dataclass(slots=True)
class Tabulator:
    """Makes the cost table of a run from what was measured, and from its trace where nothing was."""

    graph: Graph
    samples: Samples
    contests: Mapping[str, Contest]
    machine: Machine
    pus: Collection[str]
    allowed: Collection[Equivalence] = (Equivalence.EXACT,)
    traced: CostTable | None = None
    calls: Mapping[int, Calls] = field(default_factory=dict)  # of the traced run
    held_up: float = 0.0  # the share of the traced run that it waited for a processor
    own_code: Mapping[int, float] = field(default_factory=dict)  # seconds of functions between operations, all calls

    def table(self) -> CostTable:
        """The cost table: every operation has a row for the program as written."""
        rows = [row for op in self.graph.ops if op.kind not in ("region", "source") for row in self._rows(op)]
        rows += [
            CostRow(op=op, pu="cpu", variant=ORIGINAL, status="ok", seconds=seconds, source="traced", reason=OWN_CODE)
            for op, seconds in self.own_code.items()
        ]
        return CostTable(pus=["cpu", *sorted(set(self.pus) - {"cpu"})], rows=rows)

    def _rows(self, op: Op) -> Iterator[CostRow]:
        sample = self.samples.of(op)
        if isinstance(sample, No):
            yield self._traced(op, f"as traced: {sample.reason}")
            yield from self._unsupported(op, sample.reason)
            return
        contest = self.contests[sample.key]
        by_pu: defaultdict[str, dict[Variant, Cell]] = defaultdict(dict)
        for variant, cell in contest.cells.items():
            by_pu[variant.pu][variant] = cell
        for pu, cells in by_pu.items():
            yield self._row(op, pu, cells)

    def _unsupported(self, op: Op, reason: str) -> Iterator[CostRow]:
        """Rows of the other PUs that have something for this operation, which could not be tried."""
        from codedag.profile.variants import variants_of

        for variant in variants_of(op.name, frozenset(self.pus)):
            if variant.pu != "cpu":
                yield CostRow(op=op.id, pu=variant.pu, variant=variant.name, status="unsupported", reason=reason)

    def _row(self, op: Op, pu: str, cells: Mapping[Variant, Cell]) -> CostRow:
        usable = [
            v
            for v, cell in cells.items()
            if cell.status == "ok" and v.buffers == FRESH and v.equivalence in self.allowed
        ]
        others = [self._alternative(op, v, cell) for v, cell in cells.items() if _is_told(v, cell)]
        if not usable:
            return self._nothing(op, pu, cells, others)
        best = _best(usable, cells)
        ties = [v.name for v in usable if v != best and are_tied(cells[best].batches, cells[v].batches)]
        row = CostRow(
            op=op.id, pu=pu, variant=best.name, status="ok", ties=ties or UNSET, traced_seconds=op.self_seconds,
            alternatives=[each for v, each in others if v != best], **self._facts(op, best, cells[best]),
        )  # fmt: skip
        return self._of_several_shapes(op, best, row)

    def _nothing(
        self, op: Op, pu: str, cells: Mapping[Variant, Cell], others: Iterable[tuple[Variant, Alternative]]
    ) -> CostRow:
        """The row of a PU where nothing could be measured that may be used."""
        first = next(
            (v for v in cells if v.buffers == FRESH and (pu != "cpu" or v.name == ORIGINAL)), next(iter(cells))
        )
        reason = self._why_not(first, cells[first])
        if pu == "cpu":
            row = self._traced(op, f"as traced: {reason}")
            return replace(row, alternatives=[each for v, each in others if v.name != ORIGINAL])
        status = "failed" if cells[first].status == "failed" else "unsupported"
        return CostRow(
            op=op.id, pu=pu, variant=first.name, status=status, reason=reason,  # type: ignore[arg-type]
            alternatives=[each for v, each in others if cells[v].status == "ok"],
        )  # fmt: skip

    def _why_not(self, variant: Variant, cell: Cell) -> str:
        if cell.status == "ok":
            return f"its results are {variant.equivalence.value}, which must be allowed (--allow)"
        return cell.reason or NOT_REACHED

    def _traced(self, op: Op, reason: str) -> CostRow:
        """What the operation took in the traced run itself: the program as written needs no other proof."""
        old = self.traced.row(op.id, "cpu") if self.traced is not None else None
        low, high = (old.low, old.high) if old is not None and old.source in (UNSET, "traced") else (None, None)
        calls = self.calls.get(op.id) or Calls((low or 0.0) / op.count, *[op.self_seconds / op.count] * 2)
        return CostRow(
            op=op.id, pu="cpu", variant=ORIGINAL, status="ok", reason=reason, source="traced",
            seconds=calls.undisturbed(self.held_up) * op.count, low=low, high=high, scratch_nbytes=op.peak_nbytes,
        )  # fmt: skip

    def _alternative(self, op: Op, variant: Variant, cell: Cell) -> tuple[Variant, Alternative]:
        if cell.status == "ok":
            return variant, Alternative(variant=variant.shown, status="ok", **self._facts(op, variant, cell))
        status = "failed" if cell.status == "failed" else "unsupported"
        reason = cell.reason or NOT_REACHED
        return variant, Alternative(variant=variant.shown, status=status, reason=reason)  # type: ignore[arg-type]

    def _facts(self, op: Op, variant: Variant, cell: Cell) -> dict[str, Any]:
        """The measured fields that rows and alternatives share; seconds are sums over the calls of the op."""
        figures, place = cell.batches.figures(), self._place(op, variant)
        moved = int(cell.facts.get("moved_nbytes", 0))
        work, peak = float(cell.facts.get("work_flop", 1.0)), int(cell.facts.get("peak_nbytes", 0))
        pu = self._with_peaks(variant.pu)
        return {
            "seconds": place.of(figures.median) * op.count, "low": place.of(figures.low) * op.count,
            "high": place.of(figures.high) * op.count,
            "scratch_nbytes": max(0, peak - int(cell.facts.get("out_nbytes", 0))), "source": "measured",
            "equivalence": variant.equivalence.value, "buffers": variant.buffers, "per_call": _measured(figures, peak),
            "roofline": roofline_of(pu, figures.median, work, moved) or UNSET,
        }  # fmt: skip

    def _with_peaks(self, name: str) -> Pu | None:
        """The PU, or the processor itself for a library on it whose own peaks were not measured."""
        pu, cpu = self.machine.pu(name), self.machine.pu("cpu")
        alike = pu is not None and cpu is not None and pu.resource == cpu.resource
        return cpu if alike and not isinstance(pu.flop_per_second if pu else None, float) else pu

    def _place(self, op: Op, variant: Variant) -> Place:
        """What the usual call in the program took against the original measured alone.

        Inputs that come from memory and not from a cache, pages that a fresh result needs: they belong to the place of
        the call, so each variant pays for them. What is beyond that, or less than alone, is work: the inputs that were
        kept are those of one call. On a busy machine all calls are slower, so nothing is said about work there, but
        that the original needs no more than it took; and long calls say nothing at all.
        """
        sample, calls = self.samples.of(op), self.calls.get(op.id)
        cell = None if calls is None or isinstance(sample, No) else self.contests[sample.key].cells.get(Variant("cpu"))
        busy = self.held_up >= BUSY
        if calls is None or cell is None or cell.status != "ok" or (busy and calls.fastest > SLICE_SECONDS):
            return Place()
        alone, there = cell.batches.figures().median, calls.undisturbed(self.held_up)
        if calls.usual * CLEARLY < alone:
            return Place() if busy and variant.name != ORIGINAL else Place(calls.usual / alone)
        if there <= max(alone * CLEARLY, LEAST_SECONDS):
            return Place()
        more = min(there - alone, self._from_memory(cell))
        return Place(1.0 if busy else (there - more) / alone, more)

    def _from_memory(self, cell: Cell) -> float:
        """The most that the place of a call can cost: all bytes come from memory, and the result's pages are new."""
        pu = self._with_peaks("cpu")
        moved, made = (int(cell.facts.get(name, 0)) for name in ("moved_nbytes", "out_nbytes"))
        if pu is None or not isinstance(pu.stream_bytes_per_second, float):
            return 0.0
        fresh = made / pu.fresh_bytes_per_second if isinstance(pu.fresh_bytes_per_second, float) else 0.0
        return moved / pu.stream_bytes_per_second + fresh

    def _of_several_shapes(self, op: Op, best: Variant, row: CostRow) -> CostRow:
        """The row of an op that sums up calls of many shapes: as its mean size is predicted from those captured."""
        if "*" not in op.in_sig:
            return row
        cells = [self.contests[s.key].cells.get(best) for s in self.samples.at_site(op) if s.key in self.contests]
        known = [cell for cell in cells if cell is not None and cell.status == "ok"]
        made = [int(cell.facts["out_nbytes"]) for cell in known]
        if len(set(made)) < 2 or not op.out_nbytes:
            return replace(row, reason="measured on one of its many shapes")
        points = [
            Point(float(size), float(size), cell.batches.figures().median)
            for size, cell in zip(made, known, strict=True)
        ]
        mean = op.out_nbytes / op.count
        predicted = CostModel(points).at(mean, mean)
        if isinstance(predicted, No):
            return replace(row, reason=f"measured on one of its many shapes; for their mean, {predicted.reason}")
        return replace(
            row, source="predicted", seconds=predicted.seconds * op.count, low=predicted.low * op.count,
            high=predicted.high * op.count, reason=f"predicted for the mean of its shapes from {len(known)} of them",
        )  # fmt: skip


def _is_told(variant: Variant, cell: Cell) -> bool:
    """Whether an alternative says something: not that a function cannot be told where to put its result."""
    return cell.status in ("ok", "failed") or (variant.name != ORIGINAL and variant.buffers != REUSED)


def _best(usable: list[Variant], cells: Mapping[Variant, Cell]) -> Variant:
    """The fastest one; the original where it ties with that."""
    best = min(usable, key=lambda v: cells[v].batches.figures().median)
    original = next((v for v in usable if v.name == ORIGINAL), None)
    if original is not None and original != best and are_tied(cells[original].batches, cells[best].batches):
        return original
    return best


def _measured(figures: Figures, peak: int) -> Measured:
    return Measured(
        best_seconds=figures.best, median_seconds=figures.median, low_seconds=figures.low, high_seconds=figures.high,
        rounds=figures.rounds, clean=figures.clean, page_faults=figures.page_faults, peak_nbytes=peak,
    )  # fmt: skip
