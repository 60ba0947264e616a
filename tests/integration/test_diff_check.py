"""`codedag diff`, `codedag check` and `pytest --codedag-budget`: text, JSON, a page, and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys

import msgspec
import pytest
from synthetic_reports import synthetic

from codedag.ir import RunInfo, save


@pytest.fixture
def runs(tmp_path):
    """Two runs of one program, the second with a turn that takes 1.5 times as long, and one of another program."""
    base = synthetic("faster")
    speed = msgspec.structs.replace(
        base.speed, blocks=[msgspec.structs.replace(b, seconds=b.seconds * 1.5) for b in base.speed.blocks]
    )
    for name, report, script in (
        ("base", base, "train.py"),
        ("slow", msgspec.structs.replace(base, speed=speed), "train.py"),
        ("foreign", base, "other.py"),
    ):
        (tmp_path / name).mkdir()
        info = RunInfo(command="run", argv=[script], script=script, cwd=".", versions={}, status="ok")
        save(info, tmp_path / name / "run.json")
        save(report, tmp_path / name / "report.json")
    return tmp_path


def test_diff_as_text_json_and_page(codedag, runs):
    got = codedag("diff", "base", "slow", "--html", "page.html")
    assert got.returncode == 0, got.stderr
    assert got.stdout.startswith("50 % slower")
    assert "next: codedag check" in got.stdout
    assert (runs / "page.html").read_text().startswith("<!doctype html>")
    facts = json.loads(codedag("diff", "base", "slow", "--json").stdout)
    assert facts["measure"] == "turn"
    assert facts["measures"][0]["ratio"] == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("run", "base", "options", "code"),
    [
        ("slow", "base", (), 1),
        ("slow", "base", ("--max-slower", "60%"), 0),
        ("slow", "base", ("--max-slower", "0.4"), 1),
        ("base", "slow", (), 0),
        ("base", "base", ("--max-slower", "0%"), 0),
        ("slow", "base", ("--measure", "cpu"), 0),
        ("slow", "base", ("--measure", "recorded"), 2),
        ("foreign", "base", (), 2),
        ("slow", "nowhere", (), 2),
        ("slow", "base", ("--max-slower", "fast"), 2),
        ("slow", "base", ("--max-slower", "-3%"), 2),
    ],
)
def test_the_exit_code_of_check(codedag, runs, run, base, options, code):
    got = codedag("check", run, "--against", base, *options)
    assert got.returncode == code, got.stdout + got.stderr
    assert bool(got.stderr) == (code == 2)
    assert got.stdout.startswith({0: "ok: ", 1: "TOO SLOW: ", 2: ""}[code])


def test_damaged_and_half_written_runs(codedag, runs):
    (runs / "slow" / "report.json").write_text("{")
    got = codedag("check", "slow", "--against", "base")
    assert got.returncode == 2
    assert "report.json" in got.stderr
    assert "codedag help bad-file" in got.stderr
    (runs / "slow" / "report.json").unlink()
    got = codedag("diff", "base", "slow")
    assert got.returncode == 0
    assert "no figure in common" in got.stdout


TEST = """
import os


def test_sum():
    assert sum(n * n for n in range(int(os.environ.get("MANY", "1000")))) > 0
"""


def budgeted(tmp_path, *options, many="1000"):
    import os

    command = [sys.executable, "-m", "pytest", "-q", "-p", "codedag.plugins.pytest_plan", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "--codedag-budget", "budget.json", *options, "test_a.py"], cwd=tmp_path, capture_output=True,
        text=True, env={**os.environ, "MANY": many}, timeout=120,
    )  # fmt: skip


def test_a_test_over_its_budget_fails(tmp_path):
    (tmp_path / "test_a.py").write_text(TEST)
    assert budgeted(tmp_path).returncode == 0
    kept = json.loads((tmp_path / "budget.json").read_text())
    assert list(kept["seconds"]) == ["test_a.py::test_sum"]
    assert budgeted(tmp_path).returncode == 0
    slow = budgeted(tmp_path, many="4000000")
    assert slow.returncode == 1
    assert "times its budget of" in slow.stdout
    assert json.loads((tmp_path / "budget.json").read_text()) == kept
    assert budgeted(tmp_path, "--codedag-budget-update", many="4000000").returncode == 0
    assert budgeted(tmp_path, "--codedag-max-slower", "900%", many="4000000").returncode == 0


def test_a_bad_file_of_budgets_is_named(tmp_path):
    (tmp_path / "test_a.py").write_text(TEST)
    (tmp_path / "budget.json").write_text('{"format": "codedag/run"}')
    got = budgeted(tmp_path)
    assert got.returncode == 4
    assert "budget.json is not a file of budgets" in got.stderr + got.stdout
