"""The guides' programs from the migration on: only their import lines are changed, and plain `python` runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cv2")
pytest.importorskip("scipy")

# Workflow guide, 6.1: the plan as `get_migration_plan` gives it, with the context keys of the traced graph.
HEAD = """
import cv2
import numpy as np
import scipy.ndimage as ndimage
from codedag import PipelineMigrator

def image_pipeline(images):
    results = []
    for img in images:
        resized = cv2.resize(img, (224, 224))
        rgb = cv2.cvtColor(resized, cv2.COLOR_BGR2RGB)
        smooth = ndimage.median_filter(np.ascontiguousarray(rgb[:, :, 0]).astype(np.uint8), 5)
        normalized = resized / 255.0
        results.append(normalized)
        results.append(smooth)
    return results

test_images = [(np.random.default_rng(n).random((100, 100, 3)) * 255).astype(np.float32) for n in range(12)]
expected = image_pipeline(test_images)
originals = cv2.resize, ndimage.median_filter
migration_plan = {
    "context_device_map": {
        "image_pipeline/cv2.resize": DEVICE,
        "image_pipeline/cv2.cvtColor": DEVICE,
        "image_pipeline/scipy.ndimage.median_filter": DEVICE,
        "image_pipeline/operator.truediv": DEVICE,
    },
    "partition_device_map": {"0": DEVICE},
}
"""

TAIL = """
assert all(np.array_equal(a, b) for a, b in zip(expected, gpu_result))
assert (cv2.resize, ndimage.median_filter) == originals
assert cv2.resize is originals[0] and ndimage.median_filter is originals[1]
"""

SIX_ONE = """
migrator = PipelineMigrator.from_plan(migration_plan)

stats = migrator.apply()
print(f"STATS {stats}")

with migrator:
    gpu_result = image_pipeline(test_images)

print(f"{len(gpu_result)}")
print(f"{gpu_result[0].device if hasattr(gpu_result[0], 'device') else 'numpy'}")
"""

# Workflow guide, 7.4.
SEVEN_FOUR = """
from codedag.migrate import list_supported_functions
supported = list_supported_functions()
for strategy, funcs in supported.items():
    print(f"{strategy}: {len(funcs)} functions")

print(f"Applied: {migrator.is_applied()}")
import json
print("GET", json.dumps(migrator.get_stats()))
"""

# Experiment guide, 3.1.
THREE_ONE = """
target_func, args, kwargs = image_pipeline, (test_images,), {}
migrator = PipelineMigrator.from_plan(migration_plan, default_device="cuda:0")

try:
    apply_stats = migrator.apply()
    print(f"Patched: {apply_stats.get('patched', 0)}")
    migrated_result = target_func(*args, **kwargs)
finally:
    migrator.restore()
gpu_result = migrated_result
"""

# Experiment guide, Q5.
FIVE = """
plan = migration_plan
migrator = PipelineMigrator.from_plan(plan)
try:
    try:
        migrator.apply()
        gpu_result = image_pipeline(test_images)
        raise ValueError("something went wrong")
    finally:
        if migrator.is_applied():
            migrator.restore()
except ValueError as error:
    print(error)
