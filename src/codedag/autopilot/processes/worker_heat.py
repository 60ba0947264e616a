"""Heat of one worker process: the call tree of its own sampler, written for the program's report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from codedag.autopilot.heat.report import HotCall
from codedag.ir.files import write_atomically
from codedag.ir.report import HotProcess

if TYPE_CHECKING:
    from codedag.autopilot.heat import Heat

FOLDER = "heat"  # below that of the reports
READ_MAX = 200  # workers: a program may start thousands


class WorkerHeat(msgspec.Struct, frozen=True):
    """Totals and call tree of one worker."""

    totals: HotProcess
    calls: list[HotCall]


def write(heat: Heat, folder: Path) -> None:
    """Replaces the file of this process."""
    seen = heat.look()
    totals = HotProcess(
        process=os.getpid(), seconds=seen.wall_seconds, cpu_seconds=seen.cpu_seconds,
        waiting_seconds=min(seen.waiting_seconds, seen.wall_seconds),
    )  # fmt: skip
    write_atomically(folder / FOLDER / f"{os.getpid()}.json", msgspec.json.encode(WorkerHeat(totals, heat.tree())))


def read(folder: Path | None) -> list[WorkerHeat]:
    """What the workers have written; files that cannot be read are left out."""
    found = []
    for path in sorted((folder / FOLDER).glob("*.json") if folder is not None else ())[:READ_MAX]:
        try:
            found.append(msgspec.json.decode(path.read_bytes(), type=WorkerHeat))
        except (OSError, msgspec.MsgspecError):
            continue
    return found
