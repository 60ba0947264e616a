"""Makes the records and the model that the tuner ships: random points of many tasks, measured here.

    python bench/tune_records.py            measure, write records, fit the model
    python bench/tune_records.py --fit      fit the model to the records that are there
    python bench/tune_records.py --only softmax    measure these tasks again
    python bench/tune_records.py --missing  measure new tasks

No size of bench/tune.py is among the tasks.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import itertools
import json
import math
import sys
import time

import numpy as np

from codedag.tune.model.network import Network
from codedag.tune.model.shipped import FOLDER, FORMAT, VERSION
from codedag.tune.schedule.features import Features, Smooth
from codedag.tune.schedule.space import point_of, point_text
from codedag.tune.task import Task

PRODUCTS = [
    (320, 320, 320),
    (384, 200, 450),
    (600, 600, 600),
    (150, 800, 333),
    (720, 720, 720),
    (900, 300, 500),
    (240, 1000, 1000),
    (277, 277, 277),
    (448, 448, 448),
    (800, 800, 160),
]
PRODUCTS8 = [(280, 320, 260), (500, 300, 420), (180, 600, 240)]
STACKS = [
    (500, 7, 7, 7),
    (300, 10, 10, 10),
    (100, 24, 24, 24),
    (400, 5, 16, 11),
    (60, 40, 40, 40),
    (3000, 4, 4, 4),
    (150, 20, 18, 22),
    (80, 33, 29, 31),
    (1000, 6, 8, 5),
]
STACKS8 = [(300, 9, 11, 10), (60, 26, 30, 28)]
PIXELS = [(90_000, 3, 3), (20_000, 3, 3), (50_000, 4, 4), (12_000, 8, 5)]
ROWS = [
    ("layernorm", (200, 700)),
    ("layernorm", (64, 1500)),
    ("layernorm", (900, 300)),
    ("softmax", (800, 150)),
    ("softmax", (200, 600)),
    ("softmax", (3000, 64)),
    ("standardise", (160, 160, 3)),
    ("normalise", (160, 200, 3)),
    ("normalise", (300, 280, 3)),
    ("normalise", (96, 96, 4)),
    ("standardise", (300, 400, 3)),
    ("decibel", (96, 300)),
    ("decibel", (64, 1100)),
]


def columns(x):
    return (x - x.min(axis=0)) / (x.max(axis=0) - x.min(axis=0) + 1e-9)


def scores(x):
    return (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-6)


def chosen(x, y):
    z = x * 0.25 + y
    z = np.where(z > 1, np.sqrt(np.abs(z)), z * z)
    return (z - z.min(axis=1, keepdims=True)) * 2


def sums_of_exp(x):
    top = x.max(axis=-1, keepdims=True)
    return np.log(np.exp(x - top).sum(axis=-1, keepdims=True)) + top


def unit(x):
    return x / np.sqrt((x * x).sum(axis=-1, keepdims=True) + 1e-9)


def cosine(x, y):
    return (x * y).sum(axis=1) / np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1))


def planes(x):
    mean = x.mean(axis=(1, 2), keepdims=True)
    return (x - mean) / np.sqrt(x.var(axis=(1, 2), keepdims=True) + 1e-5)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def grey(x, weight):
    return (x * weight).sum(axis=-1)


def pooled(x):
    return (x * 0.5).reshape(x.shape[0] // 2, 2, x.shape[1] // 2, 2).mean(axis=(1, 3))


def turned(x, scale):
    return (x * 2 + scale).T.copy()


def limited(x, scale, shift):
    return np.clip((x - shift) / scale, 0, 4)


def deviation(x):
    return x.std(axis=-1)


def bytes32(x, mean, scale):
    return ((x.astype(np.float32) / np.float32(255) - mean) / scale).transpose(2, 0, 1)


FUNCTIONS = [
    (columns, "f4[1500,48]"),
    (columns, "f8[300,130]"),
    (scores, "f4[900,80]"),
    (scores, "f8[4000,24]"),
    (chosen, "f8[300,120],f8[120]"),
    (chosen, "f4[90,700],f4[700]"),
    (sums_of_exp, "f4[400,250]"),
    (unit, "f4[1000,128]"),
    (unit, "f8[250,600]"),
    (cosine, "f4[500,300],f4[500,300]"),
    (planes, "f4[24,40,44]"),
    (sigmoid, "f4[60000]"),
    (grey, "f4[200,260,3],f4[3]"),
    (pooled, "f4[256,384]"),
    (turned, "f4[300,420],f4[420]"),
    (limited, "f4[200,300,3],f4[3],f4[3]"),
    (deviation, "f4[500,800]"),
    (bytes32, "u1[128,190,3],f4[3],f4[3]"),
]
WHOLE = 48  # points of a sketch that is measured as a whole
CODES, TILES = 70, 6  # different texts of a product's task, and tiles of each


def tasks() -> list[dict]:
    stack = "n i k, n k j -> n i j"
    made = [{"what": "matmul", "shape": shape} for shape in PRODUCTS]
    made += [{"what": "matmul", "shape": shape, "dtype": "f8"} for shape in PRODUCTS8]
    made += [{"what": stack, "sizes": dict(zip("nikj", s, strict=True))} for s in STACKS]
    made += [{"what": stack, "sizes": dict(zip("nikj", s, strict=True)), "dtype": "f8"} for s in STACKS8]
    made += [{"what": "p k, k j -> p j", "sizes": dict(zip("pkj", s, strict=True))} for s in PIXELS]
    made += [{"what": name, "shape": shape} for name, shape in ROWS]
    return made + [{"what": function.__name__, "like": like} for function, like in FUNCTIONS]


def task_of(spec: dict) -> Task:
    known = {function.__name__: function for function, _ in FUNCTIONS}
    what = known.get(spec["what"], spec["what"])
    return Task.of(what, **{"allow": ["ulp"], **{k: v for k, v in spec.items() if k not in ("what", "rows")}})


def points_of(task: Task, codes: int, tiles: int, seed: int) -> list[dict]:
    """Random points, several of which share their C text."""
    draw = np.random.default_rng(seed)
    found = {}
    for sketch in task.space.sketches:
        if math.prod(v.count for v in sketch.variables) <= WHOLE:
            values = [[(v.name, one) for one in v.values] for v in sketch.variables]
            every = [{"sketch": sketch.name, **dict(choice)} for choice in itertools.product(*values)]
            found.update((point_text(point), point) for point in every if sketch.holds(point))
    for point in task.space.sample(codes, seed):
        sketch = task.space.by_name[point["sketch"]]
        own = [v for v in sketch.variables if v.name in ("kc", "mt", "nt", "tile")]
        for _ in range(tiles if own else 1):
            found.setdefault(point_text(point), point)
            moved = {**point, **{v.name: v.draw(draw) for v in own}}
            point = moved if sketch.holds(moved) else point
    return list(found.values())


def measured(spec: dict, codes: int, tiles: int, seed: int = 11) -> dict:
    with task_of(spec) as task:
        start = time.monotonic()
        rows = []
        points = points_of(task, codes, tiles, seed)
        for at in range(0, len(points), 48):
            rows += [
                (point_text(r.point), None if r.seconds is None else float(f"{r.seconds:.5g}"))
                for r in task.measurer.measure(points[at : at + 48], 0.03)
            ]
        took = time.monotonic() - start
        best = min(s for _, s in rows if s)
        print(
            f"{spec}: {len(rows)} points, {took / len(rows):.3f} s each, best {best * 1e6:.1f} us",
            file=sys.stderr,
            flush=True,
        )
        return {**spec, "rows": rows}


def point_in(task: Task, text: str) -> dict:
    """The point of a recorded text; variables that change nothing for this task are none of its space."""
    point = point_of(text)
    names = {v.name for v in task.space.by_name[point["sketch"]].variables}
    return {name: value for name, value in point.items() if name in names or name == "sketch"}


def lessons(tables: list[dict]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Features and speeds of all records, by family; exact and smooth features teach the same."""
    found: dict[str, list] = {}
    for table in tables:
        task = task_of(table)
        features = Features(task.family)
        ran = [(point_in(task, text), s) for text, s in table["rows"] if s]
        target = np.array([task.speed(s) for _, s in ran])
        for by in (features.rows([p for p, _ in ran]), features.rows([p for p, _ in ran], Smooth)):
            found.setdefault(task.family.name, []).append((by, target))
    return {
        kind: (np.concatenate([r for r, _ in own]), np.concatenate([t for _, t in own])) for kind, own in found.items()
    }


