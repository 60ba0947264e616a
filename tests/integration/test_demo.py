"""`codedag demo`: its program is the example, its words are true, and what is missing is named."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import msgspec
import pytest

from codedag.experiment import demo
from codedag.experiment.demo import Demo
from codedag.experiment.folder import template
from codedag.ir import CannotWrite, Report
from codedag.ir.errors import MissingPackage

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


def test_the_program_is_the_example():
    assert template(f"{demo.PROGRAM}.txt") == (EXAMPLES / demo.PROGRAM).read_text()


@pytest.mark.long
def test_it_shows_what_it_says(codedag, tmp_path):
    options = ("--folder", tmp_path / "demo", "--pictures", 16, "--epochs", 2, "--json")
    got = codedag("demo", *options, "-o", tmp_path / "run")
    facts = json.loads(got.stdout)
    assert (facts["batches"], facts["equal"], facts["identical"]) == (2, 2, True)
    assert [len(rates) for rates in facts["images_per_second"].values()] == [2, 2]
    assert got.returncode == (0 if facts["changes"] else 1)  # two epochs may be too short to change anything
    assert (tmp_path / "run" / "report.html").is_file()
    assert (tmp_path / "demo" / demo.PROGRAM).is_file()


def test_a_batch_that_differs_is_not_passed_over():
    report = msgspec.convert({"verdict": {"checked": 1, "identical": True, "mismatches": 0, "how": ""}}, Report)
    shown = demo.Shown(Demo(Path(), Path(), 1, 1), [1.0, 2.0], [3.0, 1.0], 2, 1, report)
    assert not shown.is_identical
    assert shown.ratio == 1.5


def test_packages_that_are_missing_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "cv2" else object())
    with pytest.raises(MissingPackage, match="needs opencv-python-headless, which"):
        demo.show(Demo(tmp_path / "demo", tmp_path / "run", 1, 1), print)
    assert not (tmp_path / "demo").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite, match="file"):
        demo.show(Demo(tmp_path / "file" / "demo", tmp_path / "run", 1, 1), print)
