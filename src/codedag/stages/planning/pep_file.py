"""pep.json and the run directory of a plan: the chosen PEP with what it was compared with, and its Gantt chart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from codedag._version import __version__
from codedag.ir import CannotPlan, Machine, RunDirectory, RunInfo, save, write_atomically
from codedag.stages.execution.verify import F32
from codedag.stages.planning.clusters import PartsPlan
from codedag.stages.planning.peps import THROUGHPUT, Pep, Plans, Search, plans
from codedag.stages.planning.prices import PlacedBlock
from codedag.stages.planning.simulate import Item, Simulation, machine_for
from codedag.stages.planning.tables import Tables
from codedag.stages.planning.training import TrainingStep
from codedag.stages.sizes import Sizes

FORMAT, VERSION, FILE = "codedag/pep", 1, "pep.json"
#: The Gantt chart shows so many items at most.
MOST_ITEMS_SHOWN = 64


def block_facts(pep: Pep) -> list[dict[str, Any]]:
    """The blocks of a plan: where each runs, and its seconds with the transfer that it pays."""
    return [
        {
            "pus": list(block.pus), "stages": list(block.stages), "ratios": list(block.ratios),
            "seconds": seconds, "compute_seconds": block.compute, "transfer_seconds": entry, "priced_by": block.source,
            **({"variant": block.variant, "error": block.error} if block.variant else {}),
            **({"precision": block.precision} if block.precision != F32 else {}),
        }
        for block, entry, seconds in zip(pep.blocks, pep.entries, pep.times, strict=True)
    ]  # fmt: skip


def pep_facts(found: Plans, *, simulated: Sequence[str] = ()) -> dict[str, Any]:
    """pep.json of a plan for one size; PUs in `simulated` are not of this machine."""
    goal, chosen, seconds = found.goal, found.chosen, found.seconds[0]
    flow = goal.name == THROUGHPUT
    each = seconds / goal.items if flow else seconds
    low, high = chosen.interval
    facts: dict[str, Any] = {
        "format": FORMAT, "version": VERSION, "goal": goal.name, "sizes": found.prices.sizes,
        "blocks": block_facts(chosen), "seconds": seconds, "seconds_per_item": each,
        "item_seconds": chosen.seconds, "item_low_seconds": low, "item_high_seconds": high,
        "exact": found.exact, "candidates": found.candidates, "runner_up": _other(found.runner_up),
        "baseline": _baseline(found), "memory_nbytes": chosen.nbytes, "measured_size": _is_measured(found),
        "within_noise": found.is_within_noise,
        "simulated": bool(simulated), "simulated_pus": list(simulated),
    }  # fmt: skip
    if found.prices.int8 is not None:
        facts |= {"max_error": found.prices.max_error, "error": chosen.error}
    if flow:
        facts |= {"items": goal.items, "queue": goal.queue}
    if goal.deadline_seconds is not None:
        facts |= {"deadline_seconds": goal.deadline_seconds, "meets_deadline": found.meets_deadline}
    return facts


def more_facts(found: Plans, top: int, front: bool) -> dict[str, Any]:
    """The best plans and the front, where they were asked for."""
    facts: dict[str, Any] = {}
    if top > 1:
        facts["top"] = [_other(one) for one in zip(found.best[:top], found.seconds[:top], strict=True)]
    if front:
        search = Search(found.prices, found.goal, with_splits=False)
        facts["front"] = [
            {"blocks": block_facts(pep), "seconds": pep.seconds, "memory_nbytes": pep.nbytes,
             "seconds_per_item": search.passage(pep).seconds / found.goal.items}
            for pep in found.front
        ]  # fmt: skip
    return facts


def _other(one: tuple[Pep, float] | None) -> dict[str, Any] | None:
    return None if one is None else {"blocks": block_facts(one[0]), "seconds": one[1]}


def _baseline(found: Plans) -> dict[str, Any] | None:
    if found.baseline is None:
        return None
    return {"pu": found.baseline.pus[0], "seconds": found.baseline_seconds, "blocks": block_facts(found.baseline)}


def _is_measured(found: Plans) -> bool:
    return found.prices.sizes in found.prices.tables.sizes


def training_facts(step: TrainingStep) -> dict[str, Any]:
    """A simulated training step."""
    return {
        "schedule": step.schedule, "microbatches": step.microbatches, "seconds": step.seconds, "bubble": step.bubble,
        "kept_microbatches": list(step.kept), "simulated": True, "assumes": "backward takes twice the forward seconds",
    }  # fmt: skip


def parts_facts(found: PartsPlan, sizes: Sizes, *, simulated: Sequence[str] = ()) -> dict[str, Any]:
    """pep.json of a partitioned graph: `blocks` are those of the largest cluster."""
    clusters = found.clusters
    return {
        "format": FORMAT, "version": VERSION, "goal": "latency", "sizes": dict(sizes),
        "blocks": block_facts(clusters[0][0]), "seconds": found.seconds,
        "seconds_per_item": found.seconds, "exact": False, "candidates": found.candidates, "runner_up": None,
        "baseline": {"pu": found.baseline, "seconds": found.baseline_seconds} if found.baseline else None,
        "parts": [{"nodes": part.nodes, "edges": part.edges, "halo": part.halo} for part in found.parts],
        "clusters": [{"parts": numbers, "blocks": block_facts(pep)} for pep, numbers in clusters],
        "simulated": bool(simulated), "simulated_pus": list(simulated),
    }  # fmt: skip


def simulation_of(found: Plans, machine: Machine) -> Simulation:
    """The Gantt chart of a plan: one item for latency, all items (up to 64) for throughput."""
    flow = found.goal.name == THROUGHPUT
    count = min(found.goal.items, MOST_ITEMS_SHOWN) if flow else 1
    items = [Item(f"item {at}" if flow else "", found.prices, found.chosen) for at in range(count)]
    baseline = f"one best runtime: {found.baseline.pus[0]}" if found.baseline else "the plan itself"
    each = found.baseline.seconds * count if found.baseline else 0.0
    sizes, tables = found.prices.sizes, found.prices.tables
    return Simulation(
        items, machine, lambda stage: tables.made_nbytes(stage, sizes), each, baseline, f"pep {found.goal.name}"
    )  # fmt: skip


def write(
    place: Path, facts: dict[str, Any], simulation: Simulation, argv: Sequence[str] = (), *, own: bool = False
) -> None:
    """Writes graph, costs and plan of the chart and, last, pep.json.

    The place becomes a run directory; the profile's `own` keeps its machine.
    """
    plan = simulation.plan()
    if not own:
        save(simulation.machine, place / "machine.json")
    if not own or not RunDirectory(place).has("run"):
        info = RunInfo(command="stages plan", argv=list(argv), cwd=".", versions={"codedag": __version__}, status="ok")
        save(info, place / "run.json")
    save(simulation.graph, place / "graph.json")
    save(simulation.costs, place / "costs.json")
    save(plan, place / "plan.json")
    write_atomically(place / FILE, text(facts).encode())


def write_costs(place: Path, tables: Tables) -> None:
    """Writes graph and costs of the largest measured size, so that `codedag plan` takes a profile without a plan."""
    try:
        machine = machine_for(tables.pus, tables.machine, simulated=False)
        simulation = simulation_of(plans(tables, tables.largest, machine=machine), machine)
    except CannotPlan:  # a stage that no PU can do: `codedag stages plan` says which
        return
    save(simulation.graph, place / "graph.json")
    save(simulation.costs, place / "costs.json")


def text(facts: dict[str, Any]) -> str:
    """pep.json as it is written."""
    return json.dumps(facts, indent=1) + "\n"


def stages_text(block: PlacedBlock, names: Sequence[str]) -> str:
    """The stages of a block as people read them."""
    return ", ".join(names[stage - 1] for stage in block.stages) if names else f"stages {block.name}"
