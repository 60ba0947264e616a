"""Looks into one package from before it is imported, in a fresh process: for a script, or as a pytest plugin.

    python drilling.py PACKAGE script.py      runs the script and prints, as its last line to stderr, what was seen
    pytest -p drilling                        with DRILL=PACKAGE and OUTCOMES=FILE: one line for each test and its phase

An empty PACKAGE leaves everything plain, so that both runs go through the same door.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any


class Drilling:
    """One package under observation, every site recorded."""

    def __init__(self, package: str) -> None:
        self._context = ExitStack()
        self._package, self._program, self._recorder = package, None, None

    def begin(self) -> None:
        if not self._package:
            return
        from codedag.instrument import sites
        from codedag.instrument.hook import importing
        from codedag.instrument.program import Program
        from codedag.trace.recorder import Recorder

        self._program = Program([], drill=[self._package])
        self._recorder = Recorder(self._program.names)
        self._context.enter_context(importing(self._program))
        sites.native.start(self._recorder, self._program.names)

    def end(self) -> dict[str, Any]:
        if self._program is None or self._recorder is None:
            return {}
        from codedag.instrument import sites

        sites.native.stop()
        self._context.close()
        plain = self._program.left_plain
        unread = {path: why for path, why in plain.items() if why != "it has no Python source"}
        return {
            "failure": sites.native.failure(), "files": len(self._program.files), "left_plain": unread,
            "operations": len(self._recorder.templates),
        }  # fmt: skip


def main() -> None:
    """Runs a script with the package drilled."""
    drilling = Drilling(sys.argv[1])
    drilling.begin()
    sys.argv = sys.argv[2:]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        print(json.dumps(drilling.end()), file=sys.stderr)


if __name__ == "__main__":
    main()
elif "OUTCOMES" in os.environ:  # loaded with -p, before any conftest
    _drilling = Drilling(os.environ["DRILL"])
    _drilling.begin()

    def pytest_runtest_logreport(report: Any) -> None:
        """Writes down how each phase of each test ended."""
        expected = "x" if hasattr(report, "wasxfail") else ""
        with Path(os.environ["OUTCOMES"]).open("a") as file:
            file.write(json.dumps([report.nodeid, report.when, report.outcome + expected]) + "\n")

    def pytest_unconfigure() -> None:
        """Writes down what was seen of the package."""
        with Path(os.environ["OUTCOMES"]).open("a") as file:
            file.write(json.dumps(_drilling.end()) + "\n")
