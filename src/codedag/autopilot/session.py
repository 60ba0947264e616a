"""One `codedag run`: the program runs once, as it would have, and everything else happens around it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

# by name: a program may leave a mock on the modules
from os import getpid
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from codedag.autopilot.budget import unlimited
from codedag.autopilot.knowledge_store import RunFacts, Store, is_open, length_of, taken_back, with_verdicts
from codedag.autopilot.moves.items import KIND
from codedag.autopilot.moves.replay import GONE
from codedag.autopilot.options import Options
from codedag.autopilot.pilot import Pilot
from codedag.autopilot.processes.report_folder import WorkerReports
from codedag.autopilot.report.announcement import Announcement
from codedag.autopilot.report.finished import Finished
from codedag.autopilot.report.live import Live
from codedag.autopilot.report.outcome import Outcome, conclude
from codedag.autopilot.report.spans import Spans, before_us
from codedag.devices.host import this_machine
from codedag.instrument import launch
from codedag.instrument.guard import Failed, after
from codedag.instrument.hook import importing
from codedag.instrument.launch import Ending, Target
from codedag.instrument.pickled_code import OriginalCode
from codedag.instrument.program import Program
from codedag.instrument.python import uncollected
from codedag.ir import RunDirectory
from codedag.ir.clock import perf_counter
from codedag.migrate.memo.disk_store import Disk
from codedag.migrate.memo.store import Memory
from codedag.trace.rundir import Keeper, loaded_versions
from codedag.trace.spool import FOLDER, Spool

if TYPE_CHECKING:
    from codedag.autopilot.budget import Budget
    from codedag.autopilot.heat import Heat

# A graph of so many bytes has some 150,000 operations, whose page takes two seconds.
LARGEST_NBYTES = 50_000_000
LOOKED_AT_SECONDS_MIN = 8.0  # a program that ended earlier may have ended before its hot functions were planned
#: Inputs that a run keeps to try code to adopt on: of the run, of one call, and the time that writing them may take.
SAMPLES_NBYTES, SAMPLE_NBYTES, SAMPLES_SECONDS = 32 << 20, 4 << 20, 0.1
SHORT = 2.0  # seconds of a program of which nobody misses a page without a change: drawing takes 0.08 s


@dataclass(slots=True)
class Loaded:
    """A pilot in a running program, with what earlier runs left and what has to be undone at the end."""

    pilot: Pilot
    keeper: Keeper
    store: Store | None
    around: ExitStack
    spans: Spans


def run(target: Target, keeper: Keeper, options: Options | None = None) -> Finished:
    """Runs a program whose files are all observed as they are loaded; in a forked child, nothing follows."""
    loaded = load(target, keeper, options or Options())
    process, pickled = getpid(), OriginalCode(loaded.pilot.program.original_of)
    after(pickled.start)
    ending = launch.run(target, lambda path, source: loaded.pilot.program.load(path, source, main=True))
    ended = perf_counter()
    after(pickled.stop)
    if getpid() != process:
        after(loaded.pilot.team.end_worker)
        after(loaded.around.close)
        return Finished(ending, keeper, forked=True)
    return finish(loaded, ending, ended)


def load(
    target: Target, keeper: Keeper, options: Options, program: Program | None = None, heat: Heat | None = None,
    started_at: float | None = None, store: Store | None = None, worker_of: int = 0, budget: Budget | None = None,
) -> Loaded:  # fmt: skip
    """A pilot that has begun; with `heat` only hot functions are observed, and the program may run already.

    A `store` that is given has been read.  `worker_of`: this process was forked by that one, whose run it is.
    """
    if heat is None:
        keeper.begin()
        store = None if options.plan is not None or options.observe_only else Store(target, options.looser)
    pilot = _pilot(program or Program([target.root()]), keeper, options, worker_of, budget)
    if store is not None and not options.fresh:
        _recall(pilot, store)
    live = Live(pilot.recorder.gathered, keeper.path / "records")
    pilot.on_tick = (
        live if options.announce is None or worker_of else _both(live, _announcement(pilot, options.announce))
    )
    around = ExitStack()
    if heat is not None:
        changed = {move.file for move in pilot.known if move.kind != KIND}  # torch's fetch is opened when it is there
        around.enter_context(importing(pilot.program, changed, doubled_only=False))
    else:
        around.enter_context(importing(pilot.program))
    pilot.start(heat, started_at)
    if store is not None and (first := store.first()):
        pilot.background.later(partial(_without_result, pilot.prove.ahead, first))
    return Loaded(pilot, keeper, store, around, _before(options.begun, pilot.started_at))


def _announcement(pilot: Pilot, say: Callable[[str], object]) -> Callable[[], None]:
    return partial(_without_result, Announcement(lambda: pilot.judging, say))


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        first()
        second()

    return call


def finish(loaded: Loaded, ending: Ending, ended: float) -> Finished:
    """What is left to do once the program has ended; whatever fails is said, and the rest is done all the same."""
    keeper = loaded.keeper
    done = after(_finished, keeper, loaded.pilot, loaded.store, loaded.around, ending, (loaded.spans, ended))
    return Finished(ending, keeper, failure=done.reason) if done.__class__ is Failed else done  # type: ignore[return-value]


def _without_result(function: Callable[..., object], *args: object) -> None:
    after(function, *args)


def _before(begun: float | None, started: float) -> Spans:
    """Where the seconds before the program went, if the process was started for it."""
    if begun is None:
        return Spans(program=0.0, python=0.0)
    return Spans(program=0.0, python=before_us(begun), starting=started - begun)


def _pilot(program: Program, keeper: Keeper, options: Options, worker_of: int, budget: Budget | None) -> Pilot:
    pilot = Pilot(
        program,
        budget=unlimited() if budget is None or options.synchronous else budget,
        observe_only=options.observe_only,
        synchronous=options.synchronous,
        plan=options.plan,
        allow=options.allow,
        max_overhead=options.max_overhead,
        memory=Memory(options.budget_nbytes, Disk(options.disk_nbytes) if options.disk_nbytes else None),
    )
    if options.requests is not None and options.requests.wanted:
        from codedag.autopilot.moves.placement import Placed  # with all that library patches need

        pilot.placed = Placed(pilot, options.requests)
    if options.samples and not keeper.broken and not worker_of:
        after(_keep_samples, pilot, keeper)
    pilot.team.crew = WorkerReports(None if keeper.broken else keeper.path / "workers", parent=worker_of)
    if not worker_of and not keeper.has_workers:
        pilot.team.crew.prepare()
    return pilot


def _keep_samples(pilot: Pilot, keeper: Keeper) -> None:
    spool = Spool(keeper.path / FOLDER, SAMPLES_NBYTES, SAMPLE_NBYTES, SAMPLES_SECONDS)
    spool.begin()
    pilot.recorder.keep_samples(spool)


def _recall(pilot: Pilot, store: Store) -> None:
    """Begins with what an earlier run has proven, if that holds here."""
    known = store.known or after(store.load)
    if isinstance(known, Failed):
        pilot.notes.append(f"the plan of an earlier run could not be used: {known.reason}")
    elif known is not None:
        pilot.known = [change for change in known.in_use() if change.kind not in GONE]
        pilot.kernels, pilot.left_alone = known.kernels, known.left_alone()
        pilot.earlier_verdict = lambda applied: known.not_worth_a_trial(
            applied.kind, applied.path, applied.sites, store.target.args
        )
    if store.why_not:
        pilot.notes.append(f"{store.why_not}; {'everything was' if known is None else 'they were'} observed afresh")


def _finished(
    keeper: Keeper, pilot: Pilot, store: Store | None, around: ExitStack, ending: Ending, times: tuple[Spans, float]
) -> Finished:
    """What is left to do once the program has ended; whatever fails is said, and the rest is done all the same."""
    with uncollected():
        return _ended(keeper, pilot, store, around, ending, *times)


def _ended(
    keeper: Keeper, pilot: Pilot, store: Store | None, around: ExitStack, ending: Ending, spans: Spans, ended: float
) -> Finished:
    keeper.left("the import hook could not be taken away", after(around.close))
    outcome = after(_conclude, pilot, spans, ended)
    keeper.notes += pilot.notes
    keeper.notes += pilot.memory.disk.notes() if pilot.memory.disk is not None else []
    keeper.left("the report could not be made", outcome)
    if not isinstance(outcome, Failed):
        _keep(keeper, outcome)
        if store is not None:
            seconds = ended - pilot.started_at
            keeper.left("what was proven could not be kept", after(_remember, store, pilot, outcome, seconds))
    if not keeper.broken and pilot.team.crew.folder is not None:
        after(_drop, pilot.team.crew.folder)
    keeper.left("the timeline could not be made", after(_keep_events, keeper, pilot, ended))
    keeper.end("ok" if ending.code == 0 else "failed", ending.code)
    if not keeper.broken:
        after(_drop, keeper.path / "records")
    changed = isinstance(outcome, Failed) or bool(outcome.report.changes)
    keeper.has_page = keeper.asked or changed or ended - pilot.started_at >= SHORT  # `codedag view` can draw it too
    keeper.left("the report page could not be written", after(keep_page, keeper))
    if isinstance(outcome, Failed):
        return Finished(ending, keeper, failure=outcome.reason)
    return Finished(ending, keeper, outcome)


def _drop(folder: Path) -> None:
    """Removes a folder that only this run needed."""
    if not folder.exists():
        return
    try:
        folder.rmdir()
    except OSError:  # there is something in it
        from shutil import rmtree  # with all that it can unpack

        rmtree(folder, ignore_errors=True)


def _conclude(pilot: Pilot, spans: Spans, ended: float) -> Outcome:
    pilot.stop()
    spans = replace(
        spans,
        program=ended - pilot.started_at,
        ending=2 * (perf_counter() - ended),  # the files are not written yet, which takes about as long
        observing=pilot.observed.seconds(),
        beside=pilot.background.beside + pilot.background.inline,
    )
    return conclude(pilot, spans)


def _keep_events(keeper: Keeper, pilot: Pilot, ended: float) -> None:
    """Writes single calls and memory over time, as far as the program was observed."""
    gathered = pilot.team.gathered()
    first = pilot.first_change_at
    switched = {} if first is None else {"switched": round(first * 1e9)}
    keeper.keep(gathered.events(round(pilot.started_at * 1e9), round(ended * 1e9), switched))


def keep_page(keeper: Keeper) -> None:
    """Writes the report page next to the files that it shows, unless these could not be written or are very large."""
    if keeper.broken or not keeper.has_page:
        return
    if (keeper.path / "graph.json").stat().st_size > LARGEST_NBYTES:
        keeper.notes.append(
            f"the report page was not written, it would take long: codedag view {keeper.path} --html FILE"
        )
        return
    from codedag.view.html.page import write_page  # the program has ended: nobody waits for this at its start

    write_page(RunDirectory(keeper.path), keeper.path / "report.html")


def _remember(store: Store, pilot: Pilot, outcome: Outcome, seconds: float) -> None:
    """Keeps what is proven for the next run: also what was known before and found no occasion to fail in this one."""
    tried = {move.key for move in outcome.tried}
    unused = [move for move in pilot.known if move.key not in tried and move.file not in pilot.replay.stale]
    target = store.target
    proven = with_verdicts(outcome.proven, pilot, target)
    store.keep(
        RunFacts(
            changes=[*proven, *unused, *taken_back(pilot, target)],
            libraries=set(loaded_versions()) - {"python", "codedag", "platform"},
            kernels=[*pilot.shelf.specs(), *pilot.team.crew.kernels()],
            unproven=pilot.prove.unproven.values(),
            files={path: file.sha256 for path, file in pilot.program.files.items()},
            length=length_of(seconds, target, pilot.budget.saved_seconds),
            functions=None if outcome.report.heat is None else outcome.report.heat.functions,
            turn=None if outcome.report.heat is None else outcome.report.heat.turn,
            found_nothing=not outcome.proven and not is_open(pilot) and _was_looked_at(pilot, seconds),
            barren=pilot.observed.barren,
            credit_seconds=0.0 if pilot.budget.is_unlimited else pilot.budget.credit(),
        )
    )


def _was_looked_at(pilot: Pilot, seconds: float) -> bool:
    """Whether the run was long enough to find something; observing everything takes less time than waiting for heat."""
    return pilot.openings is None or (seconds >= LOOKED_AT_SECONDS_MIN and not pilot.openings.is_waiting)


def _keep(keeper: Keeper, outcome: Outcome) -> None:
    machine = after(this_machine)
    keeper.keep(
        outcome.graph,
        outcome.costs,
        outcome.plan,
        outcome.report,
        *([] if isinstance(machine, Failed) else [machine]),
    )
