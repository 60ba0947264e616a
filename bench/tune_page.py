"""The tables of docs/benchmarks.md about tuned kernels, from bench/results/tune.json and tune_run.json.

python bench/tune_page.py
"""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE, RESULTS = ROOT / "docs" / "benchmarks.md", ROOT / "bench" / "results"
MARKS = ("<!-- tune: begin -->", "<!-- tune: end -->")


def _table(head: str, rows: list[list[str]]) -> str:
    names = head.split(" | ")
    return "\n".join(f"| {' | '.join(row)} |" for row in [names, ["---"] * len(names), *rows])


def _kernels(found: dict) -> str:
    rows = [
        [name, f"{one['gain_best']:.1f}x ({one['gain_median']:.1f}x)", f"{one['least']}x to {one['aim']}x"]
        for name, one in found.items()
    ]
    return _table("kernel | gain (median) | aimed at", rows)


def _products(found: dict) -> str:
    columns = ("fraction_of_peak", "numpy_fraction", "first_of_best", "seconds_a_candidate", "share_of_search")
    rows = [[n, *(f"{one[name]:.2f}" for name in columns)] for n, one in found.items()]
    return _table(
        "product | of the peak | numpy | first pick, of the best | seconds a candidate | rest of the search", rows
    )


def _large(found: dict) -> str:
    rows = [
        [name, f"{one['points']:,}", f"{one['gain_over_random']:.2f}x", f"{one['gain_over_evolution']:.2f}x",
         f"{100 * one['seeds_apart']:.0f} %"]
        for name, one in found.items()
    ]  # fmt: skip
    return _table("large space | points | over random | over evolution | seeds apart", rows)


def _tables(found: dict) -> str:
    def needed(search: dict) -> str:
        return " / ".join("over 128" if search[k] is None else f"{search[k]:g}" for k in ("to_90", "to_95"))

    rows = [
        [name, str(one["points"]), f"{one['two_measurements_alike']:.2f}", f"{one['rank_correlation']:.2f}",
         f"{one['smooth_against_exact']:.3f}", f"{one['first_pick_of_best']:.2f}",
         *(needed(one["searches"][search]) for search in ("gradient", "evolution", "random"))]
        for name, one in found.items()
    ]  # fmt: skip
    head = "table | points | two measurements rank alike | model | smooth and exact | first pick"
    return _table(f"{head} | to 90 / 95 %: descent | evolution | random", rows)


def _models(found: dict) -> str:
    models = ("network", "linear", "nearest")
    rows = [
        [name, *(f"{one[m]['rank_correlation']:.2f} ({one[m]['first_pick_of_best']:.2f})" for m in models)]
        for name, one in found.items()
    ]
    return _table("task that is left out | network | linear | nearest records", rows)


def _run(found: dict) -> str:
    rows = [
        [name, f"{one['gain']:.2f}x [{min(one['gains']):.2f} .. {max(one['gains']):.2f}]",
         "the same" if one["same_output"] else "DIFFERENT"]
        for name, one in found["programs"].items()
    ]  # fmt: skip
    rows.append(["geometric mean", f"{found['geometric_mean']:.2f}x", ""])
    return _table("program, second `codedag run` | gain | output", rows)


def write_page() -> None:
    """Writes the tables between their marks."""
    tuned = json.loads((RESULTS / "tune.json").read_text())
    made = [
        write(tuned[part])
        for part, write in (
            ("kernels", _kernels), ("products", _products), ("large", _large), ("tables", _tables), ("models", _models),
        )
        if part in tuned
    ]  # fmt: skip
    made.append(_run(json.loads((RESULTS / "tune_run.json").read_text())))
    before, _, rest = PAGE.read_text().partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    PAGE.write_text(before + MARKS[0] + "\n" + "\n\n".join(made) + "\n" + MARKS[1] + after)


if __name__ == "__main__":
    write_page()
