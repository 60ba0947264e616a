"""The demo: one ordinary program, plain and under `codedag run`, and every batch of the two compared bit for bit."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codedag.experiment.child import ProgramFailed
from codedag.experiment.folder import template
from codedag.ir import CannotWrite, Report, load
from codedag.ir.errors import MissingPackage
from codedag.ir.files import write_atomically

PROGRAM = "images_cv2.py"
NEEDS = {"cv2": "opencv-python-headless", "torch": "torch"}

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Demo:
    """Where the program and its pictures are kept, where the run goes, and how much is done."""

    folder: Path
    run: Path
    pictures: int
    epochs: int

    def program(self, *more: str) -> list[str]:
        """The command line of the program; one thread, so that both do the same on a machine that is busy."""
        counts = ["--count", str(self.pictures), "--epochs", str(self.epochs), "--threads", "1"]
        return [PROGRAM, *counts, "--data", f"pictures-{self.pictures}", *more]


@dataclass(frozen=True, slots=True)
class Shown:
    """What the demo has shown: pictures per second of each epoch, equal batches, and the report of the run."""

    demo: Demo
    plain: list[float]
    changed: list[float]
    batches: int
    equal: int
    report: Report

    @property
    def ratio(self) -> float:
        """The best epoch under `codedag run` over the best plain one."""
        return max(self.changed) / max(self.plain)

    @property
    def is_identical(self) -> bool:
        """Whether every batch is bit-equal."""
        return self.batches == self.equal > 0

    def facts(self) -> dict[str, Any]:
        """All of it as JSON can hold it."""
        return {
            "program": str(self.demo.folder / PROGRAM), "run": str(self.demo.run), "pictures": self.demo.pictures,
            "epochs": self.demo.epochs, "batches": self.batches, "equal": self.equal, "identical": self.is_identical,
            "images_per_second": {"plain": self.plain, "codedag": self.changed}, "ratio": self.ratio,
            "changes": len(self.report.changes),
        }  # fmt: skip


def show(demo: Demo, say: Say, *, quiet: bool = False) -> Shown:
    """Writes the program, runs it plain and optimised, and compares; `say` hears what happens while it happens."""
    _refuse_missing()
    _write(demo)
    say(f"1. making {demo.pictures} pictures and running {PROGRAM} as it is ({demo.epochs} epochs, one thread)")
    plain = _rates(demo, demo.program(), say, quiet)
    say(f"2. the same program, unchanged, under `codedag run {PROGRAM}`")
    changed = _rates(demo, [*_codedag(demo.run), *demo.program()], say, quiet)
    say("3. both again, with a digest of every batch (hashing takes time, so these are not timed)")
    one, other, report = _digests(demo)
    equal = sum(a == b for a, b in zip(one, other, strict=False))
    return Shown(demo, plain, changed, max(len(one), len(other)), equal, report)


def _refuse_missing() -> None:
    missing = [package for module, package in NEEDS.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise MissingPackage(
            f"the demo's program needs {' and '.join(missing)}, which is not installed here",
            hint=f"pip install {' '.join(missing)}, or run a program of your own: `codedag run SCRIPT`.",
        )


def _write(demo: Demo) -> None:
    """Puts the program into the folder: there it is the user's, to read and to run."""
    try:
        demo.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = "Name another place with --folder."
        raise CannotWrite(f"cannot make {demo.folder}: {error.strerror or error}", hint=hint) from error
    write_atomically(demo.folder / PROGRAM, template(f"{PROGRAM}.txt").encode())


def _codedag(run: Path) -> list[str]:
    return ["-m", "codedag", "run", "-o", str(run)]


def _digests(demo: Demo) -> tuple[list[str], list[str], Report]:
    """The digests of all batches, plain and optimised, and what the optimised run says of itself."""
    with tempfile.TemporaryDirectory(prefix="codedag-demo-") as name:
        work = Path(name)
        _rates(demo, demo.program("--digest", str(work / "plain")), quiet=True)
        changed = demo.program("--digest", str(work / "codedag"))
        _rates(demo, [*_codedag(work / "run"), *changed], quiet=True)
        one, other = ((work / each).read_text().split() for each in ("plain", "codedag"))
        return one, other, load(work / "run" / "report.json", "report")


def _rates(demo: Demo, command: list[str], say: Say = lambda line: None, quiet: bool = False) -> list[float]:
    """Pictures per second of each epoch; the program's lines are said as they come."""
    started, rates = time.perf_counter(), []
    environment = {name: value for name, value in os.environ.items() if name != "CODEDAG_DISABLE"}  # both are wanted
    process = subprocess.Popen(
        [sys.executable, *command], cwd=demo.folder, env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if quiet else None,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            say(f"   {line.rstrip()}")
            rates += [float(found) for found in re.findall(r"([\d.]+) images/s", line)]
    if process.returncode != 0 or not rates:
        raise ProgramFailed(
            f"{PROGRAM} ended with exit code {process.returncode}",
            hint=f"Run it to see why: cd {demo.folder} && python {' '.join(demo.program())}",
        )
    say(f"   ({time.perf_counter() - started:.1f} s in all, with imports)")
    return rates
