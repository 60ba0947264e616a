"""Measurement of points: checked and timed one after the other in random order, while the next ones compile."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from codedag.ir.verdict import No
from codedag.tune.compiler import Compiler, TooSlow, find_compiler, run_compiler
from codedag.tune.declined import CannotTune
from codedag.tune.measure.process import MeasuringProcess
from codedag.tune.schedule.family import Emitted, Family
from codedag.tune.schedule.space import Point, point_text

CANDIDATE_SECONDS = 20.0
COMPILE_SECONDS = 30.0  # the largest candidates took 2 s on a busy machine
COMPILERS = 2  # at a time
PAIR_ROUNDS = 15


PREFIX, STALE_SECONDS = "codedag-tune-", 86_400.0


def _sweep() -> None:
    """Removes what searches that were killed left behind long ago."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            state = left.stat()
        except OSError:
            continue
        if state.st_uid == os.getuid() and time.time() - state.st_mtime > STALE_SECONDS:
            shutil.rmtree(left, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Measured:
    """One measured point: its seconds, or None and why."""

    point: Point
    seconds: float | None
    why: str = ""
    beside: float = 0.0  # seconds of a fixed piece of work at the same moment


@dataclass
class Measurer:
    """Compiles and measures the points of one task."""

    family: Family
    order: str = ""
    compiler: Compiler | None = None
    compile_seconds: float = 0.0
    measure_seconds: float = 0.0
    best_seconds: float | None = None  # of all points so far
    libraries: dict[str, Future[Path | No]] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    compiled: bool = False  # whether the compiler has made a library of a candidate
    hung: No | None = None  # its failure to do so in time, if it never did

    def __post_init__(self) -> None:
        found = find_compiler() if self.compiler is None else self.compiler
        if isinstance(found, No):
            raise CannotTune(f"kernels cannot be built: {found.reason}", hint="Install gcc or clang, or set CC.")
        self.compiler = found
        _sweep()
        self.folder = tempfile.TemporaryDirectory(prefix=PREFIX)
        self.process = MeasuringProcess()
        self.text = self.family.program.encoded()
        self.lock = threading.Lock()
        self.draw = np.random.default_rng(0)

    def close(self) -> None:
        """Ends the measuring process and removes what was compiled."""
        self.process.close()
        self.folder.cleanup()

    def __enter__(self) -> Measurer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def measure(
        self, points: Sequence[Point], seconds: float = 0.02, kept: Callable[[Measured], None] | None = None
    ) -> list[Measured]:
        """A record for each point, in their order; they are timed in another one, while the next ones compile.

        `kept` gets each record as soon as it is there.
        """
        start, waited = time.monotonic(), 0.0
        made: list[Measured | None] = [None] * len(points)
        with ThreadPoolExecutor(COMPILERS) as pool:
            order = [int(k) for k in self.draw.permutation(len(points))]
            libraries = {k: pool.submit(self.library, points[k]) for k in order}
            for k in order:
                before = time.monotonic()
                library = libraries[k].result()
                waited += time.monotonic() - before
                made[k] = one = self._measured(points[k], library, seconds)
                if kept is not None:
                    kept(one)
        self.compile_seconds += waited
        self.measure_seconds += time.monotonic() - start - waited
        return [one for one in made if one is not None]

    def _measured(self, point: Point, library: Path | No, seconds: float) -> Measured:
        if isinstance(library, No):
            return Measured(point, None, library.reason)
        request = self._request("measure", point, library, seconds=seconds, best=self.best_seconds)
        said = self.process.ask(request, CANDIDATE_SECONDS)
        if isinstance(said, No):
            return Measured(point, None, said.reason)
        if said["seconds"] is not None:
            self.best_seconds = min(self.best_seconds or said["seconds"], said["seconds"])
        return Measured(point, said["seconds"], said["why"], said.get("beside", 0.0))

    def _request(self, do: str, point: Point, library: Path, **more: Any) -> dict[str, Any]:
        about = {"program": self.text, "order": self.order, "point": point_text(point), "library": str(library)}
        return {"do": do, **about, **more}

    def library(self, point: Point) -> Path | No:
        """The compiled library of a point, or why there is none; points with the same C text share it."""
        try:
            emitted = self.family.emitted(point)
        except CannotTune as error:
            return No(error.message)
        key = hashlib.sha256("\n".join([emitted.source, *emitted.flags]).encode()).hexdigest()
        with self.lock:
            made = self.libraries.setdefault(key, Future())
            mine = key not in self.begun
            self.begun.add(key)
        if mine:
            made.set_result(self._compiled(emitted, key))
        return made.result()

    def _compiled(self, emitted: Emitted, key: str) -> Path | No:
        assert self.compiler is not None
        own, stem = self.compiler, Path(self.folder.name) / key[:24]
        compiler = Compiler(own.name, own.command, (*own.flags, *emitted.flags), own.version, own.tried)
        try:
            stem.with_suffix(".c").write_text(emitted.source)
        except OSError as error:
            return No(f"no place for a candidate: {error}")
        if self.hung is not None:
            return self.hung
        failed = run_compiler(compiler, stem.with_suffix(".c"), stem.with_suffix(".so"), COMPILE_SECONDS)
        if isinstance(failed, TooSlow) and not self.compiled:
            self.hung = failed  # it would hang for every candidate
        self.compiled = self.compiled or failed is None
        return stem.with_suffix(".so") if failed is None else failed

    def paired(self, points: Sequence[Point]) -> list[float | None]:
        """Median seconds of points that are timed in turns."""
        own = [(point, self.library(point)) for point in points]
        candidates = [{"point": point_text(p), "library": str(lib)} for p, lib in own if isinstance(lib, Path)]
        if len(candidates) != len(points):
            return [None] * len(points)
        request = self._request("pairs", points[0], Path(), candidates=candidates, rounds=PAIR_ROUNDS)
        start = time.monotonic()
        said = self.process.ask(request)
        self.measure_seconds += time.monotonic() - start
        if isinstance(said, No) or said["why"]:
            return [None] * len(points)
        return [float(np.median(times)) for times in said["times"]]

    def baselines(self) -> dict[str, float]:
        """Seconds of numpy and of a copy of the same bytes."""
        said = self.process.ask({"do": "baselines", "program": self.text})
        return {} if isinstance(said, No) else {name: float(said[name]) for name in ("numpy", "copy")}
