"""Prices of blocks at one size: compute and transfer seconds of every block of stages on every PU, from the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from codedag.ir import CannotPlan, Machine
from codedag.ir.verdict import No
from codedag.stages.execution.verify import F32
from codedag.stages.planning.lookup import Estimate
from codedag.stages.planning.tables import Tables, size_text
from codedag.stages.sizes import Sizes

HINT = "Measure it with `codedag stages profile`, at this size or on another PU."


@dataclass(frozen=True, slots=True)
class PlacedBlock:
    """Neighbouring stages on one PU, or split over several by ratios; seconds without and with bringing the inputs."""

    first: int
    last: int
    pus: tuple[str, ...]
    ratios: tuple[float, ...]
    compute: float
    transfer: float
    low: float
    high: float
    nbytes: int = 0
    source: str = "stages"  # "block" if it was measured as one, "stages" if it is their sum, "split" for shares
    shares: tuple[float, ...] = ()  # of a split: the seconds of each share, its transfer included
    variant: str = ""  # "int8" if it is quantised
    error: float = 0.0  # of int8: largest difference by largest value, as measured
    precision: str = F32  # the shortest type that one of its PUs computes in

    @property
    def seconds(self) -> float:
        """Compute and transfer."""
        return self.compute + self.transfer

    @property
    def stages(self) -> range:
        """The numbers of its stages."""
        return range(self.first, self.last + 1)

    @property
    def name(self) -> str:
        """`3` for one stage, `1-5` for several."""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    @property
    def place(self) -> tuple[str, ...]:
        """Where and how its stages run: its PUs, and its variant if it has one."""
        return (*self.pus, self.variant) if self.variant else self.pus

    @property
    def is_split(self) -> bool:
        """Whether several PUs share it."""
        return len(self.pus) > 1


@dataclass(frozen=True, slots=True)
class Int8:
    """Quantised blocks as candidates: their measured rows, and what the errors of those in one plan may add up to."""

    tables: Tables
    max_error: float


class Prices:
    """Every block on every PU at one size; what a PU cannot do, or has no room for, is left out with its reason."""

    int8: Int8 | None = None
    max_error = 0.0

    def __init__(
        self, tables: Tables, sizes: Sizes, pus: Sequence[str] = (), machine: Machine | None = None,
        moved: Sizes | None = None, int8: Int8 | None = None,
    ) -> None:  # fmt: skip
        self.tables, self.sizes = tables, dict(sizes)
        self.moved = dict(moved or sizes)  # the sizes of what is brought: a part of a graph brings its halo too
        self.pus = tuple(pus) or tables.pus
        self.machine = machine if machine is not None else tables.machine
        self.count, self.int8 = tables.count, int8
        self.max_error = int8.max_error if int8 is not None else 0.0
        self.refusals: dict[tuple[str, str], str] = {}
        self.blocks = {
            (first, last): list(self._placed(first, last))
            for first in range(1, self.count + 1) for last in range(first, self.count + 1)
        }  # fmt: skip
        self._need_every_stage()

    def turn_of(self, pu: str) -> tuple[str, str]:
        """What a PU occupies: PUs with the same key take turns."""
        found = self.machine.pu(pu) if self.machine is not None else None
        return found.turn if found is not None else ("pu", pu)

    def entry(self, source: tuple[str, ...] | None, block: PlacedBlock) -> float:
        """The seconds of bringing a block's inputs, none from its own PU, and of asking its process.

        The first block also pays for copies from and to the caller's arrays.
        """
        if source == block.pus and not block.is_split:
            return self.tables.handover_seconds
        own = self.tables.host_seconds(self.moved) if source is None else 0.0
        return block.transfer + self.tables.handover_seconds + own

    # -- single PUs

    def _placed(self, first: int, last: int) -> Iterator[PlacedBlock]:
        for pu in self.pus:
            for found in (self._on(pu, first, last), self._in_int8(pu, first, last)):
                if found is not None and self._fits(found):
                    yield found

    def _in_int8(self, pu: str, first: int, last: int) -> PlacedBlock | None:
        """The quantised block, if it was measured and its error is allowed."""
        name = str(first) if first == last else f"{first}-{last}"
        if self.int8 is None or not (rows := self.int8.tables).has(pu, name):
            return None
        error, compute = rows.error(pu, name), rows.seconds(pu=pu, stage=name, **self.sizes)
        transfer = rows.transfer(pu=pu, stage=name, **self.moved)
        if isinstance(compute, No) or isinstance(transfer, No) or error > self.max_error:
            return None
        nbytes = rows.peak_nbytes(pu=pu, stage=name, **self.sizes)
        return PlacedBlock(
            first, last, (pu,), (1.0,), float(compute), float(transfer), compute.low + transfer,
            compute.high + transfer, nbytes, "block", variant="int8", error=error,
        )  # fmt: skip

    def _on(self, pu: str, first: int, last: int) -> PlacedBlock | None:
        name = str(first) if first == last else f"{first}-{last}"
        own = first < last and self.tables.has(pu, name)
        compute = self._block(pu, name) if own else self._sum(pu, first, last)
        transfer = self._transfer(pu, name if own else str(first))
        if compute is None or transfer is None:
            return None
        nbytes = self._peak(pu, name) if own else max(self._peak(pu, str(at)) for at in range(first, last + 1))
        return PlacedBlock(
            first, last, (pu,), (1.0,), float(compute), transfer, compute.low + transfer, compute.high + transfer,
            nbytes, "block" if own or first == last else "stages", precision=self.tables.precision(pu),
        )  # fmt: skip

    def _block(self, pu: str, name: str) -> Estimate | None:
        return self._told(pu, name, self.tables.seconds(pu=pu, stage=name, **self.sizes))

    def _sum(self, pu: str, first: int, last: int) -> Estimate | None:
        parts = [self.stage_seconds.get((pu, at)) for at in range(first, last + 1)]
        if any(part is None for part in parts):
            return None
        known = [part for part in parts if part is not None]
        low, high = sum(part.low for part in known), sum(part.high for part in known)
        return Estimate(sum(known), low, high, measured=all(part.measured for part in known))

    @cached_property
    def stage_seconds(self) -> Mapping[tuple[str, int], Estimate]:
        """The compute seconds of each stage alone, by PU and stage, where they are known."""
        told = {(pu, at): self._block(pu, str(at)) for pu in self.pus for at in range(1, self.count + 1)}
        return {key: seconds for key, seconds in told.items() if seconds is not None}

    @cached_property
    def _transfers(self) -> dict[tuple[str, str], float | None]:
        return {}

    def _transfer(self, pu: str, name: str) -> float | None:
        if (pu, name) not in self._transfers:
            told = self._told(pu, name, self.tables.transfer(pu=pu, stage=name, **self.moved))
            self._transfers[pu, name] = None if told is None else float(told)
        return self._transfers[pu, name]

    def _told(self, pu: str, name: str, answer: Estimate | No) -> Estimate | None:
        if isinstance(answer, No):
            self.refusals[pu, name] = answer.reason
            return None
        return answer

    # -- memory

    @cached_property
    def _peaks(self) -> dict[tuple[str, str], int]:
        return {}

    def _peak(self, pu: str, name: str) -> int:
        if (pu, name) not in self._peaks:
            self._peaks[pu, name] = self.tables.peak_nbytes(pu=pu, stage=name, **self.sizes)
        return self._peaks[pu, name]

    def _fits(self, block: PlacedBlock) -> bool:
        pu = self.machine.pu(block.pus[0]) if self.machine is not None else None
        if pu is None or block.nbytes <= pu.memory_nbytes:
            return True
        self.refusals[pu.name, block.name] = f"it needs {block.nbytes} bytes; {pu.name} has {pu.memory_nbytes}"
        return False

    # -- complaints

    def _need_every_stage(self) -> None:
        """Raises CannotPlan naming a stage that no PU can do, alone or in a block."""
        for stage in range(1, self.count + 1):
            if not any(placed for (a, b), placed in self.blocks.items() if a <= stage <= b):
                raise CannotPlan(
                    f"{self.tables.name_of(stage)}: no PU can do it at {size_text(self.sizes)}: {self._why(stage)}",
                    hint=HINT,
                )

    def _why(self, stage: int) -> str:
        told = [f"{pu}: {reason}" for (pu, name), reason in self.refusals.items() if name == str(stage)]
        return "; ".join(told) or "no table has a row for it"
