"""`codedag stages plan`: decide which PU runs which block of stages, from measured tables."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from codedag.cli.options import tell
from codedag.cli.stages.int8_options import int8_options, need_together

if TYPE_CHECKING:
    from codedag.ir import Machine
    from codedag.stages.planning.clusters import PartsPlan
    from codedag.stages.planning.peps import Goal, Pep, Plans
    from codedag.stages.planning.prices import Int8, PlacedBlock
    from codedag.stages.planning.tables import Tables

#: Up to so many measured sizes are listed when no size was asked for.
MOST_SIZES_LISTED = 20


@click.command("plan", short_help="Plan which PU runs which block of stages.")
@click.argument("directory", metavar="[DIR]", required=False)
@click.option("--size", metavar="nodes=N,edges=M", help="Plan for this size [the largest that was measured].")
@click.option("--graph", metavar="FILE.npz", help="Plan for the size of this graph, or of synthetic:flickr.")
@click.option("--pus", metavar="A,B", help="Use these PUs only.")
@click.option("--parts", type=click.IntRange(1), metavar="K", help="Cut the graph into K parts, and plan each.")
@click.option("--goal", type=click.Choice(["latency", "throughput"]), default="latency", show_default=True,
              help="The time of one item, or of many that follow each other.")  # fmt: skip
@click.option("--items", type=click.IntRange(1), default=64, show_default=True, help="Items, for throughput.")
@click.option("--queue", type=click.IntRange(1), default=2, show_default=True, help="Items that wait between blocks.")
@click.option("--deadline", type=click.FloatRange(0), metavar="MS",
              help="Exit with 1 unless an item takes at most so many ms.")  # fmt: skip
@click.option("--top", type=click.IntRange(1), default=1, metavar="N", help="List the N best plans.")
@click.option("--front", is_flag=True, help="List the plans that none beats in latency, throughput and memory.")
@click.option("--tables", metavar="T", help="Plan from these tables alone: a directory, or a lookup_table.json.")
@click.option("--machine", metavar="FILE", help="Plan for this machine, as `codedag devices -o` writes it.")
@click.option("--schedule", type=click.Choice(["gpipe", "1f1b"]), help="Simulate a training step over the pipeline.")
@click.option("--microbatches", type=click.IntRange(1), default=8, show_default=True, metavar="M",
              help="Micro-batches of a training step.")  # fmt: skip
@click.option("-o", "--output", metavar="OUT", help="Write plan.json and pep.json to this directory [DIR].")
@int8_options
@click.option("--json", "as_json", is_flag=True, help="Print pep.json.")
@click.pass_context
def command(
    ctx: click.Context, directory: str | None, size: str | None, graph: str | None, pus: str | None,
    parts: int | None, goal: str, items: int, queue: int, deadline: float | None, top: int, front: bool,
    tables: str | None, machine: str | None, schedule: str | None, microbatches: int, output: str | None,
    as_json: bool, allow: tuple[str, ...], max_error: float | None,
) -> None:  # fmt: skip
    """Plan which PU runs which block of stages, from what `codedag stages profile` measured in DIR.

    Every way to cut the stages into blocks is priced on every PU; "one best runtime, the whole model" is always a
    candidate and wins ties. Plans from --tables or for a --machine that is not here are labelled simulated.
    """
    from codedag.stages.planning.peps import Goal

    if (directory is None) == (tables is None):
        raise click.UsageError("Name the DIR of a profile, or --tables T.")
    if deadline is not None and not math.isfinite(deadline):
        raise click.UsageError(f"Invalid value for '--deadline': {deadline} is no number of ms.")
    if parts and not graph:
        raise click.UsageError("--parts needs --graph: parts are cut from a graph.")
    wanted = Goal("throughput" if schedule else goal, items, queue, None if deadline is None else deadline / 1e3)
    if need_together(allow, max_error=max_error) and (tables or parts):
        raise click.UsageError(f"--allow int8 does not go with {'--tables' if tables else '--parts'}.")
    inputs = _Inputs.of(directory, tables, machine, pus, allow, max_error)
    request = _Request(inputs, wanted, size, graph, top, front, output, as_json, parts)
    if parts:
        request.plan_parts(parts)
    else:
        request.plan(schedule, microbatches)


@dataclass(frozen=True)
class _Inputs:
    """The tables, the machine they are planned for, and the PUs that may be used."""

    tables: Tables
    machine: Machine
    pus: tuple[str, ...]
    simulated: tuple[str, ...]
    directory: Path | None
    int8: Int8 | None = None

    @staticmethod
    def of(
        directory: str | None, tables: str | None, machine: str | None, pus: str | None, allow: Sequence[str],
        max_error: float | None = None,
    ) -> _Inputs:  # fmt: skip
        from codedag.devices.inventory import from_elsewhere
        from codedag.stages.planning.prices import Int8
        from codedag.stages.planning.simulate import machine_for, named_as
        from codedag.stages.planning.tables import Tables

        found = Tables.load(tables or directory or "").within(allow)
        is_simulated = tables is not None or machine is not None
        known = named_as(from_elsewhere(machine), found.pus) if machine else found.machine
        chosen = _chosen(found, pus, known if machine else None, machine)
        made = machine_for(chosen, known, simulated=is_simulated)
        simulated = tuple(pu for pu in chosen if (one := made.pu(pu)) is not None and one.simulated)
        own = Path(directory) if directory is not None and not is_simulated else None
        int8 = Int8(Tables.load_int8(directory or ""), max_error) if max_error is not None else None
        return _Inputs(found, made, chosen, simulated, own, int8)


def _chosen(tables: Tables, pus: str | None, machine: Machine | None, file: str | None) -> tuple[str, ...]:
    """The PUs that have rows, were asked for and are of the machine; raises CannotPlan naming one that is not."""
    from codedag.ir import CannotPlan

    names = [name.strip() for name in pus.split(",") if name.strip()] if pus else list(tables.pus)
    for name in names:
        if tables.pu(name) is None:
            raise _no_row(tables, name)
    found = dict.fromkeys(one for name in names if (one := tables.pu(name)) is not None)
    able = tuple(name for name in found if machine is None or machine.pu(name) is not None)
    if not able:
        raise CannotPlan(f"{file}: it has none of the PUs {', '.join(found)}", hint="Name a machine with one of them.")
    return able


def _no_row(tables: Tables, name: str) -> Exception:
    from codedag.ir import CannotPlan
    from codedag.stages.measuring.pus import our_name

    short = next((told for pu, told in tables.left_out.items() if our_name(pu) == our_name(name)), "")
    if short:
        return CannotPlan(
            f"{tables.place}: `{name}` computes in {short}, not in float32", hint="Allow it: --allow f16."
        )
    return CannotPlan(f"{tables.place}: there is no row of `{name}`", hint=f"PUs with rows: {', '.join(tables.pus)}.")


@dataclass(frozen=True)
class _Request:
    """What was asked for, and where the answer goes."""

    inputs: _Inputs
    goal: Goal
    size: str | None
    graph: str | None
    top: int
    front: bool
    output: str | None
    as_json: bool
    parts: int | None = None

    def plan(self, schedule: str | None, microbatches: int) -> None:
        """Plans for one size, writes and tells it."""
        from codedag.stages.planning import pep_file
        from codedag.stages.planning.peps import plans

        sizes = self._sizes()
        found = plans(
            self.inputs.tables, sizes, self.goal, pus=self.inputs.pus, machine=self.inputs.machine,
            top=max(self.top, 2), front=self.front, int8=self.inputs.int8,
        )  # fmt: skip
        facts = pep_file.pep_facts(found, simulated=self.inputs.simulated)
        facts |= pep_file.more_facts(found, self.top, self.front)
        lines = _Lines(self.inputs, found).all(self.top)
        if schedule:
            facts["training"], more = _training(found, schedule, microbatches)
            lines += more
        if self._lists_sizes:
            lines += _size_lines(self.inputs, self.goal)
        place = self._write(facts, pep_file.simulation_of(found, self.inputs.machine))
        self._tell(facts, lines, place)
        if not found.meets_deadline:
            raise SystemExit(1)

    def plan_parts(self, count: int) -> None:
        """Plans every part of a graph, writes and tells it."""
        from codedag.stages.planning import pep_file
        from codedag.stages.planning.clusters import plan_parts

        graph, parts = _parts(self.graph or "", count)
        found = plan_parts(self.inputs.tables, parts, self.inputs.machine, self.inputs.pus)
        facts = pep_file.parts_facts(found, graph, simulated=self.inputs.simulated)
        place = self._write(facts, found.simulation)
        self._tell(facts, _part_lines(self.inputs, found, graph), place)

    @property
    def _lists_sizes(self) -> bool:
        few = 1 < len(self.inputs.tables.sizes) <= MOST_SIZES_LISTED
        return few and not (self.size or self.graph or self.as_json)

    def _sizes(self) -> dict[str, int]:
        from codedag.ir import No
        from codedag.stages.planning.tables import parsed_size

        tables = self.inputs.tables
        if self.size is not None:
            found = parsed_size(self.size, tables.size_names)
            if isinstance(found, No):
                raise click.UsageError(f"Invalid value for '--size': {found.reason}.")
            return found
        return _graph_sizes(self.graph, tables) if self.graph else tables.largest

    def _write(self, facts: dict[str, Any], simulation: Any) -> Path | None:
        """Writes the files; a plan for another machine stays out of the profile's directory unless told to."""
        from codedag.stages.planning import pep_file

        place = Path(self.output) if self.output else self.inputs.directory
        if place is not None:
            own = self.inputs.directory is not None and place.resolve() == self.inputs.directory.resolve()
            if not own and (place / "profile.json").exists():
                raise click.UsageError(f"{place} is the directory of a profile: name another one with -o.")
            pep_file.write(place, facts, simulation, sys.argv[1:], own=own)
        return place

    def _tell(self, facts: dict[str, Any], lines: Sequence[str], place: Path | None) -> None:
        from codedag.stages.planning import pep_file

        if self.as_json:
            tell(*pep_file.text(facts).splitlines())
        else:
            tell(*lines, *_place_lines(place, self.inputs, self._given_input()))

    def _given_input(self) -> str:
        """The options by which a run takes what was planned for."""
        parts = f" --parts {self.parts}" if self.parts else ""
        return f"--graph {quote(self.graph)}{parts}" if self.graph else "--input FILE.npz"


