"""Programs give the same whatever a run decides, and whenever it does: a slice of `bench/chaos.py`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parent.parent.parent / "bench"


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, BENCH / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


SOURCES = loaded("chaos_programs").SOURCES
NEEDS = {"pandas": "pandas", "pictures of PIL": "PIL", "list of images": "cv2"}


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(SOURCES))
def test_decisions_at_random(name, seed, tmp_path):
    pytest.importorskip("torch" if name.startswith("loader") else NEEDS.get(name, "numpy"))
    assert loaded("chaos").Chaos(tmp_path).differs(name, seed) == ""
