"""`codedag view --svg` on real runs and in places that cannot be written."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ElementTree

import pytest
from synthetic_reports import synthetic

from codedag.cli.view import fitting
from codedag.ir import Graph, Op, Placement, Plan, save


@pytest.fixture
def run(codedag, programs, tmp_path):
    assert codedag("trace", "-o", "run", programs / "numpy_loop.py", 10).returncode == 0
    return tmp_path / "run"


def _texts(path) -> str:
    root = ElementTree.fromstring(path.read_bytes())
    return "\n".join("".join(element.itertext()) for element in root.iter() if element.tag.endswith(("text", "title")))


def test_a_run_is_drawn(codedag, run, tmp_path):
    (tmp_path / "out").mkdir()
    said = codedag("view", "run", "--svg", "out/picture.svg")
    assert said.returncode == 0
    assert [x for x in said.stderr.splitlines() if not x.startswith("codedag: drawing")] == []  # said after 2 seconds
    assert said.stdout.startswith("picture: out/picture.svg (")
    assert "next: " in said.stdout
    words = _texts(tmp_path / "out" / "picture.svg")
    for part in (
        "Pictures.normalise",
        "ndarray.astype",
        "a -= b",
        "numpy_loop.py:28",
        "context: main/Pictures.normalise",
    ):
        assert part in words
    assert os.listdir(tmp_path / "out") == ["picture.svg"]


def test_the_facts_of_the_picture_as_json(codedag, run):
    facts = json.loads(codedag("view", "run", "--svg", "picture.svg", "--json").stdout)
    assert facts["svg"] == "picture.svg"
    assert facts["svg_boxes"] >= 10
    assert facts["hottest"][0]["share"] > 0
    assert facts["not_ranked"]["count"] >= 0


def test_an_old_picture_stays_if_the_new_one_cannot_be_drawn(codedag, run, tmp_path):
    (tmp_path / "picture.svg").write_text("old")
    (run / "graph.json").unlink()
    got = codedag("view", "run", "--svg", "picture.svg")
    assert got.returncode == 2
    assert "graph.json" in got.stderr
    assert "Traceback" not in got.stderr
    assert (tmp_path / "picture.svg").read_text() == "old"


@pytest.mark.parametrize("place", ["file/picture.svg", "folder", "/proc/picture.svg"])
def test_a_place_that_cannot_be_written(codedag, run, tmp_path, place):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    got = codedag("view", "run", "--svg", place)
    assert (got.returncode, got.stdout) == (2, "")
    assert "cannot write" in got.stderr
    assert "Traceback" not in got.stderr
    assert sorted(os.listdir(tmp_path)) == ["file", "folder", "run"]


def test_a_graph_with_hostile_names_is_drawn(codedag, run, tmp_path):
    name = "</text><script>alert(1)</script>"
    op = Op(id=0, name=name, kind="call", file=name, line=1, context=f"{name}/{name}", count=1, self_seconds=1.0,
            total_seconds=1.0, out_nbytes=0)  # fmt: skip
    save(Graph.build([op]), run / "graph.json")
    assert codedag("view", "run", "--svg", "picture.svg").returncode == 0
    root = ElementTree.fromstring((tmp_path / "picture.svg").read_bytes())
    assert not [element for element in root.iter() if element.tag.endswith("script")]


@pytest.mark.parametrize("arguments", [["--help"], ["view", "--help"], ["doctor", "--help"]])
def test_help_fits_a_terminal_of_80_columns_and_is_not_cut(codedag, arguments):
    said = codedag(*arguments, env={"COLUMNS": "80"}).stdout
    assert max(map(len, said.splitlines())) <= 80
    lines = said.splitlines()
    assert not [line for line in lines if line.endswith("...") and line.strip().startswith(("view", "doctor"))]


def test_the_help_of_experiments_is_not_cut(codedag):
    lines = codedag("experiment", "--help", env={"COLUMNS": "80"}).stdout.splitlines()
    assert not [line for line in lines if line.startswith("  ") and line.endswith("...")]


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (120, ["scipy.ndimage.median_filter", "operator.truediv"]),
        (80, ["ndimage.median_filter", "a / b"]),
    ],
)
def test_names_are_shortened_rather_than_broken(width, shown):
    assert fitting(["scipy.ndimage.median_filter", "operator.truediv"], width) == shown


@pytest.mark.parametrize(("variant", "words"), [("f -> cv2", "codedag run --plan "), ("original", "codedag run ")])
def test_a_plan_that_changes_something_is_run_next(codedag, run, variant, words):
    """`codedag plan` makes plans without moves: what runs in another way stands in their placement."""
    placed = Placement(op=0, name="f", context="f", file="a.py", line=1, pu="cpu", variant=variant)
    times = {"makespan_seconds": 1.0, "lower_bound_seconds": 1.0, "baseline_seconds": 2.0}
    plan = Plan(sources=[], placement=[placed], moves=[], schedule=[], transfers=[], decisions=[], **times)
    save(plan, run / "plan.json")
    last = codedag("view", run).stdout.splitlines()[-1]
    assert last.startswith(f"next: {words}")
    assert (str(run / "plan.json") in last) is (variant != "original")


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_output_that_is_not_utf_8_has_escapes(codedag, run, encoding):
    """A bar of block characters ended `codedag view` with a traceback."""
    save(synthetic("faster"), run / "report.json")
    got = codedag("view", run, env={"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}, encoding=encoding)
    assert (got.returncode, got.stderr) == (0, "")
    assert "hot functions" in got.stdout


def test_a_closed_stdout_is_no_error(codedag, run):
    save(synthetic("faster"), run / "report.json")
    got = codedag("view", run, preexec_fn=lambda: os.close(1))
    assert "Traceback" not in got.stderr
    assert got.returncode in (0, 2)
