"""Synthetic tables in the guide's format: seven graph stages on PUs with launch costs, cache regimes and noise."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

THOUSANDS = (1, 2, 3, 5, 10)
SEED15 = [(n * 1000, e * 1000) for n in THOUSANDS for e in THOUSANDS if e >= n]
CACHE_NBYTES = 16e6
#: per stage: bytes touched and operations, by nodes and edges
BYTES = {
    1: lambda n, e: 2000 * n + 2008 * e,
    2: lambda n, e: 4000 * e,
    3: lambda n, e: 2008 * e + 2000 * n,
    4: lambda n, e: 8 * e + 4 * n,
    5: lambda n, e: 4000 * n,
    6: lambda n, e: 5000 * n,
    7: lambda n, e: 2048 * n,
}
FLOP = {6: lambda n, e: 4 * n * 500 * 256}


class FakePu:
    """A PU with a launch cost, one rate per stage within the cache, and a slower one beyond."""

    def __init__(self, name: str, seed: int, launch: float, speed: float, link: float = 0.0) -> None:
        rng = np.random.default_rng(seed)
        self.name, self.launch, self.link = name, launch, link
        self.rate = {stage: speed * 4e9 * rng.uniform(0.4, 2.0) for stage in BYTES}
        self.flop_rate = speed * 3e10 * rng.uniform(0.5, 1.5)

    def true_seconds(self, stage: int, n: int, e: int) -> float:
        nbytes = BYTES[stage](n, e)
        beyond = max(0.0, nbytes - CACHE_NBYTES)
        work = FLOP.get(stage, lambda n, e: 0)(n, e)
        return self.launch + (nbytes + 1.5 * beyond) / self.rate[stage] + work / self.flop_rate

    def transfer(self, stage: int, n: int, e: int) -> float:
        return self.link and 2e-5 + BYTES[stage](n, e) / 2 / self.link


PUS = (
    FakePu("CPU", 1, 3e-5, 1.0),
    FakePu("torch:cpu", 2, 1e-5, 0.8),
    FakePu("ort:cpu", 3, 1.5e-5, 1.1),
    FakePu("GPU", 4, 2e-4, 6.0, link=8e9),
)


def lookup(pus=PUS, sizes=SEED15, noise: float = 0.0, seed: int = 0) -> dict[str, dict[str, float]]:
    """The rows of a lookup table: medians with relative noise."""
    rng = np.random.default_rng(seed)
    rows = {}
    for n, e in sizes:
        for pu in pus:
            for stage in BYTES:
                compute = 1e3 * pu.true_seconds(stage, n, e) * float(np.exp(noise * rng.standard_normal()))
                transfer = 1e3 * pu.transfer(stage, n, e)
                rows[f"{n},{e},{pu.name},{stage}"] = {
                    "compute_time_ms": compute, "transfer_time_ms": transfer,
                    "total_time_ms": compute + transfer, "std_ms": 0.05 * compute,
                }  # fmt: skip
    return rows


def write(folder: Path, rows: dict, blocks: dict | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lookup_table.json").write_text(json.dumps(rows))
    if blocks is not None:
        (folder / "block_table.json").write_text(json.dumps(blocks))
    return folder
