"""Tracing inside a running process: code that was loaded without us is seen, and is itself again afterwards."""

from __future__ import annotations

import asyncio
import copy
import gc
import graphlib
import importlib
import importlib.util
import linecache
import multiprocessing
import os
import pickle
import sys
import threading
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codedag
from codedag import EnhancedTracer, FilterConfig
from codedag.instrument import _site, _twin, sites
from codedag.ir import RunDirectory, check
from codedag.trace.live import AlreadyTracing, BadRoot, Live

_codedag_load = codedag.load
PROGRAMS = Path(__file__).resolve().parent.parent / "programs"

PIPELINE = """
import functools
import numpy as np


def plain(a):
    b = np.sqrt(a)
    return b * 2


def outer(a):
    return plain(a) + 1


def recursive(a, n):
    return np.sqrt(a) if n == 0 else recursive(a, n - 1) + 1


def even(a, n):
    return a if n == 0 else odd(np.sin(a), n - 1)


def odd(a, n):
    return a if n == 0 else even(np.cos(a), n - 1)


def fails(a):
    np.sqrt(a)
    raise LookupError("as it was")


def closure(k):
    def inner(a):
        return np.exp(a) * k
    return inner


made_before = closure(3)
small = lambda a: np.negative(a)


def generator(a):
    for k in range(3):
        yield np.add(a, k)


async def waits(a):
    return np.tanh(a)


def decorate(function):
    @functools.wraps(function)
    def wrapper(*args):
        return np.abs(function(*args))
    return wrapper


@decorate
def decorated(a):
    return np.floor(a)


class Photos:
    def __init__(self, scale):
        self.scale = scale

    def method(self, a):
        return np.multiply(a, self.scale)

    @staticmethod
    def static(a):
        return np.ceil(a)

    @classmethod
    def of_class(cls, a):
        return np.trunc(a)

    @property
    def value(self):
        return np.full(4, 2.0).cumsum()

    def __getitem__(self, k):
        return np.log1p(np.full(3, float(k)))


def untouched(n):
    return n
"""


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """load(source): a module that is loaded as Python does, below tmp_path."""
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "code"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))

    def make(source: str = PIPELINE, name: str = "pipeline_under_trace") -> Any:
        (folder / f"{name}.py").write_text(source)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield make
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "code")


@pytest.fixture(params=["C", "twin"])
def both_sites(request: pytest.FixtureRequest):
    sites.use(_site if request.param == "C" else _twin)
    yield
    sites.use(_site)


def _functions(module: types.ModuleType) -> dict[int, tuple[types.FunctionType, types.CodeType]]:
    file = module.__file__
    found = [o for o in gc.get_objects() if type(o) is types.FunctionType and o.__code__.co_filename == file]
    return {id(f): (f, f.__code__) for f in found if f.__code__.co_name != "<module>"}


def _names(run: codedag.Run) -> list[str]:
    return sorted(op.name for op in run.graph.ops if op.kind not in ("source", "region"))


def _acyclic(tracer: EnhancedTracer) -> None:
    dag = tracer.dag_builder.dag
    order = graphlib.TopologicalSorter({number: set() for number in dag.nodes})
    for source, target, kind in dag.edges:
        assert kind in ("uses", "produces", "calls")
        order.add(target, source)
    assert len(list(order.static_order())) == len(dag.nodes)


# -- the three forms


def test_the_block_sees_what_it_calls(load, root, both_sites):
    module = load()
    with codedag.trace(roots=[root]) as run:
        result = module.outer(np.ones(4))
    assert np.array_equal(result, np.full(4, 3.0))
    assert _names(run) == ["numpy.sqrt", "operator.add", "operator.mul"]
    regions = [op for op in run.graph.ops if op.kind == "region"]
    assert [op.name.rpartition(".")[2] for op in regions] == ["plain"]
    check(run.graph)
    assert run.status == "ok"
    assert {row.op for row in run.costs.rows} == {op.id for op in run.graph.ops if op.kind not in ("source", "region")}


def test_the_wrapper_gives_the_result_and_keeps_the_run(load, root):
    module = load()
    wrapped = codedag.trace(module.plain, roots=root)
    assert wrapped.run is None
    assert np.array_equal(wrapped(np.ones(4)), np.full(4, 2.0))
    first = wrapped.run
    assert _names(first) == ["numpy.sqrt", "operator.mul"]
    assert first.notes == []
    wrapped(np.ones(5))
    assert wrapped.run is not first
    assert wrapped.__name__ == "plain"


