"""Makes the records and the model that the tuner ships: random points of many tasks, measured here.

    python bench/tune_records.py            measure, write records, fit the model
    python bench/tune_records.py --fit      fit the model to the records that are there
    python bench/tune_records.py --only softmax    measure these tasks again

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
STACKS = [(500, 7, 7, 7), (300, 10, 10, 10), (100, 24, 24, 24), (400, 5, 16, 11), (60, 40, 40, 40), (3000, 4, 4, 4)]
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
WHOLE = 48  # points of a sketch that is measured as a whole
CODES, TILES = 70, 6  # different texts of a product's task, and tiles of each


def tasks() -> list[dict]:
    made = [{"what": "matmul", "shape": shape} for shape in PRODUCTS]
    made += [{"what": "n i k, n k j -> n i j", "sizes": dict(zip("nikj", s, strict=True))} for s in STACKS]
    made += [{"what": "p k, k j -> p j", "sizes": dict(zip("pkj", s, strict=True))} for s in PIXELS]
    return made + [{"what": name, "shape": shape} for name, shape in ROWS]


def task_of(spec: dict) -> Task:
    return Task.of(spec["what"], sizes=spec.get("sizes"), shape=spec.get("shape"))


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
        own = [v for v in sketch.variables if v.name in ("kc", "mt", "nt", "tile", "rows")]
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
                for r in task.measurer.measure(points[at : at + 48], 0.01)
            ]
        took = time.monotonic() - start
        best = min(s for _, s in rows if s)
        print(
            f"{spec}: {len(rows)} points, {took / len(rows):.3f} s each, best {best * 1e6:.1f} us",
            file=sys.stderr,
            flush=True,
        )
        return {**spec, "rows": rows}


def lessons(tables: list[dict]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Features and speeds of all records, by family; exact and smooth features teach the same."""
    found: dict[str, list] = {}
    for table in tables:
        task = task_of(table)
        features = Features(task.family)
        ran = [(point_of(text), s) for text, s in table["rows"] if s]
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
    parser.add_argument("--only", help="measure the tasks of these names (A;B) again, keep the others")
    parser.add_argument("--codes", type=int, default=CODES)
    arguments = parser.parse_args()
    place = FOLDER / "records.json.gz"
    kept = arguments.fit or arguments.only
    tables = json.loads(gzip.decompress(place.read_bytes()))["tables"] if kept else []
    if not arguments.fit:
        again = arguments.only.split(";") if arguments.only else [spec["what"] for spec in tasks()]
        tables = [table for table in tables if table["what"] not in again]
        tables += [measured(spec, arguments.codes, TILES) for spec in tasks() if spec["what"] in again]
        text = json.dumps({"format": "codedag/tuning-records", "version": 1, "tables": tables})
        FOLDER.mkdir(exist_ok=True)
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
