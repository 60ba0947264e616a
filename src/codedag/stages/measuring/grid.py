"""Sizes at which stages are measured: the guide's fifteen, a file of cases, brackets around the parts of a graph."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codedag.ir import BadFile
from codedag.stages.sizes import GRAPH, Sizes

THOUSANDS = (1, 2, 3, 5, 10)
SEED15 = [{"nodes": n * 1000, "edges": e * 1000} for n in THOUSANDS for e in THOUSANDS if e >= n]
BATCHES = (1, 2, 4, 8)
WARMUP, REPEATS = 10, 50
AROUND = (0.5, 1.0, 1.8)  # times a size that will be asked for: predictions are then never far from what was measured


@dataclass(frozen=True, slots=True)
class Cases:
    """The sizes to measure, and what a file of cases says beside them."""

    sizes: list[dict[str, int]]
    warmup: int | None = None
    repeats: int | None = None
    features: int | None = None


def read_cases(path: Path, names: Sequence[str]) -> Cases:
    """The cases of a file in the guide's format; raises BadFile naming the field."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadFile(
            f"cannot read {path}: {error.strerror}", hint="Name a file like the guide's test_cases.json."
        ) from error
    except ValueError as error:
        raise BadFile(f"{path} is not JSON ({error})", hint="Name a file like the guide's test_cases.json.") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("test_cases"), list) or not raw["test_cases"]:
        raise BadFile(
            f"{path}: test_cases: there is no list of cases", hint='{"test_cases": [{"nodes": 1000, "edges": 1000}]}'
        )
    config = raw.get("config") or {}
    return Cases(
        [_case(path, at, case, names) for at, case in enumerate(raw["test_cases"])],
        _count(path, config, "num_warmup", 0), _count(path, config, "num_iterations", 1),
        _count(path, config, "feature_dim", 1),
    )  # fmt: skip


def _case(path: Path, at: int, case: Any, names: Sequence[str]) -> dict[str, int]:
    if not isinstance(case, dict):
        raise BadFile(f"{path}: test_cases[{at}]: it is no object with {', '.join(names)}")
    return {name: _need(path, f"test_cases[{at}].{name}", case.get(name), 0) for name in names}


def _count(path: Path, config: dict[str, Any], name: str, least: int) -> int | None:
    return _need(path, f"config.{name}", config[name], least) if name in config else None


def _need(path: Path, field: str, value: Any, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise BadFile(f"{path}: {field}: {value!r} is no whole number of at least {least}")
    return value


def default_sizes(names: Sequence[str], example: Sizes) -> list[dict[str, int]]:
    """The sizes for a model of which nothing else was said: the guide's for graphs, a few batches for others."""
    if tuple(names) == GRAPH:
        return SEED15
    if not names:
        return [{}]
    first, *others = names
    fixed = {name: example[name] for name in others}
    return [{first: batch, **fixed} for batch in sorted({*BATCHES, example[first]})]


def around(parts: Iterable[Sizes]) -> list[dict[str, int]]:
    """Sizes that bracket those of a graph's parts: below the smallest, at the middle, above the largest."""
    known = sorted(parts, key=lambda one: (one["edges"], one["nodes"]))
    chosen = {at: known[at] for at in (0, len(known) // 2, len(known) - 1)} if known else {}
    found = {
        (max(1, round(one["nodes"] * factor)), max(1, round(one["edges"] * factor))): None
        for one in chosen.values() for factor in AROUND
    }  # fmt: skip
    return [{"nodes": nodes, "edges": edges} for nodes, edges in sorted(found)]