def test_the_wrapper_counts_the_function_itself(load, root):
    wrapped = codedag.trace(load().outer, roots=root)
    wrapped(np.ones(4))
    regions = {op.name.rpartition(".")[2]: op for op in wrapped.run.graph.ops if op.kind == "region"}
    assert set(regions) == {"outer", "plain"}
    assert regions["outer"].total_seconds >= regions["plain"].total_seconds
    callers = wrapped.run.recorded.callers
    assert callers[regions["plain"].id] == regions["outer"].id
    assert regions["outer"].id not in callers
    assert {op.context for op in wrapped.run.graph.ops if op.name == "numpy.sqrt"} == {"outer/plain/numpy.sqrt"}


def test_the_wrapper_of_a_library_function_sees_that_call():
    wrapped = codedag.trace(np.sqrt)
    assert wrapped(np.full(1, 9.0)) == 3
    assert _names(wrapped.run) == ["numpy.sqrt"]


def test_the_wrapper_finds_its_roots_by_the_function(load):
    module = load()
    wrapped = codedag.trace(module.plain)
    wrapped(np.ones(3))
    assert _names(wrapped.run) == ["numpy.sqrt", "operator.mul"]


def test_the_decorator_with_and_without_arguments(load):
    module = load(
        "import codedag, numpy as np\n"
        "@codedag.trace\n"
        "def bare(a):\n    return np.sqrt(a)\n"
        "@codedag.trace(max_depth=0)\n"
        "def given(a):\n    return np.sin(a)\n"
        "from codedag import trace as watch\n"
        "def later(a):\n    return np.tan(a)\n"
        "watched = watch(later)\n"
        "other = codedag.trace(later)\n"
        "class Thing:\n"
        "    @codedag.trace\n"
        "    def method(self, a):\n        return np.cos(a)\n",
        "decorated_by_trace",
    )
    module.bare(np.ones(2))
    module.given(np.ones(2))
    module.Thing().method(np.ones(2))
    assert _names(module.bare.run) == ["numpy.sqrt"]
    assert _names(module.given.run) == ["numpy.sin"]
    module.watched(np.ones(2))
    assert _names(module.watched.run) == ["numpy.tan"]
    assert _names(module.Thing.method.run) == ["numpy.cos"]


def test_a_decorated_function_may_call_itself(load):
    module = load(
        "import codedag, numpy as np\n"
        "@codedag.trace\n"
        "def down(a, n):\n    return a if n == 0 else down(np.sqrt(a), n - 1)\n",
        "decorated_and_recursive",
    )
    assert np.array_equal(module.down(np.ones(3), 4), np.ones(3))
    assert sum(op.count for op in module.down.run.graph.ops if op.name == "numpy.sqrt") == 4


def test_generators_and_coroutines_are_traced_while_they_run(load, root):
    module = load()
    wrapped = codedag.trace(module.generator, roots=root)
    assert len(list(wrapped(np.ones(2)))) == 3
    assert [(op.name, op.count) for op in wrapped.run.graph.ops if op.kind == "call"] == [("numpy.add", 3)]
    waits = codedag.trace(module.waits, roots=root)
    asyncio.run(waits(np.ones(2)))
    assert _names(waits.run) == ["numpy.tanh"]

    async def endless():
        yield 1

    with pytest.raises(TypeError, match="asynchronous generator"):
        codedag.trace(endless)


def test_trace_refuses_what_is_no_function():
    with pytest.raises(TypeError, match="roots="):
        codedag.trace("src")


# -- every kind of function


