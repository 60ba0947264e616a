"""Loops of a script can be given sites while they run; until then nothing but a switch stands in its code."""

from __future__ import annotations

import ast
import importlib
import sys
import threading
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codedag.instrument import hook
from codedag.instrument import program as program_module
from codedag.instrument import rewrite as rewrite_module
from codedag.instrument.instrumented_file import DOUBLED, InstrumentedFile
from codedag.instrument.opening import Opened
from codedag.instrument.program import Program
from codedag.instrument.rewrite import parsed, rewrite
from codedag.instrument.sites import PASS, RECORD
from codedag.ir.verdict import Code, No

SOURCE = b"""
log = []
def seen(x):
    log.append(x)
    return x
total = 0
for epoch in range(3):
    for step in range(4):
        total = total + seen(step * 2)
        if step == 1:
            ask(epoch, step)
    total = total + 100
def train(n):
    kept = []
    while len(kept) < n:
        kept.append(sum(k * 2 for k in range(len(kept))))
        ask("train", len(kept))
        if len(kept) == 3:
            continue
    else:
        kept.append(-1)
    return kept
trained = train(6)
def with_global():
    for i in range(2):
        global changed
        changed = i + 1
    return changed
globally = with_global()
result = total, log, trained, globally
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEDAG_HOME", str(tmp_path / "home"))


def _run(code: types.CodeType, ask: Any) -> Any:
    space: dict[str, Any] = {"__name__": "__main__", "ask": ask}
    exec(code, space)
    return space["result"]


@pytest.fixture
def expected() -> Any:
    return _run(compile(SOURCE, "main.py", "exec", dont_inherit=True), lambda *_: None)


def _program(tmp_path: Path) -> tuple[Program, str]:
    return Program([tmp_path]), str(tmp_path / "main.py")


def test_nothing_is_made_until_a_loop_is_filled(tmp_path: Path, expected: Any) -> None:
    program, path = _program(tmp_path)
    code = program.load(path, SOURCE, main=True, doubled_only=True)
    assert program.files[path].made_sites() == []
    assert _run(code, lambda *_: None) == expected
    assert program.files[path].made_sites() == []


@pytest.mark.parametrize("line", [9, 7, 15])
def test_a_running_loop_is_filled_in_place(tmp_path: Path, expected: Any, line: int) -> None:
    program, path = _program(tmp_path)
    code = program.load(path, SOURCE, main=True, doubled_only=True)
    file = program.files[path]
    calls: list[Any] = []

    def ask(*where: Any) -> None:
        calls.append(where)
        if len(calls) == 2:
            assert program.fill(path, file.loop_at(line))
            for _, site in file.made_sites():
                site.variant = _counted(site, used)
                site.mode = 2

    used: list[int] = []
    assert _run(code, ask) == expected
    if rewrite_module._fill is not None:
        assert used  # the loop was running when it got its sites
    program.restore()
    before = len(used)
    assert _run(code, lambda *_: None) == expected
    assert len(used) == before


def _counted(site: Any, used: list[int]) -> Any:
    function = site.function

    def variant(*args: Any, **keywords: Any) -> Any:
        used.append(site.info.index)
        return function(*args, **keywords) if function is not None else args[0](*args[1:], **keywords)

    return variant if site.info.kind in (0, 1) else None


def test_the_inner_loop_alone_gets_sites_inside_the_plain_body_of_the_outer(tmp_path: Path, expected: Any) -> None:
    program, path = _program(tmp_path)
    code = program.load(path, SOURCE, main=True, doubled_only=True)
    file = program.files[path]
    inner = file.loop_at(9)
    numbers = program.fill(path, inner)
    assert isinstance(numbers, list)
    assert {file.infos[i].line for i in numbers} <= {9, 10, 11}
    assert [switch.on for switch in file.switches] == [loop == inner for loop in range(len(file.switches))]
    assert _run(code, lambda *_: None) == expected


def test_refusals(tmp_path: Path) -> None:
    program, path = _program(tmp_path)
    assert _code(program.fill(path, 0)) is Code.NO_SOURCE
    program.load(path, SOURCE, main=True, doubled_only=True)
    file = program.files[path]
    assert _code(program.fill(path, 99)) is Code.NO_SITES
    with_global = 1 + next(i for i, text in enumerate(SOURCE.decode().splitlines()) if "global changed" in text)
    assert _code(program.fill(path, file.loop_at(with_global))) is Code.NO_SITES
    assert file.loop_at(2) == -1


def _code(found: Any) -> Code:
    assert isinstance(found, No)
    return found.code


def test_the_second_load_compiles_and_rewrites_nothing(
    tmp_path: Path, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, path = _program(tmp_path)
    program.load(path, SOURCE, main=True, doubled_only=True)
    again, _ = _program(tmp_path)
    monkeypatch.setattr("codedag.instrument.instrumented_file.rewritten", None)
    monkeypatch.setattr("builtins.compile", None)
    code = again.load(path, SOURCE, main=True, doubled_only=True)
    monkeypatch.undo()
    assert _run(code, lambda *_: None) == expected


def test_a_long_script_is_plain_until_its_doubled_code_is_in_the_cache(
    tmp_path: Path, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, path = _program(tmp_path)
    monkeypatch.setattr(program_module, "DOUBLED_NBYTES_MAX", 100)
    code = program.load(path, SOURCE, main=True, doubled_only=True)
    assert path not in program.files
    assert path in program.left_plain
    assert _run(code, lambda *_: None) == expected
    InstrumentedFile(path, SOURCE, main=True, cache=program.cache, form=DOUBLED)
    program.load(path, SOURCE, main=True, doubled_only=True)
    assert program.files[path].form == DOUBLED


def test_functions_of_a_script_with_doubled_loops_are_opened(tmp_path: Path, expected: Any) -> None:
    (tmp_path / "main.py").write_bytes(SOURCE)
    program, path = _program(tmp_path)
    code = program.load(path, SOURCE, main=True, doubled_only=True)
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=path, ask=lambda *_: None)
    before, sys.modules["__main__"] = sys.modules["__main__"], main
    try:
        exec(code, main.__dict__)
        loaded = main.train.__code__
        found = program.open([(path, {"train", "seen"})])
        assert all(isinstance(each, Opened) for each in found.values()), found
        assert main.train.__code__ is not loaded
        assert main.train(6) == main.trained
        modes = {site.info.owner: site.mode for _, site in program.files[path].made_sites()}
        assert modes["train"] == modes["seen"] == RECORD
        assert types.FunctionType(loaded, main.__dict__)(6) == main.trained  # a frame of the old code sees the switch
        program.restore()
        assert main.train.__code__ is loaded
        assert main.train(6) == main.trained
    finally:
        sys.modules["__main__"] = before


def test_a_function_that_runs_is_opened_and_its_loop_gets_sites_at_once(tmp_path: Path, expected: Any) -> None:
    (tmp_path / "main.py").write_bytes(SOURCE)
    program, path = _program(tmp_path)
    main = types.ModuleType("__main__")
    found: list[Any] = []

    def ask(*where: Any) -> None:
        if where == ("train", 2):
            found.append(program.open([(path, {"train"})]))

    main.__dict__.update(__file__=path, ask=ask)
    before, sys.modules["__main__"] = sys.modules["__main__"], main
    try:
        exec(program.load(path, SOURCE, main=True, doubled_only=True), main.__dict__)
    finally:
        sys.modules["__main__"] = before
    assert isinstance(found[0][path, "train"], Opened)
    assert main.result == expected


@pytest.mark.parametrize("nested", [1, 2, 4, 7])
def test_code_grows_with_the_square_of_the_nesting_at_most(nested: int) -> None:
    body = (
        "".join("    " * k + f"for a{k} in range(2):\n" for k in range(nested))
        + "    " * nested
        + "f(a0 + 1, a0 * 2)\n"
    )
    source = body.encode()
    plain = compile(source, "m", "exec")
    doubled = rewrite(parsed(source, "m"), "m", doubled=True).code
    assert len(doubled.co_code) <= (nested + 1) ** 2 * len(plain.co_code)


def test_lines_and_tracebacks_are_the_same(tmp_path: Path) -> None:
    source = b"""for i in range(3):
    while True:
        x = [j for j in range(2)]
        if i == 2:
            (x
             .missing)
        break
