"""One `codedag run`: the program runs once, as it would have, and everything else happens around it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

from codedag.autopilot.outcome import Outcome, conclude
from codedag.autopilot.pilot import Pilot
from codedag.instrument import launch
from codedag.instrument import sites as site_module
from codedag.instrument.hook import importing
from codedag.instrument.launch import Ending, Target
from codedag.instrument.program import Program
from codedag.ir import Plan
from codedag.migrate.guard import Failed, attempt
from codedag.trace.rundir import Keeper


@dataclass(frozen=True, slots=True)
class Finished:
    """A program that has ended, and what became of the attempt to make it faster."""

    ending: Ending
    outcome: Outcome | None
    keeper: Keeper
    pilot: Pilot
    failure: str = ""


def run(target: Target, keeper: Keeper, *, observe_only: bool = False, plan: Plan | None = None) -> Finished | Ending:
    """Runs the program under a pilot; in a forked child that runs to its end, only how it ended."""
    keeper.begin()
    program = Program([target.root()])
    at_once = os.environ.get("CODEDAG_SYNCHRONOUS", "") not in ("", "0")
    pilot = Pilot(program, observe_only=observe_only, synchronous=at_once, plan=plan)
    with importing(program):
        pilot.start()
        ending = launch.run(target, lambda path, source: program.load(path, source, main=True))
        ended = time.perf_counter()
    if not pilot.owns_this_process():
        return ending
    outcome = attempt(_conclude, pilot, ended)
    if isinstance(outcome, Failed):
        return Finished(ending, None, keeper, pilot, outcome.reason)
    _keep(keeper, outcome, ending, pilot)
    return Finished(ending, outcome, keeper, pilot)


def _conclude(pilot: Pilot, ended: float) -> Outcome:
    pilot.stop()
    switched = ended - pilot.switched_at if pilot.switched_at is not None else 0.0
    return conclude(pilot, ended - pilot.started_at, switched, site_module.native.spent() / 1e9)


def _keep(keeper: Keeper, outcome: Outcome, ending: Ending, pilot: Pilot) -> None:
    from codedag.devices.inventory import this_machine

    machine: Any = attempt(this_machine)
    keeper.notes += pilot.notes
    keeper.keep(
        outcome.graph,
        outcome.costs,
        outcome.plan,
        outcome.report,
        *([] if isinstance(machine, Failed) else [machine]),
    )
    keeper.end("ok" if ending.code == 0 else "failed", ending.code)
