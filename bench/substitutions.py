"""Prints how many times as fast each substitution is as its original: interleaved, in
processor time, one thread, with guard.

python bench/substitutions.py [--only NAME] [--smallest] [--plain] [--rounds N] [-o RESULTS.json]

With --only the rows of other functions stay in the file of results.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"  # read when the libraries below are loaded

import cv2  # noqa: E402
import numpy as np  # noqa: E402
from substitution_cases import CASES  # noqa: E402

from codedag.backends.registry import Substitution, all_substitutions  # noqa: E402

SIZES = ((128, 128), (224, 224), (480, 640))
SMALLEST = ((32, 32), (64, 64), (128, 128))
LIBRARIES = ("numpy", "scipy", "scikit-image", "librosa", "pillow", "albucore", "albumentations", "torch", "pandas")


def seconds(function: Callable[[], Any], repeats: int) -> float:
    start = time.process_time()  # other programs may want the processor too
    for _ in range(repeats):
        function()
    return (time.process_time() - start) / repeats


def compare(original: Callable[[], Any], substitute: Callable[[], Any], rounds: int) -> dict[str, float]:
    repeats = max(1, int(0.002 / max(seconds(original, 1), 1e-7)))
    pairs = [(seconds(original, repeats), seconds(substitute, repeats)) for _ in range(rounds)]
    ratios = sorted(old / new for old, new in pairs)
    old, new = (min(column) for column in zip(*pairs, strict=True))
    return {
        "original_seconds": old,
        "substitute_seconds": new,
        "best": old / new,
        "median": statistics.median(ratios),
        "low": ratios[rounds // 10],
        "high": ratios[-1 - rounds // 10],
    }


def with_guard(substitution: Substitution, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if not substitution.accepts(args, options):
        raise RuntimeError("declined")
    return substitution.run(*args, **options)


def rows(sizes: tuple[tuple[int, int], ...], rounds: int, only: str, plain: bool) -> Iterator[dict[str, Any]]:
    for substitution in all_substitutions():
        if not any(part in substitution.name for part in only.split(",")):
            continue
        for words, make in CASES.get(substitution.source, ()):
            for shape in sizes:
                yield row(substitution, words, shape, make(shape, plain), rounds)


def row(substitution: Substitution, words: str, shape: tuple[int, int], call: Any, rounds: int) -> dict[str, Any]:
    args, options = call
    head = {"name": substitution.name, "case": words, "shape": shape}
    verdict = substitution.accepts(args, options)
    if not verdict:
        return {**head, "declined": verdict.reason}
    original = partial(substitution.original(), *args, **options)
    timed = compare(original, partial(with_guard, substitution, args, options), rounds)
    guard = min(seconds(partial(substitution.accepts, args, options), 20) for _ in range(5))
    decline = min(seconds(partial(substitution.accepts, (None, *args[1:]), {}), 200) for _ in range(5))
    return head | timed | {"guard_seconds": guard, "decline_seconds": decline}


def line(row: dict[str, Any]) -> str:
    head = f"{row['name']:42} {row['case']:28} {row['shape'][0]:4}x{row['shape'][1]:<4}"
    if "declined" in row:
        return f"{head} declined: {row['declined']}"
    micro = f"{row['original_seconds'] * 1e6:10.1f} us {row['substitute_seconds'] * 1e6:8.1f} us"
    spread = f"[{row['low']:.2f}..{row['high']:.2f}]"
    guard = f"guard {row['guard_seconds'] * 1e6:5.1f} us, declining {row['decline_seconds'] * 1e6:4.1f} us"
    return f"{head} {micro}  best {row['best']:7.2f}  median {row['median']:7.2f} {spread} {guard}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="parts of names, with commas between them")
    parser.add_argument("--smallest", action="store_true", help="small arrays, some of which guards decline")
    parser.add_argument("--plain", action="store_true", help="images of a single colour instead of noise")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    np.seterr(all="ignore")
    versions = {name: version(name) for name in LIBRARIES} | {"cv2": cv2.__version__}
    print(platform.python_version(), versions)
    found = []
    for row in rows(SMALLEST if options.smallest else SIZES, options.rounds, options.only, options.plain):
        found.append(row)
        print(line(row), flush=True)
    slow = [row for row in found if row.get("median", 9) < 1.1]
    print(f"{len(found)} rows, {len(slow)} below 1.1")
    if options.output:
        kept = kept_rows(options.output, {row["name"] for row in found}) if options.only else []
        rows_now = sorted([*kept, *found], key=lambda row: str(row["name"]))
        options.output.write_text(json.dumps({"versions": versions, "rows": rows_now}, indent=1) + "\n")


def kept_rows(path: Path, measured: set[str]) -> list[dict[str, Any]]:
    """The rows of a file of results that were not measured anew."""
    known = {one.name for one in all_substitutions()} - measured
    before = json.loads(path.read_text())["rows"] if path.exists() else []
    return [row for row in before if row["name"] in known]


if __name__ == "__main__":
    main()
