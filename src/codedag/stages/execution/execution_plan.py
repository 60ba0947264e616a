"""Execution plans: blocks of a staged model with their PUs and ratios, from pep.json or from the planner."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isclose, isfinite, log
from pathlib import Path
from typing import Any

from codedag.ir.errors import BadFile, CannotPlan
from codedag.stages.execution.verify import F32, PRECISION_ERRORS
from codedag.stages.measuring.pus import our_name
from codedag.stages.model import Block, StagedModel
from codedag.stages.planning.clusters import Part, plan_parts
from codedag.stages.planning.peps import LATENCY, QUEUE, THROUGHPUT, Goal, Pep, Plans, plans
from codedag.stages.planning.prices import Int8
from codedag.stages.planning.simulate import machine_for
from codedag.stages.planning.tables import Tables
from codedag.stages.sizes import Sizes

FORMAT, VERSION = "codedag/pep", 1
HINT = "`codedag stages plan DIR` writes it."


@dataclass(frozen=True, slots=True)
class PlannedBlock:
    """One block, the PUs that share it by ratios, and the seconds that it should take; 0 if nobody knows."""

    block: Block
    pus: tuple[str, ...]
    ratios: tuple[float, ...] = (1.0,)
    seconds: float = 0.0
    variant: str = ""  # "int8" if its file is the quantised one
    precision: str = F32  # the shortest type that one of its PUs computes in


@dataclass(frozen=True)
class ExecutionPlan:
    """Blocks in their order; `cores` are those that a PU's process is bound to, where the plan says so."""

    blocks: tuple[PlannedBlock, ...]
    seconds: float = 0.0
    goal: str = LATENCY
    items: int = 1
    queue: int = QUEUE
    sizes: Mapping[str, int] = field(default_factory=dict)
    cores: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    runner_up: ExecutionPlan | None = None
    parts: int = 1  # of a graph
    part_ratios: tuple[float, ...] = ()  # of their nodes, in the order of the parts; empty: equal
    clusters: Mapping[int, tuple[PlannedBlock, ...]] = field(
        default_factory=dict
    )  # by part: what differs from `blocks`
    max_error: float | None = None  # of results, where blocks are quantised; None: rounding only
    simulated: bool = False  # its seconds are of tables or a machine that were not measured here

    @property
    def pus(self) -> tuple[str, ...]:
        """The PUs that it uses, in the order of their first use."""
        blocks = (*self.blocks, *(block for each in self.clusters.values() for block in each))
        return tuple(dict.fromkeys(pu for block in blocks for pu in block.pus))

    @property
    def tolerance(self) -> float | None:
        """How far results may be off, by int8 blocks or PUs that compute in f16; None for rounding only."""
        blocks = (*self.blocks, *(block for each in self.clusters.values() for block in each))
        int8 = [self.max_error for each in blocks if each.variant and self.max_error is not None]
        return max(
            [*int8, *(PRECISION_ERRORS[each.precision] for each in blocks if each.precision != F32)], default=None
        )

    @property
    def precisions(self) -> dict[str, str]:
        """The PUs whose blocks are not computed in float32, with what they are computed in."""
        return {pu: each.precision for each in self.blocks for pu in each.pus if each.precision != F32}

    @property
    def is_pipeline(self) -> bool:
        """Whether every PU has one block only, so that items can follow each other."""
        return len(self.pus) == sum(len(block.pus) for block in self.blocks)

    @property
    def assignment(self) -> tuple[tuple[str, str], ...]:
        """What runs where, to compare plans with each other."""
        return tuple((each.block.name, f"{'+'.join(each.pus)} {each.variant}".rstrip()) for each in self.blocks)

    def __str__(self) -> str:
        text = ", ".join(f"{name} on {pus}" for name, pus in self.assignment)
        return text if self.parts == 1 else f"{text} in {self.parts} parts"

    def facts(self) -> list[dict[str, Any]]:
        """Its blocks as pep.json has them."""
        return [
            {
                "pus": list(each.pus), "stages": list(each.block.stages), "ratios": list(each.ratios),
                "seconds": each.seconds, **({"variant": each.variant} if each.variant else {}),
                **({"precision": each.precision} if each.precision != F32 else {}),
            }
            for each in self.blocks
        ]  # fmt: skip


def whole(model: StagedModel, pu: str, seconds: float = 0.0) -> ExecutionPlan:
    """The plan that runs the whole model as one block on one PU."""
    block = model.block(1, len(model.stages))
    return ExecutionPlan((PlannedBlock(block, (pu,), (1.0,), seconds),), seconds)


# -- from the planner


def planned(
    model: StagedModel, tables: Tables, sizes: Sizes, goal: Goal | None = None, pus: Sequence[str] = (),
    int8: Int8 | None = None,
) -> ExecutionPlan:  # fmt: skip
    """The best plan for these sizes by the tables, on these PUs; raises CannotPlan naming a stage without one."""
    names = [_row_name(tables, pu) for pu in pus]
    return of_plans(model, plans(tables, sizes, goal or Goal(), pus=names, int8=int8), sizes)


