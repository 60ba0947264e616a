"""Start of the pilot in a spawned worker process, with the changes that the program had when it started the worker."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from codedag.autopilot.knowledge import Proven
from codedag.autopilot.pilot import Pilot
from codedag.autopilot.processes.report_folder import WorkerReports
from codedag.instrument.hook import Finder
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
    sys.meta_path.insert(0, Finder(program))
    if ticket["main"]:
        rewrite_main(program, ticket["main"])
    pilot.start()
