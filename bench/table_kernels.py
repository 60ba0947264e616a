"""Table kernels against the numpy chain they replace: interleaved rounds, best and median microseconds.

    python bench/table_kernels.py [--rounds 300] [--json bench/results/table_kernels.json]

One thread; every round runs all engines of a case in a new random order, each after a warm-up call. The table
is built once from the user's arithmetic and is not part of the time; `out` is allocated anew in each call.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from codedag.ir.verdict import No
from codedag.tune.compiler import find_compiler
from codedag.tune.table import kernel_for
from codedag.tune.table_reference import table_reference

MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
ENGINES = {"c": "", "numba": "none", "numpy": "numpy"}


def normalise(image):
    return (image / 255.0 - MEAN) / STD


def cases():
    """Jobs by name: view, row_step, dtype, order of out, and the chain as a user writes it."""
    image = np.random.default_rng(0).integers(0, 256, (224, 224, 3), dtype=np.uint8)
    flipped, gray = image[:, ::-1], np.ascontiguousarray(image[..., 0])
    batch = np.random.default_rng(1).integers(0, 256, (32, 224, 224, 3), dtype=np.uint8)
    chw, channels = (2, 0, 1), (1, 0, 0)
    return {
        "a HWC -> HWC float32": (image, (0, 0, 1), "f4", "C", lambda: normalise(image).astype(np.float32)),
        "a HWC -> HWC float64": (image, (0, 0, 1), "f8", "C", lambda: normalise(image)),
        "a HWC flipped float32": (
            flipped, (0, 0, 1), "f4", "C",
            lambda: normalise(flipped).astype(np.float32),
        ),
        "b HWC -> CHW float32": (
            image.transpose(chw), channels, "f4", "C",
            lambda: np.ascontiguousarray(normalise(image).transpose(chw).astype(np.float32)),
        ),
        "b HWC -> CHW float64": (
            image.transpose(chw), channels, "f8", "C",
            lambda: np.ascontiguousarray(normalise(image).transpose(chw)),
        ),
        "b flipped -> CHW float32": (
            flipped.transpose(chw), channels, "f4", "C",
            lambda: np.ascontiguousarray(normalise(flipped).transpose(chw).astype(np.float32)),
        ),
        "c CHW kept as HWC float32": (
            image.transpose(chw), channels, "f4", "K",
            lambda: normalise(image).transpose(chw).astype(np.float32),
        ),
        "d gray float32": (
            gray, (0, 0), "f4", "C",
            lambda: ((gray / 255.0 - 0.45) / 0.22).astype(np.float32),
        ),
        "e 32 NHWC -> NCHW float32": (
            batch.transpose(0, 3, 1, 2), (0, 1, 0, 0), "f4", "C",
            lambda: np.ascontiguousarray(normalise(batch).transpose(0, 3, 1, 2).astype(np.float32)),
        ),
    }  # fmt: skip


def table_of(row_step, dtype):
    values = np.arange(256, dtype=np.uint8)
    if not any(row_step):
        return ((values / 255.0 - 0.45) / 0.22).astype(dtype).reshape(1, 256)
    return np.ascontiguousarray(normalise(values[:, None].repeat(3, 1)).T.astype(dtype))


def kernel_calls(view, row_step, dtype, order):
    """Calls by engine that allocate `out` and fill it, each checked once against numpy."""
    table = table_of(row_step, dtype)

    def call_of(kernel):
        def call():
            out = np.empty_like(view, dtype, order=order)
            kernel.apply(view, table, row_step, out)
            return out

        return call

    calls = {}
    for engine, setting in ENGINES.items():
        os.environ["CODEDAG_COMPILER"] = setting
        kernel = kernel_for(view, row_step, dtype, np.empty_like(view, dtype, order=order))
        if isinstance(kernel, No) or kernel.engine != engine:
            continue
        calls[engine] = call_of(kernel)
        assert np.array_equal(calls[engine](), table_reference(view, table, row_step)), engine
    os.environ["CODEDAG_COMPILER"] = ""
    return calls


def measure(calls, rounds):
    """Seconds of each round by engine."""
    seconds = {name: [] for name in calls}
    names = list(calls)
    for _ in range(rounds):
        random.shuffle(names)
        for name in names:
            calls[name]()
            start = time.perf_counter()
            calls[name]()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def row_of(case, name, seconds, chain):
    low, median, high = statistics.quantiles(seconds, n=4)
    return {
        "case": case,
        "engine": name,
        "best_us": min(seconds) * 1e6,
        "median_us": median * 1e6,
        "quartiles_us": [low * 1e6, high * 1e6],
        "speedup_best": min(chain) / min(seconds),
        "speedup_median": statistics.median(chain) / median,
    }


def show(row):
    low, high = row["quartiles_us"]
    print(
        f"{row['case']:28} {row['engine']:6} {row['best_us']:10.1f} {row['median_us']:10.1f}"
        f"   {low:9.1f} - {high:9.1f} {row['speedup_best']:8.1f}x {row['speedup_median']:8.1f}x"
    )


def heading():
    """Versions and column names; frees a large array first, so that the allocator keeps its pages for all."""
    np.ones(1 << 21).sum()
    compiler = find_compiler()
    version = compiler.reason if isinstance(compiler, No) else compiler.version.splitlines()[0]
    print(f"python {platform.python_version()}, numpy {np.__version__}, C: {version}")
    names = f"{'case':28} {'engine':6} {'best us':>10} {'median us':>10}   {'quartiles':>21}"
    print(f"{names} {'x best':>9} {'x median':>9}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    heading()
    rows = []
    for case, (view, row_step, dtype, order, chain) in cases().items():
        calls = kernel_calls(view, row_step, dtype, order)
        assert all(np.array_equal(call(), chain()) for call in calls.values()), case
        calls["chain"] = chain
        seconds = measure(calls, options.rounds if view.size < 1 << 20 else max(5, options.rounds // 30))
        for name in calls:
            rows.append(row_of(case, name, seconds[name], seconds["chain"]))
            show(rows[-1])
    if options.json:
        versions = {"python": platform.python_version(), "numpy": np.__version__}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"versions": versions, "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