def _row_name(tables: Tables, pu: str) -> str:
    """A PU as the tables name it; raises CannotPlan if it has no row."""
    found = tables.pu(pu)
    if found is None:
        raise CannotPlan(f"{tables.place}: there is no row of `{pu}`", hint=f"PUs with rows: {', '.join(tables.pus)}.")
    return found


def planned_near(
    model: StagedModel, tables: Tables, sizes: Sizes, goal: Goal | None = None, pus: Sequence[str] = (),
    int8: Int8 | None = None,
) -> ExecutionPlan:  # fmt: skip
    """The best plan for these sizes; where they are too far from what was measured, that of the nearest measured size.

    Its `sizes` say which; raises CannotPlan naming a stage that no PU can do.
    """
    try:
        return planned(model, tables, sizes, goal, pus, int8)
    except CannotPlan:
        return planned(model, tables, nearest(tables.sizes, sizes), goal, pus, int8)


def nearest(measured: Sequence[Sizes], sizes: Sizes) -> dict[str, int]:
    """The measured size that is nearest by ratio."""
    return dict(min(measured, key=lambda one: sum(abs(log((one[n] + 1) / (sizes[n] + 1))) for n in sizes)))


def planned_parts(model: StagedModel, tables: Tables, parts: Sequence[Part], pus: Sequence[str] = ()) -> ExecutionPlan:
    """The plans of the parts of a graph, judged as a whole; that of the nearest measured size where they are too far.

    `blocks` are those of the largest cluster.
    """
    names = [_row_name(tables, pu) for pu in pus]
    try:
        found = plan_parts(tables, parts, machine_for(names or tables.pus, tables.machine, simulated=False), names)
    except CannotPlan:
        largest = max(parts, key=lambda part: part.edges)
        near = planned_near(model, tables, {"nodes": largest.nodes, "edges": largest.edges}, None, pus)
        return ExecutionPlan(near.blocks, parts=len(parts))
    clusters = [(_blocks(model, pep), numbers) for pep, numbers in found.clusters]
    made = {number: blocks for blocks, numbers in clusters for number in numbers}
    return ExecutionPlan(clusters[0][0], found.seconds, parts=len(parts), clusters=made)


def of_plans(model: StagedModel, found: Plans, sizes: Sizes) -> ExecutionPlan:
    """The chosen plan of a search, with its runner-up."""
    made = of_pep(model, found.chosen, found.seconds[0], found.goal, sizes)
    if found.prices.int8 is not None:
        made = replace(made, max_error=found.prices.max_error)
    second = found.runner_up
    if second is None:
        return made
    return replace(made, runner_up=of_pep(model, second[0], second[1], found.goal, sizes))


def of_pep(model: StagedModel, pep: Pep, seconds: float, goal: Goal, sizes: Sizes) -> ExecutionPlan:
    """A plan of the planner's as one that can be executed."""
    items = goal.items if goal.name == THROUGHPUT else 1
    return ExecutionPlan(_blocks(model, pep), seconds, goal.name, items, goal.queue, dict(sizes))


def _blocks(model: StagedModel, pep: Pep) -> tuple[PlannedBlock, ...]:
    return tuple(
        PlannedBlock(
            model.block(each.first, each.last), tuple(map(our_name, each.pus)), each.ratios, spent, each.variant,
            each.precision,
        )
        for each, spent in zip(pep.blocks, pep.times, strict=True)
    )  # fmt: skip


# -- from a file


