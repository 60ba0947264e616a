"""Start of the pilot in a spawned worker process, with the changes that the program had when it started the worker."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from codedag.autopilot.heat import Heat
from codedag.autopilot.knowledge import Proven
from codedag.autopilot.pilot import Pilot
from codedag.autopilot.processes.report_folder import WorkerReports
from codedag.instrument.hook import Finder, NamedFinder
from codedag.instrument.program import Program
from codedag.trace.processes import rewrite_main


def begin(ticket: dict[str, Any]) -> None:
    """Starts a pilot in this process, with the changes that the program had when it was started."""
    program = Program.of_terms(ticket["program"])
    folder = ticket["folder"]
    pilot = Pilot(program, **ticket["settings"])
    pilot.team.crew = WorkerReports(
        Path(folder) if folder is not None else None, parent=ticket["parent"], root=ticket["root"]
    )
    pilot.known = msgspec.convert(ticket["known"], list[Proven])
    changed = {move.file for move in pilot.known}
    is_sampled = ticket["is_sampled"]
    if not is_sampled or changed:
        finder = NamedFinder(program, changed, doubled_only=False) if is_sampled else Finder(program)
        sys.meta_path.insert(0, finder)
    if ticket["main"] and (not is_sampled or ticket["main"] in changed):
        rewrite_main(program, ticket["main"])
    pilot.start(_heat() if is_sampled else None)


def _heat() -> Heat:
    heat = Heat()
    heat.start()
    return heat