def _kinds(m: Any) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[str]]]:
    a = np.ones(3)
    photos = m.Photos(2.0)
    return {
        "method": (photos.method, (a,), ["numpy.multiply"]),
        "static": (photos.static, (a,), ["numpy.ceil"]),
        "class method": (m.Photos.of_class, (a,), ["numpy.trunc"]),
        "property": (lambda: photos.value, (), ["numpy.full", "numpy.ndarray.cumsum"]),
        "item": (lambda: photos[3], (), ["numpy.full", "numpy.log1p"]),
        "closure made before": (m.made_before, (a,), ["numpy.exp", "operator.mul"]),
        "closure made inside": (lambda: m.closure(2)(a), (), ["numpy.exp", "operator.mul"]),
        "lambda": (m.small, (a,), ["numpy.negative"]),
        "generator": (lambda: list(m.generator(a)), (), ["numpy.add"]),
        "coroutine": (lambda: asyncio.run(m.waits(a)), (), ["numpy.tanh"]),
        "decorated": (m.decorated, (a,), ["numpy.floor", "numpy.absolute"]),
        "recursion through another": (m.even, (a, 3), ["numpy.cos", "numpy.sin"]),
    }


@pytest.mark.parametrize("kind", list(_kinds(types.SimpleNamespace(**dict.fromkeys(
    ("made_before", "closure", "small", "generator", "waits", "decorated", "even"), None),
    Photos=type("P", (), {"__init__": lambda s, k: None, "method": 0, "static": 0, "of_class": 0})))))  # fmt: skip
def test_every_kind_of_function_is_seen(load, root, kind):
    function, args, expected = _kinds(load())[kind]
    plain = function(*args)
    with codedag.trace(roots=root) as run:
        traced = function(*args)
    assert np.array_equal(plain, traced)
    assert {op.name for op in run.graph.ops if op.kind not in ("source", "region")} == set(expected)


def test_recursion(load, root):
    module = load()
    with codedag.trace(roots=root) as run:
        result = module.recursive(np.ones(2), 200)
    assert np.array_equal(result, np.full(2, 201.0))
    assert sum(op.count for op in run.graph.ops if op.name == "operator.add") == 200
    check(run.graph)


def test_threads_that_begin_inside_are_seen(load, root):
    module = load()
    with codedag.trace(roots=root) as run:
        thread = threading.Thread(target=module.plain, args=(np.ones(3),))
        thread.start()
        thread.join()
    assert _names(run) == ["numpy.sqrt", "operator.mul"]


def test_a_trace_that_begins_in_a_thread(load, root):
    module, runs = load(), []

    def work():
        with codedag.trace(roots=root) as run:
            module.plain(np.ones(3))
        runs.append(run)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert _names(runs[0]) == ["numpy.sqrt", "operator.mul"]


# -- everything is given back


def test_every_code_object_and_finder_is_the_same_after(load, root, both_sites):
    module = load()
    before, finders = _functions(module), list(sys.meta_path)
    hooks = (sys.gettrace(), sys.getprofile(), threading.gettrace(), list(warnings.filters))
    with codedag.trace(roots=root):
        inside = module.plain.__code__
        kept = module.closure(5)
        started = module.generator(np.ones(1))
        next(started)
        module.plain(np.ones(2))
    assert inside is not before[id(module.plain)][1]  # the test can fail
    assert all(function.__code__ is code for function, code in before.values())
    assert len(before) > 15
    assert sys.meta_path == finders
    assert (sys.gettrace(), sys.getprofile(), threading.gettrace(), list(warnings.filters)) == hooks
    assert kept.__code__ is module.made_before.__code__
    assert np.array_equal(kept(np.zeros(2)), np.full(2, 5.0))
    assert np.array_equal(next(started), np.full(1, 2.0))
    assert not sites.native.is_recording()


def test_a_file_that_was_loaded_twice_gets_each_its_own_code_back(load, root):
    module = load()
    spec = importlib.util.spec_from_file_location("pipeline_again", module.__file__)
    again = importlib.util.module_from_spec(spec)
    exec(compile(Path(module.__file__).read_bytes(), module.__file__, "exec", dont_inherit=True), again.__dict__)
    codes = module.plain.__code__, again.plain.__code__
    assert codes[0] is not codes[1]
    with codedag.trace(roots=root) as run:
        module.plain(np.ones(2))
        again.plain(np.ones(2))
    assert (module.plain.__code__, again.plain.__code__) == codes
    assert module.plain.__code__ is codes[0]
    assert again.plain.__code__ is codes[1]
    assert sum(op.count for op in run.graph.ops if op.name == "numpy.sqrt") == 2


def test_code_that_the_program_changes_meanwhile_stays_changed(load, root):
    module = load()
    other = module.small.__code__
    with codedag.trace(roots=root):
        module.plain.__code__ = other.replace(co_name="mine")
    assert module.plain.__code__.co_name == "mine"


