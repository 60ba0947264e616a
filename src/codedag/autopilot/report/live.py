"""What a running program has shown so far, kept where a live page (or whoever comes after a kill) finds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import getpid  # by name: a program may leave mocks on the modules
from pathlib import Path

from codedag.instrument.guard import attempt
from codedag.ir.clock import perf_counter_ns
from codedag.trace.gathered import Gathered
from codedag.trace.records import Records

SHARE = 200  # keeping takes at most one part in so many of the time


@dataclass(slots=True)
class Live:
    """Called now and then by the pilot's thread."""

    gathered: Callable[[], Gathered]
    folder: Path
    _due: int = 0

    def __call__(self) -> None:
        """Writes the graph so far, if it is due."""
        begun = perf_counter_ns()
        if begun >= self._due:
            attempt(self._write)
            ended = perf_counter_ns()
            self._due = ended + SHARE * (ended - begun)

    def _write(self) -> None:
        records = Records(process=getpid())
        records.fill(self.gathered())
        if records.templates:
            records.write(self.folder / f"{records.process}.json")
