"""What the registry holds is known without loading it: only backends with a use are imported, and nothing is missed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("numpy")
START = """
import sys
from codedag.backends import registry
loaded = lambda: sorted(n for n in sys.modules if n.startswith("codedag.backends.") and n.endswith("_"))
"""


def _run(home: Path, code: str, **env: str) -> str:
    environment = {**os.environ, "CODEDAG_HOME": str(home), **env}
    command = [sys.executable, "-W", "error", "-c", START + textwrap.dedent(code)]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def home(tmp_path):
    """A home in which an earlier process has asked."""
    _run(tmp_path, "registry.find('numpy.sort')")
    assert (tmp_path / "cache" / "backends.json").exists()
    return tmp_path


def test_a_function_without_a_substitute_loads_nothing(home):
    said = _run(home, "print(registry.find('numpy.no_such'), loaded(), 'numpy' in sys.modules)")
    assert said == "() [] False\n"
    assert _run(home, "print(len(registry.known_sources()) > 100, loaded())") == "True []\n"


def test_a_function_with_one_loads_what_has_it_and_on_one_pu_only_that(home):
    said = _run(home, "print(registry.find('scipy.ndimage._filters.median_filter'), loaded())")
    assert "scipy.ndimage.median_filter -> cv2 exact" in said
    assert "codedag.backends.cv2_" in said
    assert "codedag.backends.librosa_'" not in said
    assert _run(home, "print(registry.find('cv2.resize', 'cpu'), loaded())") == "() []\n"


def test_everything_is_found_as_if_everything_were_loaded(home):
    code = """
        sources = registry.known_sources()
        one = {s: [(m.into, m.module, m.pu) for m in registry.find(s)] for s in sources}
        cpu = {s: [(m.into, m.module, m.pu) for m in registry.find(s, "cpu")] for s in sources}
        whole = registry.all_substitutions()
        assert {m.source for m in whole} == set(sources)
        assert sum(map(len, one.values())) == len(whole)
        two = {s: [(m.into, m.module, m.pu) for m in registry.find(s)] for s in sources}
        assert one == two
        assert cpu == {s: [m for m in found if m[2] == "cpu"] for s, found in two.items()}
        assert not registry.problems()
    """
    _run(home, code)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"format": "codedag/backends", "version": 1, "state": "x", "modules": 3, "places": {}}',
        '{"format": "codedag/backends", "version": 1, "modules": {"numpy.sort": [["os", "cpu"]]}, "places": {}}',
    ],
)
def test_a_file_that_is_not_ours_is_replaced(home, content):
    (home / "cache" / "backends.json").write_text(content)
    assert _run(home, "print(len(registry.find('numpy.mean')))").strip() != "0"
    assert json.loads((home / "cache" / "backends.json").read_text())["modules"]["numpy.mean"]


def test_names_of_other_modules_are_not_imported(home):
    file = home / "cache" / "backends.json"
    content = json.loads(file.read_text())
    content["modules"]["numpy.sort"] = [["antigravity", "cpu"]]
    file.write_text(json.dumps(content))
    assert _run(home, "registry.find('numpy.sort'); print('antigravity' in sys.modules)") == "False\n"


def test_a_plug_in_that_is_installed_later_is_found(home, tmp_path):
    place = tmp_path / "later"
    (place / "plug-1.dist-info").mkdir(parents=True)
    (place / "plug-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1\n")
    (place / "plug.py").write_text(
        "from codedag.backends.registry import EXACT, substitutes\n"
        "@substitutes('numpy.sort', into='plug', gives=EXACT, needs='')\ndef sort(a): return a\n"
    )
    env = {"PYTHONPATH": os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")])}
    assert _run(home, "print(registry.find('numpy.sort'))", **env) == "()\n"
    (place / "plug-1.dist-info" / "entry_points.txt").write_text("[codedag.backends]\nplug = plug\n")
    os.utime(place, ns=(1, 1))  # as installing does: something came to the folder
    assert _run(home, "print(registry.find('numpy.sort'))", **env) == "(<numpy.sort -> plug exact>,)\n"


def test_a_home_that_cannot_be_written_to_costs_only_time(tmp_path):
    (tmp_path / "file").write_text("")
    assert _run(tmp_path / "file", "print(registry.find('numpy.sort'))") == "()\n"
