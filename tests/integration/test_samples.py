"""The samples that are kept while tracing: the same ones from each kind of site and gatherer, and only once."""

from __future__ import annotations

import json
from pathlib import Path

import gather_runs as runs
import numpy as np
import pytest

from codedag.trace.recorder import Recorder
from codedag.trace.spool import Spool

PROGRAM = """
import functools
import numpy as np

def work(image):
    for _ in range(3):
        small = image[::2, ::2]
        scaled = small / 255.0
        half = functools.partial(np.multiply, scaled)(0.5)
        scaled[0] = 1.0
        scaled *= 2
        total = half.sum(axis=0) + np.clip(scaled, 0, a_max=1).mean(0)
    try:
        np.sqrt(image, "no such argument")
    except TypeError:
        pass
    return total
"""


def kept(tmp_path: Path, kind: str, gatherer: str) -> dict[str, list[object]]:
    """Name and plain arguments of each call that was kept."""
    path = tmp_path / "sampled.py"
    path.write_text(PROGRAM)
    loaded = runs.Loaded(path, runs.SITES[kind])
    recorder = Recorder(loaded.program.names, None, runs.GATHERERS[gatherer])
    spool = Spool(tmp_path / kind / gatherer / "samples")
    spool.begin()
    recorder.keep_samples(spool)
    loaded.native.start(recorder, loaded.program.names)
    try:
        loaded.module.work(np.arange(64 * 64, dtype=np.uint8).reshape(64, 64))
    finally:
        loaded.native.stop()
    assert loaded.native.failure() is None
    assert not spool.failure
    found = {}
    for each in spool.folder.glob("*.json"):
        content = json.loads(each.read_text())
        if each.name != "samples.json":
            found[f"{content['name']} {content['line']} {content['in_sig']}"] = [
                content.get("args"),
                content.get("keywords"),
            ]
    return found


def test_all_sites_and_gatherers_keep_the_same(tmp_path):
    pytest.importorskip("codedag.trace._gather")
    found = [kept(tmp_path, kind, gatherer) for kind in runs.SITES for gatherer in runs.GATHERERS]
    assert found[1:] == found[:-1]
    names = {name.split()[0] for name in found[0]}
    assert {"operator.getitem", "operator.truediv", "numpy.multiply", "operator.setitem", "operator.imul"} <= names
    assert {"numpy.ndarray.sum", "numpy.clip", "numpy.ndarray.mean"} <= names
    assert "numpy.sqrt" not in names  # it raised
    [stored] = [call for name, call in found[0].items() if name.startswith("operator.setitem")]
    assert [type(part) for part in stored[0]] == [dict, int, float]  # object, index, value: as the function takes them
    [summed] = [call for name, call in found[0].items() if name.startswith("numpy.ndarray.sum")]
    assert summed[1] == {"axis": 0}
    assert summed[0][0]["is"] == "array"  # the method's own object
