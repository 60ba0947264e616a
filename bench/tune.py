"""The kernel tuner, measured: kernels against numpy, products against the peak, searches on tables, the model.

    python bench/tune.py [--only kernels products large models tables] [--quick]

Everything runs on one thread in thread time, in blocks of calls in random order; results go to
bench/results/tune.json. Tables are measured once and kept in build/tune_tables (`--fresh` measures again).
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import sys
import time
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402
from tune_page import write_page  # noqa: E402
from tune_records import lessons, point_in, points_of, task_of  # noqa: E402

from codedag.tune.measure.inputs import arrays_for  # noqa: E402
from codedag.tune.model.network import Network  # noqa: E402
from codedag.tune.model.shipped import FOLDER, shipped_model  # noqa: E402
from codedag.tune.program.operators import OPERATORS  # noqa: E402
from codedag.tune.report import TuningReport  # noqa: E402
from codedag.tune.schedule.space import point_of, point_text  # noqa: E402
from codedag.tune.search.search import run_search  # noqa: E402
from codedag.tune.search.strategies import STRATEGIES  # noqa: E402
from codedag.tune.task import Task  # noqa: E402

ROOT = Path(__file__).parent.parent
RESULTS, TABLES = ROOT / "bench" / "results" / "tune.json", ROOT / "build" / "tune_tables"
ROUNDS = 25
PARTS = ["kernels", "products", "large", "models", "tables"]


def _einsum(a, b):
    return np.einsum("nik,nkj->nij", a, b)


def _pixels(a, b):
    return a @ b


def _float_chain(x, mean, std):
    return np.clip((x / np.float32(255) - mean) / std, -2, 2)


# name: function, arrays, least and aim of the gain
KERNELS = {
    "normalise 224": (OPERATORS["normalise"].function, "u1[224,224,3],f8[3],f8[3]", 25, 38),
    "layer norm 300x1000": (OPERATORS["layernorm"].function, "f4[300,1000],f4[1000],f4[1000]", 3, 5),
    "layer norm 197x768": (OPERATORS["layernorm"].function, "f4[197,768],f4[768],f4[768]", 3, 5),
    "image standardised": (OPERATORS["standardise"].function, "f4[224,224,3]", 2.2, 3),
    "softmax 2364x197": (OPERATORS["softmax"].function, "f4[2364,197]", 1.4, 2),
    "float chain": (_float_chain, "f4[480,640,3],f4[3],f4[3]", 2, 2.7),
    "einsum 1000 9x9": (_einsum, "f4[1000,9,9],f4[1000,9,9]", 8, 15),
    "einsum 1000 12x12": (_einsum, "f4[1000,12,12],f4[1000,12,12]", 8, 15),
    "einsum 60 32x32": (_einsum, "f4[60,32,32],f4[60,32,32]", 3.5, 3.5),
    "einsum 20000 3x3 by 3x1": (_einsum, "f4[20000,3,3],f4[20000,3,1]", 5, 8),
    "pixels by 3x3": (_pixels, "f4[308321,3],f4[3,3]", 2, 3.5),
}
PRODUCTS = [256, 257, 384, 509, 512, 640, 769, 1000, 1050]
# Rows and maps of bytes are no tasks here: the ways to run them are so alike that two measurements of the same points
# rank them by 0.79 and 0.86, which replays noise.
STACK = "n i k, n k j -> n i j"
REPLAYED = [
    {"what": "matmul", "shape": (250, 230, 270)}, {"what": "matmul", "shape": (340, 260, 199)},
    {"what": STACK, "sizes": {"n": 120, "i": 28, "k": 30, "j": 26}},
    {"what": STACK, "sizes": {"n": 40, "i": 50, "k": 45, "j": 60}},
]  # fmt: skip


LARGE = [
    {"what": "matmul", "shape": (500, 470, 530)}, {"what": "matmul", "shape": (350, 290, 211)},
    {"what": "matmul", "shape": (300, 330, 280), "dtype": "f8"},
    {"what": STACK, "sizes": {"n": 90, "i": 44, "k": 52, "j": 36}},
    {"what": STACK, "sizes": {"n": 20, "i": 70, "k": 90, "j": 66}},
]  # fmt: skip


def clocked(functions: dict, rounds: int = ROUNDS, calls: int = 4) -> dict[str, tuple[float, float]]:
    """Least and median thread seconds of a call of each function, in blocks of calls, blocks in random order."""
    draw, clock = np.random.default_rng(0), time.thread_time
    times = {name: [] for name in functions}
    for _ in range(rounds):
        for k in draw.permutation(len(functions)):
            name = list(functions)[int(k)]
            start = clock()
            for _ in range(calls):
                functions[name]()
            times[name].append((clock() - start) / calls)
    return {name: (min(own), float(np.median(own))) for name, own in times.items()}


def measured(task: Task, history: int, took: float) -> dict:
    """Seconds of a candidate, and the share of a search that is not compiling and measuring."""
    spent = task.measurer.compile_seconds + task.measurer.measure_seconds
    return {"search_seconds": took, "seconds_a_candidate": spent / history, "share_of_search": 1 - spent / took}


def bench_kernel(name: str, quick: bool) -> dict:
    function, like, least, aim = KERNELS[name]
    with Task.of(function, like=like) as task:
        start = time.monotonic()
        result = task.search("gradient", measurements=8 if quick else 32)
        took = measured(task, len(result.history), time.monotonic() - start)
        kernel = task.kernel(result.best)
        arrays = arrays_for(task.program, 3)
        same = kernel(*arrays).tobytes() == function(*arrays).tobytes()
        times = clocked({"numpy": lambda: function(*arrays), "kernel": lambda: kernel(*arrays)})
    best, median = (times["numpy"][k] / times["kernel"][k] for k in (0, 1))
    point = point_text(result.best)
    print(f"{name}: {best:.1f}x, median {median:.1f}x (least {least}, aim {aim}), {kernel.exactness}, {same}; {point}")
    return {
        "class": kernel.exactness, "same_bits": same, "gain_best": best, "gain_median": median, "least": least,
        "aim": aim, "met": best >= least, "point": point, "as_written": kernel.as_written, **took,
    }  # fmt: skip


def bench_product(n: int, quick: bool) -> dict:
    with Task.of("matmul", shape=(n, n, n)) as task:
        report = TuningReport(task, "gradient", 0)
        start = time.monotonic()
        report.result = task.search("gradient", measurements=16 if quick else 64)
        took = measured(task, len(report.result.history), time.monotonic() - start)
        report.peak, report.baselines = task.peak(), task.baselines()
        again = task.measurer.measure([report.best], 0.3)[0].seconds
    share = report.fraction_of_peak(min(again, report.best_seconds))
    library = report.fraction_of_peak(report.baselines["numpy"])
    first, least = report.result.history[0][1], min(s for _, s in report.result.history if s is not None)
    first_of_best, point = least / first if first else 0.0, point_text(report.best)
    found = f"{share:.3f} of the peak (numpy {library:.3f}), first pick {first_of_best:.2f} of the best"
    print(f"product {n}: {found}; {point}", flush=True)
    return {
        "fraction_of_peak": share, "numpy_fraction": library, "peak_gflops": report.peak, "class": task.exactness,
        "first_of_best": first_of_best, "met": share >= 0.80, "point": point, **took,
    }  # fmt: skip


def bench_large(quick: bool) -> dict:
    """Searches of spaces of more than a million points with the same number of measurements; medians of seeds."""
    found = {}
    for spec in LARGE:
        found[name_of(spec)] = _large(spec, 16 if quick else 64, 1 if quick else 3)
        write("large", found, quick)  # a run may be ended before the last one
    return found


def _large(spec: dict, budget: int, seeds: int) -> dict:
    with Task.of(**spec) as task:
        runs = [(name, seed) for name in STRATEGIES for seed in range(seeds if name != "evolution" else 1)]
        best = [task.search(name, seed=seed, measurements=budget).best for name, seed in runs]
        times = dict(zip(runs, task.measurer.paired(best), strict=True))
        points = task.space.points
    by_name = {name: [s for (other, _), s in times.items() if other == name] for name in STRATEGIES}
    middle = {name: float(np.median(own)) for name, own in by_name.items()}
    found = {
        "points": points, "seconds": by_name, "gain_over_random": middle["random"] / middle["gradient"],
        "gain_over_evolution": middle["evolution"] / middle["gradient"],
        "seeds_apart": max(by_name["gradient"]) / min(by_name["gradient"]) - 1, "load": os.getloadavg()[0],
    }  # fmt: skip
    facts = ", ".join(f"{k} {v:.3f}" for k, v in found.items() if isinstance(v, float))
    print(f"large space {name_of(spec)}: {points:,} points, {facts}; {by_name}", flush=True)
    return found


def _ridge(rows, target):
    """A linear model: what lost."""
    scale = np.where(rows.std(axis=0) > 1e-6, rows.std(axis=0), 1.0)
    x = np.column_stack([(rows - rows.mean(axis=0)) / scale, np.ones(len(rows))])
    weights = np.linalg.solve(x.T @ x + 1e-2 * len(x) * np.eye(x.shape[1]), x.T @ target)
    return lambda other: np.column_stack([(other - rows.mean(axis=0)) / scale, np.ones(len(other))]) @ weights


def _nearest(rows, target):
    """The mean of the five nearest records: what lost, and has no slope."""
    scale = np.where(rows.std(axis=0) > 1e-6, rows.std(axis=0), 1.0)

    def score(other):
        apart = (((other[:, None] - rows[None]) / scale) ** 2).sum(axis=2)
        return target[np.argsort(apart, axis=1)[:, :5]].mean(axis=1)

    return score


def _network(rows, target):
    network = Network.fresh(rows)
    network.weights[-1] += target.mean()
    network.fit(rows, target, 1500)
    return network.score


MODELS = {"network": _network, "linear": _ridge, "nearest": _nearest}


def bench_models(quick: bool) -> dict:
    """Rank correlation and first pick on shipped tasks that are left out, by model."""
    tables = json.loads(gzip.decompress((FOLDER / "records.json.gz").read_bytes()))["tables"]
    kinds = [task_of(table).family.name for table in tables]
    found = {}
    for k in range(0, len(tables), 12 if quick else 3):
        rest = [table for j, table in enumerate(tables) if j != k and kinds[j] == kinds[k]]
        rows, target = lessons(rest)[kinds[k]]
        task = task_of(tables[k])
        ran = [(point_in(task, text), s) for text, s in tables[k]["rows"] if s]
        own, speeds = task.features([point for point, _ in ran]), np.array([task.speed(s) for _, s in ran])
        sizes = tables[k].get("shape") or tables[k].get("like") or list(tables[k]["sizes"].values())
        name = f"{tables[k]['what']} {sizes}"
        found[name] = {}
        for model, fit in MODELS.items():
            told = fit(rows, target)(own)
            pick = float(2.0 ** (speeds[int(np.argmax(told))] - speeds.max()))
            found[name][model] = {"rank_correlation": rank_correlation(told, speeds), "first_pick_of_best": pick}
        facts = ", ".join(
            f"{m} {v['rank_correlation']:.3f} ({v['first_pick_of_best']:.2f})" for m, v in found[name].items()
        )
        print(f"left out {name}: {facts}", flush=True)
    return found


def name_of(spec: dict) -> str:
    """A short name of a task."""
    sizes = "x".join(map(str, spec.get("shape") or spec["sizes"].values()))
    return f"{'stack' if 'sizes' in spec else spec['what']} {sizes}{' f8' if spec.get('dtype') == 'f8' else ''}"


def table_of(spec: dict, codes: int, fresh: bool) -> dict[str, float]:
    """A table of measured points, each the slower of two rounds, and how alike the rounds rank."""
    name = f"{name_of(spec).replace(' ', '-')}.json"
    if (TABLES / name).exists() and not fresh:
        return json.loads((TABLES / name).read_text())
    with Task.of(**spec) as task:
        points = points_of(task, codes, 14, 99)[:2400]
        first, second = ([], [])
        for rounds in (first, second):
            for at in range(0, len(points), 96):
                rounds += [r.seconds for r in task.measurer.measure(points[at : at + 96], 0.006)]
    pairs = [(point_text(p), a, b) for p, a, b in zip(points, first, second, strict=True) if a and b]
    alike = rank_correlation(np.array([a for _, a, _ in pairs]), np.array([b for _, _, b in pairs]))
    table = {"alike": alike, "rows": {text: max(a, b) for text, a, b in pairs}}
    TABLES.mkdir(parents=True, exist_ok=True)
    (TABLES / name).write_text(json.dumps(table))
    return table


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    ranks = [np.argsort(np.argsort(one)) for one in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])


class TableSpace:
    """The space of a task cut down to the points of a table: what is not in it does not exist."""

    def __init__(self, task: Task, texts: list[str]) -> None:
        self.inner, self.texts = task.space, set(texts)
        self.points_ = [point_of(text) for text in texts]
        self.sketches, self.by_name = task.space.sketches, task.space.by_name
        self.rows = {s.name: [p for p in self.points_ if p["sketch"] == s.name] for s in self.sketches}
        self.logs = {name: self._logs(name, own) for name, own in self.rows.items() if own}

    def _logs(self, name, own):
        return np.array([[self._coordinate(v, p[v.name]) for v in self.by_name[name].variables] for p in own])

    def _coordinate(self, variable, value) -> float:
        if variable.ordered:
            return float(np.log2(float(value)))
        return 3.0 * variable.values.index(value)

    def drawn(self, draw):
        return self.points_[int(draw.integers(len(self.points_)))]

    def valid(self, point) -> bool:
        return point_text(point) in self.texts

    def neighbours(self, point):
        own, logs = self.rows[point["sketch"]], self.logs[point["sketch"]]
        here = np.array([self._coordinate(v, point[v.name]) for v in self.by_name[point["sketch"]].variables])
        order = np.argsort(np.abs(logs - here).sum(axis=1), kind="stable")[:9]
        return [own[int(k)] for k in order if own[int(k)] != point][:8]

    def nearest(self, point):
        """The point of the table next to one of the whole space."""
        own, logs = self.rows[point["sketch"]], self.logs[point["sketch"]]
        here = np.array([self._coordinate(v, point[v.name]) for v in self.by_name[point["sketch"]].variables])
        return own[int(np.argmin(np.abs(logs - here).sum(axis=1)))]


class ReachedError(Exception):
    """A replayed search has found what it is asked for."""


def needed(strategy, task: Task, space: TableSpace, model, rows: dict, budget: int, seed: int) -> tuple[float, float]:
    """Measurements until 90 and 95 % of the best of a table; infinite beyond the budget."""
    best, seen = min(rows.values()), []

    def ask(points):
        seen.extend(rows[point_text(point)] for point in points)
        if best / min(seen) >= 0.95:
            raise ReachedError
        return [rows[point_text(point)] for point in points]

    with contextlib.suppress(ReachedError):
        run_search(strategy, space, task._features, model, ask, budget, seed, task.speed)
    speeds = best / np.minimum.accumulate(seen)
    return tuple(int(np.argmax(speeds >= s)) + 1 if speeds[-1] >= s else np.inf for s in (0.9, 0.95))


def replay(spec: dict, table: dict, seeds: int, budget: int) -> dict:
    """Median measurements until 90 and 95 % of the best of the table, by strategy."""
    task = Task.of(**spec)
    space = TableSpace(task, list(table["rows"]))
    model, found = shipped_model(task.family.name), {}
    for name, strategy in STRATEGIES.items():
        own = None if name == "random" else model
        needs = np.array([needed(strategy, task, space, own, table["rows"], budget, seed) for seed in range(seeds)])
        middle = [float(m) if np.isfinite(m) else None for m in np.median(needs, axis=0)]
        found[name] = {"to_90": middle[0], "to_95": middle[1], "never_90": int(np.isinf(needs[:, 0]).sum())}
    return found


def bench_tables(quick: bool, fresh: bool) -> dict:
    found = {}
    for spec in REPLAYED:
        table = table_of(spec, 60 if quick else 480, fresh)
        name, rows = name_of(spec), table["rows"]
        task = Task.of(**spec)
        model = shipped_model(task.family.name)
        points, seconds = [point_of(text) for text in rows], np.array(list(rows.values()))
        exact, smooth = model.score(task.features(points)), model.score(task.smooth(points))
        own = found[name] = {
            "points": len(rows), "two_measurements_alike": table["alike"],
            "rank_correlation": rank_correlation(exact, 1 / seconds),
            "smooth_against_exact": rank_correlation(exact, smooth),
            "first_pick_of_best": float(seconds.min() / seconds[int(np.argmax(exact))]),
            "median_of_best": float(seconds.min() / np.median(seconds)),
            "searches": replay(spec, table, 4 if quick else 20, 128),
        }  # fmt: skip
        needs = ", ".join(f"{s} {v['to_90']}/{v['to_95']}" for s, v in own["searches"].items())
        facts = ", ".join(f"{k} {v:.3f}" for k, v in own.items() if isinstance(v, float))
        print(f"table {name}: {len(rows)} points, {facts}; measurements to 90/95 %: {needs}", flush=True)
    return found


def write(part: str, found: dict, quick: bool) -> None:
    """Puts the results of one part beside those of the others."""
    facts = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    versions = {"numpy": np.__version__, "python": sys.version.split()[0]}
    if not quick:
        RESULTS.write_text(json.dumps({**facts, "versions": versions, part: found}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=PARTS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--fresh", action="store_true")
    arguments = parser.parse_args()
    start = time.perf_counter()
    parts = {
        "kernels": lambda: {name: bench_kernel(name, arguments.quick) for name in KERNELS},
        "products": lambda: {str(n): bench_product(n, arguments.quick) for n in PRODUCTS},
        "large": lambda: bench_large(arguments.quick),
        "models": lambda: bench_models(arguments.quick),
        "tables": lambda: bench_tables(arguments.quick, arguments.fresh),
    }
    for part, run in parts.items():
        if part in arguments.only:
            write(part, run(), arguments.quick)
    write_page()
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
