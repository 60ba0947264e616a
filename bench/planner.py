"""Prints how good and how fast the planner is, and which strategies win.

python bench/planner.py [--ops N] [--budget SECONDS] [--seeds N] [--scale 1000,10000,...] [-o RESULTS.json]
                        [--parts quality,small,scale,shapes]

Instances are random: layered, wide, narrow and pipeline graphs on 2, 4 and 8 unlike PUs whose copies take 0.1, 1 and
10 times as long as the ops (CCR).  Makespans are ratios on the same instance; times are CPU seconds.  `quality`
compares with a HEFT that sees the waiting of copies (`aware`, best of three ranks), with HEFT planned as if copies
never waited and then replayed, and with the best single PU.  `small` needs ortools and compares with the optimum.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import resource
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from codedag.ir import Graph, Link, Machine, Pu
from codedag.ir.columns import CarriedColumns, EdgeColumns, OpColumns
from codedag.ir.cost_columns import CostColumns
from codedag.plan import exact
from codedag.plan.engine import ENGINE
from codedag.plan.problem import Problem
from codedag.plan.search import search
from codedag.plan.strategies import HEFT, REPLAYED, Context, single, stay

SPEEDS = {"cpu": (1.0, 1.0), "gpu": (12.0, 1.5), "igpu": (4.0, 0.9), "npu": (8.0, 0.3)}  # heavy ops, light ops
MIXES = {
    2: ("cpu", "gpu"), 4: ("cpu", "cpu", "gpu", "npu"),
    8: ("cpu", "cpu", "cpu", "cpu", "gpu", "gpu", "igpu", "npu"),
}  # fmt: skip
SHAPES = ("layered", "wide", "narrow", "pipeline")
CCRS = (0.1, 1.0, 10.0)


def layered(n: int, width: int, r: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    layer = np.sort(r.integers(0, max(1, n // width), n))
    first = np.searchsorted(layer, np.arange(layer.max() + 2))
    ends = []
    for _ in range(2):
        v = np.arange(n)[layer > 0]
        back = np.minimum(r.geometric(0.6, v.size), layer[v])
        low, high = first[layer[v] - back], first[layer[v] - back + 1]
        v, low, high = v[high > low], low[high > low], high[high > low]
        ends.append((low + (r.random(v.size) * (high - low)).astype(np.int64)) * n + v)
    key = np.unique(np.concatenate(ends))
    return key // n, key % n


def pipeline(n: int, branches: int = 4, depth: int = 20) -> tuple[np.ndarray, np.ndarray]:
    pairs, at, before = [], 0, -1
    while at < n:
        head, ends = at, []
        if before >= 0:
            pairs.append((before, head))
        at += 1
        for _ in range(branches):
            last = head
            for _ in range(min(depth, n - at)):
                pairs.append((last, at))
                last, at = at, at + 1
            ends.append(last)
        if at < n:
            pairs += [(end, at) for end in dict.fromkeys(ends)]
            at += 1
        before = head
    edges = np.array(pairs, np.int64).reshape(-1, 2)
    return edges[:, 0], edges[:, 1]


def edges_of(shape: str, n: int, r: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    if shape == "chain":
        return np.arange(n - 1), np.arange(1, n)
    if shape == "star":
        return np.zeros(n - 1, np.int64), np.arange(1, n)
    if shape == "pipeline":
        return pipeline(n)
    width = {"layered": int(math.sqrt(n) / 2), "wide": n // 10, "narrow": 3}[shape]
    return layered(n, max(2, width), r)


def problem(shape: str, n: int, k: int, ccr: float, seed: int) -> Problem:
    """An instance with this shape, size, machine and ratio of copying to computing."""
    r = np.random.default_rng(seed)
    src, dst = edges_of(shape, n, r)
    kinds = 24
    kind, heavy = r.integers(0, kinds, n), r.random(kinds) < 0.4
    base = np.where(heavy, 1e-3, 1.5e-4) * r.lognormal(0, 0.8, kinds)
    mix = MIXES[k]
    speed = np.where(heavy[:, None], [SPEEDS[one][0] for one in mix], [SPEEDS[one][1] for one in mix])
    speed = speed * r.lognormal(0, 0.35, (kinds, k))
    size = r.lognormal(0, 0.5, n)
    cost = (base[kind] * size)[:, None] / speed[kind] + [2e-6 if one == "cpu" else 2e-5 for one in mix]
    nbytes = np.rint(r.lognormal(0, 1.0, kinds)[kind] * size * 1e6).astype(np.int64)
    return Problem(_graph(n, src, dst, nbytes), _costs(cost, k), _machine(mix, ccr * cost.mean() / nbytes.mean()))


def _graph(n: int, src: np.ndarray, dst: np.ndarray, nbytes: np.ndarray) -> Graph:
    ops, edges = OpColumns(), EdgeColumns()
    ops.id.frombytes(np.arange(n, dtype=np.int64).tobytes())
    ops.out_nbytes.frombytes(nbytes.tobytes())
    for name, value in (
        ("name", "f"),
        ("kind", "call"),
        ("file", "a.py"),
        ("context", "main/f"),
        ("in_sig", ""),
        ("out_sig", ""),
        ("effects", "unknown"),
    ):
        getattr(ops, name).extend([value] * n)
    for name, number in (("line", 1), ("count", 1), ("parent", -1), ("site", -1), ("col", -1), ("peak_nbytes", 0)):
        getattr(ops, name).extend([number] * n)
    ops.self_seconds.extend([0.0] * n)
    ops.total_seconds.extend([0.0] * n)
    edges.src.frombytes(src.astype(np.int64).tobytes())
    edges.dst.frombytes(dst.astype(np.int64).tobytes())
    edges.kind.extend(["flow"] * len(src))
    edges.nbytes.frombytes(nbytes[src].tobytes())
    return Graph(ops, edges, CarriedColumns())


def _costs(cost: np.ndarray, k: int) -> CostColumns:
    n, columns = len(cost), CostColumns([f"pu{d}" if d else "cpu" for d in range(k)])
    columns.variants.append("original")
    columns.op.frombytes(np.repeat(np.arange(n, dtype=np.int64), k).tobytes())
    columns.pu.frombytes(np.tile(np.arange(k, dtype=np.int32), n).tobytes())
    columns.seconds.frombytes(np.ascontiguousarray(cost).tobytes())
    columns.scratch_nbytes.frombytes(bytes(8 * n * k))
    columns.variant.frombytes(bytes(4 * n * k))
    return columns


def _machine(mix: tuple[str, ...], per_byte: float) -> Machine:
    names = [f"pu{d}" if d else "cpu" for d in range(len(mix))]
    pus = [Pu(name=name, memory_nbytes=1 << 50, launch_seconds=0.0, simulated=True) for name in names]
    links = []
    for a, one in enumerate(mix):
        for b, other in enumerate(mix):
            if a != b:
                near = one == other == "cpu"
                slow = per_byte * (0.3 if near else 1.0) * (1.0 + 0.2 * ((a * 7 + b * 7) % 3))
                latency = 1e-6 if near else 1e-5
                links.append(Link(src=names[a], dst=names[b], latency_seconds=latency, bytes_per_second=1 / slow))
    return Machine(pus=pus, links=links)


def baselines(context: Context) -> tuple[float, float, float]:
    """Makespans of HEFT that sees waiting copies, of HEFT replayed, and of the best single PU."""
    aware, replayed = [], []
    for recipe in HEFT:
        found = context.model.lists(context.order(recipe.rank, 1.0), b"", 0.0, b"", 0.0, b"", False, False, 0.0)
        aware.append(found[0])
    for recipe in REPLAYED[:3]:
        found = context.model.lists(context.order(recipe.rank, 1.0), b"", 0.0, b"", 0.0, b"", True, True, 0.0)
        replayed.append(context.model.simulate(found[1], context.model.sorted(found[2], 1)))
    alone = min(one.makespan for one in (*stay(context), *single(context)))
    return min(aware), min(replayed), alone


def geomean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def quality(ops: int, budget: float, seeds: int) -> dict[str, Any]:
    rows, wins, built = [], Counter[str](), Counter[str]()
    for seed in range(seeds):
        for k in MIXES:
            for shape in SHAPES:
                for ccr in CCRS:
                    rows.append(_compared(shape, ops, k, ccr, seed, budget, wins, built))
    result: dict[str, Any] = {"ops": ops, "budget_seconds": budget, "instances": len(rows)}
    print(f"{len(rows)} instances of {ops} ops, budget {budget} s; geometric means, worst in brackets")
    for ccr in CCRS:
        some = [row for row in rows if row["ccr"] == ccr]
        line = {key: (geomean([row[key] for row in some]), max(row[key] for row in some)) for key in
                ("aware", "aware_without_annealing", "replayed", "single", "bound")}  # fmt: skip
        result[f"ccr {ccr}"] = line
        print(f"  CCR {ccr:4}: " + ", ".join(f"{key} {mean:.3f} ({worst:.3f})" for key, (mean, worst) in line.items()))
    print("  wins: " + ", ".join(f"{name} {count}" for name, count in wins.most_common()))
    print("  wins without annealing: " + ", ".join(f"{name} {count}" for name, count in built.most_common()))
    return result | {"wins": dict(wins), "wins_without_annealing": dict(built)}


def _compared(
    shape: str, ops: int, k: int, ccr: float, seed: int, budget: float, wins: Counter[str], built: Counter[str]
) -> dict[str, float]:
    context = Context(problem(shape, ops, k, ccr, seed))
    aware, replayed, alone = baselines(context)
    quick, found = search(context, 0.0), search(context, budget, timed=False)
    wins[_family(found.best.name)] += 1
    built[_family(quick.best.name)] += 1
    made = found.best.makespan
    return {
        "ccr": ccr, "aware": made / aware, "aware_without_annealing": quick.best.makespan / aware,
        "replayed": made / replayed, "single": made / alone, "bound": made / found.bound,
    }  # fmt: skip


def _family(name: str) -> str:
    return "heft replayed" if name.endswith("replayed") else name.split(" ")[0]


def small(budget: float) -> dict[str, Any]:
    if not exact.available():
        print("small: ortools is not installed (pip install 'codedag[graph]')")
        return {}
    ratios, better, known = [], [], 0
    for ops in (14, 24):
        for shape in SHAPES:
            for k in (2, 4):
                for ccr in CCRS:
                    context = Context(problem(shape, ops, k, ccr, 7))
                    found = search(context, budget, solver=False, timed=False)
                    candidate, bound, _ = exact.polish(context, found.best, 30.0, 0)
                    known += candidate is not found.best
                    ratios.append(found.best.makespan / max(bound, found.bound))
                    better.append(found.best.makespan / min(candidate.makespan, found.best.makespan))
    print(
        f"{len(ratios)} instances of 14 and 24 ops, {known} solved: plan over the solver's bound "
        f"{geomean(ratios):.4f}, worst {max(ratios):.4f}, within 0.5 %: {sum(one <= 1.005 for one in ratios)}; "
        f"over the solver's best plan {geomean(better):.4f}, worst {max(better):.4f}"
    )
    told = {"geomean": geomean(ratios), "worst": max(ratios), "solved": known, "instances": len(ratios)}
    return told | {"geomean_of_best": geomean(better), "worst_of_best": max(better)}


def scale(sizes: list[int]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    print("layered, 4 PUs, CCR 1, without annealing: CPU seconds of the plan, of the model, peak memory")
    for n in sizes:
        result[str(n)] = _timed("layered", n)
    if len(sizes) > 1:
        first, last = sizes[0], sizes[-1]
        ratio = result[str(last)]["seconds"] / result[str(first)]["seconds"]
        result["exponent"] = math.log(ratio) / math.log(last / first)
        print(f"  growth exponent from {first:,} to {last:,}: {result['exponent']:.2f}")
    return result


def shapes() -> dict[str, Any]:
    print("odd shapes, 4 PUs, CCR 1, without annealing")
    return {shape: _timed(shape, n) for shape, n in (("star", 100_000), ("chain", 1_000_000))}


def _timed(shape: str, n: int) -> dict[str, float]:
    begin = time.process_time()
    made = problem(shape, n, 4, 1.0, 3)
    built = time.process_time() - begin
    begin = time.process_time()
    found = search(Context(made), 0.0)
    seconds = time.process_time() - begin
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    over = found.best.makespan / found.bound
    print(
        f"  {shape} {n:>9,}: {seconds:7.2f} s, {built:6.2f} s, {megabytes:5.0f} MB; "
        f"{over:.3f} over the bound ({found.best.name})"
    )
    return {"seconds": seconds, "model_seconds": built, "megabytes": megabytes, "over_bound": over}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", type=int, default=1000)
    parser.add_argument("--budget", type=float, default=2.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--scale", default="1000,10000,100000,1000000")
    parser.add_argument("--parts", default="quality,small,scale,shapes")
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parent / "results" / "planner.json")
    options = parser.parse_args()
    parts = options.parts.split(",")
    print(f"engine: {ENGINE}, Python {platform.python_version()}, {platform.machine()}")
    results: dict[str, Any] = {"engine": ENGINE, "python": platform.python_version(), "machine": platform.machine()}
    if "quality" in parts:
        results["quality"] = quality(options.ops, options.budget, options.seeds)
    if "small" in parts:
        results["small"] = small(options.budget)
    if "scale" in parts:
        results["scale"] = scale([int(one) for one in options.scale.split(",")])
    if "shapes" in parts:
        results["shapes"] = shapes()
    options.output.parent.mkdir(exist_ok=True)
    options.output.write_text(json.dumps(results, indent=2) + "\n")
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()
