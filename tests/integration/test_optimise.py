"""`codedag.optimise`: a traced block becomes a plan by measuring, and the plan changes no result."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import codedag
from codedag.devices.inventory import inventory
from codedag.ir import BadFile, Plan
from codedag.migrate.placement.requests import BadPlan
from codedag.profile.run import CannotProfile

PROGRAM = """
import numpy as np
from scipy import ndimage

PICTURES = [np.random.default_rng(n).integers(0, 256, (96, 96), dtype=np.uint8) for n in range(4)]


def prepare(picture):
    return ndimage.median_filter(picture, size=3)


def epoch():
    return [prepare(picture) for picture in PICTURES]
"""


@pytest.fixture(autouse=True)
def only_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking for other units takes seconds, and is tested elsewhere."""
    monkeypatch.setattr("codedag.profile.run.inventory", lambda families, told: inventory(["cpu"], told=told))


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    place = tmp_path / "program_to_optimise.py"
    place.write_text(PROGRAM)
    spec = importlib.util.spec_from_file_location("program_to_optimise", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "program_to_optimise", module)
    spec.loader.exec_module(module)
    return module


def test_a_block_is_traced_optimised_and_runs_by_its_plan(program):
    pytest.importorskip("scipy")
    before, original = program.epoch(), program.ndimage.median_filter
    with codedag.trace(roots=Path(program.__file__).parent) as run:
        program.epoch()
    plan = codedag.optimise(run, budget=5)
    assert isinstance(plan, Plan)
    (median,) = [each for each in plan.placement if each.name == "scipy.ndimage.median_filter"]
    assert median.context == "epoch/prepare/scipy.ndimage.median_filter"
    assert median.variant in ("original", "scipy.ndimage.median_filter -> cv2")  # what is faster here decides
    assert plan.makespan_seconds <= plan.baseline_seconds
    with codedag.apply(plan) as migrator:
        after = program.epoch()
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))
    assert migrator.verdict()["mismatches"] == 0
    assert program.ndimage.median_filter is original


def test_a_directory_is_left_with_costs_and_plan(program, tmp_path):
    with codedag.trace(roots=tmp_path) as run:
        program.epoch()
    place = run.save(tmp_path / "RUN")
    assert oct((place / "samples").stat().st_mode & 0o777) == oct(0o700)
    plan = codedag.optimise(place, budget=0)
    written = json.loads((place / "plan.json").read_text())
    assert [each["op"] for each in written["placement"]] == [each.op for each in plan.placement]
    assert [each["file"] for each in written["sources"]] == [str(tmp_path / "program_to_optimise.py")]
    assert (place / "machine.json").is_file()
    assert len(codedag.optimise(codedag.load(place), budget=0).placement) == len(plan.placement)


def test_what_cannot_be_optimised_is_named(program, tmp_path):
    with codedag.trace(roots=tmp_path, samples=False) as run:
        program.epoch()
    with pytest.raises(CannotProfile, match="no inputs"):
        codedag.optimise(run)
    with pytest.raises(BadPlan, match="no class 'roughly'"):
        codedag.optimise(run, allow=["roughly"])
    with pytest.raises(BadFile, match="nothing-here"):
        codedag.optimise(tmp_path / "nothing-here")
    with pytest.raises(TypeError, match="not list"):
        codedag.optimise([])


def test_a_trace_without_operations_has_an_empty_plan(tmp_path):
    with codedag.trace(roots=tmp_path) as run:
        pass
    assert codedag.optimise(run, budget=0).placement == []


def test_inputs_go_with_the_trace_that_kept_them(tmp_path):
    """Also if a forked process ends first, and at the end of the program."""
    code = f"""
import os, tempfile, numpy as np, codedag
{PROGRAM}
def kept():
    return [name for name in os.listdir(tempfile.gettempdir()) if name.startswith("codedag-samples-")]
with codedag.trace(roots=[{str(tmp_path)!r}]) as run:
    epoch()
child = os.fork()
if not child:
    raise SystemExit(0)
os.waitpid(child, 0)
assert len(kept()) == 1, kept()
del run
assert kept() == [], kept()
with codedag.trace(roots=[{str(tmp_path)!r}]) as run:
    epoch()
assert len(kept()) == 1
"""
    script = tmp_path / "script.py"
    script.write_text(code)
    (tmp_path / "temporary").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert os.listdir(tmp_path / "temporary") == []