def _graph_sizes(graph: str, tables: Tables) -> dict[str, int]:
    from codedag.stages.graph.graphs import read_graph
    from codedag.stages.sizes import GRAPH

    if tables.size_names != GRAPH:
        raise click.UsageError(f"--graph: the sizes of {tables.place} are {', '.join(tables.size_names) or 'fixed'}.")
    return dict(read_graph(graph).sizes)


def _parts(graph: str, count: int) -> tuple[dict[str, int], list[Any]]:
    from codedag.stages.graph.graphs import read_graph
    from codedag.stages.graph.parts import parts_of
    from codedag.stages.planning.clusters import Part

    loaded = read_graph(graph)
    found = parts_of(loaded.edge_index, loaded.sizes["nodes"], count)
    return dict(loaded.sizes), [Part(one.nodes, one.edges, one.halo) for one in found.sizes]


# -- words


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.4g} ms"


def _on(pus: Sequence[str], ratios: Sequence[float]) -> str:
    return pus[0] if len(pus) == 1 else " + ".join(f"{pu} {ratio:.0%}" for pu, ratio in zip(pus, ratios, strict=True))


def _shown(pep: Pep) -> str:
    return ", ".join(f"{block.name} on {_where(block)}" for block in pep.blocks)


def _where(block: PlacedBlock) -> str:
    short = block.precision if block.precision != "f32" else ""
    return " ".join(filter(None, (_on(block.pus, block.ratios), block.variant, short)))


