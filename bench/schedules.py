"""Prints how well schedules of loops are ranked by a model that has not seen their nest.

python bench/schedules.py [--taught N] [--judged known|blind|both] [-o RESULTS.json]

Nests are drawn at random (permutations of axes, contractions, stencils and anything between), random schedules of them
(tiles, orders of loops; no two that run the same loops) are written as C whose loops the compiler leaves as they are
(else it exchanges them, or computes turns of an outer one at once), checked against each other and timed: seconds of
the processor, the least of some rounds. They teach one model. It ranks the schedules of nests that taught nothing:

KNOWN, fifteen nests that were looked at while the model was made. Its features and settings were chosen with these and
by leaving out nests of two other draws of 96 (seeds 1 and 11 of an earlier form of `drawn_nest`).
BLIND, twenty nests of kinds that are not among KNOWN, with sizes drawn by a seed of their own. They were written down
and the rules below fixed before the model was scored on them, once; nothing was changed after that.

For each: the rank correlation with the seconds; whether the fastest schedule, or one within 3 % of it, is among the
first five; what the first of the ranking takes against the fastest. `again` is the rank correlation of two measurements
of the same schedules, with other arrays and at another time: no model can be expected to do better. A nest whose
slowest schedule takes less than 1.1 times the fastest is no task of ranking; it is printed, and left out of the means.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import platform
import random
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from codedag.ir.verdict import No
from codedag.tune import CostModel, Record
from codedag.tune.compiler import Compiler, find_compiler, run_compiler
from codedag.tune.loops import Access, LoopNest, Schedule, levels_of

HERE = Path(__file__).resolve().parent
TILES = (1, 4, 8, 16, 32, 64, 128, 256, 4096)
NEAR, TASK = 1.03, 1.1
FEWER, MORE = 28, 48  # schedules of a nest that teaches, and of one that is judged
ROUNDS, SHORT, TIMES = 3, 2e-3, 5  # a schedule that takes less than SHORT runs some times in each round
ITERATIONS = 18, 23  # as powers of two: a schedule takes from less than 0.1 to some 30 ms
MOST = 8_000_000  # elements of the arrays of a drawn nest
TAUGHT_SEED, BLIND_SEED = 3, 2026
HEAD = """
#include <time.h>
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}
"""


def nest(text: str, **extents: int) -> LoopNest:
    """The nest of loops of such extents, outermost first: "i k, k j -> i j" is a product; axes may be "2i+k"."""
    read, written = text.split("->")
    reads = tuple(Access(_strides(one.split(), extents)) for one in read.split(","))
    return LoopNest(tuple(extents.values()), (*reads, Access(_strides(written.split(), extents), written=True)))


def _strides(axes: list[str], extents: dict[str, int]) -> tuple[int, ...]:
    strides, step = dict.fromkeys(extents, 0), 1
    for axis in reversed(axes):
        terms = [(int(factor or 1), name) for factor, name in re.findall(r"(\d*)(\w)", axis)]
        for factor, name in terms:
            strides[name] += factor * step
        step *= 1 + sum(factor * (extents[name] - 1) for factor, name in terms)
    return tuple(strides.values())


PRODUCT, BLURRED = "i k, k j -> i j", "i+k j+l -> i j"
KNOWN = {
    "product 256x256x256": nest(PRODUCT, i=256, k=256, j=256), "product 96x700x160": nest(PRODUCT, i=96, k=700, j=160),
    "product 500x60x300": nest(PRODUCT, i=500, k=60, j=300),
    "product 128x128x1000": nest(PRODUCT, i=128, k=128, j=1000),
    "turned 2000x2000": nest("i j -> j i", i=2000, j=2000), "turned 300x5000": nest("i j -> j i", i=300, j=5000),
    "turned 4096x512": nest("i j -> j i", i=4096, j=512), "blurred 600x600, 3": nest(BLURRED, i=600, j=600, k=3, l=3),
    "blurred 200x1500, 5": nest(BLURRED, i=200, j=1500, k=5, l=5),
    "product of turned 200x200x300": nest("k i, k j -> i j", i=200, k=200, j=300),
    "by vector 3000x2000": nest("i j, j -> i", i=3000, j=2000), "outer 1500x2500": nest("i, j -> i j", i=1500, j=2500),
    "reversed axes 100x120x150": nest("a b c -> c b a", a=100, b=120, c=150),
    "filtered 16x120x130, 3": nest("c i+k j+l, c k l -> c i j", c=16, i=120, j=130, k=3, l=3),
    "products 20x64x48x96": nest("n i k, n k j -> n i j", n=20, i=64, k=48, j=96),
}  # fmt: skip
#: Kinds that the model was not made with, and between which two numbers each extent is drawn.
BLIND_KINDS: dict[str, tuple[str, dict[str, tuple[int, int]]]] = {
    "scores of attention": ("h i k, h j k -> h i j", {"h": (2, 12), "i": (60, 200), "j": (60, 200), "k": (24, 64)}),
    "channels to the end": ("n c y x -> n y x c", {"n": (2, 8), "c": (3, 64), "y": (40, 120), "x": (40, 120)}),
    "filter of each row": ("c i+k, c k -> c i", {"c": (32, 400), "i": (500, 4000), "k": (5, 15)}),
    "filter over channels": ("c i+k, o c k -> o i", {"o": (16, 64), "c": (8, 48), "i": (100, 800), "k": (3, 7)}),
    "product of three": ("i j k, j r, k r -> i r", {"i": (20, 100), "j": (20, 100), "k": (20, 80), "r": (8, 32)}),
    "weighted moments": ("n i, n j, n -> i j", {"n": (200, 2000), "i": (30, 120), "j": (30, 120)}),
    "sums over the middle": ("i j k -> i k", {"i": (20, 200), "j": (20, 200), "k": (20, 300)}),
    "sums over both ends": ("i j k -> j", {"i": (20, 200), "j": (20, 200), "k": (20, 300)}),
    "bilinear form": ("n i, i j, n j -> n", {"n": (30, 300), "i": (50, 150), "j": (50, 150)}),
    "outer of three": ("i, j, k -> i j k", {"i": (20, 150), "j": (20, 150), "k": (20, 200)}),
    "scaled both ways": ("i j, i, j -> i j", {"i": (300, 2500), "j": (300, 2500)}),
    "long filter": ("i+k, k -> i", {"i": (4000, 20000), "k": (60, 300)}),
    "blurred downwards": ("i+k j, k -> i j", {"i": (200, 1000), "j": (200, 1500), "k": (3, 9)}),
    "matrix along an axis": ("i j k, j r -> i r k", {"i": (10, 60), "j": (20, 80), "k": (20, 120), "r": (8, 40)}),
    "means of two by two": ("2i+k 2j+l -> i j", {"i": (200, 900), "j": (200, 900), "k": (2, 2), "l": (2, 2)}),
}  # fmt: skip
TWICE = 5  # of these kinds are drawn twice


def blind() -> dict[str, LoopNest]:
    """The nests of these kinds, with as many iterations as those that teach."""
    draw, found = random.Random(BLIND_SEED), {}
    for name in [*BLIND_KINDS, *list(BLIND_KINDS)[:TWICE]]:
        text, ranges = BLIND_KINDS[name]
        extents: dict[str, int] = {}
        while not 2 ** ITERATIONS[0] <= math.prod(extents.values()) <= 2 ** ITERATIONS[1]:
            extents = {loop: round(math.exp(draw.uniform(*map(math.log, ends)))) for loop, ends in ranges.items()}
        found[f"{name} {'x'.join(map(str, extents.values()))}"] = nest(text, **extents)
    return found


def drawn_nest(draw: random.Random) -> LoopNest:
    """A nest of two to four loops."""
    while True:
        names = "ijkl"[: draw.choice((2, 2, 3, 3, 3, 4, 4))]
        taps = _drawn_taps(draw, names)
        extents, text = _drawn_extents(draw, names, taps), _drawn_text(draw, names, taps)
        if text is not None and min(extents.values()) >= 2 and max(extents.values()) <= 20_000:
            made = nest(text, **extents)
            if sum(size(made, access) for access in made.accesses) <= MOST:
                return made


def _drawn_taps(draw: random.Random, names: str) -> dict[str, str]:
    """Loops over neighbours, and those along which these lie."""
    if draw.random() >= 0.3:
        return {}
    tap, along, *others = draw.sample(names, len(names))
    return {tap: along} | ({others[0]: others[1]} if len(others) > 1 and draw.random() < 0.6 else {})


def _drawn_extents(draw: random.Random, names: str, taps: dict[str, str]) -> dict[str, int]:
    few = {name: draw.choice((2, 3, 3, 4, 5, 5, 7, 9)) for name in taps}
    left = draw.uniform(*ITERATIONS) - sum(map(math.log2, few.values()))
    shares = {name: draw.uniform(0.5, 1.5) for name in names if name not in taps}
    many = {name: _round(draw, 2 ** (left * share / sum(shares.values()))) for name, share in shares.items()}
    return {name: (few | many)[name] for name in names}


def _round(draw: random.Random, extent: float) -> int:
    """Some extents are powers of two and some fill registers, as people like them."""
    how = draw.random()
    exponent = round(math.log2(max(extent, 1)))
    return 2**exponent if how < 0.2 else max(8 * round(extent / 8), 4) if how < 0.45 else round(extent)


def _drawn_text(draw: random.Random, names: str, taps: dict[str, str]) -> str | None:
    """What the nest computes; None if a loop would do nothing or an array were read twice."""
    free, kind = [name for name in names if name not in taps], draw.random()
    some: Callable[[Sequence[str]], list[str]] = lambda of: draw.sample(of, draw.randint(1, len(of)))  # noqa: E731
    whole: Callable[[Sequence[str]], list[str]] = lambda of: draw.sample(of, len(of))  # noqa: E731
    written, reads = some(free), [some(names) for _ in range(draw.choice((1, 1, 2, 2, 2, 3)))]
    if taps:
        reads[0] = ["+".join([name, *(tap for tap in taps if taps[tap] == name)]) for name in whole(free)]
    elif kind < 0.25:
        written, reads = whole(names), [whole(names) for _ in range(draw.choice((1, 1, 2)))]
    elif kind < 0.45 and len(names) > 2:
        summed, left, right, *both = whole(names)
        written, reads = whole([left, right, *both]), [whole([one, summed, *both]) for one in (left, right)]
    texts = [" ".join(axes) for axes in reads]
    if len(set(texts)) < len(texts) or any(name not in "".join(texts) for name in names if name not in written):
        return None
    return f"{', '.join(texts)} -> {' '.join(written)}"


def as_written(compiler: Compiler | No) -> Compiler:
    """The compiler, told to leave loops in the order in which they are."""
    if isinstance(compiler, No):
        raise SystemExit(compiler.reason)
    return replace(compiler, flags=(*compiler.flags, "-fno-loop-interchange", "-fno-loop-unroll-and-jam"))


def drawn(nest: LoopNest, count: int, seed: int) -> list[Schedule]:
    """So many schedules, or as many as are found; of those that run the same loops only the first."""
    draw, rank = random.Random(seed), len(nest.extents)
    found: dict[tuple[Any, ...], Schedule] = {}
    for _ in range(50 * count):
        tiles = tuple(min(draw.choice(TILES), extent) for extent in nest.extents)
        one = Schedule(tiles, *(tuple(draw.sample(range(rank), rank)) for _ in range(2)))
        found.setdefault(tuple(level for level in levels_of(nest, one) if level.turns > 1), one)
        if len(found) == count:
            break
    return list(found.values())


def source(nest: LoopNest, schedules: list[Schedule]) -> str:
    """C with one function for each schedule, and one that times it."""
    return HEAD + "".join(_function(nest, number, schedule) for number, schedule in enumerate(schedules))


def _function(nest: LoopNest, number: int, schedule: Schedule) -> str:
    places = [" + ".join(f"{s}L * {'abcdef'[k]}1" for k, s in enumerate(one.strides) if s) for one in nest.accesses]
    names = [f"x{k}" for k in range(len(places) - 1)]
    value = " * ".join(f"{name}[{place}]" for name, place in zip(names, places, strict=False))
    arguments = ", ".join([*(f"const float *restrict {name}" for name in names), "float *restrict out"])
    given, loops = ", ".join([*names, "out"]), _loops(nest, schedule)
    return (
        f"static void f{number}({arguments}) {{ {loops[0]} out[{places[-1]}] += {value}; {loops[1]} }}\n"
        f"double t{number}({arguments}) {{ double begun = now(); f{number}({given}); return now() - begun; }}\n"
    )


def _loops(nest: LoopNest, schedule: Schedule) -> tuple[str, str]:
    """The loops that turn, and what closes them; between two of them is something that the compiler cannot move."""
    levels, opened, text = levels_of(nest, schedule), 0, ""
    last = max([at for at, level in enumerate(levels) if level.turns > 1], default=-1)
    for at, level in enumerate(levels):
        name, extent = "abcdef"[level.loop], nest.extents[level.loop]
        outer = at < len(nest.extents)
        start = "0" if outer else f"{name}0"
        if level.turns == 1:
            text += f"const long {name}{int(not outer)} = {start}; "
            continue
        one = f"{name}{int(not outer)}"
        end = f"{extent}" if outer else f"({start} + {level.turns} < {extent} ? {start} + {level.turns} : {extent})"
        text += f"for (long {one} = {start}; {one} < {end}; {one} += {level.step}) {{ "
        text += "" if at == last else '__asm__ volatile(""); '
        opened += 1
    return text, "}" * opened


def size(nest: LoopNest, access: Access) -> int:
    return 1 + sum(stride * (extent - 1) for stride, extent in zip(access.strides, nest.extents, strict=True))


def measured(nest: LoopNest, schedules: list[Schedule], compiler: Compiler, times: int) -> list[list[float]]:
    """The seconds of the schedules, so many times over."""
    with tempfile.TemporaryDirectory() as folder:
        text, library = Path(folder) / "nests.c", Path(folder) / "nests.so"
        text.write_text(source(nest, schedules))
        failed = run_compiler(compiler, text, library)
        if isinstance(failed, No):
            raise SystemExit(failed.reason)
        loaded = ctypes.CDLL(str(library))
        calls = [getattr(loaded, f"t{number}") for number in range(len(schedules))]
        for call in calls:
            call.restype = ctypes.c_double
        return [_timed(nest, calls, seed) for seed in range(times)]


def _timed(nest: LoopNest, calls: list[Any], seed: int) -> list[float]:
    """The least seconds of each call; rounds are taken in turn, and what the first one gives must be equal."""
    values, draw = np.random.default_rng(seed), random.Random(seed)
    arrays = [values.random(size(nest, one), np.float32) for one in nest.accesses]
    given, first = [ctypes.c_void_p(one.ctypes.data) for one in arrays], None
    best = [math.inf] * len(calls)
    for turn in range(ROUNDS):
        for number in draw.sample(range(len(calls)), len(calls)):
            arrays[-1][:] = 0.0
            best[number] = min(best[number], calls[number](*given))
            if turn == seed == 0:
                first = arrays[-1].copy() if first is None else first
                assert np.abs(arrays[-1] - first).max() <= 1e-3 * first.max(), number
            spent, again = best[number], 1
            while spent < SHORT and again < TIMES:  # what adds up in the last array does not change the time
                seconds = calls[number](*given)
                best[number], spent, again = min(best[number], seconds), spent + seconds, again + 1
    return best


def taught(compiler: Compiler, count: int) -> list[Record]:
    """The records of so many drawn nests."""
    draw, records = random.Random(TAUGHT_SEED), []
    for number in range(count):
        own = drawn_nest(draw)
        schedules = drawn(own, FEWER, number)
        seconds = measured(own, schedules, compiler, 1)[0]
        records += [Record(own, one, each) for one, each in zip(schedules, seconds, strict=True)]
    return records


def spearman(left: Sequence[float], right: Sequence[float]) -> float:
    ranks = [np.argsort(np.argsort(values, kind="stable"), kind="stable") for values in (left, right)]
    return float(np.corrcoef(*ranks)[0, 1])


def judged(
    model: CostModel, nest: LoopNest, schedules: list[Schedule], measurements: list[list[float]]
) -> dict[str, Any]:
    """How the schedules of a nest are ranked, against the first measurement; the second says how sure that is."""
    seconds, scores = np.array(measurements[0]), np.array(model.score(nest, schedules))
    found = seconds[np.argsort(scores, kind="stable")] / seconds.min()
    by_other = seconds[np.argsort(measurements[1])] / seconds.min()
    return {
        "spearman": spearman(scores, seconds), "best_of_five": float(found[:5].min()), "first": float(found[0]),
        "median": float(np.median(found)), "slowest": float(found.max()), "task": bool(found.max() >= TASK),
        "again": spearman(*measurements), "again_best_of_five": float(by_other[:5].min()),
    }  # fmt: skip


def ranked(model: CostModel, what: str, nests: dict[str, LoopNest], compiler: Compiler) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for seed, (name, own) in enumerate(nests.items()):
        schedules = drawn(own, MORE, seed)
        row = rows[name] = judged(model, own, schedules, measured(own, schedules, compiler, 2))
        print(
            f"{name:<38} rank correlation {row['spearman']:.2f} (again {row['again']:.2f}); the best of five takes "
            f"{row['best_of_five']:.2f} of the fastest, the first {row['first']:.2f}, the middle {row['median']:.2f}, "
            f"the slowest {row['slowest']:.1f}{'' if row['task'] else ': no task'}",
            flush=True,
        )
    return {"rows": rows, **summed_up(what, [row for row in rows.values() if row["task"]])}


def summed_up(what: str, rows: list[dict[str, Any]]) -> dict[str, float]:
    mean, again = (float(np.mean([row[name] for row in rows])) for name in ("spearman", "again"))
    among, at_best = (sum(row[one] <= NEAR for row in rows) for one in ("best_of_five", "again_best_of_five"))
    print(
        f"{what}: rank correlation {mean:.3f} on average (two measurements: {again:.3f}); the fastest is among the "
        f"first five in {among} of {len(rows)} (by another measurement: {at_best})\n"
    )
    return {"spearman": mean, "again": again, "among_five": among / len(rows), "tasks": len(rows)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--taught", type=int, default=144, help="nests that teach")
    parser.add_argument("--judged", choices=("known", "blind", "both"), default="both")
    parser.add_argument("-o", "--output", type=Path, default=HERE / "results" / "schedules.json")
    options = parser.parse_args()
    compiler, load, begun = as_written(find_compiler()), os.getloadavg()[0], time.monotonic()
    records = taught(compiler, options.taught)
    model = CostModel.fit(records)
    print(
        f"{len(records)} schedules of {options.taught} nests taught, in {time.monotonic() - begun:.0f} s\n", flush=True
    )
    results: dict[str, Any] = {"taught": options.taught, "compiler": compiler.version.splitlines()[0]}
    for what, nests in (("known", KNOWN), ("blind", blind())):
        if options.judged in (what, "both"):
            results[what] = ranked(model, what, nests, compiler)
    results["seconds"] = time.monotonic() - begun
    print(
        f"{results['compiler']}, Python {platform.python_version()}, load {load:.1f} to {os.getloadavg()[0]:.1f}",
        end="",
    )
    print(f", {results['seconds']:.0f} s")
    options.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
