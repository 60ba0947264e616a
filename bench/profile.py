"""Prints how well profiles can be repeated, and how well sizes are predicted that were not measured.

python bench/profile.py [--quick] [--threads N] [-o RESULTS.json]

1. Two independent profiles of the same calls (other stores, other processes): in how many contests that are no ties do
   both name the same winner?
2. Each size is left out in turn and predicted from the others: mean relative error and rank correlation.
3. The variants of each size that was left out are ranked by what was predicted: how often is the fastest one the first,
   or among the first two, and what is lost by taking the first?

Libraries get as many threads as there are processors, or one each where these are busy already: two threads that have
to wait for each other on a busy machine take any time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
PUS = frozenset({"cpu", "torch:cpu", "numba:cpu"})
NAMES = {
    "exp": 1, "sqrt": 1, "tanh": 1, "log1p": 1, "absolute": 1, "square": 1, "add": 2, "multiply": 2, "maximum": 2,
    "true_divide": 2, "hypot": 2, "sum": 1, "mean": 1, "std": 1, "max": 1, "cumsum": 1, "matmul": 2, "sort": 1,
}  # fmt: skip
SIDES = (24, 32, 45, 64, 91, 128, 181, 256, 362, 512, 724, 1024)  # of square arrays of float32: 2 KB to 4 MB


def plug_in(folder: Path) -> None:
    """Makes profile_backends.py known as a plug-in, here and in the processes that measure."""
    about = folder / "bench_backends-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-backends\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[codedag.backends]\nbench = profile_backends\n")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), str(HERE), os.environ.get("PYTHONPATH", "")])
    sys.path[:0] = [str(folder), str(HERE)]


def samples(folder: Path, sides: tuple[int, ...]) -> list[Any]:
    from codedag.profile.sample import read
    from codedag.trace.spool import Spool

    spool = Spool(folder / "samples", most_nbytes=4 << 30)
    spool.begin()
    found = []
    for name, arrays in NAMES.items():
        for line, side in enumerate(sides):
            source = np.random.default_rng(side)
            args = tuple(source.random((side, side), np.float32) for _ in range(arrays))
            found.append(read(spool.keep(f"numpy.{name}", args, {}, line=line)))
    return found


def measured(home: Path, calls: list[Any], seconds: float) -> dict[str, Any]:
    """The contests over the calls, measured into a store of their own."""
    from codedag.profile.profiler import Profiler
    from codedag.profile.store import Store

    store = Store(home / "costs.sqlite")
    profiler = Profiler(store, PUS, budget_seconds=seconds, cell_seconds=0.5)
    contests = profiler.contests(calls)
    profiler.run(contests.values())
    return contests


def winners(contest: Any) -> tuple[str, bool]:
    """The fastest variant, and whether another one ties with it."""
    from codedag.profile.figures import are_tied

    cells = {v: c for v, c in contest.cells.items() if c.status == "ok" and v.buffers == "fresh"}
    best = min(cells, key=lambda v: cells[v].batches.figures().median)
    tied = any(v != best and are_tied(cells[best].batches, cells[v].batches) for v in cells)
    return f"{best.pu} {best.name}", tied


def repeated(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    pairs = [(winners(first[key]), winners(second[key])) for key in first]
    clear = [(one, other) for one, other in pairs if not one[1] and not other[1]]
    agreed = sum(one[0] == other[0] for one, other in clear)
    naive = sum(one[0] == other[0] for one, other in pairs)
    return {
        "contests": len(pairs), "ties_in_one_run": len(pairs) - len(clear), "compared": len(clear), "agreed": agreed,
        "share": agreed / max(len(clear), 1), "share_with_ties": naive / len(pairs),
    }  # fmt: skip


def held_out(contests: dict[str, Any]) -> dict[str, Any]:
    """The errors of predicting each inner size of each function on each PU from the other sizes."""
    from codedag.ir import No
    from codedag.profile.model import CostModel, Point

    series: defaultdict[tuple[str, str], list[Point]] = defaultdict(list)
    for contest in contests.values():
        for variant, cell in contest.cells.items():
            if cell.status == "ok" and variant.buffers == "fresh":
                point = Point(cell.facts["moved_nbytes"], cell.facts["work_flop"], cell.batches.figures().median)
                series[variant.pu + " " + variant.name, contest.sample.name].append(point)
    pairs: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    refused = 0
    for (variant, _), points in series.items():
        points.sort(key=lambda point: point.nbytes)
        for at in range(1, len(points) - 1):
            found = CostModel([*points[:at], *points[at + 1 :]]).at(points[at].nbytes, points[at].work)
            if isinstance(found, No):
                refused += 1
            else:
                pairs[variant.partition(" ")[0]].append((found.seconds, points[at].seconds))
    every = [pair for each in pairs.values() for pair in each]
    by_pu = {pu: error(found) for pu, found in pairs.items()}
    return {"sizes": len(every), "refused": refused, "mape": error(every), "by_pu": by_pu, "rank": rank(every)}


def ranked_variants(contests: dict[str, Any]) -> dict[str, Any]:
    """How the variants of each inner size are ranked by models that have not seen that size."""
    from codedag.profile.model import CostModel, Point, ranked

    series: defaultdict[str, defaultdict[str, list[Point]]] = defaultdict(lambda: defaultdict(list))
    for contest in contests.values():
        for variant, cell in contest.cells.items():
            if cell.status == "ok" and variant.buffers == "fresh":
                point = Point(cell.facts["moved_nbytes"], cell.facts["work_flop"], cell.batches.figures().median)
                series[contest.sample.name][f"{variant.pu} {variant.name}"].append(point)
    first, second, lost, correlations = 0, 0, [], []
    for variants in series.values():
        sizes = sorted({(point.nbytes, point.work) for points in variants.values() for point in points})[1:-1]
        for nbytes, work in sizes:
            true = {name: p.seconds for name, points in variants.items() for p in points if p.nbytes == nbytes}
            models = {name: CostModel([p for p in variants[name] if p.nbytes != nbytes]) for name in true}
            order = [name for name, _ in ranked(models, nbytes, work)]
            if len(order) < 2:
                continue
            near = [name for name in order if true[name] <= 1.05 * min(true[name] for name in order)]
            first, second = first + (order[0] in near), second + bool(set(order[:2]) & set(near))
            lost.append(true[order[0]] / min(true[name] for name in order) - 1)
            if len(order) > 2:
                correlations.append(rank([(float(at), true[name]) for at, name in enumerate(order)]))
    return {
        "sizes": len(lost), "first": first / len(lost), "first_two": second / len(lost),
        "lost_mean": float(np.mean(lost)), "lost_median": float(np.median(lost)),
        "rank_of_three": float(np.mean(correlations)) if correlations else None,
    }  # fmt: skip


def error(pairs: list[tuple[float, float]]) -> float:
    return float(np.mean([abs(guess / true - 1) for guess, true in pairs]))


def rank(pairs: list[tuple[float, float]]) -> float:
    orders = [np.argsort(np.argsort([pair[side] for pair in pairs])) for side in (0, 1)]
    return float(np.corrcoef(*orders)[0, 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer sizes")
    parser.add_argument("--threads", type=int, help="threads of each library")
    parser.add_argument("-o", "--output", default=str(HERE / "results" / "profile.json"))
    options = parser.parse_args()
    load, processors = os.getloadavg()[0], os.cpu_count() or 1
    threads = options.threads or (processors if load < processors else 1)
    for setting in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[setting] = str(threads)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["CODEDAG_HOME"] = name
        plug_in(folder / "plugged")
        calls = samples(folder / "run", SIDES[::3] if options.quick else SIDES)
        first, second = (measured(folder / which, calls, 900) for which in ("first", "second"))
        results = {
            "repeated": repeated(first, second), "held_out": [held_out(first), held_out(second)],
            "variants": [ranked_variants(first), ranked_variants(second)],
            "load": [load, os.getloadavg()[0]], "processors": processors, "threads": threads,
            "python": platform.python_version(),
            "versions": {each: version(each) for each in ("numpy", "torch", "numba")},
        }  # fmt: skip
    told = results["repeated"]
    after = os.getloadavg()[0]
    print(f"load average {load:.1f} before, {after:.1f} after, {processors} processors, {threads} threads per library")
    print(f"{told['contests']} contests, {told['ties_in_one_run']} called ties in one run or both")
    print(f"same winner in {told['agreed']} of {told['compared']} others ({told['share']:.1%})")
    print(f"same winner in {told['share_with_ties']:.1%} of all, if ties were not called")
    for run in results["held_out"]:
        by_pu = ", ".join(f"{pu} {share:.1%}" for pu, share in sorted(run["by_pu"].items()))
        print(f"held-out sizes: {run['sizes']}, error {run['mape']:.1%} ({by_pu}), rank {run['rank']:.4f}")
    for run in results["variants"]:
        print(
            f"variants of {run['sizes']} held-out sizes: the fastest or one within 5 % of it is predicted first in "
            f"{run['first']:.1%}, among the first two in {run['first_two']:.1%}; the first costs "
            f"{run['lost_mean']:.1%} more on average, {run['lost_median']:.1%} in the middle"
        )
    Path(options.output).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
