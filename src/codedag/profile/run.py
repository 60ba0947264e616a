"""Profiling a run: its samples are measured, and costs.json and machine.json are written beside its graph."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import UNSET
from msgspec.structs import replace

from codedag.backends.registry import Equivalence
from codedag.devices.families import FAMILIES, family_of
from codedag.devices.inventory import inventory
from codedag.ir import CodedagError, CostTable, Machine, No, Op, RunDirectory, load, save
from codedag.profile.figures import ENOUGH
from codedag.profile.liveness import Peak, peak_of, training_peak
from codedag.profile.process import PuProcess
from codedag.profile.profiler import Contest, Profiler, Told
from codedag.profile.roofline import SHORT_SECONDS
from codedag.profile.sample import Sample, Samples
from codedag.profile.store import Store
from codedag.profile.table import Tabulator
from codedag.profile.together import Meter, Together
from codedag.profile.traced import calls_of, own_code
from codedag.profile.variants import has_variants, pus_of_registry

ROOF = 1.05  # of the peaks, which are measured too


class CannotProfile(CodedagError):  # noqa: N818 - reads as what happened
    """A run that cannot be measured."""

    slug = "cannot-profile"


@dataclass(slots=True)
class Settings:
    """What the user may choose."""

    budget_seconds: float = 120.0
    cell_seconds: float = 1.0
    answer_seconds: float = 30.0
    pus: Collection[str] = ()
    allowed: Collection[Equivalence] = (Equivalence.EXACT,)
    fresh: bool = False
    together: bool = False  # also measure the hottest operations side by side


@dataclass(slots=True)
class Profiled:
    """What came of profiling a run."""

    run: RunDirectory
    costs: CostTable
    machine: Machine
    cells: int
    measured: int
    peak: Peak | None
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False
    known: int = 0  # cells that an earlier command had settled
    training_nbytes: int = 0  # of a step that goes forward and back through everything
    together: Together | None = None


def profile(path: str | Path, settings: Settings, told: Told = lambda done, at: None) -> Profiled:
    """Measures the operations of a run and writes its costs.json and machine.json."""
    run = load(path)
    if not isinstance(run, RunDirectory):
        raise CannotProfile(f"{path} is a file, and a run is a directory", hint="Name the directory of the run.")
    samples = Samples(run.path)
    _need_fresh(samples)
    told(0.0, "looking for processing units")
    machine = _machine(settings, told)
    pus = _pus(machine, settings)
    store = Store()
    try:
        return _profiled(run, samples, machine, pus, store, settings, told)
    finally:
        store.close()


def _profiled(
    run: RunDirectory, samples: Samples, machine: Machine, pus: frozenset[str], store: Store, settings: Settings,
    told: Told,
) -> Profiled:  # fmt: skip
    profiler = Profiler(
        store, pus, settings.budget_seconds, settings.cell_seconds, settings.answer_seconds, settings.fresh,
        _directory(run),
    )  # fmt: skip
    contests = profiler.contests(_samples(run, samples))
    known = _done(contests.values())
    profiler.run(contests.values(), told)
    save(machine, run.path / "machine.json")
    traced = run.costs if run.has("costs") else None
    held_up, recording = (run.run.held_up, run.run.recorder_seconds) if run.has("run") else (0.0, 0.0)
    calls = calls_of(run.graph, run.events) if run.has("events") else {}
    own = own_code(run.graph, run.events, recording, held_up) if run.has("events") else {}
    tabulator = Tabulator(run.graph, samples, contests, machine, pus, settings.allowed, traced, calls, held_up, own)
    costs = replace(tabulator.table(), beside=traced.beside if traced is not None else UNSET)
    save(costs, run.path / "costs.json")
    together = _together(run, samples, settings, told) if settings.together and not profiler.interrupted else None
    if together is not None and together.pairs and together.calm:
        costs = replace(costs, beside=together.rows())
        save(costs, run.path / "costs.json")
    scratch = {row.op: row.scratch_nbytes for row in costs.rows if row.pu == "cpu"}
    views = {row.op for row in costs.rows if row.roofline and row.pu == "cpu" and row.roofline.moved_nbytes == 0}
    cells = sum(len(contest.cells) for contest in contests.values())
    notes = [*_notes(contests.values(), machine, pus), *_above_roof(costs), *(together.notes if together else [])]
    interrupted = profiler.interrupted or (together is not None and together.interrupted)
    if interrupted:
        notes.insert(0, "interrupted: what was measured so far is kept")
    return Profiled(
        run,
        costs,
        machine,
        cells,
        profiler.measured,
        peak_of(run.graph, scratch, views),
        notes,
        interrupted,
        known,
        training_peak(run.graph, views),
        together,
    )


def _together(run: RunDirectory, samples: Samples, settings: Settings, told: Told) -> Together:
    """What the operations that took the most time cost each other side by side, as the program has them."""
    told(1.0, "side by side")
    ops = sorted((op for op in run.graph.ops if op.kind not in ("region", "source")), key=_importance)
    process = PuProcess("cpu", _directory(run))
    try:
        return Meter(process, settings.answer_seconds).measure(ops, samples, settings.budget_seconds)
    finally:
        process.close()


def _need_fresh(samples: Samples) -> None:
    if samples.expired():
        raise CannotProfile(
            f"the inputs kept in {samples.folder} are past their time", hint="Trace the program again: `codedag trace`."
        )


def _machine(settings: Settings, told: Told) -> Machine:
    """The PUs that could have something to measure; a PU without a substitution is not even looked for."""
    wanted = {family_of(pu) for pu in ("cpu", *pus_of_registry(), *settings.pus)}
    families = [name for name in FAMILIES if name in wanted]
    return inventory(families, told=lambda family: told(0.0, f"looking for {family}"))


def _pus(machine: Machine, settings: Settings) -> frozenset[str]:
    """The PUs that are here and have something to measure; a PU that was named and is not here is an error."""
    here = frozenset(pu.name for pu in machine.pus)
    for name in settings.pus:
        if name not in here:
            why = next((each.reason for each in machine.absent or () if each.name == name), "no such PU was found")
            raise CannotProfile(f"there is no PU `{name}` here: {why}", hint="`codedag devices` lists what there is.")
    wanted = frozenset(settings.pus) or here
    return frozenset({"cpu", *filter(has_variants, wanted & here)})


def _samples(run: RunDirectory, samples: Samples) -> list[Sample]:
    """What was captured, the operations that took the most time first."""
    ops = sorted((op for op in run.graph.ops if op.kind not in ("region", "source")), key=_importance)
    found: list[Sample] = []
    for op in ops:
        own = samples.of(op)
        if not isinstance(own, No):
            found += [own, *(samples.at_site(op) if "*" in op.in_sig else [])]
    return found


def _importance(op: Op) -> float:
    return -op.self_seconds


def _directory(run: RunDirectory) -> Path | None:
    """Where the program ran: files that it read are named from there."""
    place = Path(run.run.cwd) if run.has("run") else None
    return place if place is not None and place.is_dir() else None


def _done(contests: Collection[Contest]) -> int:
    return sum(cell.done for contest in contests for cell in contest.cells.values())


def _notes(contests: Collection[Contest], machine: Machine, pus: frozenset[str]) -> list[str]:
    late = sum(not cell.done for contest in contests for cell in contest.cells.values())
    idle = sorted(pu.name for pu in machine.pus if pu.name not in pus and not has_variants(pu.name))
    notes = _disturbances(contests)
    if late:
        notes.append(f"{late} cells were not reached within the budget: run the command again to go on")
    if idle:
        notes.append(f"no substitution is registered for {', '.join(idle)}: nothing was measured there")
    return notes


def _above_roof(costs: CostTable) -> list[str]:
    """A note if something was faster than the peaks allow: then the peaks were measured on a busier machine."""
    long = [row for row in costs.rows if row.roofline and row.per_call and row.per_call.median_seconds > SHORT_SECONDS]
    above = [row for row in long if row.roofline and row.roofline.share_of_peak > ROOF]
    share = max((row.roofline.share_of_peak for row in above if row.roofline), default=0.0)
    return [f"{len(above)} rows are above the measured peaks, by up to {share - 1:.0%}"] if above else []


def _disturbances(contests: Collection[Contest]) -> list[str]:
    measured = [cell for contest in contests for cell in contest.cells.values() if cell.status == "ok"]
    disturbed = sum(sum(cell.batches.clean) < ENOUGH for cell in measured)
    if not disturbed:
        return []
    return [
        f"{disturbed} of {len(measured)} cells were disturbed all the time by other programs: calls with several "
        "threads may be far from what they take on a quiet machine"
    ]
