"""A second `codedag run` of the same program begins with what the first has proven."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from codedag.autopilot.knowledge_store import Store
from codedag.instrument.launch import Target
from codedag.ir import load

LOOP = Path(__file__).resolve().parent.parent / "programs" / "numpy_loop.py"
NDIMAGE = """
import hashlib
import cv2
import numpy as np
from scipy import ndimage

def clean(picture):
    return ndimage.median_filter(picture, size=5)

rng = np.random.default_rng(1)
digest = hashlib.sha256()
for i in range(200):
    digest.update(clean(rng.integers(0, 256, (96, 96), dtype=np.uint8)).tobytes())
print(digest.hexdigest())
"""


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The home and the directory of a first run."""
    home, place = tmp_path_factory.mktemp("first-home"), tmp_path_factory.mktemp("first")
    shutil.copy(LOOP, place / "loop.py")
    subprocess.run(
        [sys.executable, "-m", "codedag", "run", "-o", "run", "loop.py", "120"],
        cwd=place,
        env={**os.environ, "CODEDAG_HOME": str(home), "CODEDAG_SYNCHRONOUS": "1"},
        check=True,
        capture_output=True,
    )
    return home, place


@pytest.fixture
def script(first, codedag_home, tmp_path):
    """A copy of the program, as if the first run had been its own."""
    home, place = first
    script = tmp_path / "loop.py"
    shutil.copy(place / "loop.py", script)
    shutil.copytree(home / "cache" / "kernels", codedag_home / "cache" / "kernels")
    (codedag_home / "cache" / "kernels").chmod(0o700)
    (entry,) = (home / "cache" / "plans").glob("*.json")
    there = _entry(script)
    there.parent.mkdir(parents=True)
    there.write_text(entry.read_text().replace(str(place / "loop.py"), str(script)))
    return script


def _entry(script):
    return Store(Target(str(script))).path


def _calls(tmp_path, name):
    return sum(change.calls for change in load(tmp_path / name).report.changes)


def test_the_first_run_only_observes_some_calls(first):
    assert 0 < _calls(first[1], "run") < 120


def test_the_second_run_begins_with_the_plan(plain, codedag, script, tmp_path):
    got = codedag("run", "-o", tmp_path / "run", script, 120)
    assert got.stdout == plain(script, 120).stdout
    assert _calls(tmp_path, "run") == 120, "no call was only observed"
    assert load(tmp_path / "run").report.verdict.checked >= 6, "still verified"
    assert "1 change known from an earlier run made from the start (--fresh: none)" in got.stderr


def test_fresh_ignores_it(codedag, script, tmp_path):
    got = codedag("run", "--fresh", "-o", tmp_path / "run", script, 120)
    assert _calls(tmp_path, "run") < 120
    assert "known from an earlier run" not in got.stderr


def test_another_version_of_the_script_is_observed_afresh(plain, codedag, script, tmp_path):
    script.write_text("# one line more\n" + script.read_text())
    before = _entry(script).read_text()
    got = codedag("run", "-o", tmp_path / "run", script, 120)
    assert got.stdout == plain(script, 120).stdout
    assert "another version of this file" in got.stderr
    assert _calls(tmp_path, "run") < 120
    assert _entry(script).read_text() != before


@pytest.mark.long
@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("machine", "another", "on another machine"),
        ("versions", {"python": "3.0"}, "made with python 3.0, here is"),
        ("program", "/other.py", "for another program"),
        ("version", 2, "cannot be read"),
    ],
)
def test_what_does_not_hold_here_is_declined_with_the_reason(plain, codedag, script, tmp_path, field, value, words):
    entry = _entry(script)
    entry.write_text(json.dumps({**json.loads(entry.read_text()), field: value}))
    got = codedag("run", "-o", tmp_path / "run", script, 60)
    assert got.stdout == plain(script, 60).stdout
    assert words in got.stderr
    assert _calls(tmp_path, "run") < 60