@dataclass(frozen=True)
class _Lines:
    """A plan in a few lines: what runs where, against one best runtime, and why."""

    inputs: _Inputs
    found: Plans

    def all(self, top: int) -> list[str]:
        """Every line but where it was written."""
        lines = [self._headline(), *self._blocks(), *self._why(), *self._deadline()]
        if top > 1:
            pairs = zip(self.found.best[:top], self.found.seconds[:top], strict=True)
            lines += [f"top {at}: {_ms(seconds)}  {_shown(pep)}" for at, (pep, seconds) in enumerate(pairs, 1)]
        return [*lines, *self._front(), *_simulated(self.inputs)]

    def _headline(self) -> str:
        from codedag.stages.planning.tables import size_text

        goal, seconds = self.found.goal, self.found.seconds[0]
        each = f" for {goal.items} items ({_ms(seconds / goal.items)} an item)" if goal.name == "throughput" else ""
        return f"{size_text(self.found.prices.sizes)}: {_ms(seconds)}{each}, {self._against()}"

    def _against(self) -> str:
        found = self.found
        if found.baseline is None or found.baseline_seconds is None:
            return "where no single runtime can do the whole model"
        name = found.baseline.pus[0]
        if found.is_within_noise:
            return f"the whole model on {name}: nothing is faster than one runtime beyond the noise of the measurement"
        if found.chosen.is_whole and found.chosen.pus[0] == name:
            return f"the whole model on {name}: nothing is faster than one runtime"
        gain = found.baseline_seconds / found.seconds[0] if found.seconds[0] else math.inf
        return f"{gain:.2f} times as fast as the best single runtime ({name}, {_ms(found.baseline_seconds)})"

    def _blocks(self) -> list[str]:
        from codedag.stages.planning.pep_file import stages_text

        names, pep = self.found.prices.tables.stage_names, self.found.chosen
        places = [_where(block) for block in pep.blocks]
        wide = max(map(len, places))
        return [
            f"  {place:<{wide}}  {_ms(seconds):>10}  {stages_text(block, names)}{_bringing(entry)}"
            for place, block, entry, seconds in zip(places, pep.blocks, pep.entries, pep.times, strict=True)
        ]

    def _why(self) -> list[str]:
        found = self.found
        low, high = found.chosen.interval
        told = "simulated, from the tables" if self.inputs.simulated else "measured"
        known = told if found.prices.sizes in found.prices.tables.sizes else "predicted, this size has no row"
        best = "the best of" if found.exact else "the best found among"
        lines = [f"why: {best} {found.candidates:,} plans; {known}: one item {_ms(low)} to {_ms(high)}"]
        if found.runner_up is not None:
            lines.append(f"runner-up: {_ms(found.runner_up[1])}  {_shown(found.runner_up[0])}")
        if found.prices.int8 is not None:
            error, most = found.chosen.error, found.prices.max_error
            lines.append(f"int8: the errors of its blocks add up to {error:.2g}; {most:g} is allowed")
        left_out = found.prices.tables.left_out.items()
        lines += [f"left out: {pu} computes in {short}, not in float32 (--allow f16 uses it)" for pu, short in left_out]
        refused = [f"{pu} {name}: {reason}" for (pu, name), reason in found.prices.refusals.items() if "-" not in name]
        return lines + [f"not possible: {one}" for one in refused[:5]]

    def _deadline(self) -> list[str]:
        limit = self.found.goal.deadline_seconds
        if limit is None:
            return []
        return [f"deadline {_ms(limit)}: {'met' if self.found.meets_deadline else 'NO plan meets it'}"]

    def _front(self) -> list[str]:
        return [
            f"front: {_ms(pep.seconds)}, memory {pep.nbytes / 1e6:.1f} MB  {_shown(pep)}" for pep in self.found.front
        ]


