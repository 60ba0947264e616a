"""One `codedag trace`: the program runs to its end with every site recorded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from codedag.instrument import launch
from codedag.instrument import sites as site_module
from codedag.instrument.hook import importing
from codedag.instrument.launch import Ending, Target
from codedag.instrument.program import Program
from codedag.ir import Graph
from codedag.trace.gathered import shown_path
from codedag.trace.processes import Family
from codedag.trace.recorder import Recorder
from codedag.trace.rundir import Keeper

MOST_PLAIN = 3  # files that are named in the notes


@dataclass(frozen=True, slots=True)
class Traced:
    """A program that has ended, and its graph."""

    ending: Ending
    graph: Graph
    recorder_seconds: float


def trace(
    target: Target, keeper: Keeper, *, program: Program | None = None, max_depth: int = 0, memory: bool = False
) -> Traced | Ending:
    """Runs the program, records its graph and writes it; in a forked child that runs to its end, only how it ended."""
    keeper.begin()
    process = os.getpid()
    program = program or Program([target.root()])
    family = Family(program, Recorder(program.names), keeper.path / "records", max_depth)
    with importing(program), _measuring(memory):
        family.start()
        ending = launch.run(target, lambda path, source: program.load(path, source, main=True))
        site_module.native.stop()
    if os.getpid() != process:
        family.keep_last()
        return ending
    family.stop()
    failure = site_module.native.failure()
    if failure:
        keeper.notes.append(f"recording ended early: {failure}")
    if memory:
        keeper.notes.append("peak bytes were measured, which takes time: the times of this run are too long")
    program.restore()
    return _concluded(keeper, family, ending)


def _concluded(keeper: Keeper, family: Family, ending: Ending) -> Traced:
    gathered, notes = family.joined()
    keeper.notes += [*notes, *_left_out(family)]
    graph = gathered.graph()
    keeper.keep(graph, gathered.costs())
    each = recorder_seconds()
    keeper.end("ok" if ending.code == 0 else "failed", ending.code, recorder_seconds=each)
    if not keeper.broken:
        shutil.rmtree(keeper.path / "records", ignore_errors=True)
    return Traced(ending, graph, each)


def _left_out(family: Family) -> list[str]:
    """What was not looked at, or not all the time, as sentences."""
    found = []
    resting = len({(path, owner) for path, owner, _ in family.idle.seen})
    if resting:
        found.append(f"{resting} functions that moved no data in thousands of calls were not looked at all the time")
    plain = family.program.left_plain
    for path, why in list(plain.items())[:MOST_PLAIN]:
        found.append(f"{shown_path(path)} was not looked into: {why}")
    if len(plain) > MOST_PLAIN:
        found.append(f"{len(plain) - MOST_PLAIN} more files were not looked into")
    if family.failure:
        found.append(f"records could not be kept while the program ran: {family.failure}")
    return found


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
