"""Packages that the user names are looked into like the user's own code; all else that is installed stays plain."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codedag.instrument import sites as site_module
from codedag.instrument.hook import importing
from codedag.instrument.program import Program, functions_of
from codedag.instrument.selection import FilterConfig
from codedag.instrument.sites import PASS, RECORD

FILES = {
    "named_package/__init__.py": "from named_package.part import f\n",
    "named_package/part.py": "def f(x):\n    for i in range(2):\n        x = x + i\n    return x\n"
    "class K:\n    def m(self, x): return f(x) * 2\n",
    "named_package/sub/__init__.py": "",
    "named_package/sub/deep.py": "def g(x): return x + 1\n",
    "named_package/broken.py": "def f(:\n",
    "named_package/deep_expression.py": "x = 1\ny = " + "-" * 700 + "x\n",
    "named_package_too.py": "def h(x): return x + 1\n",
}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder like site-packages with a package in it."""
    folder = tmp_path / "lib" / "site-packages"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in [name for name in sys.modules if name.startswith("named_package")]:
        del sys.modules[name]


def _names(program: Program, folder: Path) -> set[str]:
    return {str(Path(name).relative_to(folder)) for name in program.names}


def test_only_what_is_named_is_rewritten(installed: Path):
    program = Program([installed.parent], drill=["named_package"])
    with importing(program):
        deep = importlib.import_module("named_package.sub.deep")
        package = importlib.import_module("named_package")
        too = importlib.import_module("named_package_too")
    parts = {"named_package/__init__.py", "named_package/part.py", "named_package/sub/__init__.py"}
    assert _names(program, installed) == parts | {"named_package/sub/deep.py"}
    assert (package.f(1), package.part.K().m(1), deep.g(1), too.h(1)) == (2, 4, 2, 2)


def test_a_part_of_a_package_can_be_named(installed: Path):
    program = Program([], drill=("named_package.sub",))
    with importing(program):
        importlib.import_module("named_package.sub.deep")
    assert _names(program, installed) == {"named_package/sub/__init__.py", "named_package/sub/deep.py"}


def test_what_is_loaded_already_gets_sites_and_its_own_code_back(installed: Path):
    part = importlib.import_module("named_package.part")
    before = {id(f): f.__code__ for f in functions_of(part.__file__)}
    program = Program([], drill=("named_package",))
    with importing(program):
        assert part.f.__code__ is not before[id(part.f)]
        assert part.__file__ in program.names
        assert (part.f(1), part.K().m(1)) == (2, 4)
    program.restore()
    assert all(f.__code__ is before[id(f)] for f in functions_of(part.__file__))


def test_what_stays_plain_has_a_reason(installed: Path):
    program = Program([], drill=("named_package", "_json"))
    with importing(program):
        with pytest.raises(SyntaxError):
            importlib.import_module("named_package.broken")
        importlib.import_module("named_package.deep_expression")
    reasons = {Path(path).name: why for path, why in program.left_plain.items()}
    assert reasons["broken.py"].startswith("SyntaxError")
    assert "nested" in reasons["deep_expression.py"]


def test_an_extension_module_of_a_named_package_is_left_with_a_reason(installed: Path):
    spec = importlib.util.find_spec("_json")
    if spec is None or not spec.origin or not spec.origin.endswith(".so"):
        pytest.skip("_json is built in here")
    target = installed / "named_package" / Path(spec.origin).name
    target.symlink_to(spec.origin)
    program = Program([], drill=("named_package",))
    with importing(program):
        importlib.import_module("named_package._json")
    assert program.left_plain[str(target)] == "it has no Python source"


def test_a_text_is_not_a_sequence_of_names():
    with pytest.raises(TypeError, match="drill"):
        Program([], drill="named_package")