def read_pep(path: Path, model: StagedModel) -> ExecutionPlan:
    """The plan that a pep.json holds; raises BadFile naming the file and the field."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise BadFile(f"there is no {path}", hint=HINT) from None
    except (OSError, ValueError) as error:
        raise BadFile(f"{path} cannot be read as JSON: {error}", hint=HINT) from None
    return _Reader(path, model).plan(found)


class _Reader:
    """Checks the fields of one pep.json against a model."""

    def __init__(self, path: Path, model: StagedModel) -> None:
        self.path, self.model = path, model

    def wrong(self, field_name: str, what: str) -> BadFile:
        """The error for a field."""
        return BadFile(f"{self.path}: {field_name}: {what}", hint=HINT)

    def plan(self, found: Any) -> ExecutionPlan:
        """The plan, with its runner-up where there is one."""
        if not isinstance(found, dict) or found.get("format", FORMAT) != FORMAT:
            raise self.wrong("format", f"it is no {FORMAT} file")
        if found.get("version", VERSION) != VERSION:
            raise self.wrong("version", f"it is {found['version']}; this program reads {VERSION}")
        second = found.get("runner_up")
        other = self._plan(second, "runner_up.") if isinstance(second, dict) and second.get("blocks") else None
        return self._plan(found, "", other)

    def _plan(self, found: dict[str, Any], where: str, runner_up: ExecutionPlan | None = None) -> ExecutionPlan:
        blocks = found.get("blocks")
        if not isinstance(blocks, list) or not blocks:
            raise self.wrong(f"{where}blocks", "there is no list of blocks")
        made = tuple(self._block(each, f"{where}blocks[{at}]") for at, each in enumerate(blocks))
        numbers = [number for each in made for number in each.block.stages]
        if numbers != [stage.number for stage in self.model.stages]:
            raise self.wrong(
                f"{where}blocks", f"they hold stages {numbers}; `{self.model.name}` has 1 to {len(self.model.stages)}"
            )
        return ExecutionPlan(
            made, self._number(found.get("seconds", 0.0), f"{where}seconds"), str(found.get("goal", LATENCY)),
            int(self._number(found.get("items", 1), f"{where}items")),
            int(self._number(found.get("queue", QUEUE), f"{where}queue")),
            dict(found.get("sizes") or {}), self._cores(found.get("cores") or {}, where), runner_up,
            max(1, len(found.get("parts") or ())), (), self._clusters(found.get("clusters") or [], where),
            self._max_error(found, made, where), self._simulated(found.get("simulated", False), where),
        )  # fmt: skip

    def _simulated(self, value: Any, where: str) -> bool:
        if not isinstance(value, bool):
            raise self.wrong(f"{where}simulated", f"{value!r} is not true or false")
        return value

    def _max_error(self, found: dict[str, Any], blocks: Sequence[PlannedBlock], where: str) -> float | None:
        """The largest error of results, which a plan with int8 blocks says."""
        value = found.get("max_error")
        if value is None:
            if any(each.variant for each in blocks) and not where:
                raise self.wrong("max_error", "it is missing, and a block is int8")
            return None
        if not 0 < self._number(value, f"{where}max_error") < 1:
            raise self.wrong(f"{where}max_error", f"{value!r} is not between 0 and 1")
        return float(value)

    def _clusters(self, found: Any, where: str) -> dict[int, tuple[PlannedBlock, ...]]:
        """The blocks of each part that a plan for parts names."""
        made: dict[int, tuple[PlannedBlock, ...]] = {}
        for at, each in enumerate(found if isinstance(found, list) else []):
            field_name = f"{where}clusters[{at}]"
            if not isinstance(each, dict) or not isinstance(each.get("parts"), list):
                raise self.wrong(field_name, "it is no object with `parts` and `blocks`")
            blocks = self._plan({"blocks": each.get("blocks")}, f"{field_name}.").blocks
            made |= {int(part): blocks for part in each["parts"]}
        return made

    def _block(self, found: Any, where: str) -> PlannedBlock:
        if not isinstance(found, dict):
            raise self.wrong(where, "it is no object with `pus` and `stages`")
        stages, pus = found.get("stages"), found.get("pus")
        if not isinstance(pus, list) or not pus or not all(isinstance(pu, str) for pu in pus):
            raise self.wrong(f"{where}.pus", "it is no list of PUs")
        known = range(1, len(self.model.stages) + 1)
        if not isinstance(stages, list) or not stages or not all(at in known for at in stages):
            raise self.wrong(f"{where}.stages", f"it is no list of stages from 1 to {known[-1]}")
        if stages != list(range(stages[0], stages[-1] + 1)):
            raise self.wrong(f"{where}.stages", f"{stages} are no neighbouring stages in their order")
        ratios = tuple(self._number(each, f"{where}.ratios") for each in found.get("ratios", [1.0] * (len(pus) == 1)))
        if len(ratios) != len(pus) or not isclose(sum(ratios), 1.0, abs_tol=1e-6):
            raise self.wrong(f"{where}.ratios", "there is not one for each PU, or they do not add up to 1")
        seconds = self._number(found.get("seconds", 0.0), f"{where}.seconds")
        variant = found.get("variant", "")
        if variant not in ("", "int8"):
            raise self.wrong(f"{where}.variant", f"{variant!r} is not `int8`")
        precision = found.get("precision", F32)
        if precision not in (F32, *PRECISION_ERRORS):
            raise self.wrong(f"{where}.precision", f"{precision!r} is none of {', '.join((F32, *PRECISION_ERRORS))}")
        block = self.model.block(stages[0], stages[-1])
        return PlannedBlock(block, tuple(map(our_name, pus)), ratios, seconds, variant, precision)

    def _number(self, value: Any, where: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
            raise self.wrong(where, f"{value!r} is no number of at least 0")
        return float(value)

    def _cores(self, found: Any, where: str) -> dict[str, tuple[int, ...]]:
        if not isinstance(found, dict):
            raise self.wrong(f"{where}cores", "it is no object of cores by PU")
        for pu, cores in found.items():
            if not isinstance(cores, list) or not all(isinstance(core, int) and core >= 0 for core in cores):
                raise self.wrong(f"{where}cores.{pu}", f"{cores!r} is no list of cores")
        return {our_name(pu): tuple(cores) for pu, cores in found.items()}