@pytest.mark.long
@pytest.mark.parametrize(
    ("versions", "words"),
    [
        ({"numpy": "0.1"}, "made with numpy 0.1, here is"),
        ({"no-such-library": "1"}, "made with no-such-library 1, here is none"),
    ],
)
def test_a_change_for_another_version_of_a_library_is_declined(plain, codedag, script, tmp_path, versions, words):
    entry = _entry(script)
    content = json.loads(entry.read_text())
    content["changes"] = [{**change, "versions": versions} for change in content["changes"]]
    entry.write_text(json.dumps(content))
    got = codedag("run", "-o", tmp_path / "run", script, 60)
    assert got.stdout == plain(script, 60).stdout
    assert words in got.stderr
    assert _calls(tmp_path, "run") < 60


def test_other_arguments_begin_with_what_is_known(plain, codedag, script, tmp_path):
    got = codedag("run", "-o", tmp_path / "run", script, 90)
    assert got.stdout == plain(script, 90).stdout
    assert _calls(tmp_path, "run") == 90


@pytest.mark.parametrize("content", [b"", b"{", b"\x00" * 9999])
def test_a_damaged_file_is_said_and_replaced(plain, codedag, script, tmp_path, content):
    _entry(script).write_bytes(content)
    got = codedag("run", "-o", tmp_path / "run", script, 60)
    assert (got.returncode, got.stdout) == (0, plain(script, 60).stdout)
    assert "the plan of an earlier run cannot be read" in got.stderr
    assert Store(Target(str(script))).load().runs


@pytest.mark.long
@pytest.mark.parametrize(
    "change",
    [
        {"sites": [0, 1]},
        {"sites": [99_999]},
        {"chain": ["os.system"] * 2, "sites": [1, 2]},
        {"kind": "explode"},
        {"kind": "substitute", "chain": ["os.system"], "variant": "rm"},
        {"function": "no.such"},
    ],
    ids=[
        "other sites",
        "no such site",
        "a function of no chain",
        "no such kind",
        "no such substitute",
        "no such function",
    ],
)
def test_a_plan_is_only_data(plain, codedag, script, change):
    entry = _entry(script)
    content = json.loads(entry.read_text())
    content["changes"] = [{**known, **change} for known in content["changes"]]
    entry.write_text(json.dumps(content))
    got = codedag("run", script, 60)
    expected = plain(script, 60)
    assert (got.returncode, got.stdout) == (0, expected.stdout)
    own = [line for line in got.stderr.splitlines() if not line.startswith("codedag: ")]
    assert own == []


def test_substitutes_wait_for_the_programs_own_imports(plain, codedag, tmp_path):
    (tmp_path / "xray.py").write_text("import sys\nassert 'numpy' not in sys.modules\n" + NDIMAGE)
    expected = plain("xray.py")
    assert codedag("run", "xray.py").stdout == expected.stdout
    got = codedag("run", "-o", "2", "xray.py")
    assert (got.returncode, got.stdout) == (0, expected.stdout), got.stderr
    report = load(tmp_path / "2").report
    calls = [c.calls for c in report.changes if c.kind == "substitute"]
    assert min(calls) >= 199, "the first call asks for the substitute"  # more where two ways are compared


SORTED = """
import sys
assert 'numpy' not in sys.modules
import numpy as np

def item(x):
    return np.linalg.svd(x, compute_uv=False).sum()  # takes long on every machine

rng = np.random.default_rng(0)
data = [rng.random((160, 160)) for _ in range(8)]
for epoch in range(12):
    print(float(sum(item(x) for x in data)), epoch)
"""


def test_what_is_kept_in_memory_is_kept_from_the_first_call_on(plain, codedag, tmp_path):
    (tmp_path / "sorted.py").write_text(SORTED)
    expected = plain("sorted.py")
    assert codedag("run", "sorted.py").stdout == expected.stdout
    got = codedag("run", "-o", "2", "sorted.py")
    assert (got.returncode, got.stdout) == (0, expected.stdout), got.stderr
    recalls = [change for change in load(tmp_path / "2").report.changes if change.kind == "recall"]
    assert [change.calls for change in recalls] == [8 * 10]  # what came twice is kept


def test_what_no_longer_holds_is_not_kept(codedag, script):
    codedag("run", "--observe-only", script, 20)
    assert Store(Target(str(script))).load().in_use(), "a run that changes nothing proves nothing"
    script.write_text("print('nothing')\n")
    codedag("run", script)
    assert Store(Target(str(script))).load().changes == []
