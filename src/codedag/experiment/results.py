"""Two modes of an experiment beside each other, as their results files tell them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from codedag.experiment.folder import MODES, Folder
from codedag.ir.errors import BadFile


@dataclass(frozen=True, slots=True)
class Beside:
    """The figures of both modes by name, and whether losses and accuracies are equal, entry by entry."""

    files: dict[str, str]
    figures: dict[str, dict[str, float | None]]
    same: dict[str, bool]
    batch_time_ratio: float | None

    def facts(self) -> dict[str, Any]:
        """All of it as JSON can hold it."""
        return {
            "files": self.files, "figures": self.figures, "same": self.same, "batch_time_ratio": self.batch_time_ratio,
        }  # fmt: skip


_FIGURES = (
    ("total time (s)", ("total_time",)),
    ("batch time, mean (s)", ("batch_time", "mean")),
    ("batch time, min (s)", ("batch_time", "min")),
    ("final loss", ("loss", "final")),
    ("final accuracy", ("accuracy", "final")),
)


def beside(folder: Folder) -> Beside:
    """The newest results of baseline and optimization; raises if one of them was never run."""
    found = {}
    for mode in MODES:
        newest = folder.newest(mode)
        if newest is None:
            hint = f"`codedag experiment run {mode}` makes them."
            raise BadFile(f"{folder.path / 'results'}: there are no results of {mode}", hint=hint)
        found[mode] = newest
    facts = {mode: each for mode, (_, each) in found.items()}
    figures = {name: {mode: _get(each, path) for mode, each in facts.items()} for name, path in _FIGURES}
    means = figures["batch time, mean (s)"]
    both = means["baseline"] and means["optimization"]
    return Beside(
        {mode: str(place) for mode, (place, _) in found.items()},
        figures,
        {kind: _logged(facts["baseline"], kind) == _logged(facts["optimization"], kind) for kind in _LOGGED},
        means["baseline"] / means["optimization"] if both else None,  # type: ignore[operator]
    )


_LOGGED = ("losses", "accuracies")


def _logged(facts: dict[str, Any], kind: str) -> Any:
    metrics = facts.get("metrics")
    return metrics.get(kind) if isinstance(metrics, dict) else None


def _get(facts: dict[str, Any], path: tuple[str, ...]) -> float | None:
    value: Any = facts.get("summary")
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return float(value) if isinstance(value, int | float) else None
