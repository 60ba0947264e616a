"""Where the C extension was not built: every backend loads, pure-Python substitutes stay, no ImportError is shown."""

from __future__ import annotations

import json
import subprocess
import sys

LIST = """
import json, logging, sys
logging.basicConfig()
if {blocked}:
    class Missing:
        def find_spec(self, name, path=None, target=None):
            if name == "codedag.backends._pixels":
                raise ImportError("no such extension")
    sys.meta_path.insert(0, Missing())
from codedag.backends.registry import all_substitutions, _table
found = all_substitutions()
here = [one.name for one in found if one.available()]
why = sorted({{one.available().reason for one in found if not one.available()}})
print(json.dumps([[one.name for one in found], here, why, list(_table.problems)]))
"""


def listed(tmp_path, blocked):
    done = subprocess.run(
        [sys.executable, "-c", LIST.format(blocked=blocked)], capture_output=True, text=True, timeout=300, check=True,
        env={**__import__("os").environ, "CODEDAG_HOME": str(tmp_path)},
    )  # fmt: skip
    assert "ImportError" not in done.stderr
    return json.loads(done.stdout)


def test_all_backends_load_and_python_substitutes_stay(tmp_path):
    every, here, _, problems = listed(tmp_path / "a", False)
    without, left, why, missing = listed(tmp_path / "b", True)
    assert not problems
    assert not missing
    assert without == every
    assert set(left) < set(here)
    assert len(left) > len(here) / 3
    assert "the C extension was not built, because the installation found no C compiler" in why
