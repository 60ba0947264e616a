"""Single functions of loaded modules get sites on demand, run as before, and get the very same code object back."""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import sys
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codedag.instrument.nearby import functions_of
from codedag.instrument.opening import Opened, is_closed
from codedag.instrument.program import Program
from codedag.instrument.sites import PASS, RECORD
from codedag.ir.verdict import Code, No

SOURCE = """
import contextlib, functools
def plain(x): return (x + 1) * 2
def other(x): return (x - 1) * 3
def looping(items):
    out = []
    for i in items:
        while len(out) < 2 * i:
            out.append(i * 2)
    return out
def generating(n):
    for i in range(n):
        yield i * 2
async def waiting(x): return x + 1
anonymous = lambda x: (x + 1) * 2
def wrapping(function):
    @functools.wraps(function)
    def wrapper(*args): return function(*args) + 1
    return wrapper
@wrapping
def decorated(x): return x * 5
@functools.lru_cache(None)
def cached(x): return x * 7
@contextlib.contextmanager
def managed(x):
    yield x + 1
def outer(n):
    def inner(x):
        nonlocal n
        n += x
        return n + x
    return inner
class Base:
    def hello(self): return 1 + len("ab")
class K(Base):
    __hidden = 3
    def method(self, x): return self.__hidden + x
    def hello(self): return super().hello() + 1
    def klass(self): return __class__.__name__ + "!"
    @property
    def size(self): return len("abc") + 1
    @size.setter
    def size(self, value): self.kept = value + 1
    @staticmethod
    def static(x): return x * 2
    @classmethod
    def made(cls, x): return cls().method(x) * 2
    def nested(self):
        class Local:
            def deep(self, x): return x + 9
        return Local()
def failing(x):
    y = x + 1
    return (y
            / 0)
def recursing(n): return 1 + recursing(n - 1) if n else 0
def nothing(): pass
kept = outer(1)
held = [outer(2)]
"""
KINDS = {
    "plain": lambda m: m.plain(3),
    "looping": lambda m: m.looping([1, 2, 3]),
    "generating": lambda m: list(m.generating(3)),
    "waiting": lambda m: asyncio.run(m.waiting(3)),
    "<lambda>": lambda m: m.anonymous(3),
    "wrapping.wrapper": lambda m: m.decorated(3),
    "decorated": lambda m: m.decorated(3),
    "cached": lambda m: (m.cached.cache_clear(), m.cached(3)),
    "managed": lambda m: m.managed(3).__enter__(),
    "outer": lambda m: m.outer(3)(4),
    "outer.inner": lambda m: (m.kept(0), m.held[0](0), m.outer(3)(4)),
    "K.method": lambda m: m.K().method(4),
    "K.hello": lambda m: m.K().hello(),
    "K.klass": lambda m: m.K().klass(),
    "K.size": lambda m: (m.K().size, setattr(m.K(), "size", 3)),
    "K.static": lambda m: m.K.static(4),
    "K.made": lambda m: m.K.made(4),
    "K.nested.Local.deep": lambda m: m.K().nested().deep(4),
}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield from _imported(tmp_path, monkeypatch, SOURCE)


def _imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, name: str = "opened_here") -> Iterator[Any]:
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.setenv("CODEDAG_HOME", str(tmp_path / "home"))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield importlib.import_module(name)
    del sys.modules[name]


def _open(module: Any, owners: set[str], mode: int = RECORD) -> tuple[Program, dict[str, Opened | No]]:
    program = Program([Path(module.__file__).parent])
    found = program.open([(module.__file__, owners)], mode=mode)
    return program, {owner: each for (_, owner), each in found.items()}


def _codes(module: Any) -> dict[int, types.CodeType]:
    return {id(f): f.__code__ for f in functions_of(module.__file__)}


def _has_sites(code: types.CodeType) -> bool:
    return any(type(c).__name__ in ("Site", "Spread") for c in code.co_consts)


@pytest.mark.parametrize("owner", KINDS)
def test_each_kind_of_function_is_opened_and_given_back(module: Any, owner: str) -> None:
    run, functions = KINDS[owner], functions_of(module.__file__)
    before, expected = _codes(module), run(module)
    program, found = _open(module, {owner})
    assert isinstance(found[owner], Opened), found
    assert run(module) == expected
    changed = {f.__code__.co_qualname for f in functions if f.__code__ is not before[id(f)]}
    assert changed
    assert all(
        name.replace(".<locals>", "") in (owner, owner.partition(".")[0]) or "nested" in name for name in changed
    )
    modes = {site.mode for _, site in program.files[module.__file__].made_sites() if site.info.owner == owner}
    assert modes == {RECORD}
    program.restore()
    assert all(f.__code__ is before[id(f)] for f in functions)
    assert run(module) == expected