def test_an_exception_leaves_untouched_and_everything_is_given_back(load, root):
    module = load()
    before, finders = _functions(module), list(sys.meta_path)
    with pytest.raises(LookupError) as caught, codedag.trace(roots=root) as run:
        module.fails(np.ones(2))
    assert caught.value.args == ("as it was",)
    assert caught.value.__context__ is None
    assert [entry.name for entry in caught.traceback][-1] == "fails"
    assert all(function.__code__ is code for function, code in before.values())
    assert sys.meta_path == finders
    assert run.status == "failed"
    assert _names(run) == ["numpy.sqrt"]


def test_an_exception_leaves_the_guides_block_with_its_own_traceback(load):
    module, tracer = load(), EnhancedTracer(max_depth=0)
    error = LookupError("mine")

    def fail():
        module.plain(np.ones(2))
        raise error

    with pytest.raises(LookupError) as caught, tracer.tracing_context():
        fail()
    assert caught.value is error
    assert [entry.name for entry in caught.traceback] == [
        "test_an_exception_leaves_the_guides_block_with_its_own_traceback",
        "fail",
    ]
    assert error.__context__ is error.__cause__ is None
    assert tracer.runs[0].status == "failed"
    assert [n.name for n in tracer.dag_builder.dag.nodes.values() if n.node_type != "variable"]


def test_modules_that_are_imported_inside_are_seen_and_plain_after(load, root):
    load()
    Path(root, "imported_inside.py").write_text("import numpy as np\n\ndef late(a):\n    return np.sqrt(a)\n")
    importlib.invalidate_caches()
    with codedag.trace(roots=root) as run:
        module = importlib.import_module("imported_inside")
        module.late(np.ones(2))
    assert _names(run) == ["numpy.sqrt"]
    assert not any(type(constant).__name__ == "Site" for constant in module.late.__code__.co_consts)
    assert type(module.__spec__.loader) is importlib.machinery.SourceFileLoader
    assert type(module.__loader__) is importlib.machinery.SourceFileLoader
    assert importlib.reload(module).late(np.full(1, 4.0)) == 2


def test_a_started_generator_keeps_its_code_and_goes_on(load, root):
    module = load()
    started = module.generator(np.ones(1))
    next(started)
    with codedag.trace(roots=root) as run:
        assert np.array_equal(next(started), np.full(1, 2.0))
    assert len(run.graph) == 0
    assert np.array_equal(next(started), np.full(1, 3.0))


def test_pickling_is_the_same_while_tracing(load, root):
    module = load()
    photos = module.Photos(2.0)
    plain = [pickle.dumps(thing) for thing in (module.plain, module.Photos, photos, photos.method)]
    with codedag.trace(roots=root):
        traced = [pickle.dumps(thing) for thing in (module.plain, module.Photos, photos, photos.method)]
        assert copy.copy(module.plain) is module.plain
        assert pickle.loads(traced[0]) is module.plain
    assert traced == plain


def test_results_do_not_live_longer_because_they_were_traced(load, root):
    module = load()
    with codedag.trace(roots=root):
        result = module.plain(np.ones(2))
        assert sys.getrefcount(result) == 2


def test_numba_functions_are_left_alone(load, root):
    numba = pytest.importorskip("numba")
    other = load(
        "import numpy as np\n\ndef helper(x):\n    return x * 2.0\n\ndef cube(x):\n    return x * x * x\n", "a_of_numba"
    )
    module = load(
        "import numba, numpy as np\nfrom a_of_numba import cube\n"
        "@numba.njit\ndef fast(a):\n    s = 0.0\n    for x in a:\n        s += x * 2\n    return s\n"
        "later = numba.njit(cube)\n"
        "def calls(a):\n    return fast(np.sqrt(a))\n",
        "b_of_numba",
    )
    codes = module.fast.py_func.__code__, other.cube.__code__
    with codedag.trace(roots=root) as run:
        assert (module.fast.py_func.__code__, other.cube.__code__) == codes
        assert module.fast.py_func.__code__ is codes[0]
        assert other.cube.__code__ is codes[1]
        assert module.calls(np.ones(4, np.float32)) == 8.0  # compiled inside the block
        assert module.later(3) == 27
    assert "numpy.sqrt" in _names(run)
    assert isinstance(module.fast, numba.core.dispatcher.Dispatcher)


