"""The picture of an experiment: its modes beside each other, drawn by matplotlib."""

from __future__ import annotations

import io
import warnings
from functools import partial
from importlib.util import find_spec
from typing import Any


def is_possible() -> bool:
    """Whether matplotlib is there."""
    return find_spec("matplotlib") is not None


def png(results: dict[str, Any]) -> bytes:
    """The picture of these results as PNG; no window is opened and nothing of a program's own pictures changes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 8), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(_words(results["experiment_name"]))
    axes = figure.subplots(2, 3).ravel()
    for number, (name, mode) in enumerate(results["modes"].items()):
        _draw(axes, _words(name), mode, width=1.2 if number else 4.0)  # lines that are equal are both seen
    for axis, (title, label) in zip(axes, _PANELS, strict=True):
        axis.set(title=title, xlabel=label)
        _finish(axis, title)
    drawn = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name in a script that the font does not have is drawn as boxes
        figure.savefig(drawn, format="png", dpi=110)
    return drawn.getvalue()


_PANELS = (
    ("batch time (s)", "batch"),
    ("loss", "step"),
    ("accuracy", "step"),
    ("CPU (%)", "seconds"),
    ("memory (%)", "seconds"),
    ("GPU (%) and GPU memory (MB, dashed)", "seconds"),
)


def _finish(axis: Any, title: str) -> None:
    """Scales and words of a panel; one without lines says so."""
    if not axis.get_legend_handles_labels()[0]:
        words = "no GPU that says how busy it is" if "GPU" in title else "nothing was recorded"
        axis.text(0.5, 0.5, words, ha="center", va="center", transform=axis.transAxes, color="0.5")
        axis.set(xticks=[], yticks=[])
        return
    axis.grid(alpha=0.3)
    axis.legend(fontsize="small")
    if title.endswith("(%)"):
        axis.set_ylim(-2, 102)
    elif title.startswith("batch"):
        axis.set_ylim(bottom=0)


def _draw(axes: Any, name: str, mode: dict[str, Any], width: float) -> None:
    used, metrics = mode["resource_usage"], mode["metrics"]
    times, losses, accuracies, cpu, memory, gpu = axes
    line = partial(_line, width=width)
    line(times, name, *_columns(mode["batch_times"]))
    for axis, rows in ((losses, metrics["losses"]), (accuracies, metrics["accuracies"])):
        line(axis, name, list(range(len(rows))), [row[2] for row in rows])
    began = used["cpu_usage"][0][0] if used["cpu_usage"] else 0.0
    for axis, series in ((cpu, used["cpu_usage"]), (memory, used["memory_usage"])):
        line(axis, name, *_since(began, series))
    for number, series in used["gpu_usage"].items():
        line(gpu, f"{name}, GPU {number}", *_since(began, series))
    for number, series in used["gpu_memory"].items():
        line(gpu, f"{name}, GPU {number} memory", *_since(began, series), style="--")


def _line(axis: Any, name: str, xs: list[float], ys: list[float], style: str = "-", width: float = 1.2) -> None:
    if xs:
        faint = 0.45 if width > 2 else 1.0
        axis.plot(xs, ys, style, marker="." if len(xs) < 40 else "", label=name, linewidth=width, alpha=faint)


def _columns(rows: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [row[0] for row in rows], [row[1] for row in rows]


def _since(began: float, rows: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [row[0] - began for row in rows], [row[1] for row in rows]


def _words(text: str) -> str:
    """Text as it is: matplotlib reads a dollar sign as mathematics, and a leading underscore as 'no legend'."""
    return str(text).replace("$", r"\$").removeprefix("_") or "-"
