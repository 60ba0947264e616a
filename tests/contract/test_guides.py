"""The guides' own programs: only their import lines are changed, and plain `python` runs them."""

from __future__ import annotations

import graphlib
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cv2")

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"

# Workflow guide, 6.1, as far as the tracing goes; `cv2` is an import that the listing forgot.
PIPELINE = """
import json
from pathlib import Path
import cv2

from codedag import EnhancedTracer

def image_pipeline(images):
    results = []
    for img in images:
        resized = cv2.resize(img, (224, 224))
        rgb = cv2.cvtColor(resized, cv2.COLOR_BGR2RGB)
        normalized = resized / 255.0
        results.append(normalized)
    return results

tracer = EnhancedTracer(max_depth=8, track_memory=True)

import numpy as np
test_images = [np.random.rand(100, 100, 3).astype(np.float32) for _ in range(10)]

with tracer.tracing_context():
    result = image_pipeline(test_images)

output_dir = Path("output")
output_dir.mkdir(exist_ok=True)

dataflow = tracer.export_dataflow_graph()
with open(output_dir / "dataflow.json", "w") as f:
    json.dump(dataflow, f, indent=2)
"""

PICTURE = """
tracer.export_visualization(str(output_dir / "dataflow.svg"))
"""

# Workflow guide, 7.1 and 7.2.
LOGGING = """
import logging
logging.basicConfig(level=logging.DEBUG)
logging.getLogger('optimizer').setLevel(logging.DEBUG)
logging.getLogger('migration').setLevel(logging.DEBUG)
"""

CHECKING = """
for node_id, node in tracer.dag_builder.dag.nodes.items():
    print(f"Node {node_id}: {node.name} ({node.node_type})")
    print(f"  Performance: {node.performance}")

for src, tgt, etype in tracer.dag_builder.dag.edges:
    print(f"Edge: {src} --{etype}--> {tgt}")
"""

# Workflow guide, 6.2, and experiment guide, 3.2.
DATASET = """
from torch.utils.data import Dataset, DataLoader
from codedag import EnhancedTracer

class ImageDataset(Dataset):
    def __init__(self, size=100):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, idx):
        image = self.load_image(idx)
        image = self.preprocess(image)
        return image

    def load_image(self, idx):
        import numpy as np
        return np.random.rand(256, 256, 3).astype(np.float32)

    def preprocess(self, image):
        import cv2
        image = cv2.resize(image, (224, 224))
        image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
        return image

tracer = EnhancedTracer(max_depth=10)
dataset = ImageDataset(size=16)
"""

LOADER = """
dataloader = DataLoader(dataset, batch_size=4, num_workers=0)

with tracer.tracing_context():
    for batch in dataloader:
        break
"""

NEXT = """
dataloader = DataLoader(dataset, batch_size=4)
iterator = iter(dataloader)

with tracer.tracing_context():
    batch = next(iterator)
"""

TF_DATA = """
import numpy as np
import tensorflow as tf
from codedag import EnhancedTracer

def load(i):
    return np.sqrt(np.full((8, 8), float(i), np.float32))

def from_python(i):
    return tf.numpy_function(load, [i], tf.float32)

dataset = tf.data.Dataset.range(8).map(from_python).batch(4)
iterator = iter(dataset)
tracer = EnhancedTracer(max_depth=10, track_memory=True)

with tracer.tracing_context():
    batch = iterator.get_next()
"""

EXPORT = """
import json
print("EXPORTED", json.dumps(tracer.export_dataflow_graph()))
"""