# -- one trace at a time


def test_a_second_trace_inside_is_refused_and_the_first_goes_on(load, root):
    module = load()
    with codedag.trace(roots=root) as run:
        with pytest.raises(AlreadyTracing, match="already being traced"), codedag.trace(roots=root):
            pass
        with pytest.raises(AlreadyTracing), EnhancedTracer().tracing_context():
            pass
        module.plain(np.ones(2))
    assert _names(run) == ["numpy.sqrt", "operator.mul"]
    with codedag.trace(roots=root) as run:
        module.plain(np.ones(2))
    assert _names(run) == ["numpy.sqrt", "operator.mul"]


def test_live_by_hand_and_twice(load, root):
    module = load()
    live = Live(roots=[root])
    live.start()
    with pytest.raises(AlreadyTracing):
        Live(roots=[root]).start()
    module.plain(np.ones(2))
    so_far = live.recorded().graph
    live.stop()
    live.stop()
    assert len(so_far) == len(live.recorded().graph) == 3
    assert any("already running" in note for note in live.notes) is False  # this file is not below the roots


def test_roots_that_are_no_directory_are_refused(tmp_path):
    with pytest.raises(BadRoot, match="nowhere"), codedag.trace(roots=[tmp_path / "nowhere"]):
        pass


def test_disabled(load, root, monkeypatch):
    module = load()
    monkeypatch.setenv("CODEDAG_DISABLE", "1")
    with codedag.trace(roots=root) as run:
        code = module.plain.__code__
        module.plain(np.ones(2))
    assert len(run.graph) == 0
    assert module.plain.__code__ is code
    assert run.notes == ["nothing was recorded: CODEDAG_DISABLE is set"]


# -- what could not be seen is said


def test_the_block_itself_is_said_to_be_unseen(load, root):
    module = load(
        "import codedag, numpy as np\n\ndef body(a):\n    with codedag.trace() as run:\n"
        "        b = np.sqrt(a)\n        c = helper(b)\n    return run\n\ndef helper(a):\n    return np.sin(a)\n"
        "\n\ndef empty():\n    with codedag.trace() as run:\n        pass\n    return run\n"
        "\n\ndef by_hand(a, live):\n    live.start()\n    np.sqrt(a)\n    live.stop()\n",
        "with_a_block",
    )
    run = module.body(np.ones(2))
    assert _names(run) == ["numpy.sin"]
    assert len(run.notes) == 1
    assert "with_a_block.py:4" in run.notes[0]
    assert "lines 5 to 6" in run.notes[0]
    assert [note[:25] for note in module.empty().notes] == ["no operation was recorded"]
    live = Live()
    module.by_hand(np.ones(2), live)
    assert "(line 21)" in live.notes[0]


def test_a_file_that_changed_since_it_was_loaded_is_left_alone(load, root):
    module = load()
    file = Path(module.__file__)
    file.write_text(PIPELINE.replace("b * 2", "b * 9"))
    before = module.plain.__code__
    with codedag.trace(roots=root) as run:
        assert module.plain.__code__ is before
        assert np.array_equal(module.plain(np.ones(2)), np.full(2, 2.0))
        module.small(np.ones(2))
    assert _names(run) == ["numpy.negative"]
    assert any("plain" in note and "is not that of its source" in note for note in run.notes)


@pytest.mark.parametrize("text", [None, "def broken(:\n", "\udcff"])
def test_a_file_whose_source_is_gone_or_broken_is_left_alone(load, root, text):
    module = load()
    linecache.clearcache()
    Path(module.__file__).unlink()
    if text is not None:
        Path(module.__file__).write_bytes(text.encode(errors="surrogateescape"))
    with codedag.trace(roots=root) as run:
        module.plain(np.ones(2))
    assert len(run.graph) == 0
    assert any("was left alone" in note and "pipeline_under_trace" in note for note in run.notes)


def test_what_the_compiler_said_before_is_not_said_again(load, root):
    with pytest.warns((DeprecationWarning, SyntaxWarning)):
        load("import numpy as np\n\ndef odd(a):\n    '\\d'\n    return np.sqrt(a)\n", "said_before")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with codedag.trace(roots=root):
            pass
    assert said == []