def test_restore_gives_plain_code_to_all_that_was_imported(installed: Path):
    program = Program([], drill=("named_package",))
    with importing(program):
        part = importlib.import_module("named_package.part")
    assert program.restore() == 2
    plain = compile(Path(part.__file__).read_bytes(), part.__file__, "exec")
    code = next(c for c in plain.co_consts if isinstance(c, types.CodeType))
    assert (part.f.__code__.co_code, part.f.__code__.co_consts) == (code.co_code, code.co_consts)


def test_calls_into_a_named_package_are_regions(installed: Path):
    from codedag.trace.recorder import Recorder

    np = pytest.importorskip("numpy")
    program = Program([], drill=("named_package",))
    recorder = Recorder(program.names)
    with importing(program):
        part = importlib.import_module("named_package.part")
        site_module.native.start(recorder, program.names)
        try:
            part.K().m(np.ones(3))
        finally:
            site_module.native.stop()
    contexts = {template.name: recorder.context(template) for template in recorder.templates}
    assert contexts["operator.add"] == "K.m/f/operator.add"


# -- selection


def test_modules_that_are_not_selected_stay_plain(installed: Path):
    program = Program([], drill=("named_package",), selection=FilterConfig(exclude_modules=("*.sub",)))
    with importing(program):
        importlib.import_module("named_package.sub.deep")
    assert _names(program, installed) == {"named_package/__init__.py", "named_package/part.py"}
    assert program.left_plain[str(installed / "named_package/sub/deep.py")] == "it was not selected"


def _modes(program: Program, path: str) -> dict[str, set[int]]:
    file = program.files[path]
    return {owner: {site.mode for site in file.sites_of(owner)} for owner in file.owners()}


def test_functions_that_are_not_selected_pass_through(installed: Path):
    program = Program([], drill=("named_package",), selection=FilterConfig(include_functions=("K.*",)))
    with importing(program):
        part = importlib.import_module("named_package.part")
    assert _modes(program, part.__file__) == {"f": {PASS}, "K.m": {RECORD}}
    assert [switch.on for switch in program.files[part.__file__].switches] == [False]
    assert part.K().m(1) == 4


@pytest.mark.parametrize(("chosen", "sites"), [({}, 1), ({"exclude_modules": ("__main__",)}, 0)])
def test_the_script_is_the_module_main(tmp_path: Path, chosen: dict[str, Any], sites: int):
    program = Program([tmp_path], selection=FilterConfig(**chosen))
    path = str(tmp_path / "script.py")
    program.load(path, b"x = 1\nx = x + 1\n", main=True)
    assert len(program.files) == sites
    assert program.left_plain == ({} if sites else {path: "it was not selected"})


# -- warnings of the compiler: what a plain import shows, as often as that shows it

WARNING = 'def f(x):\n    return x is 1, "\\d"\n'
PLAIN = "import sys, warned; print(warned.f(2))"
REWRITTEN = """
import sys
from pathlib import Path
from codedag.instrument.hook import importing
from codedag.instrument.program import Program
with importing(Program([Path.cwd()])):
    import warned
    print(warned.f(2))
"""


def test_warnings_of_the_compiler_are_those_of_a_plain_import(tmp_path: Path):
    shown = {}
    for kind, program in {"plain": PLAIN, "rewritten": REWRITTEN}.items():
        folder = tmp_path / kind
        folder.mkdir()
        (folder / "warned.py").write_text(WARNING)
        (folder / "main.py").write_text(program)
        # the first import compiles and warns, the second finds Python's own cached code, the third has none to find
        shown[kind] = [_told(folder), _told(folder), _told(folder, "-X", f"pycache_prefix={folder}/none")]
    assert shown["rewritten"] == shown["plain"]
    assert [text.count("Warning:") for text in shown["plain"]] == [2, 0, 2]


def _told(folder: Path, *flags: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-W", "always", *flags, "main.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    lines = [line for line in done.stderr.splitlines() if "warned" in line]
    return done.stdout + "\n".join(lines).replace(str(folder), "")
