"""Writes docs/substitutions.md from the table of substitutions and the last results of bench/substitutions.py.

python scripts/write_substitutions.py [--check]
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from codedag.backends.registry import Substitution, all_substitutions
from codedag.backends.supported import list_supported_functions, reasons_against, strategy_of

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "substitutions.md"
RESULTS = ROOT / "bench" / "results" / "substitutions.json"
HEAD = """\
# Functions that have a substitute

Written by `scripts/write_substitutions.py`; do not edit.

A substitute is used only in a class that the plan allows (EXACT unless you say more), for calls that its guard
takes, in the versions named, after it agreed with its original on this machine, and as long as it is faster there.
Whatever a guard does not take runs as written. What EXACT means: [exactness.md](exactness.md).

*Gain* is the original's time over that of guard and substitute together: the least and the greatest median of the
typical calls in `bench/substitution_cases.py`, processor time of one thread, interleaved, on a shared x86 machine.
*Guard* is the largest cost of the guard in these calls; where it is not small it reads the elements.
Substitutes for an accelerator (*torch on cuda, xpu, mps*) were proven on the processor's tensors and have not been
run on such hardware; on a machine that has it they are proven there before they are used. Substitutes *by OpenCL*
are for programs that ask for it ([devices.md](devices.md)). Substitutes *torch:cpu*, *ov:cpu*, *ort:cpu* and
*numba:cpu* are other libraries on the same processor: `codedag profile` measures them, and a plan that names one gets
it ([profiling.md](profiling.md)).
"""
#: What was wanted of which call (of bench/substitution_cases.py, 480 x 640 pixels or as many samples).
GOALS = (
    ("scipy.ndimage.median_filter -> cv2", "uint8 size=5", 50),
    ("scipy.ndimage.minimum_filter -> cv2", "uint8 size=5", 10),
    ("scipy.ndimage.sobel -> codedag", "float32", 5),
    ("scipy.ndimage.sobel -> codedag", "float64", 5),
    ("skimage.transform.resize -> codedag", "float32 to 224, not smooth", 10),
    ("skimage.transform.resize -> codedag", "bytes to 224", 10),
    ("skimage.transform.resize -> codedag", "float32 to 224", 10),
    ("skimage.transform.resize -> codedag", "grey to 224", 10),
    ("librosa.stft -> scipy.fft", "2048", 2),
    ("librosa.stft -> scipy.fft", "512", 2),
)
LIMITS = """\
Where skimage's resize stays below its goal the blur is the reason. EXACT has to keep scipy's sums: double precision,
one order, cut to the image's dtype after each axis. For 640 to 224 columns these are about twenty additions and
products for each pixel and channel, four of which fit into one instruction; a blur in single precision, or one that
adds in another order, would be faster and is not the same. For one channel the original is a third as long while the
reading, cutting and looking up stay what they are. Spectra of longer sounds write more memory than a processor's cache
holds, which the transform in single precision does not change.
"""
SUITES = """\
## Other projects' test-suites

`python bench/suites.py NAME=DIR` runs a project's own tests plain and then with every exact substitute; with `--learn`,
as for both here, once more under the plan that this run leaves: what it kept in use and found faster. An
interception ends by itself where declining calls took longer than the calls that were taken have saved, where a
substitute was not faster on interleaved calls, and where it took almost none of its calls; so a function that tests
call with tiny arrays leaves the plan. Calls after that count as intercepted too. Of librosa's tests those fail as they
are whose recordings are kept in another repository.
"""
_WHERE = {"cuda": " on cuda, xpu, mps", "opencl:cpu": " by OpenCL"}


def page() -> str:
    """The text of the page."""
    gains = _gains()
    parts = [HEAD, _versions()]
    libraries = sorted({made.source.partition(".")[0] for made in all_substitutions()})
    for library in libraries:
        parts += [f"## {library}\n", *_table(library, gains), ""]
    parts += ["## Never replaced\n", "| function | reason |", "|---|---|"]
    parts += [f"| `{name}` | {reason} |" for name, reason in sorted(reasons_against().items())]
    return "\n".join([*parts, "", *_goals(gains), *_suites()]) + "\n" + _summary()


def _goals(gains: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """The gains that were wanted and those that were measured."""
    yield from (
        "## Gains that were wanted",
        "",
        "| function | call | wanted | median | best of the rounds |",
        "|---|---|---|---|---|",
    )
    for name, case, wanted in GOALS:
        found = [row for row in gains.get(name, ()) if row["case"] == case and row["shape"] == [480, 640]]
        for row in found:
            yield f"| {name} | {case} | {wanted} | {row['median']:.1f} | {row['best']:.1f} |"
    yield from ("", LIMITS)


def _suites() -> Iterator[str]:
    """What became of other projects' tests and of their calls."""
    yield from (
        SUITES,
        "| suite | tests | pass as they are | new failures | calls intercepted | by a substitute | different |",
        "|---|---|---|---|---|---|---|",
    )
    for path in sorted(RESULTS.parent.glob("suite_*.json")):
        for result in json.loads(path.read_text()):
            yield _suite(result)
    yield ""


def _suite(result: dict[str, Any]) -> str:
    counted = result["functions"].values()
    calls, fast, checked = (sum(one[key] for one in counted) for key in ("calls", "fast", "checked"))
    share = f"{fast + checked} ({(fast + checked) / calls:.0%})" if calls else "0"
    counts = (result["tests"], result["passed"], len(result["new_failures"]), calls, share)
    cells = (f"{result['suite']} {result['version']}", *counts, result["verdict"]["mismatches"])
    return "| " + " | ".join(map(str, cells)) + " |"


def _table(library: str, gains: dict[str, list[dict[str, Any]]]) -> list[str]:
    lines = ["| function | into | class | strategy | calls taken | versions | gain | guard |", "|" + "---|" * 8]
    for made in all_substitutions():
        if made.source.partition(".")[0] == library:
            lines.append(_line(made, gains.get(made.name, [])))
    return lines


def _line(made: Substitution, rows: list[dict[str, Any]]) -> str:
    cells = [
        f"`{made.source}`",
        made.into + _WHERE.get(made.pu, ""),
        made.equivalence.name,
        strategy_of(made.source),
        made.takes.replace("|", "\\|"),
        ", ".join(dict.fromkeys((made.source_needs, made.needs))),
        _gain(made, rows) if made.pu != "cuda" else "not run on hardware",
        f"{max(row['guard_seconds'] for row in rows) * 1e6:.0f} us" if rows else "",
    ]
    return "| " + " | ".join(cells) + " |"


def _gain(made: Substitution, rows: list[dict[str, Any]]) -> str:
    medians = sorted(row["median"] for row in rows)
    if not medians:
        return "not measured" if made.pu == "cpu" else "by `codedag profile`"
    return f"{medians[0]:.1f} to {medians[-1]:.1f}, mostly {statistics.median(medians):.1f}"


def _gains() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in _results().get("rows", ()):
        if "declined" not in row:
            found.setdefault(row["name"], []).append(row)
    return found


def _results() -> dict[str, Any]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}  # type: ignore[no-any-return]


def _versions() -> str:
    versions = _results().get("versions", {})
    return "Measured with " + ", ".join(f"{name} {number}" for name, number in versions.items()) + ".\n"


def _summary() -> str:
    counted = ", ".join(f"{strategy} {len(names)}" for strategy, names in list_supported_functions().items())
    return f"`codedag.migrate.list_supported_functions()` gives these names by strategy: {counted}.\n"


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        return int(not PAGE.exists() or PAGE.read_text() != text)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
