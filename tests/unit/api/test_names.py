"""`codedag.trace` is a function and a package, whichever is imported first; public names come lazily."""

from __future__ import annotations

import subprocess
import sys

import pytest

ORDERS = {
    "attribute": "import codedag; t = codedag.trace",
    "from": "from codedag import trace as t",
    "package first": "import codedag.trace; t = codedag.trace",
    "module first": "import codedag.trace.session; import codedag; t = codedag.trace",
    "module after": "import codedag; t = codedag.trace; import codedag.trace.recorder",
    "module from package": "from codedag.trace import session; from codedag import trace as t",
    "face first": "from codedag import EnhancedTracer; import codedag; t = codedag.trace",
    "importlib": "import importlib; t = importlib.import_module('codedag.trace')",
}
CHECK = """
import codedag, codedag.trace.live, sys, types
assert t is codedag.trace is sys.modules["codedag.trace"], "one object"
assert isinstance(t, types.ModuleType) and callable(t)
from codedag.trace.live import Live
def f(x): return x + 1
w = t(f)
assert w(1) == 2 and w.run is not None
with t() as run: pass
assert type(run).__name__ == "Run"
assert t(max_depth=3)(f)(2) == 3
print("fine")
"""


@pytest.mark.parametrize("order", ORDERS)
def test_trace_can_be_called_in_every_order_of_imports(order):
    done = subprocess.run([sys.executable, "-c", ORDERS[order] + "\n" + CHECK], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("fine\n", "")


def test_the_faces_load_no_framework_until_they_are_used():
    code = (
        "import sys, codedag; codedag.EnhancedTracer, codedag.trace, codedag.MemoryProfiler, codedag.FilterConfig\n"
        "print(sorted({'numpy', 'torch', 'cv2', 'psutil', 'rich', 'click'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.slow
def test_type_checkers_know_the_forms(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "uses.py").write_text(
        "import codedag\nfrom codedag import EnhancedTracer, Run\nimport codedag.trace.recorder\n\n"
        "def f(a: int) -> str:\n    return str(a)\n\n"
        "reveal_type(codedag.trace(f)(1))\n"
        "reveal_type(codedag.trace(f).run)\n"
        "with codedag.trace(roots=['.']) as run:\n    reveal_type(run)\n"
        "@codedag.trace\ndef g(a: int) -> bytes:\n    return b''\n"
        "reveal_type(g(2))\n"
        "codedag.trace(f)('text')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "uses.py"],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    told = [line.partition("note: ")[2] for line in done.stdout.splitlines() if "Revealed" in line]
    assert [line.split('"')[1].replace("builtins.", "") for line in told] == [
        "str", "codedag.api.run.Run | None", "codedag.api.run.Run", "bytes",
    ], done.stdout  # fmt: skip
    errors = [line for line in done.stdout.splitlines() if " error: " in line]
    assert len(errors) == 1
    assert "uses.py:16" in errors[0]
    assert "arg-type" in errors[0]
