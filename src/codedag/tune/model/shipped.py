"""The shipped model: weights that `bench/tune_records.py` fitted to the shipped records, refined by this machine's."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np

from codedag.tune.measure import records
from codedag.tune.model.network import Network

FOLDER = Path(__file__).parent / "shipped"
FORMAT, VERSION = "codedag/tuning-model", 1
OWN_MIN, OWN_MAX = 24, 3000  # records of this machine that a model is refined by
OWN_STEPS = 120


@functools.cache
def _facts() -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((FOLDER / "model.json").read_bytes())
    except OSError:
        return {"networks": {}, "records": ""}
    return found


@functools.cache
def shipped_model(kind: str) -> Network | None:
    """The model of a family, or None if the package was built without it."""
    found = _facts()["networks"].get(kind)
    return None if found is None else Network.decoded(found)


def shipped_records() -> str:
    """The digest of the records that the shipped model was fitted to."""
    return str(_facts()["records"])


def refined_model(kind: str, width: int) -> Network | None:
    """The shipped model after a look at what was measured on this machine."""
    model = shipped_model(kind)
    own = [one for one in records.read() if one.get("kind") == kind and _is_usable(one, width)][-OWN_MAX:]
    if model is None or len(own) < OWN_MIN:
        return model
    rows = np.array([one["row"] for one in own])
    target = np.array([one["speed"] for one in own])
    refined = model.copy()
    refined.fit(rows, target, OWN_STEPS, 0, rate=1e-3)
    return refined


def _is_usable(one: dict[str, Any], width: int) -> bool:
    row = one.get("row")
    return isinstance(one.get("speed"), float) and isinstance(row, list) and len(row) == width
