"""Promises of the package itself: light import, names, sizes, and what files may say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "src" / "codedag"
FRAMEWORKS = ("numpy", "torch", "cv2", "scipy", "PIL", "numba", "click", "rich", "msgspec", "psutil", "platformdirs")


def _fresh(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_import_loads_no_framework_and_starts_no_thread():
    names = "sorted({m.partition('.')[0] for m in sys.modules})"
    code = f"import sys, threading, codedag; print({names}, threading.active_count())"
    loaded, threads = _fresh(code).rsplit(" ", 1)
    assert not [name for name in FRAMEWORKS if repr(name) in loaded]
    assert threads.strip() == "1"


def test_import_loads_few_modules():
    """Time is measured by `make bench`; what it depends on is how much is loaded."""
    extra = "import sys; before = set(sys.modules); import codedag; print(len(set(sys.modules) - before))"
    assert int(_fresh(extra)) <= 5


def test_public_names_resolve():
    import codedag

    for name in codedag.__all__:
        assert getattr(codedag, name) is not None
    with pytest.raises(AttributeError, match="nothing_like_this"):
        codedag.nothing_like_this


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_files_stay_one_room(path):
    assert len(path.read_text().splitlines()) <= 500


def test_folders_of_migrate_are_concepts():
    """A folder that grows beyond about twenty files holds two concepts."""
    folders = [
        SOURCE / "migrate",
        *(each for each in (SOURCE / "migrate").iterdir() if (each / "__init__.py").exists()),
    ]
    assert len(folders) > 4
    assert {each.name: count for each in folders if (count := len([*each.glob("*.py")])) > 20} == {}


def test_no_name_marks_a_second_copy():
    found = [
        match.group(0)
        for path in SOURCE.rglob("*.py")
        if path.parent.name != "api"  # the guides' own names
        for match in re.finditer(
            r"^class \w*(Enhanced|V2|Unified|Universal|Manager|Helper|Utils)\w*", path.read_text(), re.M
        )
    ]
    assert found == []


def test_prints_only_where_people_read():
    rooms = [
        p
        for p in SOURCE.rglob("*.py")
        if p.parent.name not in ("cli", "view") and re.search(r"^\s*print\(", p.read_text(), re.M)
    ]
    assert [p.name for p in rooms] == ["launch.py"]  # what Python itself does with sys.exit("text")


def test_every_lock_entry_is_pinned():
    lines = [x for x in (ROOT / "constraints.txt").read_text().splitlines() if x and not x.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9_.\-]+==[^ ]+", line) for line in lines)
    assert "torch==2.13.0" in lines


def test_the_lock_has_everything_that_is_installed_by_set_up():
    """pip freeze leaves out what it builds with; the lock must not."""
    names = {
        re.split("==", line)[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().split()
    }
    text = (ROOT / "pyproject.toml").read_text()
    wanted = set(
        re.findall(r'"([A-Za-z0-9-]+)(?:>=[0-9.]+)?"', text.split("[project.scripts]")[0].split("dependencies = [")[1])
    )
    assert {name.lower() for name in wanted} - names == set()
