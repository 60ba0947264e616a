"""Notebooks: functions typed cell by cell are seen, and the magic runs a cell as the notebook would."""

from __future__ import annotations

import ast
import linecache
import os
import subprocess
import sys
import textwrap

import pytest

import codedag

CELL = "import math\ndef typed(x):\n    return math.sqrt(x) + 1\n"


@pytest.mark.slow
def test_functions_are_seen_though_a_notebook_compiles_each_statement_alone(monkeypatch):
    """Python compiles `math.sqrt` in another way where the import stands in the same source."""
    main = sys.modules["__main__"]
    name = "<ipython-input-77-abc>"
    monkeypatch.setitem(linecache.cache, name, (len(CELL), None, CELL.splitlines(keepends=True), name))
    for statement in ast.parse(CELL).body:
        exec(compile(ast.Module([statement], []), name, "exec", dont_inherit=True), main.__dict__)
    try:
        before = main.typed.__code__
        with codedag.trace() as run:
            main.typed(4.0)
        assert not [note for note in run.notes if name in note]
        assert main.typed.__code__ is before
    finally:
        del main.typed, main.math


SESSION = """
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
def cell(text):
    done = shell.run_cell(text, store_history=True)
    return done
cell("%load_ext codedag")
cell("import numpy as np\\ndef f(a):\\n    return np.sqrt(a).sum()")
done = cell("%%codedag seen\\nx = np.ones((10, 10))\\ny = f(x) * 2\\n(y +\\n 1)  # two lines")
assert done.result == 201.0, done.result
seen = shell.user_ns["seen"]
assert {op.name for op in seen.graph.ops} >= {
    "numpy.ones", "numpy.sqrt", "numpy.ndarray.sum", "operator.mul", "operator.add"}, list(seen.graph.ops)
assert seen.status == "ok"
assert seen._repr_html_().count("<svg") == 1
assert cell("%%codedag\\ny;").result is None
assert "__codedag_last__" not in shell.user_ns
failed = cell("%%codedag broken\\nz = 1\\nraise ValueError('mine')")
assert isinstance(failed.error_in_exec, ValueError)
assert shell.user_ns["broken"].status == "failed"
assert cell("f(x)").result == 100.0
assert cell("%%codedag\\ndef g(a):\\n    return a * 2\\ng(x).sum()").result == 200.0
assert cell("g(x).sum()").result == 200.0
wrong = cell("%%codedag\\nthis is (not Python").error_in_exec
assert isinstance(wrong, SyntaxError)
assert wrong.filename in shell.compile._filename_map or "ipython-input" in wrong.filename, wrong.filename
assert cell("%%codedag\\n# nothing").success
for line in ("1x", "a b", "--most many"):
    wrong = cell(f"%%codedag {line}\\nran = True")
    assert type(wrong.error_in_exec).__name__ == "UsageError", line
assert "ran" not in shell.user_ns
assert cell("%%codedag kept\\nf(x)").success
import codedag.profile.run
from codedag.devices.inventory import inventory
codedag.profile.run.inventory = lambda families, told: inventory(["cpu"], told=told)  # others take long to look for
plan = codedag.optimise(shell.user_ns["kept"], budget=0)
assert "numpy.sqrt" in [one.name for one in plan.placement]
shown = shell.display_formatter.format(plan)[0]
assert shown["text/plain"].startswith("plan of ") and len(shown["text/plain"]) < 1000, shown["text/plain"]
assert shell.display_formatter.format(seen.graph)[0]["text/html"].count("<svg") == 1
cell("class Items:\\n    def __getitem__(self, i):\\n        return np.sin(np.full(9, i))")
cell("from dataclasses import dataclass\\n@dataclass\\nclass Pair:\\n    a: int")
cell("%%codedag items\\nx = Items()[Pair(2).a]")
items = shell.user_ns["items"]
assert {op.name for op in items.graph.ops} >= {"numpy.full", "numpy.sin"}, list(items.graph.ops)
assert not [note for note in items.notes if "Pair" in note], items.notes
assert items._live.samples is not None  # so that codedag.optimise(items) has something to measure with
wrong = cell("%%codedag a --epochs 3\\nx = 1")
assert isinstance(wrong.error_in_exec, UsageError), repr(wrong.error_in_exec)
assert "%%codedag [--most N] [NAME]" in str(wrong.error_in_exec)
"""


def test_the_magic_runs_a_cell_and_shows_its_operations(tmp_path):
    pytest.importorskip("IPython")
    (tmp_path / "session.py").write_text(textwrap.dedent(SESSION))
    environment = {**os.environ, "IPYTHONDIR": str(tmp_path / "ipython")}  # its history is nobody else's
    done = subprocess.run([sys.executable, "session.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "numpy.sqrt" in done.stdout
