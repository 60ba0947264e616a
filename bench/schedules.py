"""Prints how well schedules of loops are ranked by a model that has not seen their nest.

python bench/schedules.py [--schedules N] [--rounds N] [-o RESULTS.json]

Random schedules (tiles, orders of loops) of products of matrices, of matrices turned, and of sums of neighbours are
written as C whose loops the compiler leaves as they are (else it exchanges them, or computes turns of an outer one at
once), checked against each other and timed: seconds of the processor, the best of some rounds. Each nest is left out
in turn and ranked by what the others taught: the rank correlation, whether its fastest schedule (or one within 3 % of
it) is among the first five, and what the first costs against it. The features of the model were chosen with NESTS; what
it says of UNSEEN, kinds of nests that were not looked at, is learned from NESTS alone.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import random
import tempfile
from collections.abc import Iterable
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
NEAR = 1.03
HEAD = """
#include <time.h>
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}
"""


def product(rows: int, inner: int, columns: int) -> LoopNest:
    read = (Access((inner, 1, 0)), Access((0, columns, 1)))
    return LoopNest((rows, inner, columns), (*read, Access((columns, 0, 1), written=True)))


def turned(rows: int, columns: int) -> LoopNest:
    return LoopNest((rows, columns), (Access((columns, 1)), Access((1, rows), written=True)))


def blurred(rows: int, columns: int, side: int) -> LoopNest:
    wide = columns + side - 1
    return LoopNest((rows, columns, side, side), (Access((wide, 1, wide, 1)), Access((columns, 1, 0, 0), written=True)))


def product_of_turned(rows: int, inner: int, columns: int) -> LoopNest:
    read = (Access((1, rows, 0)), Access((0, columns, 1)))
    return LoopNest((rows, inner, columns), (*read, Access((columns, 0, 1), written=True)))


def products(count: int, rows: int, inner: int, columns: int) -> LoopNest:
    read = (Access((rows * inner, inner, 1, 0)), Access((inner * columns, 0, columns, 1)))
    return LoopNest((count, rows, inner, columns), (*read, Access((rows * columns, columns, 0, 1), written=True)))


def by_vector(rows: int, columns: int) -> LoopNest:
    return LoopNest((rows, columns), (Access((columns, 1)), Access((0, 1)), Access((1, 0), written=True)))


def outer(rows: int, columns: int) -> LoopNest:
    return LoopNest((rows, columns), (Access((1, 0)), Access((0, 1)), Access((columns, 1), written=True)))


def reversed_axes(a: int, b: int, c: int) -> LoopNest:
    return LoopNest((a, b, c), (Access((b * c, c, 1)), Access((1, a, a * b), written=True)))


def filtered(channels: int, rows: int, columns: int, side: int) -> LoopNest:
    wide = columns + side - 1
    read = Access((wide * (rows + side - 1), wide, 1, wide, 1)), Access((side * side, 0, 0, side, 1))
    written = Access((rows * columns, columns, 1, 0, 0), written=True)
    return LoopNest((channels, rows, columns, side, side), (*read, written))


NESTS = {
    "product 256x256x256": product(256, 256, 256), "product 96x700x160": product(96, 700, 160),
    "product 500x60x300": product(500, 60, 300), "product 128x128x1000": product(128, 128, 1000),
    "turned 2000x2000": turned(2000, 2000), "turned 300x5000": turned(300, 5000), "turned 4096x512": turned(4096, 512),
    "blurred 600x600, 3": blurred(600, 600, 3), "blurred 200x1500, 5": blurred(200, 1500, 5),
}  # fmt: skip
#: The model was made with the nests above; it had not seen these.
UNSEEN = {
    "product of turned 200x200x300": product_of_turned(200, 200, 300), "by vector 3000x2000": by_vector(3000, 2000),
    "outer 1500x2500": outer(1500, 2500), "reversed axes 100x120x150": reversed_axes(100, 120, 150),
    "filtered 16x120x130, 3": filtered(16, 120, 130, 3), "products 20x64x48x96": products(20, 64, 48, 96),
}  # fmt: skip


def as_written(compiler: Compiler | No) -> Compiler:
    """The compiler, told to leave loops in the order in which they are."""
    if isinstance(compiler, No):
        raise SystemExit(compiler.reason)
    return replace(compiler, flags=(*compiler.flags, "-fno-loop-interchange", "-fno-loop-unroll-and-jam"))


def drawn(nest: LoopNest, count: int, seed: int) -> list[Schedule]:
    draw, rank = random.Random(seed), len(nest.extents)
    found: set[Schedule] = set()
    while len(found) < count:
        tiles = tuple(min(draw.choice(TILES), extent) for extent in nest.extents)
        found.add(Schedule(tiles, *(tuple(draw.sample(range(rank), rank)) for _ in range(2))))
    return sorted(found, key=repr)


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


def measured(nest: LoopNest, schedules: list[Schedule], compiler: Compiler, rounds: int) -> list[Record]:
    """Each schedule with the least seconds of its rounds, which are taken in turn."""
    arrays = [np.random.default_rng(0).random(size(nest, one), np.float32) for one in nest.accesses]
    with tempfile.TemporaryDirectory() as folder:
        text, library = Path(folder) / "nests.c", Path(folder) / "nests.so"
        text.write_text(source(nest, schedules))
        failed = run_compiler(compiler, text, library)
        if isinstance(failed, No):
            raise SystemExit(failed.reason)
        loaded = ctypes.CDLL(str(library))
        calls = [getattr(loaded, f"t{number}") for number in range(len(schedules))]
        best = [float("inf")] * len(calls)
        first = None
        for _ in range(rounds):
            for number in random.Random(0).sample(range(len(calls)), len(calls)):
                arrays[-1][:] = 0.0
                calls[number].restype = ctypes.c_double
                best[number] = min(best[number], calls[number](*(ctypes.c_void_p(one.ctypes.data) for one in arrays)))
                first = arrays[-1].copy() if first is None else first
                assert np.allclose(arrays[-1], first, rtol=1e-3), schedules[number]
    return [Record(nest, schedule, seconds) for schedule, seconds in zip(schedules, best, strict=True)]


def judged(nest: LoopNest, records: list[Record], others: list[Record]) -> dict[str, float]:
    """How the schedules of a nest are ranked by a model of the others."""
    order = CostModel.fit(others).rank(nest, [record.schedule for record in records])
    seconds = {record.schedule: record.seconds for record in records}
    found = [seconds[one] for one in order]
    ranks = np.argsort(np.argsort(found, kind="stable"), kind="stable")
    return {
        "spearman": float(np.corrcoef(np.arange(len(found)), ranks)[0, 1]), "first": found[0] / min(found),
        "best_of_five": min(found[:5]) / min(found), "median": float(np.median(found)) / min(found),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=48, help="of each nest")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("-o", "--output", type=Path, default=HERE / "results" / "schedules.json")
    options = parser.parse_args()
    compiler = as_written(find_compiler())
    load, every = os.getloadavg()[0], NESTS | UNSEEN
    records = {
        name: measured(nest, drawn(nest, options.schedules, seed), compiler, options.rounds)
        for seed, (name, nest) in enumerate(every.items())
    }
    rows: dict[str, Any] = {}
    for name, nest in every.items():
        taught = NESTS if name in UNSEEN else every
        others = [record for other in taught if other != name for record in records[other]]
        row = rows[name] = judged(nest, records[name], others)
        print(
            f"{name:<30} rank correlation {row['spearman']:.2f}; the first takes {row['first']:.2f} of the fastest, "
            f"the best of five {row['best_of_five']:.2f}, the middle schedule {row['median']:.2f}"
        )
    results = {"rows": rows, "schedules": options.schedules, "compiler": compiler.version.splitlines()[0]}
    results |= {"all": summed_up("all nests, each left out", rows), "unseen": summed_up("unseen kinds", rows, UNSEEN)}
    computing = [name for name in rows if len(every[name].accesses) > 2 or len(every[name].extents) > 3]
    results["summing"] = summed_up("nests that sum products or neighbours", rows, computing)
    print(f"{results['compiler']}, Python {platform.python_version()}, load {load:.1f} to {os.getloadavg()[0]:.1f}")
    options.output.write_text(json.dumps(results, indent=1) + "\n")


def summed_up(what: str, rows: dict[str, Any], some: Iterable[str] | None = None) -> dict[str, float]:
    found = [rows[name] for name in (rows if some is None else some)]
    mean = float(np.mean([row["spearman"] for row in found]))
    among = sum(row["best_of_five"] <= NEAR for row in found) / len(found)
    print(f"{what}: rank correlation {mean:.2f} on average; the fastest is among the first five in {among:.0%}")
    return {"spearman": mean, "among_five": among}


if __name__ == "__main__":
    main()