def test_functions_of_a_notebook_are_seen_where_their_lines_are_known(monkeypatch, tmp_path):
    main = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    source = "import numpy as np\ndef cell(a):\n    return np.sqrt(a)\n"
    for name in ("<ipython-input-1-abc>", "/tmp/ipykernel_1/2.py"):
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        exec(compile(source, name, "exec", dont_inherit=True), main.__dict__)
        with codedag.trace(roots=tmp_path) as run:
            main.cell(np.ones(2))
        del linecache.cache[name]
        assert _names(run) == ["numpy.sqrt"]
    exec(compile(source.replace("cell", "unknown"), "<string>", "exec", dont_inherit=True), main.__dict__)
    with codedag.trace(roots=tmp_path) as run:
        main.unknown(np.ones(2))
    assert any(note.startswith("<string> was left alone") and "unknown" in note for note in run.notes)


def test_installed_packages_and_we_ourselves_are_not_looked_into(load, root):
    import importlib.metadata

    load()
    before = {f: f.__code__ for f in (np.linalg.norm.__wrapped__, importlib.metadata.version, codedag.load)}
    with codedag.trace(roots=[Path(np.__file__).parent.parent, Path(codedag.__file__).parent, root]):
        assert all(f.__code__ is code for f, code in before.items())


# -- filters and drilling


def test_the_filter_chooses_functions(load, root):
    module = load()
    with codedag.trace(roots=root, filter_config=FilterConfig(exclude_functions=("plain",))) as run:
        module.outer(np.ones(2))
    assert _names(run) == ["operator.add"]


def test_the_filter_chooses_modules(load, root):
    first = load("import numpy as np\n\ndef f(a):\n    return np.sqrt(a)\n", "chosen_module")
    second = load("import numpy as np\n\ndef g(a):\n    return np.sin(a)\n", "other_module")
    with codedag.trace(roots=root, filter_config=FilterConfig(include_modules=("chosen*",))) as run:
        second.g(first.f(np.ones(2)))
    assert _names(run) == ["numpy.sqrt"]


def test_named_packages_are_looked_into(load, root, tmp_path, monkeypatch):
    _install(tmp_path, monkeypatch)
    module = load("import thirdparty.deep\n\ndef f(a):\n    return thirdparty.deep.work(a)\n", "uses_thirdparty")
    before = sys.modules["thirdparty.deep"].work.__code__
    with codedag.trace(roots=root) as shallow:
        module.f(np.ones(2))
    assert _names(shallow) == ["thirdparty.deep.work"]
    with codedag.trace(roots=root, drill=["thirdparty"]) as deep:
        module.f(np.ones(2))
    assert _names(deep) == ["numpy.cbrt", "operator.sub"]
    with codedag.trace(roots=root, drill="thirdparty") as deep:
        module.f(np.ones(2))
    assert _names(deep) == ["numpy.cbrt", "operator.sub"]
    assert sys.modules["thirdparty.deep"].work.__code__ is before


def _install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lib" / "site-packages" / "thirdparty"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "deep.py").write_text("import numpy as np\n\ndef work(a):\n    return np.cbrt(a) - 1\n")
    monkeypatch.syspath_prepend(str(package.parent))


def test_a_program_that_traces_itself_runs_under_the_command(load, tmp_path, codedag):
    (tmp_path / "own.py").write_text(
        "import codedag, numpy as np\n\ndef f(a):\n    return np.sqrt(a)\n\n"
        "with codedag.trace() as run:\n    print(f(np.full(1, 4.0)))\nprint(len(run.graph), run.notes)\n"
    )
    done = codedag("trace", "-o", tmp_path / "run", "own.py")
    assert done.returncode == 0
    assert done.stdout.startswith("[2.]\n0 ['nothing was recorded here: this process is traced from outside")
    graph = _codedag_load(tmp_path / "run").graph
    assert "numpy.sqrt" in {op.name for op in graph.ops}


# -- runs on disk


def test_a_saved_run_is_opened_by_load_and_view(load, root, tmp_path, codedag_home):
    module = load()
    with codedag.trace(roots=root) as run:
        module.outer(np.ones(2))
    assert "numpy.sqrt" in run.hottest(5)
    assert run.hottest(1).count("\n") == 2
    path = run.save(tmp_path / "run")
    found = codedag.load(path)
    assert isinstance(found, RunDirectory)
    assert (found.run.command, found.run.status, found.run.started) == ("trace", "ok", run.started)
    assert found.graph == run.graph
    assert found.costs == run.costs
    assert found.run.notes == run.notes
    from click.testing import CliRunner

    from codedag.cli.main import cli

    shown = CliRunner().invoke(cli, ["view", str(path)])
    assert shown.exit_code == 0
    assert "numpy.sqrt" in shown.output