def test_only_the_named_functions_have_sites(module: Any) -> None:
    program, _ = _open(module, {"plain"})
    assert _has_sites(module.plain.__code__)
    assert not _has_sites(module.other.__code__)
    file = program.files[module.__file__]
    assert {site.info.owner for _, site in file.made_sites()} == {"plain"}


def test_code_is_the_original_again_after_several_opens_of_one_file(module: Any) -> None:
    functions, before = functions_of(module.__file__), _codes(module)
    program, _ = _open(module, {"outer.inner", "plain"})
    program.open([(module.__file__, {"outer", "plain"})])
    program.open([(module.__file__, {"other", "outer.inner"})])
    made = module.outer(5)
    assert _has_sites(made.__code__)
    assert made(1) == 7
    program.restore()
    assert all(f.__code__ is before[id(f)] for f in functions)
    inner = next(c for c in module.outer.__code__.co_consts if isinstance(c, types.CodeType))
    assert made.__code__ is inner
    program.loads_with_sites = True
    again = program.open([(module.__file__, {"plain"})])
    assert isinstance(again[module.__file__, "plain"], Opened)
    program.restore()
    assert all(f.__code__ is before[id(f)] for f in functions)


def test_lean_code_of_an_opened_function_and_back(module: Any) -> None:
    before = module.plain.__code__
    program, _ = _open(module, {"plain"})
    file = program.files[module.__file__]
    site = next(i for i in file.infos if i.owner == "plain" and i.operator == "mul")
    program.settle(file.path, "plain")
    program.plan(file.path, "plain", {site.index: lambda a, b: ("planned", a, b)})
    program.install(file.path)
    assert module.plain(1) == ("planned", 2, 2)
    assert sum(type(c).__name__ == "Site" for c in module.plain.__code__.co_consts) == 1
    program.restore()
    assert module.plain.__code__ is before
    assert module.plain(1) == 4


def _refusal(found: Opened | No) -> Code:
    assert isinstance(found, No), found
    assert found.reason
    return found.code


def test_what_is_not_there_is_refused(module: Any, tmp_path: Path) -> None:
    program, found = _open(module, {"missing", "nothing"})
    assert _refusal(found["missing"]) is Code.NO_FUNCTION
    assert _refusal(found["nothing"]) is Code.NO_SITES
    elsewhere = str(tmp_path / "never_loaded.py")
    assert _refusal(program.open([(elsewhere, {"f"})])[elsewhere, "f"]) is Code.NO_SOURCE


@pytest.mark.parametrize("name", ["numpy.lib._function_base_impl", "functools", "json"])
def test_protected_modules_are_refused(name: str) -> None:
    path = importlib.import_module(name).__file__
    assert path
    assert _refusal(Program([Path("/nowhere")]).open([(path, {"f"})])[path, "f"]) is Code.PROTECTED


def test_packages_are_protected_by_their_whole_name() -> None:
    modules = {"/p/a.py": "codedag.ir.x", "/p/b.py": "torch._ops", "/p/c.py": "torchvision.ops", "/p/d.py": "numpyro.x"}
    assert [is_closed(path, modules) for path in modules] == [True, True, False, False]


def test_what_autograph_has_written_is_protected() -> None:
    modules = {"/tmp/__autograph_generated_file1.py": "__autograph_generated_file1", "/p/e.py": "tensorflow.python.e"}
    modules["/p/f.py"] = "tensorflow_datasets.f"
    assert [is_closed(path, modules) for path in modules] == [True, True, False]


def test_a_function_that_the_program_gave_other_code_is_refused(module: Any) -> None:
    def mine(x: int) -> int:
        return x + 100

    module.plain.__code__ = mine.__code__.replace(
        co_filename=module.__file__, co_name="plain", co_qualname="plain", co_firstlineno=3
    )
    given = module.plain.__code__
    _, found = _open(module, {"plain"})
    assert _refusal(found["plain"]) is Code.CODE_DIFFERS
    assert module.plain.__code__ is given


def test_one_constant_or_one_line_of_difference_is_noticed(module: Any) -> None:
    code = module.plain.__code__
    for changed in (
        code.replace(co_consts=tuple(5 if c == 2 else c for c in code.co_consts)),
        code.replace(co_consts=tuple(2.0 if c == 2 else c for c in code.co_consts)),
        code.replace(co_linetable=code.co_linetable[:-1] + b"\x00"),
        code.replace(co_flags=code.co_flags | inspect.CO_ITERABLE_COROUTINE),
    ):
        module.plain.__code__ = changed
        assert _refusal(_open(module, {"plain"})[1]["plain"]) is Code.CODE_DIFFERS
    module.plain.__code__ = code
    for _ in range(200):
        module.plain(3)  # the interpreter specialises its instructions
    assert isinstance(_open(module, {"plain"})[1]["plain"], Opened)


