"""Bundles: files that run in a plain interpreter, without CodeDAG, and equal the model as given."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")

from small_sage import SIZES, exported, plan, small, tables

from codedag.ir.errors import CannotWrite
from codedag.stages.execution import bundle, bundle_runner
from codedag.stages.execution.bundle import shippable, write_bundle
from codedag.stages.reference import draw


def written(folder, *blocks, **facts):
    """The bundle of a plan, written to a new folder."""
    pep = folder / "wanted.json"
    stages = [{"pus": [pu], "stages": list(range(first, last + 1)), "ratios": [1.0]} for first, last, pu in blocks]
    pep.write_text(json.dumps({"blocks": stages, "sizes": SIZES, **facts}))
    return write_bundle(exported(), folder / "made", pep)


def run(folder, *arguments):
    """run.py in a plain interpreter that cannot import codedag."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    guard = (
        "import runpy, sys; sys.modules['codedag'] = None; sys.argv = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-c", guard, str(folder / "run.py"), *map(str, arguments)]
    return subprocess.run(command, env=environment, cwd=folder.parent, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    return written(tmp_path_factory.mktemp("bundle"), (1, 2, "ort:cpu"), (3, 5, "ov:cpu"), (6, 7, "ort:cpu"))


def test_a_bundle_checks_itself_and_computes(mixed, tmp_path):
    given = draw(small(), {"nodes": 9, "edges": 40}, 5)
    np.savez(tmp_path / "in.npz", **given)
    done = run(mixed.place, "--input", tmp_path / "in.npz", "-o", tmp_path / "out.npz", "--repeats", 2)
    assert done.returncode == 0, done.stderr
    assert "equal to the model as given" in done.stdout
    assert "time: " in done.stdout
    with np.load(tmp_path / "out.npz", allow_pickle=False) as file:
        np.testing.assert_allclose(file["out"], small().reference.outputs(given)["out"], rtol=1e-4, atol=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.npz", "out.npz"]


def test_a_bundle_has_its_files(mixed):
    names = {path.relative_to(mixed.place).as_posix() for path in mixed.place.rglob("*") if path.is_file()}
    models = {"models/block1-2.onnx", "models/block3-5.onnx", "models/block6-7.onnx"}
    assert names == {*models, "models/block3-5.xml", "models/block3-5.bin", "run.py", "pep.json", "example.npz"}
    assert len((mixed.place / "run.py").read_text().splitlines()) <= 200
    assert "codedag" not in (mixed.place / "run.py").read_text().lower().replace("codedag/pep", "")
    assert json.loads((mixed.place / "pep.json").read_text())["requires"].keys() == {"onnxruntime", "openvino"}


def test_a_bundle_that_is_off_says_so(mixed, tmp_path):
    import shutil

    place = tmp_path / "copy"
    shutil.copytree(mixed.place, place)
    with np.load(place / "example.npz") as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(place / "example.npz", **{**arrays, "out": arrays["out"] + 1})
    done = run(place)
    assert done.returncode == 1
    assert "`out` is off" in done.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": None}, "no array `x`"),
        ({"x": np.zeros((5, 12))}, "`x` is float64"),
        ({"x": np.zeros((5, 13), np.float32)}, "`x` has shape"),
        ({"edge_index": np.array([[0], [77]])}, "`edge_index` has ids"),
    ],
)
def test_bad_inputs_of_a_bundle_are_named(mixed, tmp_path, change, words):
    given = {**draw(small(), {"nodes": 5, "edges": 6}), **change}
    np.savez(tmp_path / "in.npz", **{name: array for name, array in given.items() if array is not None})
    done = run(mixed.place, "--input", tmp_path / "in.npz", "--repeats", 1)
    assert done.returncode == 2
    assert words in done.stderr
    assert "in.npz" in done.stderr


def test_what_cannot_be_shipped_is_replaced_and_told(tmp_path):
    notes = []
    known = tables({"torch:cpu": 1e-3, "ort:cpu": 2e-3, "ov:cpu": 4e-3})
    found = shippable(small(), plan((1, 7, "torch:cpu"), sizes=SIZES, seconds=7e-3), known, notes)
    assert found.pus == ("ort:cpu",)
    assert "14 ms predicted instead of 7 ms" in notes[0]
    notes.clear()
    found = shippable(small(), plan((1, 5, "numba:cpu"), (6, 7, "ov:cpu")), None, notes)
    assert [each.pus for each in found.blocks] == [("ort:cpu",), ("ov:cpu",)]
    assert "not on numba:cpu" in notes[0]


def test_a_directory_that_is_no_bundle_is_not_replaced(tmp_path):
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "mine.txt").write_text("mine")
    with pytest.raises(CannotWrite, match="no bundle"):
        written(tmp_path, (1, 7, "ort:cpu"))
    assert (tmp_path / "made" / "mine.txt").read_text() == "mine"


def test_nothing_is_half_written(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bundle.shutil, "copyfile", full)
    with pytest.raises(CannotWrite, match="No space left"):
        written(tmp_path, (1, 7, "ort:cpu"))
    assert [path.name for path in tmp_path.iterdir()] == ["wanted.json"]


def test_the_error_of_a_bundle_is_that_of_verify():
    expected = np.array([1.0, -2.0, np.inf], np.float32)
    assert bundle_runner.error_of(expected, expected) == 0.0
    assert bundle_runner.error_of(expected, expected[:2]) == float("inf")
    assert bundle_runner.error_of(expected, np.array([1.0, -1.0, np.inf], np.float32)) == 0.5
    assert bundle_runner.error_of(expected, np.array([np.nan, -2.0, np.inf], np.float32)) == float("inf")
    assert bundle_runner.error_of(np.arange(3), np.arange(3) + 1) == float("inf")
    assert Path(bundle_runner.__file__).name == "bundle_runner.py"