def test_a_run_that_cannot_be_saved_says_so(load, root, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with codedag.trace(roots=root) as run:
        pass
    with pytest.raises(codedag.ir.CodedagError):
        run.save(tmp_path / "file" / "run")


# -- many programs


@pytest.fixture(scope="module")
def truth(tmp_path_factory) -> dict[str, tuple[set[tuple[str, str]], EnhancedTracer]]:
    """For each program whose dataflow is known: what it is, and its trace."""
    spec = importlib.util.spec_from_file_location("truth_loaded_without_us", PROGRAMS / "truth.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    data = np.random.default_rng(1).random((16, 16), dtype=np.float32)
    found = {}
    here = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("elsewhere"))
    for name, expected in module.FLOW.items():
        tracer = EnhancedTracer(max_depth=0, track_memory=False)
        _run_with(tracer, getattr(module, name), data, str(PROGRAMS))
        found[name] = expected, tracer
    os.chdir(here)
    del sys.modules[spec.name]
    return found


def _run_with(tracer: EnhancedTracer, function: Callable[..., Any], data: Any, root: str) -> None:
    wrapped = codedag.trace(function, roots=root)
    wrapped(data.copy())
    tracer.runs.append(wrapped.run)
    tracer.dag_builder.add_trace(wrapped.run.recorded)


@pytest.mark.slow
def test_known_dataflow_is_found_in_code_that_was_loaded_without_us(truth):
    missed, wrong = [], []
    for name, (expected, tracer) in truth.items():
        graph = tracer.graph
        short = {op.id: op.name.rpartition(".")[2] for op in graph.ops if op.kind != "source"}
        pairs = [(e.src, e.dst) for e in graph.edges if e.kind == "flow"] + [(c.src, c.dst) for c in graph.carried]
        seen = {(short[s], short[d]) for s, d in pairs if s in short and d in short}
        named = {op for pair in expected for op in pair}
        missed += [(name, pair) for pair in expected - seen]
        wrong += [(name, pair) for pair in seen - expected if set(pair) <= named]
    assert len(truth) >= 50
    assert (missed, wrong) == ([], [])


@pytest.mark.slow
def test_the_guides_graph_is_acyclic_for_many_programs(truth):
    together = EnhancedTracer()
    for _, tracer in truth.values():
        _acyclic(tracer)
        together.runs += tracer.runs
        together.dag_builder.add_trace(tracer.runs[0].recorded)
        types_ = {node.node_type for node in tracer.dag_builder.dag.nodes.values()}
        assert types_ <= {"function_call", "variable", "operator"}
    _acyclic(together)
    versions = [(n.name, n.version) for n in together.dag_builder.dag.nodes.values() if n.node_type == "variable"]
    assert len(versions) == len(set(versions)) > 100
    assert sum(kind == "calls" for *_, kind in together.dag_builder.dag.edges) > 100
    check(together.graph)


def _counted(run: codedag.Run, name: str) -> int:
    return sum(op.count for op in run.graph.ops if op.name == name)


def test_processes_that_are_forked_inside_are_seen(load, root):
    module = load()
    before = module.plain.__code__
    with codedag.trace(roots=root) as run, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # pytest's own threads
        module.plain(np.ones(2))
        process = multiprocessing.get_context("fork").Process(target=module.plain, args=(np.ones(2),))
        process.start()
        process.join()
    assert process.exitcode == 0
    assert _counted(run, "numpy.sqrt") == 2
    assert module.plain.__code__ is before


def test_a_forked_process_that_leaves_the_block_takes_nothing_away(load, root):
    module = load()
    before, child = module.plain.__code__, -1
    try:
        with codedag.trace(roots=root) as run, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
            module.plain(np.ones(2))
            if child:
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        if child == 0:
            os._exit(0 if module.plain.__code__ is before and not sites.native.is_recording() else 3)
    assert _counted(run, "numpy.sqrt") == 2
