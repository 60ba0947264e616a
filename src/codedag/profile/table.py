"""From measured cells to the cost table of a run: one row per operation and PU, the best variant that may be used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from codedag.backends.registry import Equivalence
from codedag.ir import Alternative, CostRow, CostTable, Graph, Machine, No, Op, Pu
from codedag.ir.costs import Measured
from codedag.ir.events import Events
from codedag.profile.figures import Figures, are_tied
from codedag.profile.model import CostModel, Point
from codedag.profile.profiler import Contest
from codedag.profile.roofline import roofline_of
from codedag.profile.sample import Samples
from codedag.profile.store import Cell
from codedag.profile.variants import FRESH, ORIGINAL, REUSED, Variant

FEW = 5  # calls of which the middle one means something
CLEARLY = 1.1  # times the seconds of a call measured alone
LEAST_SECONDS = 5e-6  # below, what the recorder itself takes is not small
LONG_SECONDS = 0.02  # some slices of the scheduler: every call of this length is held up as much as the whole run was
NOT_REACHED = "it was not measured within the budget; run `codedag profile` again to go on"


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
    calls: Mapping[int, Calls] = field(default_factory=dict)  # of the traced run, where all of an op were kept
    held_up: float = 0.0  # the share of the traced run that it waited for a processor

    def table(self) -> CostTable:
        """The cost table: every operation has a row for the program as written."""
        rows = [row for op in self.graph.ops if op.kind not in ("region", "source") for row in self._rows(op)]
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
        figures, more = cell.batches.figures(), self._more(op)
        moved = int(cell.facts.get("moved_nbytes", 0))
        work, peak = float(cell.facts.get("work_flop", 1.0)), int(cell.facts.get("peak_nbytes", 0))
        pu = self._with_peaks(variant.pu)
        return {
            "seconds": (figures.median + more) * op.count, "low": (figures.low + more) * op.count,
            "high": (figures.high + more) * op.count,
            "scratch_nbytes": max(0, peak - int(cell.facts.get("out_nbytes", 0))), "source": "measured",
            "equivalence": variant.equivalence.value, "buffers": variant.buffers, "per_call": _measured(figures, peak),
            "roofline": roofline_of(pu, figures.median, work, moved) or UNSET,
        }  # fmt: skip

    def _with_peaks(self, name: str) -> Pu | None:
        """The PU, or the processor itself for a library on it whose own peaks were not measured."""
        pu, cpu = self.machine.pu(name), self.machine.pu("cpu")
        alike = pu is not None and cpu is not None and pu.resource == cpu.resource
        return cpu if alike and not isinstance(pu.flop_per_second if pu else None, float) else pu

    def _more(self, op: Op) -> float:
        """What the middle call in the program took beyond the original measured alone.

        Inputs that come from memory and not from a cache, pages that a fresh result needs: they belong to the place of
        the call, so each variant pays for them.
        """
        sample, calls = self.samples.of(op), self.calls.get(op.id)
        cell = None if calls is None or isinstance(sample, No) else self.contests[sample.key].cells.get(Variant("cpu"))
        if calls is None or cell is None or cell.status != "ok":
            return 0.0
        alone, there = cell.batches.figures().median, calls.undisturbed(self.held_up)
        return min(there - alone, self._from_memory(cell)) if there > max(alone * CLEARLY, LEAST_SECONDS) else 0.0

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


@dataclass(frozen=True, slots=True)
class Calls:
    """What single calls of an op took in the traced run: the fastest, the one in the middle, and their mean."""

    fastest: float
    middle: float
    mean: float

    def undisturbed(self, held_up: float) -> float:
        """What a call takes if it is let run, in a run that was held up for this share of its time.

        Short calls are held up seldom and for long: the middle one was not. Long ones are all held up, as much as the
        run was.
        """
        share = self.mean * (1 - held_up)
        return share if self.fastest > LONG_SECONDS else min(self.middle, max(self.fastest, share))


def calls_of(graph: Graph, events: Events) -> dict[int, Calls]:
    """The calls of ops of which every one was kept, where all had one shape and called nothing else.

    A busy machine holds up some calls for milliseconds; the sum over all of them would be that of the machine.
    """
    kept: defaultdict[int, list[float]] = defaultdict(list)
    for call in events.calls:
        kept[call.op].append(call.end - call.start)
    found = {}
    for op in graph.ops:
        whole = len(kept[op.id]) == op.count >= FEW and "*" not in op.in_sig
        if whole and op.total_seconds <= op.self_seconds * 1.001:
            mean = op.self_seconds / op.count
            found[op.id] = Calls(min(kept[op.id]), min(median(kept[op.id]), mean), mean)
    return found


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
