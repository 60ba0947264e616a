"""Code is swapped in functions that are already loaded, and put back: the very same code objects, everywhere."""

from __future__ import annotations

import gc
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from codedag.instrument.codes import codes_by_place
from codedag.instrument.program import Program, functions_of
from codedag.instrument.sites import PASS, RECORD, VARIANT

SOURCE = """
import functools
def first(x): return (x + 1) * 2
def second(x):
    return (((x)) - 1)[0] if x is None else ((x) * 3, (x) + 1)
pair = lambda x: (x + 1) * 2, lambda x: ((x) + 1) * 2
same_line = [lambda x: x + i for i in range(2)] + [lambda x: (x) - i for i in range(2)]
class K:
    def method(self, x):
        return [(y) + x for y in range(3)] + [-(y) for y in range(2)]
    @property
    def size(self): return (len("abc")) + 1
    @staticmethod
    def static(x): return (lambda y: (y) * x)(2)
    @classmethod
    def made(cls, x): return cls().method(x)
def outer(n):
    def inner(x):
        nonlocal n
        n += x
        return (n) + x
    return inner
def looping(items):
    out = []
    for i in items:
        out.append((lambda y: (y) + i)(1))
        f = lambda z: (z) * i
        out.append(f(2))
    return out
def generating(n):
    for i in range(n):
        yield (i) * 2
@functools.lru_cache(None)
def cached(x): return (x)[0] if x else (1 + 1)
async def waiting(x): return (x) + 1
kept = outer(1)
def results():
    return [first(1), second(2), pair[0](1), pair[1](2), [f(5) for f in same_line], K().method(1), K().size,
            K.static(3), K.made(2), outer(3)(4), looping([1, 2, 3]), list(generating(3)), cached(()), kept(0)]
"""


@pytest.fixture
def loaded(tmp_path: Path) -> Any:
    path = tmp_path / "loaded_plain.py"
    path.write_text(SOURCE)
    module = types.ModuleType("loaded_plain")
    exec(compile(SOURCE, str(path), "exec"), module.__dict__)
    return module, str(path)


def _codes(path: str) -> dict[int, types.CodeType]:
    gc.collect()
    return {id(f): f.__code__ for f in functions_of(path)}


def test_attach_and_restore_of_a_loaded_module(loaded: Any) -> None:
    module, path = loaded
    before, expected = _codes(path), module.results()
    program = Program([Path(path).parent])
    swapped = program.attach(path, SOURCE.encode())
    assert len(swapped) == len(before)
    assert all(f.__code__ is not before[id(f)] for f in functions_of(path) if id(f) in before)
    assert module.results() == expected
    made_meanwhile = module.outer(5), module.looping
    assert program.restore() >= len(swapped)
    assert {key: code for key, code in _codes(path).items() if key in before} == before
    assert all(code is before[key] for key, code in _codes(path).items() if key in before)
    inner = codes_by_place(module.outer.__code__)
    assert made_meanwhile[0].__code__ in inner.values()
    assert any(made_meanwhile[0].__code__ is code for code in inner.values())
    assert module.results() == expected


def test_every_function_of_a_loaded_file_gets_its_plain_code_back(tmp_path: Path) -> None:
    path = str(tmp_path / "m.py")
    program = Program([tmp_path])
    space: dict[str, Any] = {"__name__": "m"}
    exec(program.load(path, SOURCE.encode()), space)
    first = space["results"]()
    plain = set(map(id, _all_codes(program.files[path].plain)))
    functions = functions_of(path)
    assert len(functions) > 15
    assert not any(id(f.__code__) in plain for f in functions)
    program.restore()
    assert all(id(f.__code__) in plain for f in functions_of(path))
    assert space["results"]() == first
    assert all(site.mode == PASS and site.variant is None for site in program.files[path].sites)
    assert not any(switch.on for switch in program.files[path].switches)


def _all_codes(code: types.CodeType) -> list[types.CodeType]:
    return [code, *(c for k in code.co_consts if isinstance(k, types.CodeType) for c in _all_codes(k))]