"""
    program, path = _program(tmp_path)

    def told(code: types.CodeType) -> Any:
        lines: list[int] = []

        def trace(frame: Any, event: str, arg: Any) -> Any:
            if event == "line" and frame.f_code is code:
                lines.append(frame.f_lineno)
            return trace

        sys.settrace(trace)
        try:
            exec(code, {})
        except AttributeError as error:
            found = traceback.format_exception(error)[2:]
        finally:
            sys.settrace(None)
        return found, lines

    expected = told(compile(source, path, "exec", dont_inherit=True))
    code = program.load(path, source, main=True, doubled_only=True)
    assert told(code) == expected
    for loop in range(2):
        program.fill(path, loop, PASS)
    assert told(code) == expected


def test_a_loop_in_another_thread_is_filled_while_it_runs(tmp_path: Path) -> None:
    program, path = _program(tmp_path)
    source = b"n = 0\nwhile not ended.is_set():\n    n = n + 1\n    began.set()\n"
    code = program.load(path, source, main=True, doubled_only=True)
    space: dict[str, Any] = {"ended": threading.Event(), "began": threading.Event()}
    thread = threading.Thread(target=exec, args=(code, space))
    thread.start()
    space["began"].wait(60)
    assert isinstance(program.fill(path, 0, PASS), list)
    program.files[path].switches[0].on = True
    before = space["n"]
    while space["n"] < before + 1000:
        pass
    space["ended"].set()
    thread.join(60)
    assert not thread.is_alive()


def test_a_text_of_a_placeholder_never_runs(tmp_path: Path) -> None:
    """Every site in the doubled code stands in a body that a switch guards."""
    tree = parsed(SOURCE, "m")
    rewrite(tree, "m", doubled=True)
    guarded = {id(n) for i in ast.walk(tree) if _is_switch(i) for part in _chosen(i) for n in ast.walk(part)}
    placeholders = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and str(n.value).startswith("\0codedag:s")]
    assert placeholders
    assert all(id(n) in guarded for n in placeholders)


def _is_switch(node: ast.AST) -> bool:
    test = getattr(node, "test", None)
    return isinstance(node, ast.If | ast.IfExp) and "codedag:loop" in ast.dump(test)[:60]


def _chosen(node: Any) -> list[ast.AST]:
    return node.body if isinstance(node.body, list) else [node.body]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "pack_of_two"
    folder.mkdir()
    for name in ("__init__", "driver", "cold"):
        (folder / f"{name}.py").write_text("def go(n):\n    for i in range(n):\n        n = n + 1\n    return n\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield folder
    for name in [name for name in sys.modules if name.startswith("pack_of_two")]:
        del sys.modules[name]


def test_only_files_that_are_named_go_through_the_hook(package: Path) -> None:
    program = Program([package.parent])
    with hook.importing(program, only={str(package / "driver.py")}):
        driver = importlib.import_module("pack_of_two.driver")
        cold = importlib.import_module("pack_of_two.cold")
    assert set(program.files) == {str(package / "driver.py")}
    assert type(cold.__spec__.loader).__name__ == "SourceFileLoader"
    assert driver.go(3) == cold.go(3) == 6
    assert isinstance(program.fill(str(package / "driver.py"), 0), list)
    assert driver.go(3) == 6


def test_without_named_files_no_finder_is_there() -> None:
    before = list(sys.meta_path)
    with hook.importing(Program([Path("/nowhere")]), only=()):
        assert sys.meta_path == before
