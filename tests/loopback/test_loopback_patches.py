"""Library functions sent through the whole of the migration machinery and into the originals: nobody can tell."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cv2")
pytest.importorskip("torch")

from test_loopback import PIPELINE, observed, plain

from codedag.backends.registry import all_substitutions
from codedag.backends.same import same
from codedag.migrate.patches.dispatch import Dispatcher
from codedag.migrate.patches.library_patches import Patch, Patches
from codedag.migrate.placement.loopback import loopback
from codedag.migrate.placement.modes import Mode

ROOT = Path(__file__).resolve().parent.parent.parent
# Functions without effects: a call that is checked runs twice.
PURE = {
    "cv2": "cvtColor resize getRotationMatrix2D warpAffine flip blur GaussianBlur threshold",
    "numpy": "clip ascontiguousarray full array mean sqrt add where sum stack transpose asarray",
    "torch": "from_numpy ones stack add matmul tensor",
    "torch.nn.functional": "cross_entropy relu conv2d softmax",
    "torch.utils.data._utils.collate": "default_collate",
    "math": "sqrt floor ceil",
}


def looped(mode: Mode) -> Patches:
    """All of them, looped back."""
    made = []
    for module, names in PURE.items():
        for name in names.split():
            function = getattr(importlib.import_module(module), name)
            made.append(Patch(function, Dispatcher(loopback(f"{module}.{name}"), mode=mode, demote=False)))
    return Patches(*made)


@pytest.mark.parametrize(
    "mode", [Mode("off"), Mode("sample", every=3), Mode("shadow"), Mode("strict")], ids=lambda m: m.name
)
def test_a_pipeline_with_its_libraries_looped_back(mode):
    module = plain(PIPELINE)
    expected = observed(plain(PIPELINE), "main")
    patches = looped(mode)
    with patches:
        verdict = same(expected, observed(module, "main"))
    assert verdict, verdict.reason
    counts = patches.counts()
    called = {name: one for name, one in counts.items() if one.calls}
    assert len(called) >= 8, sorted(called)
    for name, one in called.items():
        assert one.mismatches == 0, name
        assert one.fast + one.checked + sum(one.declined.values()) == one.calls, name
    served = sum(one.fast for one in called.values())
    assert (served == 0) == mode.always
    verdict = same(expected, observed(module, "main"))
    assert verdict, verdict.reason


@pytest.mark.long
def test_a_worker_with_its_libraries_looped_back():
    module = plain(PIPELINE)
    expected = observed(plain(PIPELINE), "main", 1)[:2]
    with looped(Mode("sample", every=3)):
        verdict = same(expected, observed(module, "main", 1)[:2])
    assert verdict, verdict.reason


SUITES = [
    "tests/unit/migrate/test_chain_tables.py",
    "tests/backend/scipy",
    "tests/backend/skimage",
]


@pytest.mark.long
@pytest.mark.parametrize("suite", SUITES)
def test_suites_of_ours_with_all_registered_functions_looped_back(tmp_path, suite):
    plan = {"context_device_map": {one.source: "loopback" for one in all_substitutions()}}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    options = ["--codedag-plan", str(tmp_path / "plan.json"), "--codedag-stats", str(tmp_path / "stats.json")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "codedag.plugins.pytest_plan", *options, suite]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode in (0, 5), done.stdout[-4000:]  # 5: the slice of a long suite may be empty
    stats = json.loads((tmp_path / "stats.json").read_text())
    assert stats["verdict"]["mismatches"] == 0