def test_install_gives_lean_code_with_only_the_planned_sites(tmp_path: Path) -> None:
    path = str(tmp_path / "m.py")
    program = Program([tmp_path])
    space: dict[str, Any] = {"__name__": "m"}
    exec(program.load(path, SOURCE.encode()), space)
    file = program.files[path]
    site = next(i for i in file.infos if i.owner == "first" and i.operator == "mul")
    program.settle(path, "first")
    program.plan(path, "first", {site.index: lambda a, b: ("planned", a, b)})
    program.install(path)
    assert space["first"](1) == ("planned", 2, 2)
    constants = space["first"].__code__.co_consts
    assert sum(type(c).__name__ == "Site" for c in constants) == 1
    assert file.sites[site.index].mode == VARIANT
    assert space["second"].__code__ is not None
    assert any(s.mode == RECORD for s in file.sites)
    program.restore()
    assert space["first"](1) == 4


def test_a_text_like_our_marks_leaves_the_file_plain(tmp_path: Path) -> None:
    path = str(tmp_path / "m.py")
    program = Program([tmp_path])
    source = b'mark = "\\0codedag:site:0"\nf = lambda x: x + 1\n'
    space: dict[str, Any] = {}
    exec(program.load(path, source), space)
    assert space["mark"] == "\0codedag:site:0"
    assert space["f"](1) == 2
    assert path in program.left_plain


def test_what_is_nested_too_deeply_stays_plain(tmp_path: Path) -> None:
    path = str(tmp_path / "m.py")
    program = Program([tmp_path])
    source = ("x = " + "+".join(["y"] * 900)).encode()
    space: dict[str, Any] = {"y": 1}
    exec(program.load(path, source), space)
    assert space["x"] == 900


def test_rewriting_shows_no_warning_again(tmp_path: Path) -> None:
    """Compiling our code must not change the warning filters, or warnings that were shown once would be shown again."""
    import warnings

    before = list(warnings.filters)
    version = getattr(warnings, "_filters_version", None)
    Program([tmp_path]).load(str(tmp_path / "m.py"), b"def f(x): return x(1)[0] + 2\n")
    assert list(warnings.filters) == before
    assert getattr(warnings, "_filters_version", None) == version


def test_numbers_of_sites_do_not_depend_on_files_that_are_loaded_later(tmp_path: Path) -> None:
    program = Program([tmp_path])
    path = str(tmp_path / "a.py")
    program.load(path, b"def helper(x):\n    return x + 1\ndef other(x):\n    return x * 2\n")
    file = program.files[path]
    times = next(i.index for i in file.infos if i.operator == "mul")
    program.load(str(tmp_path / "b.py"), b"import numba\nfrom a import helper\nfast = numba.njit(helper)\n")
    file.sites[times].mode, file.sites[times].variant = VARIANT, lambda a, b: "planned"
    space: dict[str, Any] = {}
    exec(file.only({times}), space)
    assert space["other"](1) == "planned"
    assert space["helper"](1) == 2