"""


def run(folder: Path, body: str, device: str = "cpu") -> str:
    (folder / "script.py").write_text(f"DEVICE = {device!r}\n{HEAD}\n{body}\n{TAIL}")
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, timeout=600, env=dict(os.environ)
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_the_pipeline_migrates_and_the_state_can_be_looked_at(tmp_path):
    out = run(tmp_path, SIX_ONE + SEVEN_FOUR)
    assert "STATS {'patched': 1, 'failed': 0, 'skipped': 3}" in out
    assert "Applied: False" in out
    assert "StandardOp: " in out
    stats = json.loads(out.partition("GET ")[2])
    median = stats["scipy.ndimage.median_filter"]
    assert (median["calls"], median["mismatches"]) == (12, 0)
    assert median["fast"] + median["checked"] + sum(median["declined"].values()) == 12
    assert stats["operator.truediv"]["reason"].startswith("an operator has no function to replace")


@pytest.mark.long
@pytest.mark.parametrize("body", [THREE_ONE, FIVE], ids=["experiment guide 3.1", "Q5"])
def test_a_device_that_is_absent_leaves_the_program_as_it_is(tmp_path, body):
    out = run(tmp_path, body, "cuda:7")
    assert ("Patched: 0" in out) == (body is THREE_ONE)
    out = run(tmp_path, body, "cpu")
    assert ("Patched: 1" in out) == (body is THREE_ONE)


@pytest.mark.long
def test_disabled(tmp_path, monkeypatch):
    monkeypatch.setenv("CODEDAG_DISABLE", "1")
    assert "STATS {'patched': 0, 'failed': 0, 'skipped': 4}" in run(tmp_path, SIX_ONE)


LATER = """
import numpy as np, sys, codedag
import codedag.migrate.placement.migrator
migrator = codedag.apply({"context_device_map": {
    name: "cpu" for name in ("scipy.ndimage.minimum_filter", "skimage.filters.median", "skimage.morphology.erosion")
}})
assert not {"scipy", "cv2", "skimage"} & set(sys.modules), "imported for a plan"
from scipy.ndimage import minimum_filter
assert "cv2" not in sys.modules
print("FIRST", migrator.get_stats()["scipy.ndimage.minimum_filter"]["reason"])
import cv2
image = np.random.default_rng(0).integers(0, 255, (200, 200)).astype(np.uint8)
from skimage.filters import median
from skimage.morphology import erosion
for _ in range(12):
    minimum_filter(image, 3), median(image), erosion(image)
for name, stats in migrator.get_stats().items():
    print(name, stats["calls"], stats["reason"])
migrator.restore()
from codedag.migrate.patches import proxies
assert not any(map(proxies.is_proxy, (minimum_filter, median, erosion)))
"""


def test_libraries_that_come_later_are_reached_and_none_is_imported(tmp_path):
    pytest.importorskip("skimage")
    (tmp_path / "script.py").write_text(LATER)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    assert "FIRST cv2 is not used by this program" in done.stdout
    for name in ("scipy.ndimage.minimum_filter", "skimage.filters.median", "skimage.morphology.erosion"):
        assert f"{name} 12" in done.stdout, done.stdout


# Workflow guide, 6.1, whole; the pipeline has one more step, which has a substitute on any machine.
WHOLE = """
import json
from pathlib import Path
import cv2
import numpy as np
import scipy.ndimage as ndimage

from codedag import EnhancedTracer
from codedag import OptimizerManager
from codedag import PipelineMigrator

def image_pipeline(images):
    results = []
    for img in images:
        resized = cv2.resize(img, (224, 224))
        rgb = cv2.cvtColor(resized, cv2.COLOR_BGR2RGB)
        smooth = ndimage.median_filter(rgb[:, :, 0].astype(np.uint8), 5)
        normalized = resized / 255.0
        results.append(normalized)
        results.append(smooth)
    return results

tracer = EnhancedTracer(max_depth=8, track_memory=True)
test_images = [np.random.rand(100, 100, 3).astype(np.float32) * 255 for _ in range(10)]

with tracer.tracing_context():
    expected = image_pipeline(test_images)

output_dir = Path("output")
output_dir.mkdir(exist_ok=True)
dag = tracer.dag_builder.dag
optimizer = OptimizerManager(k=2, coarsen_max_depth=5, max_iterations=100)
result = optimizer.optimize(dag, export_dir=str(output_dir))
migration_plan = optimizer.get_migration_plan(
    partitions=result['optimized_partitions'],
    dag=result['coarsened_dag'],
    gpu_count=1
)
with open(output_dir / "migration_plan.json", "w") as f:
    json.dump(migration_plan, f, indent=2)

for migrator in (
    PipelineMigrator.from_plan(migration_plan),
    PipelineMigrator.from_json("output/migration_plan.json"),
    PipelineMigrator.from_optimizer(optimizer, result, gpu_count=1),
):
    stats = migrator.apply()
    print("STATS", stats["patched"], stats["failed"])
    with migrator:
        gpu_result = image_pipeline(test_images)
    assert all(np.array_equal(a, b) for a, b in zip(expected, gpu_result))
    print("CALLS", migrator.get_stats()["scipy.ndimage.median_filter"]["calls"], migrator.verdict()["verdict"])
"""


def test_trace_optimise_and_migrate(tmp_path):
    (tmp_path / "script.py").write_text(WHOLE)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.splitlines() == ["STATS 1 0", "CALLS 10 IDENTICAL"] * 3
