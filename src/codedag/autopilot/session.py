"""One `codedag run`: the program runs once, as it would have, and everything else happens around it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass

# by name: a program may leave a mock on the modules
from os import getpid
from time import perf_counter

from codedag.autopilot.live import Live
from codedag.autopilot.outcome import Outcome, conclude
from codedag.autopilot.pilot import Pilot
from codedag.devices.inventory import this_machine
from codedag.instrument import launch
from codedag.instrument import sites as site_module
from codedag.instrument.guard import Failed, after
from codedag.instrument.hook import importing
from codedag.instrument.launch import Ending, Target
from codedag.instrument.program import Program
from codedag.ir import Plan, RunDirectory
from codedag.trace.rundir import Keeper
from codedag.view.html.page import assets, write_page


@dataclass(frozen=True, slots=True)
class Finished:
    """A program that has ended, and what became of the attempt to make it faster."""

    ending: Ending
    outcome: Outcome | None
    keeper: Keeper
    pilot: Pilot
    failure: str = ""
    forked: bool = False


def run(target: Target, keeper: Keeper, *, observe_only: bool = False, plan: Plan | None = None) -> Finished:
    """Runs the program under a pilot; in a forked child that runs to its end, nothing follows."""
    keeper.begin()
    assets()  # read now: the program may leave nothing to read from
    process = getpid()
    program = Program([target.root()])
    at_once = os.environ.get("CODEDAG_SYNCHRONOUS", "") not in ("", "0")
    pilot = Pilot(program, observe_only=observe_only, synchronous=at_once, plan=plan)
    pilot.on_tick = live = Live(pilot.recorder.gathered, keeper.path / "records")
    around = ExitStack()
    around.enter_context(importing(program))
    pilot.start()
    ending = launch.run(target, lambda path, source: program.load(path, source, main=True))
    ended = perf_counter()
    if getpid() != process:
        after(around.close)
        return Finished(ending, None, keeper, pilot, forked=True)
    done = after(_finished, keeper, pilot, live, around, ending, ended)
    return Finished(ending, None, keeper, pilot, done.reason) if done.__class__ is Failed else done  # type: ignore[return-value]


def _finished(keeper: Keeper, pilot: Pilot, live: Live, around: ExitStack, ending: Ending, ended: float) -> Finished:
    """What is left to do once the program has ended; whatever fails is said, and the rest is done all the same."""
    keeper.left("the import hook could not be taken away", after(around.close))
    outcome = after(_conclude, pilot, ended)
    keeper.notes += pilot.notes
    keeper.left("the report could not be made", outcome)
    if not isinstance(outcome, Failed):
        _keep(keeper, outcome)
    keeper.left("the timeline could not be made", after(_keep_events, keeper, pilot, live, ended))
    keeper.end("ok" if ending.code == 0 else "failed", ending.code)
    if not keeper.broken:
        after(live.end)
    keeper.left("the report page could not be written", after(keep_page, keeper))
    if isinstance(outcome, Failed):
        return Finished(ending, None, keeper, pilot, outcome.reason)
    return Finished(ending, outcome, keeper, pilot)


def _conclude(pilot: Pilot, ended: float) -> Outcome:
    pilot.stop()
    switched = ended - pilot.switched_at if pilot.switched_at is not None else 0.0
    return conclude(pilot, ended - pilot.started_at, switched, site_module.native.spent() / 1e9)


def _keep_events(keeper: Keeper, pilot: Pilot, live: Live, ended: float) -> None:
    """Writes single calls and memory over time, as far as the program was observed."""
    gathered = pilot.recorder.gathered()
    live.log.process = getpid()
    live.log.fill(pilot.recorder.gatherer.events())
    gathered.logs.append(live.log)
    switched = {} if pilot.switched_at is None else {"switched": round(pilot.switched_at * 1e9)}
    keeper.keep(gathered.events(round(pilot.started_at * 1e9), round(ended * 1e9), switched))


def keep_page(keeper: Keeper) -> None:
    """Writes the report page next to the files that it shows, unless these could not be written."""
    if not keeper.broken:
        write_page(RunDirectory(keeper.path), keeper.path / "report.html")


def _keep(keeper: Keeper, outcome: Outcome) -> None:
    machine = after(this_machine)
    keeper.keep(
        outcome.graph,
        outcome.costs,
        outcome.plan,
        outcome.report,
        *([] if isinstance(machine, Failed) else [machine]),
    )