def _run(source: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, timeout=600, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    return done


def _exported(source: str, folder: Path) -> dict[str, Any]:
    out = _run(source + EXPORT, folder).stdout
    return json.loads(out.partition("EXPORTED ")[2])


def _counts(graph: dict[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for node in graph["nodes"]:
        if node["type"] != "variable" and node["attributes"]["kind"] != "region":
            found[node["name"]] = found.get(node["name"], 0) + node["attributes"]["count"]
    return found


def _follows(graph: dict[str, Any], first: str, then: str) -> bool:
    """Whether some operation `then` uses what some operation `first` produces."""
    name = {node["id"]: node["name"] for node in graph["nodes"]}
    made = {e["target"]: name[e["source"]] for e in graph["edges"] if e["type"] == "produces"}
    return any(made.get(e["source"]) == first and name[e["target"]] == then for e in graph["edges"])


def _check(graph: dict[str, Any]) -> None:
    order = graphlib.TopologicalSorter({node["id"]: set() for node in graph["nodes"]})
    for edge in graph["edges"]:
        order.add(edge["target"], edge["source"])
    order.prepare()  # raises CycleError


def test_the_pipeline_shows_every_operation_with_its_count_and_bytes(tmp_path):
    _run(PIPELINE, tmp_path)
    graph = json.loads((tmp_path / "output" / "dataflow.json").read_text())
    _check(graph)
    assert _counts(graph) == {"cv2.resize": 10, "cv2.cvtColor": 10, "operator.truediv": 10}
    by_name = {node["name"]: node for node in graph["nodes"]}
    assert by_name["cv2.resize"]["performance"]["memory_usage"] == 10 * 224 * 224 * 3 * 4
    assert by_name["cv2.resize"]["performance"]["execution_time"] > 0
    assert by_name["cv2.resize"]["attributes"]["context"] == "image_pipeline/cv2.resize"
    assert {"img", "resized", "rgb", "normalized"} <= set(by_name)
    assert _follows(graph, "cv2.resize", "cv2.cvtColor")
    assert _follows(graph, "cv2.resize", "operator.truediv")
    assert not _follows(graph, "cv2.cvtColor", "operator.truediv")


@pytest.mark.skipif(find_spec("codedag.view.svg") is None, reason="there is no picture writer in this build")
def test_the_pipeline_draws_its_picture(tmp_path):
    _run(PIPELINE + PICTURE, tmp_path)
    picture = (tmp_path / "output" / "dataflow.svg").read_text()
    assert picture.lstrip().startswith(("<svg", "<?xml"))


def test_the_program_prints_what_it_prints_without_the_trace(tmp_path):
    """Results, random numbers and output are the program's own."""
    shown = PIPELINE.replace("import numpy as np\n", "import numpy as np\nnp.random.seed(3)\n")
    shown += "print(sum(float(r.sum()) for r in result), np.random.rand())\n"
    plain = shown.replace("with tracer.tracing_context():", "if True:")
    (tmp_path / "plain").mkdir()
    traced, untraced = _run(shown, tmp_path), _run(plain, tmp_path / "plain")
    assert traced.stdout == untraced.stdout
    assert traced.stderr == untraced.stderr == ""


def test_results_can_be_checked_by_loops_over_nodes_and_edges(tmp_path):
    out = _run(LOGGING + PIPELINE + CHECKING, tmp_path).stdout
    assert re.search(r"^Node \d+: cv2\.resize \(function_call\)$", out, re.M)
    assert re.search(r"^Node \d+: operator\.truediv \(operator\)$", out, re.M)
    assert re.search(r"^Node \d+: resized \(variable\)$", out, re.M)
    assert re.search(r"^  Performance: \{'execution_time': 0\.\d+.*'memory_usage': 6021120\}$", out, re.M)
    assert re.search(r"^Edge: \d+ --uses--> \d+$", out, re.M)
    assert re.search(r"^Edge: \d+ --produces--> \d+$", out, re.M)


@pytest.mark.parametrize("driver", [LOADER, NEXT], ids=["for batch in dataloader", "next(iterator)"])
def test_a_batch_shows_what_runs_inside_the_dataset(tmp_path, driver):
    pytest.importorskip("torch")
    graph = _exported(DATASET + driver, tmp_path)
    _check(graph)
    counts = _counts(graph)
    assert counts["cv2.resize"] == counts["cv2.cvtColor"] == counts["numpy.ndarray.astype"] == 4
    contexts = {node["attributes"]["context"] for node in graph["nodes"]}
    assert "ImageDataset.__getitem__/ImageDataset.preprocess/cv2.resize" in contexts
    assert _follows(graph, "numpy.ndarray.astype", "cv2.resize")
    assert _follows(graph, "cv2.resize", "cv2.cvtColor")
    regions = [n["id"] for n in graph["nodes"] if n["name"].endswith("ImageDataset.preprocess")]
    called = {e["target"] for e in graph["edges"] if e["type"] == "calls" and e["source"] in regions}
    assert {n["name"] for n in graph["nodes"] if n["id"] in called} == {"cv2.resize", "cv2.cvtColor"}
    versions = [n["version"] for n in graph["nodes"] if n["type"] == "variable" and n["name"] == "image"]
    assert versions == [0, 1]


def test_get_next_of_tf_data(tmp_path):
    if find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed")
    graph = _exported(TF_DATA, tmp_path)
    _check(graph)
    assert _counts(graph)["numpy.sqrt"] >= 4
    assert [count for name, count in _counts(graph).items() if name.endswith("OwnedIterator.get_next")] == [1]


def test_two_tracers_one_after_the_other_and_a_second_block(tmp_path):
    again = """
other = EnhancedTracer()
with other.tracing_context():
    image_pipeline(test_images[:3])
first = len(tracer.dag_builder.dag.nodes)
with tracer.tracing_context():
    image_pipeline(test_images[:2])
assert len(tracer.dag_builder.dag.nodes) == 2 * first
assert len(other.dag_builder.dag.nodes) == first
"""
    graph = _exported(PIPELINE + again, tmp_path)
    _check(graph)
    assert _counts(graph)["cv2.resize"] == 12
    assert [n["version"] for n in graph["nodes"] if n["name"] == "resized"] == [0, 1]
    assert graph["metadata"]["blocks"] == 2


def test_the_page_about_tracing_runs(tmp_path):
    """Every block of code of docs/tracing_api.md, one after the other, as one script."""
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / "tracing_api.md").read_text(), re.M | re.S)
    assert len(blocks) >= 4
    if find_spec("codedag.view.svg") is None:
        blocks = [block.replace('tracer.export_visualization("dataflow.svg")', "") for block in blocks]
    out = _run("\n".join(blocks), tmp_path).stdout
    assert "numpy.sqrt" in out
    assert (tmp_path / "run" / "graph.json").is_file()
