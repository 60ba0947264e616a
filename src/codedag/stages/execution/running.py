"""Runs of a profiled model: inputs and plan of a command line, execution, and the files that `codedag view` shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codedag.ir import RunDirectory, save
from codedag.ir.events import Event, Events, Lane
from codedag.ir.report import Change, Declined, Proof, Report
from codedag.stages.execution.execute import Execution, Executor
from codedag.stages.execution.execution_plan import ExecutionPlan, planned_near, planned_parts, read_pep
from codedag.stages.execution.pu_pool import SETUP_SECONDS
from codedag.stages.graph.graphs import checked_edges, read_graph
from codedag.stages.graph.layers import layers_of
from codedag.stages.graph.parts import parts_of
from codedag.stages.measuring.pus import chosen
from codedag.stages.model import Arrays, BadInput, StagedModel
from codedag.stages.npz import read_npz
from codedag.stages.onnx_models.export import load
from codedag.stages.planning.clusters import Part
from codedag.stages.planning.peps import LATENCY, THROUGHPUT, Goal
from codedag.stages.planning.prices import Int8
from codedag.stages.planning.tables import LOOKUP, Tables, size_text
from codedag.stages.reference import draw
from codedag.stages.sizes import GRAPH

if TYPE_CHECKING:
    from collections.abc import Iterator

PEP = "pep.json"
#: Without an input, a stream of items repeats so many that are drawn.
DRAWN_ITEMS = 4
#: The timeline draws the first calls.
MOST_EVENTS = 20_000


@dataclass(frozen=True, slots=True)
class Request:
    """What a run was asked for."""

    directory: Path
    input: Path | None = None
    graph: str | None = None
    pep: Path | None = None
    items: int = 1
    goal: str | None = None
    queue: int = 2
    pus: tuple[str, ...] = ()
    setup_seconds: float = SETUP_SECONDS
    parts: int = 1
    allow: tuple[str, ...] = ()  # `f16`: plans that are made anew may use PUs that compute in it


@dataclass
class Ran:
    """A run with its model and plan, and whether the plan's seconds are a prediction for this size."""

    model: StagedModel
    sizes: dict[str, int]
    execution: Execution
    predicted_seconds: float | None
    notes: list[str] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """The run as `--json` prints it."""
        done = self.execution
        return {
            "outputs": {name: self._output(name) for name in self.model.outputs},
            "sizes": self.sizes, "pus": done.pus, "items": len(done.outputs), "seconds": done.seconds,
            "predicted_seconds": self.predicted_seconds, "simulated": done.plan.simulated,
            "setup_seconds": done.setup_seconds,
            "left": [
                {"pu": each.pu, "reason": each.reason, "replaced_by": each.replaced_by, "stage": each.stage}
                for each in done.left
            ],
            "plan": done.plan.facts(), "max_error": done.plan.tolerance, "precisions": done.plan.precisions,
            "notes": self.notes,
        }  # fmt: skip

    def _output(self, name: str) -> dict[str, Any]:
        near = self.execution.worst(name)
        return {
            "equal": not near.wrong, "bit_equal": near.equal, "worst": near.worst, "wrong": near.wrong,
            "first_stage_off": self.execution.off.get(name),
        }  # fmt: skip


def run(request: Request, say: Callable[[str], None] = lambda line: None) -> Ran:
    """Runs what was asked for; raises BadInput, BadFile or CannotPlan for what cannot be run."""
    model = load(request.directory)
    tables = Tables.load(request.directory).within(request.allow) if (request.directory / LOOKUP).is_file() else None
    plan = _given_plan(request, model)
    items = items_of(request, model, plan.sizes if plan is not None else tables.sizes[-1] if tables else {})
    sizes = model.sizes_of(items[0])
    notes: list[str] = []
    plan, predicted = _plan_for(request, model, tables, plan, sizes, notes, items)
    for note in notes:
        say(note)
    _check_pus(request.directory, plan)
    rows = tables.only(request.pus) if tables is not None else None  # what replaces a PU is one of these, too
    with Executor(model, request.directory, tables=rows, setup_seconds=request.setup_seconds, say=say) as executor:
        done = executor.run(plan, items)
    write_files(request.directory, model, done)
    return Ran(model, sizes, done, predicted, notes)