def test_the_c_source_compiles_without_warnings(tmp_path: Path) -> None:
    import shutil
    import subprocess
    import sysconfig

    import codedag.instrument

    compiler = shutil.which("cc")
    if compiler is None or not (Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
        pytest.skip("no C compiler or no headers here")
    source = Path(codedag.instrument.__file__).with_name("_site.c")
    flags = [
        "-std=c11",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unused-parameter",
        "-Wno-cast-function-type",
        "-fsyntax-only",
    ]
    command = [compiler, *flags, "-I", sysconfig.get_paths()["include"], str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sys.version_info >= (3, 11)


def _planned(tmp_path: Path) -> tuple[Program, Any, dict[str, Any]]:
    path = str(tmp_path / "m.py")
    program = Program([tmp_path])
    space: dict[str, Any] = {"__name__": "m"}
    exec(program.load(path, SOURCE.encode()), space)
    file = program.files[path]
    program.settle(path, "first")
    program.plan(path, "first", {file.sites_of("first")[0].info.index: lambda *args: 100})
    return program, file, space


def test_nobody_waits_while_code_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, file, space = _planned(tmp_path)
    only, begun, go_on = type(file).only, threading.Event(), threading.Event()

    def slow(self: Any, keep: Any) -> Any:
        begun.set()
        go_on.wait()
        return only(self, keep)

    monkeypatch.setattr(type(file), "only", slow)
    installing = threading.Thread(target=program.install, args=(file.path, ["first"]))
    installing.start()
    begun.wait()
    other = threading.Thread(target=program.settle, args=(file.path, "second"), daemon=True)
    other.start()
    other.join(60)
    waits = other.is_alive()
    go_on.set()
    installing.join()
    assert not waits
    assert space["first"](1) != 4  # the code with the variant is in use
    program.restore()


def test_a_plan_that_changes_while_code_is_made_is_the_one_that_counts(tmp_path: Path, monkeypatch: Any) -> None:
    program, file, space = _planned(tmp_path)
    only, asked = type(file).only, []
    last = file.sites_of("first")[-1].info.index

    def changing(self: Any, keep: Any) -> Any:
        asked.append(set(keep))
        if len(asked) == 1:
            program.plan(file.path, "first", {last: lambda *args: 7})
        return only(self, keep)

    monkeypatch.setattr(type(file), "only", changing)
    program.install(file.path, ["first"])
    assert len(asked) == 2
    assert last in asked[1]
    program.restore()
    assert space["first"](1) == 4


def test_functions_that_only_values_hold_are_reached_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "m.py")
    program = Program([tmp_path])
    module = types.ModuleType("m")
    module.__file__ = path
    monkeypatch.setitem(sys.modules, "m", module)
    exec(
        program.load(path, b"def f(x): return x + 1\ndef made():\n    def g(x): return x + 2\n    return g\n"),
        vars(module),
    )
    held = [module.made(), module.f]
    plain = set(map(id, _all_codes(program.files[path].plain)))
    for owner in ("f", "made.g"):
        program.settle(path, owner)
        program.install(path, [owner], near=True)
    assert [id(each.__code__) in plain for each in held] == [False, True]
    assert program.has_left_over()
    assert program.reach() == 1
    assert all(id(each.__code__) in plain for each in held)
    assert not program.has_left_over()
    assert program.reach() == 0


def test_what_is_given_other_code_meanwhile_is_not_given_the_former(tmp_path: Path) -> None:
    path = str(tmp_path / "m.py")
    program, space = Program([tmp_path]), {"__name__": "m"}
    exec(program.load(path, b"def f(x): return x + 1\n"), space)
    program.settle(path, "f")
    program.install(path, ["f"], near=True)
    program.plan(path, "f", {0: lambda *_: 5})
    program.install(path, ["f"])
    assert (space["f"](1), program.has_left_over(), program.reach()) == (5, False, 0)
    assert space["f"](1) == 5


def test_the_code_of_a_module_itself_is_never_replaced(tmp_path: Path) -> None:
    path = str(tmp_path / "m.py")
    program = Program([tmp_path])
    program.load(path, b"x = 1 + 1\ny = [each + 1 for each in (1, 2)]\n")
    program.settle(path, "")
    assert program.install(path, [""]) == []
    assert not program.has_left_over()


def test_other_source_of_a_file_that_was_loaded_runs_as_written(tmp_path):
    """Code of the one source must never reach functions of the other: a module was edited and loaded again."""
    path, program = str(tmp_path / "helper.py"), Program([tmp_path])
    first, other = b"def f(a):\n    return a.mean() / 2\n", b"def f(a):\n    return a.mean() / 4\n"
    program.load(path, first)
    code = program.load(path, other)
    assert code == compile(other, path, "exec", dont_inherit=True)
    assert program.files[path].source == first
    assert "another source" in program.left_plain[path]
    assert program.load(path, first) != compile(first, path, "exec", dont_inherit=True), "the same one has sites again"
