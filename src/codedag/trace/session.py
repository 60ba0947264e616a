"""One `codedag trace`: the program runs to its end with every site recorded."""

from __future__ import annotations

import os
from dataclasses import dataclass

from codedag.instrument import launch
from codedag.instrument import sites as site_module
from codedag.instrument.hook import importing
from codedag.instrument.launch import Ending, Target
from codedag.instrument.program import Program
from codedag.ir import Graph
from codedag.trace.recorder import Recorder
from codedag.trace.rundir import Keeper


@dataclass(frozen=True, slots=True)
class Traced:
    """A program that has ended, and its graph."""

    ending: Ending
    graph: Graph


def trace(target: Target, keeper: Keeper) -> Traced | Ending:
    """Runs the program, records its graph and writes it; in a forked child that runs to its end, only how it ended."""
    keeper.begin()
    process = os.getpid()
    program = Program([target.root()])
    recorder = Recorder(program.names)
    os.register_at_fork(after_in_child=site_module.native.stop)
    with importing(program):
        site_module.native.start(recorder, program.names)
        ending = launch.run(target, lambda path, source: program.load(path, source, main=True))
        site_module.native.stop()
    if os.getpid() != process:
        return ending
    failure = site_module.native.failure()
    if failure:
        keeper.notes.append(f"recording ended early: {failure}")
    program.restore()
    graph = recorder.graph()
    keeper.keep(graph, recorder.costs())
    keeper.end("ok" if ending.code == 0 else "failed", ending.code)
    return Traced(ending, graph)
