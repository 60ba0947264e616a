"""Prints how many times as fast each substitution is as its original: interleaved, one thread, with guard.

python bench/substitutions.py [--only NAME] [--smallest] [--plain] [--rounds N] [-o RESULTS.json]
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from codedag.backends.registry import Substitution, all_substitutions

SIZES = ((128, 128), (224, 224), (480, 640))
SMALLEST = ((32, 32), (64, 64), (128, 128))
DISK = np.hypot(*np.mgrid[-3:4, -3:4]) <= 3

MEDIAN = (("uint8", {"size": 3}), ("uint8", {"size": 9}), ("float32", {"size": 5}), ("float64", {"size": 3}))
EXTREME = (
    ("uint8", {"size": 3}),
    ("uint8", {"size": (5, 3), "mode": "wrap"}),
    ("float32", {"size": 5}),
    ("float64", {"size": 3, "mode": "constant"}),
    ("bool", {"size": (1, 3)}),
    ("uint8", {"footprint": DISK}),
    ("float32", {"footprint": DISK}),
)
BINARY = (
    ("bool", {}),
    ("bool", {"structure": DISK}),
    ("uint8", {"iterations": 3}),
    ("bool", {"iterations": 10}),
    ("bool", {"structure": np.ones((3, 3)), "border_value": 1}),
)
CASES = {
    "scipy.ndimage.median_filter": MEDIAN,
    "scipy.ndimage.minimum_filter": EXTREME,
    "scipy.ndimage.maximum_filter": EXTREME,
    "scipy.ndimage.grey_erosion": EXTREME,
    "scipy.ndimage.grey_dilation": EXTREME,
    "scipy.ndimage.binary_erosion": BINARY,
    "scipy.ndimage.binary_dilation": BINARY,
}


def image(shape: tuple[int, int], dtype: str, plain: bool) -> np.ndarray:
    """Noise, or a single colour: on that scipy's filters are fastest."""
    values = np.zeros(shape, int) if plain else np.random.default_rng(0).integers(0, 256, shape)
    return values > 100 if dtype == "bool" else values.astype(dtype)


def seconds(function: Callable[[], Any], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        function()
    return (time.perf_counter() - start) / repeats


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


def with_guard(substitution: Substitution, picture: Any, options: dict[str, Any]) -> Any:
    if not substitution.accepts((picture,), options):
        raise RuntimeError("declined")
    return substitution.run(picture, **options)


def rows(sizes: tuple[tuple[int, int], ...], rounds: int, only: str, plain: bool) -> Iterator[dict[str, Any]]:
    for substitution in all_substitutions():
        if only not in substitution.source:
            continue
        for dtype, options in CASES.get(substitution.source, ()):
            for shape in sizes:
                picture = image(shape, dtype, plain)
                row = {"name": substitution.name, "dtype": dtype, "options": words(options), "shape": shape}
                verdict = substitution.accepts((picture,), options)
                if not verdict:
                    yield {**row, "declined": verdict.reason}
                    continue
                original = partial(substitution.original(), picture, **options)
                yield row | compare(original, partial(with_guard, substitution, picture, options), rounds)


def words(options: dict[str, Any]) -> str:
    return " ".join(
        f"{name}={'x'.join(map(str, np.shape(v))) if np.ndim(v) == 2 else v}" for name, v in options.items()
    )


def line(row: dict[str, Any]) -> str:
    head = f"{row['name']:36} {row['dtype']:8} {row['options']:32} {row['shape'][0]:4}x{row['shape'][1]:<4}"
    if "declined" in row:
        return f"{head} declined: {row['declined']}"
    micro = f"{row['original_seconds'] * 1e6:10.1f} us {row['substitute_seconds'] * 1e6:8.1f} us"
    spread = f"[{row['low']:.2f}..{row['high']:.2f}]"
    return f"{head} {micro}  best {row['best']:7.2f}  median {row['median']:7.2f} {spread}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of the name of the original")
    parser.add_argument("--smallest", action="store_true", help="small arrays, some of which guards decline")
    parser.add_argument("--plain", action="store_true", help="images of a single colour instead of noise")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    versions = {name: version(name) for name in ("numpy", "scipy")} | {"cv2": cv2.__version__}
    print(platform.python_version(), versions)
    found = []
    for row in rows(SMALLEST if options.smallest else SIZES, options.rounds, options.only, options.plain):
        found.append(row)
        print(line(row), flush=True)
    slow = [row for row in found if row.get("median", 9) < 1.1]
    print(f"{len(found)} rows, {len(slow)} below 1.1")
    if options.output:
        options.output.write_text(json.dumps({"versions": versions, "rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
