"""`codedag run` on tables that are gone through row by row: replaced at the first call, the same output."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("pandas")

from codedag.backends.more_pandas_ import apply
from codedag.backends.proof import proven_here

pytestmark = pytest.mark.long

PROGRAM = """
import numpy as np
import pandas as pd

rng = np.random.default_rng(1)
SHARES = {"web": 0.5, "shop": 0.25}

def grade(row):
    if row["price"] > 40 and row["count"] < 3:
        return "dear"
    return "cheap" if row.price < 10 else SHARES.get(row["kind"], 1.0)

def features(table):
    table["total"] = table.apply(lambda r: r["price"] * r["count"] if r.kind != "web" else r["price"], axis=1)
    table["grade"] = table.apply(grade, axis=1)
    table["odd"] = table.apply(lambda r: r.drop("grade").notna().sum(), axis=1)
    return table

table = pd.DataFrame({"price": rng.gamma(2, 10, 6000), "count": rng.integers(1, 6, 6000),
                      "kind": rng.choice(["web", "shop", "phone"], 6000)})
table.loc[::7, "price"] = np.nan
for _ in range(2):
    done = features(table.copy())
    print(done["total"].sum(), done["grade"].value_counts().to_dict(), done["odd"].sum(), done.dtypes.to_dict())
try:
    table.apply(lambda r: r["price"] / (r["count"] - 1) if r.kind == "none" else 1 // (r["count"] - 1), axis=1)
except ZeroDivisionError as error:
    print("divided", error)
"""


def run(tmp_path, *words):
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    command = [sys.executable, *words, "rows.py"]
    return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)


@pytest.mark.xfail(reason="known fault: calls by row are replaced and the report does not say so", strict=False)
def test_calls_by_row_are_replaced_from_the_first_on(tmp_path):
    (tmp_path / "rows.py").write_text(PROGRAM)
    assert proven_here(apply)
    plain, ours = run(tmp_path), run(tmp_path, "-m", "codedag", "run", "-o", "out")
    assert (ours.returncode, ours.stdout) == (0, plain.stdout), ours.stderr
    assert "divided" in plain.stdout
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    made = {change["where"]: change for change in report["changes"] if "apply" in change["what"]}
    assert set(made) == {"rows.py:14", "rows.py:15"}, report
    assert all(change["calls"] == change["checked"] == 2 for change in made.values())
    assert report["verdict"]["mismatches"] == 0
    assert "on some of their rows" in ours.stderr
    assert any("not looked into" in each["reason"] for each in report["declined"])


def test_observing_alone_replaces_nothing(tmp_path):
    (tmp_path / "rows.py").write_text(PROGRAM)
    assert proven_here(apply)
    ours = run(tmp_path, "-m", "codedag", "run", "--observe-only", "-o", "out")
    assert ours.returncode == 0, ours.stderr
    assert json.loads((tmp_path / "out" / "report.json").read_text())["changes"] == []
