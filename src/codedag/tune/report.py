"""Facts of a tuning run, for people and as JSON: what was found, beside what it is measured, and what was declined."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from codedag.tune.schedule.family import ContractionFamily
from codedag.tune.schedule.space import Point, point_text
from codedag.tune.task import Result, Task

LIBRARY_ENOUGH = 0.85  # of the peak: the library is the better choice


@dataclass
class TuningReport:
    """What a search of a task gave."""

    task: Task
    search: str
    seed: int
    seconds: float = 0.0
    result: Result | None = None
    first_pick_seconds: float | None = None
    peak: float | None = None
    baselines: dict[str, float] = field(default_factory=dict)
    declined: list[str] = field(default_factory=list)
    failed: str = ""  # why a search has found nothing

    @property
    def best(self) -> Point | None:
        """The best point."""
        return self.result.best if self.result else None

    @property
    def best_seconds(self) -> float | None:
        """Its seconds."""
        return self.result.seconds if self.result else None

    def fraction_of_peak(self, seconds: float | None) -> float | None:
        """The share of the peak that a product reaches."""
        if seconds is None or not self.peak or not isinstance(self.task.family, ContractionFamily):
            return None
        return self.task.family.contraction.flops / seconds / 1e9 / self.peak

    def facts(self) -> dict[str, Any]:
        """Everything as JSON."""
        space, result = self.task.space, self.result
        copied = self.baselines.get("copy")
        history = [seconds for _, seconds in result.history] if result else []
        return {
            "task": self.task.name, "class": self.task.exactness, "program": str(self.task),
            "space": {"points": space.points, "sketches": [sketch.name for sketch in space.sketches]},
            "search": self.search, "seed": self.seed, "measurements": len(history), "seconds": round(self.seconds, 3),
            "best": None if self.best is None else point_text(self.best), "best_seconds": self.best_seconds,
            "first_pick_seconds": self.first_pick_seconds, "peak_gflops": self.peak,
            "fraction_of_peak": self.fraction_of_peak(self.best_seconds), "copy_seconds": copied,
            "fraction_of_copy": copied / self.best_seconds if copied and self.best_seconds else None,
            "baselines": {k: v for k, v in self.baselines.items() if k != "copy"}, "history": history,
            "declined": self.declined,
        }  # fmt: skip

    def lines(self) -> list[str]:
        """The same in words."""
        facts = self.facts()
        space = facts["space"]
        sketches = f"{space['points']:,} points in {', '.join(space['sketches'])}"
        made = [f"{self.task.name}: class {facts['class']}, {sketches}"]
        if self.best is not None:
            made.append(f"best: {point_text(self.best)}")
        if self.best_seconds is None:
            made.append("nothing was measured: this is the first pick of the model")
        else:
            made += self._timing(self.best_seconds, facts)
        return [*made, *(f"declined: {why}" for why in self.declined)]

    def _timing(self, seconds: float, facts: dict[str, Any]) -> list[str]:
        made = [f"{seconds * 1e6:.1f} us after {facts['measurements']} measurements in {self.seconds:.1f} s"]
        for name, other in facts["baselines"].items():
            made.append(f"{name}: {other * 1e6:.1f} us, {other / seconds:.2f}x")
        share = facts["fraction_of_peak"]
        if share is not None:
            made.append(f"{share:.2f} of the peak of {self.peak:.0f} GFLOP/s")
        elif facts["fraction_of_copy"]:
            made.append(f"{facts['fraction_of_copy']:.2f} of the speed of a copy of the same bytes")
        library = self.fraction_of_peak(self.baselines.get("numpy"))
        if library is not None and library > LIBRARY_ENOUGH:
            made.append(f"numpy's library reaches {library:.2f} of the peak: it is the better choice here")
        elif facts["baselines"].get("numpy", seconds) < seconds:
            made.append("numpy is faster: it is the better choice here")
        return made


def tune(task: Task, search: str, seed: int, measurements: int, budget: float | None) -> TuningReport:
    """The report of a search; what was measured before an interrupt is kept."""
    report = TuningReport(task, search, seed)
    start = time.monotonic()
    try:
        report.result = task.search(search, seed=seed, measurements=measurements, seconds=budget)
    finally:
        report.seconds = time.monotonic() - start
    if report.result.history:
        first = report.result.history[0][1]
        report.first_pick_seconds = first if search != "random" else None
        if report.result.best is not None:
            report.peak, report.baselines = task.peak(), task.baselines()
        else:
            report.failed = f"no candidate ran: {'; '.join(sorted({one.why for one in task.measured if one.why})[:3])}"
            report.declined.append(report.failed)
    report.declined += task.notes
    return report