# -- the plan


def _given_plan(request: Request, model: StagedModel) -> ExecutionPlan | None:
    """The plan of a file: the one that was named, else that of the directory unless another goal or PUs are asked."""
    if request.pep is not None:
        return read_pep(request.pep, model)
    kept = request.directory / PEP
    if request.goal or request.pus or not kept.is_file():
        return None
    return read_pep(kept, model)


def _plan_for(
    request: Request, model: StagedModel, tables: Tables | None, given: ExecutionPlan | None, sizes: dict[str, int],
    notes: list[str], items: Sequence[Arrays],
) -> tuple[ExecutionPlan, float | None]:  # fmt: skip
    """The plan to run and the seconds that it predicts, if it was made for this size."""
    if request.parts > 1 and (given is None or given.parts != request.parts):
        return _parts_plan(request, model, tables, sizes, items)
    same = given is not None and dict(given.sizes) in ({}, sizes)
    if given is not None and (same or request.pep is not None or tables is None):
        if not same:
            notes.append(f"the plan was made for {size_text(given.sizes)}, not for {size_text(sizes)}: no prediction")
        return given, _predicted(given, request.items) if same else None
    if given is not None:
        notes.append(f"pep.json is for {size_text(given.sizes)}: planned anew for {size_text(sizes)}")
    if tables is None:
        tables = Tables.load(request.directory)  # says which file is missing
    plan = planned_near(model, tables, sizes, _goal(request), request.pus, _int8(request, given))
    if dict(plan.sizes) == sizes:
        return plan, _predicted(plan, request.items)
    notes.append(f"{size_text(sizes)} is too far from what was measured: planned for {size_text(plan.sizes)}")
    return plan, None


def _int8(request: Request, given: ExecutionPlan | None) -> Int8 | None:
    """The quantised blocks, if the plan that is made anew allowed them."""
    if given is None or given.max_error is None:
        return None
    return Int8(Tables.load_int8(request.directory), given.max_error)


def _parts_plan(
    request: Request, model: StagedModel, tables: Tables | None, sizes: dict[str, int], items: Sequence[Arrays]
) -> tuple[ExecutionPlan, float | None]:
    """A plan for each part of the graph that will be run."""
    layers_of(model)  # says so if the model cannot be run in parts
    found = parts_of(items[0]["edge_index"], sizes["nodes"], request.parts)
    if request.pep is not None:
        return replace(read_pep(request.pep, model), parts=request.parts, clusters={}), None
    parts = [Part(one.nodes, one.edges, one.halo) for one in found.sizes]
    plan = planned_parts(model, tables or Tables.load(request.directory), parts, request.pus)
    return plan, plan.seconds * request.items or None


def _goal(request: Request) -> Goal:
    return Goal(request.goal or LATENCY, max(1, request.items), request.queue)


def _predicted(plan: ExecutionPlan, items: int) -> float | None:
    """The seconds that a plan predicts for so many items."""
    if not plan.seconds:
        return None
    return plan.seconds * items / plan.items if plan.goal == THROUGHPUT else plan.seconds * items


def _check_pus(directory: Path, plan: ExecutionPlan) -> None:
    """Raises UnknownPu for a PU that this machine does not have."""
    run_directory = RunDirectory(directory)
    if run_directory.has("machine"):
        chosen(run_directory.machine, plan.pus)


# -- inputs


def items_of(request: Request, model: StagedModel, planned_sizes: Mapping[str, int]) -> list[Arrays]:
    """The items to run: the given input as often as asked, else drawn at the plan's size."""
    if request.input is not None or request.graph is not None:
        return [_given_input(request, model)] * request.items
    sizes = dict(planned_sizes) or model.sizes_of(model.example)
    count = DRAWN_ITEMS if request.parts == 1 else 1  # items that are run in parts have the same edges
    drawn = [draw(model, sizes, seed) for seed in range(min(request.items, count))]
    return [drawn[at % len(drawn)] for at in range(request.items)]