def fitted(tables: list[dict], steps: int = 2500, seed: int = 0) -> dict[str, Network]:
    made = {}
    for kind, (rows, target) in lessons(tables).items():
        network = Network.fresh(rows, seed)
        network.weights[-1] += target.mean()
        network.fit(rows, target, steps, seed)
        made[kind] = network
    return made


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fit", action="store_true", help="measure nothing")
    parser.add_argument("--only", default="", help="measure the tasks of these names (A;B) again, keep the others")
    parser.add_argument("--missing", action="store_true", help="measure tasks that have no records")
    parser.add_argument("--codes", type=int, default=CODES)
    arguments = parser.parse_args()
    place = FOLDER / "records.json.gz"
    kept = arguments.fit or arguments.only or arguments.missing
    tables = json.loads(gzip.decompress(place.read_bytes()))["tables"] if kept else []
    again = arguments.only.split(";")
    tables = [table for table in tables if table["what"] not in again]
    known = [{k: tuple(v) if k == "shape" else v for k, v in table.items() if k != "rows"} for table in tables]
    for spec in [] if arguments.fit else tasks():
        if spec not in known:
            tables.append(measured(spec, arguments.codes, TILES))
            text = json.dumps({"format": "codedag/tuning-records", "version": 1, "tables": tables})
            place.write_bytes(gzip.compress(text.encode(), mtime=0))
    networks = fitted(tables)
    facts = {
        "format": FORMAT, "version": VERSION, "records": hashlib.sha256(place.read_bytes()).hexdigest(),
        "networks": {kind: one.encoded() for kind, one in networks.items()},
    }  # fmt: skip
    (FOLDER / "model.json").write_text(json.dumps(facts))
    print(f"{sum(len(t['rows']) for t in tables)} records, {place.stat().st_size:,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