def _bringing(entry: float) -> str:
    return f"  ({_ms(entry)} of it to bring the inputs)" if entry else ""


def _simulated(inputs: _Inputs) -> list[str]:
    return [f"simulated, not measured here: {', '.join(inputs.simulated)}"] if inputs.simulated else []


def _size_lines(inputs: _Inputs, goal: Goal) -> list[str]:
    """A line for each measured size: its plan against one best runtime."""
    from codedag.ir import CannotPlan
    from codedag.stages.planning.peps import plans
    from codedag.stages.planning.tables import size_text

    lines = ["all measured sizes:"]
    for sizes in inputs.tables.sizes:
        try:
            found = plans(inputs.tables, sizes, goal, pus=inputs.pus, machine=inputs.machine, int8=inputs.int8)
        except CannotPlan as error:
            lines.append(f"  {size_text(sizes):<28} no plan: {error.message}")
            continue
        before = (
            f"{found.baseline_seconds / found.seconds[0]:.2f}x" if found.baseline_seconds and found.seconds[0] else "-"
        )
        lines.append(f"  {size_text(sizes):<28} {_ms(found.seconds[0]):>10}  {before:>6}  {_shown(found.chosen)}")
    return lines


def _training(found: Plans, schedule: str, microbatches: int) -> tuple[dict[str, Any], list[str]]:
    from codedag.stages.planning.pep_file import training_facts
    from codedag.stages.planning.training import training_step

    turns = [frozenset(found.prices.turn_of(pu) for pu in block.pus) for block in found.chosen.blocks]
    step = training_step(schedule, found.chosen.times, microbatches, turns)
    kept = ", ".join(map(str, step.kept))
    return training_facts(step), [
        f"simulated training step ({schedule}, {microbatches} micro-batches): {_ms(step.seconds)}, "
        f"{step.bubble:.0%} bubble; backward is assumed to take twice the forward time",
        f"  activations kept at once, by block: {kept} micro-batches",
    ]


def _part_lines(inputs: _Inputs, found: PartsPlan, graph: dict[str, int]) -> list[str]:
    from codedag.stages.planning.tables import size_text

    halo = sum(part.halo for part in found.parts)
    lines = [
        f"{size_text(graph)} in {len(found.parts)} parts (halo {halo} nodes): {_ms(found.seconds)}, "
        + (f"all parts on {found.baseline}: {_ms(found.baseline_seconds)}" if found.baseline else "no single runtime")
    ]
    for pep, numbers in found.clusters:
        lines.append(f"  {len(numbers)} parts ({', '.join(map(str, numbers))}): {_shown(pep)}")
    return [*lines, f"why: the best of {found.candidates} plans of all parts, by the simulator", *_simulated(inputs)]


def _place_lines(place: Path | None, inputs: _Inputs, given: str) -> list[str]:
    """Where the plan is, and the next command."""
    if place is None:
        return ["next: the same with -o OUT writes plan.json and pep.json"]
    shown = quote(str(place))
    told = f"plan: {place / 'pep.json'} (Gantt: codedag view {shown} --html FILE)"
    if inputs.directory is None:
        return [told, f"next: codedag view {shown}"]
    own = place.resolve() == inputs.directory.resolve()
    pep = "" if own else f" --pep {quote(str(place / 'pep.json'))}"
    return [told, f"next: codedag stages run {quote(str(inputs.directory))}{pep} {given} -o OUT.npz"]