def test_a_source_that_was_edited_is_refused_unless_the_function_is_as_it_was(module: Any) -> None:
    path = Path(module.__file__)
    path.write_text(SOURCE.replace("(x - 1) * 3", "(x - 2) * 3"))
    _, found = _open(module, {"plain", "other"})
    assert isinstance(found["plain"], Opened)
    assert _refusal(found["other"]) in (Code.FILE_CHANGED, Code.CODE_DIFFERS)
    path.write_text("\n\n" + SOURCE)
    assert _refusal(_open(module, {"K.method"})[1]["K.method"]) in (Code.NO_FUNCTION, Code.FILE_CHANGED)


def test_a_source_that_cannot_be_rewritten_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = 'mark = "\\0codedag:site:0"\ndef f(x): return x + 1\n'
    for module in _imported(tmp_path, monkeypatch, source):
        assert _refusal(_open(module, {"f"})[1]["f"]) is Code.CANNOT_REWRITE
        Path(module.__file__).unlink()
        assert _refusal(_open(module, {"f"})[1]["f"]) is Code.NO_SOURCE


def test_functions_that_other_compilers_read_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
# numba
def jit(f): return f
@jit
def fast(x): return helper(x) + 1
def helper(x): return x + 1
def by_name(x): return x + 2
made = jit(by_name)
def free(x): return x + 3
"""
    for module in _imported(tmp_path, monkeypatch, source):
        _, found = _open(module, {"fast", "helper", "by_name", "free"})
        assert {owner for owner, each in found.items() if isinstance(each, No)} == {"fast", "helper", "by_name"}
        assert {_refusal(found[owner]) for owner in ("fast", "helper", "by_name")} == {Code.OTHER_COMPILER}


def test_what_another_loaded_file_of_the_user_compiles_is_refused(
    module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, found = _open(module, {"plain"})
    assert isinstance(found["plain"], Opened)
    source = "def jit(f): return f\nimport opened_here\njit(opened_here.other)  # numba\n"
    for _ in _imported(tmp_path, monkeypatch, source, "compiles_elsewhere"):
        assert _refusal(program.open([(module.__file__, {"other"})])[module.__file__, "other"]) is Code.OTHER_COMPILER


def test_tracebacks_and_source_and_recursion_are_the_same(module: Any) -> None:
    def facts() -> list[Any]:
        try:
            module.failing(1)
        except ZeroDivisionError as error:
            shown = [str(line) for line in traceback.TracebackException.from_exception(error).format()][1:]
            lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)][1:]
        limit = sys.getrecursionlimit()
        deepest = 0
        try:
            sys.setrecursionlimit(len(inspect.stack(0)) + 120)
            for deepest in range(200):
                module.recursing(deepest)
        except RecursionError:
            pass
        finally:
            sys.setrecursionlimit(limit)
        return [shown[-3:], lines, inspect.getsource(module.failing), inspect.signature(module.failing), deepest]

    expected = facts()
    program, found = _open(module, {"failing", "recursing"}, PASS)
    assert all(isinstance(each, Opened) for each in found.values())
    assert facts() == expected
    program.restore()


def test_functions_held_only_by_values_are_found(module: Any) -> None:
    partial = functools.partial(module.plain, 3)
    del module.plain
    program, found = _open(module, {"plain"})
    assert isinstance(found["plain"], Opened)
    assert _has_sites(partial.func.__code__)
    program.restore()
    assert not _has_sites(partial.func.__code__)


def test_two_modules_of_one_file_get_their_own_code_back(module: Any) -> None:
    twin = types.ModuleType("twin")
    source = Path(module.__file__).read_bytes()
    exec(compile(source, module.__file__, "exec", dont_inherit=True), twin.__dict__)
    module.outer(1)
    before = module.outer.__code__, twin.outer.__code__
    assert before[0] is not before[1]
    program, _ = _open(module, {"outer.inner"})
    assert module.outer(1)(1) == twin.outer(1)(1) == 3
    assert _has_sites(twin.outer(1).__code__)
    program.restore()
    assert (module.outer.__code__, twin.outer.__code__) == before
    assert module.outer.__code__ is before[0]
    assert twin.outer.__code__ is before[1]
