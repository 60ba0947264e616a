"""`codedag runs` and `codedag cache`: what is kept, listed and removed."""

from __future__ import annotations

import json
import os
import time

import pytest
from click.testing import CliRunner
from synthetic_reports import synthetic

from codedag.cli.main import cli
from codedag.ir import Change, Proof, Report, RunInfo, save


@pytest.fixture
def ask():
    """ask("runs", "--json"): the exit code and what was printed, here in this process."""

    def run(*args):
        done = CliRunner().invoke(cli, [*args])
        return done.exit_code, done.stdout, done.exception

    return run


def _run(home, name, status="ok", changes=1):
    path = home / "data" / "runs" / name
    save(RunInfo(command="run", argv=["a b.py", "1"], cwd="/", versions={}, status=status), path / "run.json")
    proof = Proof(identical=True, checked=8, mismatches=0, how="")
    made = [Change(what="w", where="a.py:1")] * changes
    save(Report(verdict=proof, gain=1.5, optimised_seconds=2.0, changes=made), path / "report.json")
    return path


def test_runs_are_listed_newest_first(ask, codedag_home):
    _run(codedag_home, "20260101-000000-a-000000", status="failed", changes=0)
    newest = _run(codedag_home, "20260202-000000-a-000000")
    code, out, _ = ask("runs")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == f"{newest.name}: run 'a b.py' 1, ok, 1 change, estimated gain 1.50x over 2.0 s, identical"
    assert "failed, nothing was changed" in lines[1]
    assert lines[2] == f"next: codedag view {newest}"
    facts = json.loads(ask("runs", "--json", "--most", "1")[1])
    assert facts["count"] == 2
    assert [(run["path"], run["gain"]) for run in facts["runs"]] == [(str(newest), 1.5)]


def test_a_run_is_shown_with_its_verdict_first_and_what_is_slow(ask, codedag_home):
    path = _run(codedag_home, "20260101-000000-a-000000")
    save(synthetic("slower"), path / "report.json")
    code, out, _ = ask("view", str(path))
    assert code == 0
    lines = out.splitlines()
    assert lines[2] == "this run was slower by 4 %; next time train.py:33 stays as it is"
    assert sum(line.startswith("speed ") and len(line) <= 80 for line in lines) == 1
    assert "hot places (share of the run, seconds, and what could be done):" in lines
    assert "hot functions (share of the process's CPU time, 22.0 s, with all that is called):" in lines
    assert "\x1b" not in out
    assert "this run was slower by 4 %" in ask("runs")[1]
    assert json.loads(ask("runs", "--json")[1])["runs"][0]["gain"] == pytest.approx(0.96)


def test_the_newest_run_is_shown_unless_one_is_named(ask, codedag_home):
    code, _, _ = ask("view")
    assert code == 2
    _run(codedag_home, "20260101-000000-a-000000", status="failed")
    newest = _run(codedag_home, "20260202-000000-a-000000")
    code, out, _ = ask("view")
    assert code == 0
    assert "estimated gain 1.50x over 2.0 s" in out
    facts = json.loads(ask("view", "--json")[1])
    assert facts["run"]["status"] == "ok"
    (newest / "report.html").write_text("page")
    assert f"report: {newest / 'report.html'}" in ask("view")[1]


def test_a_run_that_cannot_be_read_hides_no_other(ask, codedag_home):
    good, bad = _run(codedag_home, "20260101-000000-a-000000"), _run(codedag_home, "20260202-000000-a-000000")
    (bad / "run.json").write_text("{")
    code, out, _ = ask("runs")
    assert code == 0
    assert good.name in out
    assert out.splitlines()[0].startswith(f"{bad.name}: ")


def test_no_runs(ask):
    code, out, _ = ask("runs")
    assert code == 0
    assert out.startswith("no runs in ")


@pytest.fixture
def cache(codedag_home):
    folder = codedag_home / "cache"
    now = time.time()
    for days, (name, size) in enumerate(
        [("code/x", 100), ("kernels/k.so", 200), ("plans/p.json", 300), ("proofs.json", 400), ("strange", 500)]
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
        os.utime(path, (now, now - (10 - days) * 86_400))
    return folder


def test_the_cache_is_shown(ask, cache):
    facts = json.loads(ask("cache", "show", "--json")[1])
    assert facts["nbytes"] == 1500
    assert {name: kind["nbytes"] for name, kind in facts["kinds"].items() if kind["files"]} == {
        "code": 100,
        "kernels": 200,
        "plans": 300,
        "proofs": 400,
        "other": 500,
    }
    assert "1.5 kB" in ask("cache", "show")[1]


@pytest.mark.parametrize(
    ("args", "left"),
    [
        ((), []),
        (("plans", "proofs"), ["code", "kernels", "strange"]),
        (("--older", "7.5"), ["proofs.json", "strange"]),
        (("--to", "1k"), ["proofs.json", "strange"]),
        (("--to", "1G"), ["code", "kernels", "plans", "proofs.json", "strange"]),
        (("kernels", "--to", "100"), ["code", "plans", "proofs.json", "strange"]),
    ],
    ids=["all", "kinds", "old", "too much", "not too much", "kind and size"],
)
def test_the_cache_is_cleared(ask, cache, args, left):
    code, out, _ = ask("cache", "clear", *args)
    assert code == 0, out
    found = {path.relative_to(cache).parts[0] for path in cache.rglob("*") if path.is_file()}
    assert found == set(left)


def test_links_out_of_the_cache_are_not_followed(ask, cache, tmp_path):
    (tmp_path / "precious").write_text("x")
    (cache / "plans" / "link").symlink_to(tmp_path)
    assert ask("cache", "clear")[0] == 0
    assert (tmp_path / "precious").exists()


def test_what_is_no_kind_or_size_is_said(ask, cache):
    assert ask("cache", "clear", "everything")[0] == 2
    assert "no amount of bytes" in str(ask("cache", "clear", "--to", "much")[2])
    assert json.loads(ask("cache", "show", "--json")[1])["nbytes"] == 1500