def _given_input(request: Request, model: StagedModel) -> Arrays:
    if request.graph is not None:
        return checked_input(model, _graph_arrays(request.graph, model), request.graph)
    assert request.input is not None
    return checked_input(model, read_npz(request.input), str(request.input))


def _graph_arrays(text: str, model: StagedModel) -> Arrays:
    if tuple(model.sizes) != GRAPH or not {"x", "edge_index"} <= set(model.inputs):
        raise BadInput(f"`{model.name}` does not read a graph", hint="Name its inputs with --input FILE.npz.")
    features = model.tensors["x"].shape[1]
    found: Arrays = read_graph(text, features if isinstance(features, int) else None).arrays
    return found


def checked_input(model: StagedModel, arrays: Mapping[str, Any], name: str) -> Arrays:
    """The inputs of a model in one piece of memory each; raises BadInput naming the file and the array."""
    import numpy as np

    with _named(name):
        sizes = model.sizes_of(arrays)
    found = {each: np.ascontiguousarray(arrays[each]).reshape(arrays[each].shape) for each in model.inputs}
    if tuple(model.sizes) == GRAPH and "edge_index" in found:
        found["edge_index"] = checked_edges(name, found["edge_index"], sizes["nodes"])
    return found


@contextmanager
def _named(name: str) -> Iterator[None]:
    """A block whose BadInput names the file."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"{name}: {error.message}", hint=error.hint) from None


# -- files


def write_files(directory: Path, model: StagedModel, done: Execution) -> None:
    """Writes the calls as they ran and what was verified, for `codedag view`."""
    save(events_of(model, done), directory / "events")
    save(report_of(directory, model, done), directory / "report.json")


def events_of(model: StagedModel, done: Execution) -> Events:
    """The calls on the lanes of their PUs; a block ran as one, so it is drawn as its first stage."""
    lanes = {pu: at for at, pu in enumerate(dict.fromkeys(call.pu for call in done.calls))}
    begun = min((call.start for call in done.calls), default=0.0)
    calls = [
        Event(number, lanes[call.pu], max(0.0, call.start - begun), max(0.0, call.end - begun), 0)
        for call in done.calls for number in call.block.stages[:1]
    ]  # fmt: skip
    return Events(
        seconds=max((call.end for call in calls), default=0.0), seen=len(calls), least_seconds=0.0,
        lanes=[Lane(process=at, thread=0, name=pu) for pu, at in lanes.items()], calls=calls[:MOST_EVENTS],
    )  # fmt: skip


def report_of(directory: Path, model: StagedModel, done: Execution) -> Report:
    """What ran where, which PUs were left and why, and how results compare with the model as given."""
    wrong = sum(not near for one in done.near for near in one.values())
    checked = sum(len(one) for one in done.near)
    exact = all(near.equal for one in done.near for near in one.values())
    where = f"{directory / 'stages.json'}:1"
    changes = [
        Change(
            what=f"stages {each.block.name}", where=where, kind="place", variant="+".join(each.pus),
            reason=f"on {' and '.join(each.pus)}",
            equivalence="exact" if exact else "ulp", seconds=_spent(done, each.block.name), calls=len(done.outputs),
            checked=len(done.outputs),
        )
        for each in done.plan.blocks
    ]  # fmt: skip
    declined = [
        Declined(what=each.pu, where=where, reason=f"{each.reason}; replaced by {each.replaced_by}")
        for each in done.left
    ]
    how = "every output of every item compared with the model as given"
    how += "; the plan is simulated: its figures are not of this machine" if done.plan.simulated else ""
    return Report(
        optimised_seconds=done.seconds, verdict=Proof(identical=exact, checked=checked, mismatches=wrong, how=how),
        changes=changes, declined=declined, void="a run executes one plan only",
    )  # fmt: skip


def _spent(done: Execution, block: str) -> float:
    return sum(call.end - call.start for call in done.calls if call.block.name == block)
