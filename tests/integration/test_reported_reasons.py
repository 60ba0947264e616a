"""Reasons and known changes as a report tells them: of the program's own lines, and none lost from run to run."""

from __future__ import annotations

import json

import pytest
from adopt_programs import PROGRAMS

ASARRAY = """
import numpy as np
from PIL import Image

PICTURES = [Image.fromarray(np.random.default_rng(n).integers(0, 256, (300, 400, 3), dtype=np.uint8)) for n in range(4)]


def features(picture):
    pixels = np.asarray(picture)
    return float(pixels.mean()), np.matmul(pixels[:, :, 0].astype(np.float64), np.ones((400, 8))).sum()


for turn in range(200):
    features(PICTURES[turn % 4])
"""


def report_of(folder):
    return json.loads((folder / "report.json").read_text())


@pytest.mark.slow
def test_what_is_declined_at_a_line_is_written_there(codedag, tmp_path):
    """np.asarray asks a picture for its bytes inside the library: no `tobytes` stands in the program."""
    (tmp_path / "main.py").write_text(ASARRAY)
    codedag("run", "-o", "run", "main.py")
    lines = ASARRAY.splitlines()
    for one in report_of(tmp_path / "run")["declined"]:
        file, _, place = one["where"].rpartition(":")
        if file == "main.py" and place.isdigit():
            name = one["what"].partition(" ")[0].rpartition(".")[2]
            operators = {"getitem": "[", "truediv": "/", "mul": "*", "sub": "-", "add": "+"}
            assert operators.get(name, name) in lines[int(place) - 1], one


@pytest.mark.slow
def test_no_variant_is_not_said_of_functions_that_have_some(codedag, tmp_path):
    (tmp_path / "main.py").write_text(ASARRAY)
    codedag("run", "--observe-only", "-o", "run", "main.py")
    from codedag.backends.registry import find

    for one in report_of(tmp_path / "run")["declined"]:
        if one["reason"] == "no faster variant is known for it":
            assert not find(one["what"].partition(" ")[0], "cpu"), one


@pytest.mark.slow
def test_the_second_run_begins_with_every_change_of_the_first(codedag, tmp_path):
    (tmp_path / "main.py").write_text(PROGRAMS["read, then a table"])
    first, second = (codedag("run", "-o", name, "main.py") for name in ("one", "two"))
    assert first.stdout == second.stdout
    made = {(c["kind"], c["where"]) for c in report_of(tmp_path / "one")["changes"]}
    again = {(c["kind"], c["where"]) for c in report_of(tmp_path / "two")["changes"]}
    assert made
    assert made <= again
    assert "another change is made at one of its calls" not in second.stderr
