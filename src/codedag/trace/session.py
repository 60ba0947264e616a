"""One `codedag trace`: the program runs to its end with every site recorded."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from os import getpid  # by name: a program may leave a mock on the module
from pathlib import Path

from codedag.instrument import launch
from codedag.instrument import sites as site_module
from codedag.instrument.guard import Failed, after
from codedag.instrument.hook import importing
from codedag.instrument.launch import Ending, Target
from codedag.instrument.program import Program
from codedag.ir import Graph, data_dir
from codedag.ir import clock as time
from codedag.ir.clock import perf_counter_ns
from codedag.trace.gathered import Gathered
from codedag.trace.held_up import Turns
from codedag.trace.processes import Family
from codedag.trace.recorder import Recorder
from codedag.trace.rundir import Keeper
from codedag.trace.spool import FOLDER, Spool, forget, forget_expired
from codedag.trace.unseen import not_looked_into


@dataclass(frozen=True, slots=True)
class Traced:
    """A program that has ended, and its graph; None if it could not be made, or in a forked child."""

    ending: Ending
    graph: Graph | None = None
    recorder_seconds: float = 0.0
    failure: str = ""
    forked: bool = False


def trace(
    target: Target,
    keeper: Keeper,
    *,
    program: Program | None = None,
    max_depth: int = 0,
    memory: bool = False,
    samples: bool = False,
    known: Callable[[Graph], Graph] = lambda graph: graph,
) -> Traced:
    """Runs the program, records its graph and writes it; a forked child that runs to its end only keeps its records.

    `known` adds to the graph what is known of its operations without having seen it: their effects.
    """
    keeper.begin()
    process = getpid()
    program = program or Program([target.root()])
    program.where.hold(str(target.root() / "any.py"))  # loads what this asks: afterwards it may be out of reach
    family = Family(program, Recorder(program.names), keeper.path / "records", max_depth)
    spool = _spooling(family.recorder, keeper, samples)
    around = ExitStack()
    around.enter_context(importing(program))
    around.enter_context(_measuring(memory))
    family.start()
    turns = Turns.so_far()
    ending = launch.run(target, lambda path, source: program.load(path, source, main=True))
    if getpid() != process:
        after(_forked, family, around)
        return Traced(ending, forked=True)
    held_up = after(turns.held_up_since)  # it reads a file, which the program may have made impossible
    keeper.held_up = 0.0 if held_up.__class__ is Failed else held_up  # type: ignore[assignment]
    if memory:
        keeper.notes.append("peak bytes were measured, which takes time: the times of this run are too long")
    if spool.failure:
        keeper.notes.append(f"inputs were not kept for `codedag profile`: {spool.failure}")
    done = after(_concluded, keeper, family, around, target, ending, known)
    return Traced(ending, failure=done.reason) if done.__class__ is Failed else done  # type: ignore[return-value]


def _spooling(recorder: Recorder, keeper: Keeper, samples: bool) -> Spool:
    """Begins to keep samples of inputs in the run, if they are wanted; those of an earlier run there are forgotten."""
    spool = Spool(keeper.path / FOLDER)
    forget(spool.folder)
    after(forget_expired, data_dir() / "runs", time.time())
    if samples and not keeper.broken:
        spool.begin()
        recorder.keep_samples(spool)
    return spool


def _forked(family: Family, around: ExitStack) -> None:
    site_module.native.stop()
    family.keep_last()
    around.close()


def _concluded(
    keeper: Keeper,
    family: Family,
    around: ExitStack,
    target: Target,
    ending: Ending,
    known: Callable[[Graph], Graph],
) -> Traced:
    """What is left to do once the program has ended; whatever fails is said, and the rest is done all the same."""
    site_module.native.stop()
    keeper.left("the import hook could not be taken away", after(around.close))
    keeper.left("recording could not be ended", after(family.stop))
    keeper.left("the program's functions could not be given back", after(family.program.restore))
    ended = perf_counter_ns()
    gathered = _joined(keeper, family)
    graph, costs, events = after(gathered.graph), after(gathered.costs), after(gathered.events, family.began, ended)
    keeper.left("the graph could not be made", graph)
    if not isinstance(graph, Failed):
        complete = after(known, graph)
        keeper.left("the effects of operations could not be told", complete)
        graph = graph if isinstance(complete, Failed) else complete
    keeper.left("what was not looked into could not be found", after(_left_out, keeper, family, target))
    keeper.left("the timeline could not be made", events)
    keeper.keep(*(made for made in (graph, costs, events) if not isinstance(made, Failed)))
    each = recorder_seconds()
    keeper.end("ok" if ending.code == 0 else "failed", ending.code, recorder_seconds=each)
    if not keeper.broken:
        after(shutil.rmtree, keeper.path / "records", ignore_errors=True)
    return Traced(ending, None if isinstance(graph, Failed) else graph, each)


def _joined(keeper: Keeper, family: Family) -> Gathered:
    """What all processes recorded; only this one's if the others' records cannot be read."""
    found = after(family.joined)
    if not isinstance(found, Failed):
        keeper.notes += found[1]
        return found[0]
    keeper.notes.append(f"the records of other processes could not be read: {found.reason}")
    own = after(family.recorder.gathered)
    keeper.left("what was recorded could not be read", own)
    return Gathered() if isinstance(own, Failed) else own


def _left_out(keeper: Keeper, family: Family, target: Target) -> None:
    """Notes what was not looked at, or not all the time."""
    failure = site_module.native.failure()
    if failure:
        keeper.notes.append(f"recording ended early: {failure}")
    resting = len({(path, owner) for path, owner, _ in family.idle.seen})
    if resting:
        keeper.notes.append(
            f"{resting} functions that moved no data in thousands of calls were not looked at all the time"
        )
    if family.failure:
        keeper.notes.append(f"records could not be kept while the program ran: {family.failure}")
    keeper.notes += not_looked_into(family.program, target, keeper.home)


def recorder_seconds() -> float:
    """What recording an operation usually cost in this process, once it had been seen."""
    return float(site_module.native.usual()) / 1e9


@contextmanager
def _measuring(memory: bool) -> Iterator[None]:
    """In a memory pass, allocations are traced, which makes times useless."""
    if not memory:
        yield
        return
    import tracemalloc

    tracemalloc.start(1)
    site_module.native.measure_memory(True)
    try:
        yield
    finally:
        site_module.native.measure_memory(False)
        tracemalloc.stop()


def recovered(folder: Path) -> Graph | None:
    """The graph of a run that was killed, from what its processes had written; None if they had not."""
    from codedag.trace.records import join, read

    records, _ = read(folder / "records")
    return join(records).gathered.graph() if records else None
