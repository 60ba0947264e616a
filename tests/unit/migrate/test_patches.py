"""A function is replaced everywhere it is held, and put back by identity."""

from __future__ import annotations

import copy
import gc
import importlib
import inspect
import json.decoder
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
import traceback
import types
import warnings
import weakref

import numpy
import pytest
from patched import GETTERS, holders, unreached

from codedag.ir.verdict import Code, No
from codedag.migrate.patches import proxies
from codedag.migrate.patches.library_patches import Patch, Patches
from codedag.migrate.patches.library_patches import _state as patches_state
from codedag.migrate.patches.referrers import Sweep

C_FUNCTION, PYTHON, UFUNC, DISPATCHED = (
    ("operator", "concat"),
    ("textwrap", "indent"),
    ("numpy", "add"),
    ("numpy", "clip"),
)
KINDS = [C_FUNCTION, PYTHON, UFUNC, DISPATCHED]


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    sys.modules.pop("user_of_patches", None)
    left = list(patches_state.sets)
    for patches in left:  # of a test that failed: the others of this process must not meet them
        patches.restore()
    assert left == []
    assert (patches_state.live, patches_state.sets, patches_state.retired) == ({}, [], {})
    assert patches_state.watch not in sys.meta_path


def fresh(source: str, name: str = "f", module: str = "library_of_patches"):
    """A new module with a Python function of its own."""
    made = types.ModuleType(module)
    exec(textwrap.dedent(source), vars(made))
    for value in vars(made).values():
        if isinstance(value, types.FunctionType):
            value.__module__ = module
    sys.modules[module] = made
    return made


@pytest.fixture
def library():
    yield fresh("def f(x, y=1):\n    'Adds.'\n    return x + y\ndef g(x):\n    return f(x)\n")
    sys.modules.pop("library_of_patches", None)


@pytest.mark.parametrize(("module", "name"), KINDS)
def test_every_way_of_holding_is_reached_and_restored(module, name):
    original = getattr(importlib.import_module(module), name)
    user = holders(module, name)
    pair, part, static = user.pair, user.part, vars(user.Static)["op"]
    patches = Patches(Patch(original, lambda *args, **keywords: "replaced"))
    changed = patches.apply()
    proxy = getattr(sys.modules[module], name)
    assert proxy is not original
    assert unreached(user, proxy) == []
    assert changed >= len(GETTERS) - 1
    assert proxy(1, 2) == user.part(1, 2) == user.captured()(3) == user.Static.op() == "replaced"
    back = patches.restore()
    assert unreached(user, original) == []
    assert back >= changed  # whoever was handed the proxy meanwhile has the original again, too
    assert user.pair is pair
    assert user.part is part
    assert vars(user.Static)["op"] is static


def test_bound_methods_that_were_made_before(library):
    original = library.f
    number = types.MethodType(original, 5)
    saved = {"bound": number}
    as_key = types.MethodType(original, 7)
    keys = {as_key: 1}
    with Patches(Patch(original, lambda x, y=1: ("replaced", x, y))):
        assert saved["bound"](2) == ("replaced", 5, 2)
        assert as_key(2) == 9  # its hash would change
        assert keys[as_key] == 1
    assert number.__func__ is original
    assert number(2) == 7


def test_behind_a_bound_method_of_a_stand_is_that_of_the_function(library):
    class Box:
        grow = library.f

    original, box = library.f, Box()
    with Patches(Patch(original)):
        assert proxies.is_proxy(box.grow.__func__)
        found = proxies.behind(box.grow)
        assert (found.__func__, found.__self__) == (original, box)
    assert proxies.behind(box.grow) == box.grow


def test_a_method_of_a_class_stays_a_method(library):
    class Box:
        grow = library.f

        def __add__(self, other):
            return ("added", other)

    original = vars(Box)["grow"]
    box = Box()
    assert box.grow(3) == ("added", 3)  # the interpreter has looked it up before
    with Patches(Patch(original, lambda self, y: ("replaced", self is box, y))):
        assert [box.grow(4) for _ in range(3)] == [("replaced", True, 4)] * 3
        assert inspect.ismethod(box.grow)
        assert vars(Box)["grow"].__get__(box)(5) == vars(Box)["grow"].__call__(box, 5) == ("replaced", True, 5)
    assert vars(Box)["grow"] is original
    assert box.grow(3) == ("added", 3)


def test_dicts_and_tuples_that_the_collector_does_not_know():
    original = numpy.clip
    table, nested = {"f": numpy.clip}, {"a": {"f": numpy.clip}}
    pair = tuple(iter((numpy.clip, 1)))
    keep = [table, nested, pair]
    gc.collect()
    assert not gc.is_tracked(table)
    with Patches(Patch(original, lambda *args: "replaced")):
        assert table["f"](1, 2, 3) == nested["a"]["f"](1, 2, 3) == pair[0](1, 2, 3) == "replaced"
    assert all(one is original for one in (table["f"], nested["a"]["f"], pair[0], keep[2][0]))


def test_a_large_dict_that_many_objects_share_is_looked_at_once():
    words = {str(number): number for number in range(100_000)}
    words["held by this test"] = numpy.clip
    tokens = [types.SimpleNamespace(words=words) for _ in range(20_000)]
    assert not gc.is_tracked(words)
    patches = Patches(Patch(numpy.clip, lambda *args: "replaced"))
    changed = patches.apply()
    assert tokens[0].words["held by this test"]() == "replaced"
    assert changed < 1000
    patches.restore()


def test_what_the_program_froze_is_reached_in_modules(library):
    gc.freeze()
    try:
        with Patches(Patch(library.f, lambda x: "replaced")):
            assert library.g(1) == "replaced"
    finally:
        gc.unfreeze()
    assert library.g(1) == 2


def test_functions_of_the_same_name_are_told_apart():
    made = [fresh("def f(x): return x\ndef g(x): return f(x)", module=f"library_{number}") for number in range(2)]
    for one in made:
        one.f.__module__ = "same"
    sets = [Patches(Patch(one.f, lambda x: "replaced")) for one in made]
    for patches in sets:
        patches.apply()
    sets[0].restore()
    assert (made[0].g(1), made[1].g(1)) == (1, "replaced")
    sets[1].restore()
    for one in made:
        sys.modules.pop(one.__name__)


def test_a_second_apply_and_a_second_restore_do_nothing(library):
    patches = Patches(Patch(library.f, lambda x: "replaced"))
    assert patches.apply() > 0
    proxy = library.f
    assert patches.apply() == 0
    assert library.f is proxy
    assert patches.restore() > 0
    assert patches.restore() == 0
    assert patches.apply() > 0
    assert library.g(1) == "replaced"
    patches.restore()


@pytest.mark.parametrize("first_out", [0, 1])
def test_nested_patches_restore_in_any_order(library, first_out):
    original = library.f
    sets = [Patches(Patch(library.f, lambda x: "old")), Patches(Patch(library.f, lambda x: "new"))]
    sets[0].apply()
    proxy = library.f
    assert sets[1].apply() == 0  # the references are changed already
    assert (library.f is proxy, library.g(1)) == (True, "new")
    assert sets[first_out].restore() == 0
    assert library.g(1) == ("new", "old")[first_out]
    assert sets[1 - first_out].restore() > 0
    assert library.f is original
    assert library.g(1) == 2


def test_what_the_newest_declines_goes_to_the_one_before(library):
    declined = proxies.native.DECLINED
    old = Patches(Patch(library.f, lambda x: "old" if x > 1 else declined))
    new = Patches(Patch(library.f, lambda x: "new" if x > 2 else declined))
    with old, new:
        assert [library.g(x) for x in (1, 2, 3)] == [2, "old", "new"]
    (first,), (second,) = old.counts().values(), new.counts().values()
    assert (first.calls, first.fast, dict(first.declined)) == (2, 1, {"the replacement declined it": 1})
    assert (second.calls, second.fast, sum(second.declined.values())) == (3, 1, 2)


def test_the_replacement_reaches_the_true_original(library):
    space = {"library": library}
    exec("def replacement(x): return ('around', library.f(x), library.g(x))", space)
    with Patches(Patch(library.f, space["replacement"])) as patches:
        assert library.f(1) == ("around", 2, 2)
        assert patches.counts()["library_of_patches.f"].calls == 1
    with Patches(Patch(library.f, space["replacement"])), Patches(Patch(library.f, space["replacement"])):
        assert library.f(1) == ("around", 2, 2)


def test_another_thread_is_replaced_while_one_runs_the_replacement(library):
    inside, go, seen = threading.Event(), threading.Event(), []

    def replacement(x):
        if x == 0:
            inside.set()
            assert go.wait(10)
        return "replaced"

    with Patches(Patch(library.f, replacement)):
        thread = threading.Thread(target=lambda: seen.append(library.f(0)))
        thread.start()
        assert inside.wait(10)
        seen.append(library.f(1))
        go.set()
        thread.join()
    assert seen == ["replaced", "replaced"]


def test_an_exception_in_the_middle_undoes_what_was_done(library, monkeypatch):

    original, user = library.f, holders("library_of_patches", "f")
    real, done = Sweep._swap, []

    def failing(self, *args):
        real(self, *args)
        done.append(1)
        if len(done) == 7:
            raise MemoryError

    monkeypatch.setattr(Sweep, "_swap", failing)
    patches = Patches(Patch(original, lambda x: "replaced"))
    with pytest.raises(MemoryError):
        patches.apply()
    assert unreached(user, original) == []
    assert library.f is original


def test_what_the_program_changed_meanwhile_is_left(library):
    original, user = library.f, holders("library_of_patches", "f")
    patches = Patches(Patch(original, lambda x: "replaced"))
    patches.apply()
    user.other, user.items[1], user.table["r"] = "mine", "mine too", len
    patches.restore()
    assert (user.other, user.items[1], user.table["r"]) == ("mine", "mine too", len)
    assert user.captured() is original


def test_items_that_move_while_they_are_replaced(library, monkeypatch):
    real, items = proxies.native.swap, [library.f, library.f]
    original, moved, extension = library.f, [], proxies.native

    class Moving:
        def __getattr__(self, name):
            return getattr(extension, name)

        def swap(self, holder, key, old, new):
            if holder is items and not moved:
                moved.append(items.insert(0, 1))  # another thread, just before
            return real(holder, key, old, new)

    patches = Patches(Patch(library.f, lambda x: "replaced"))
    monkeypatch.setattr(proxies, "native", Moving())
    patches.apply()
    monkeypatch.undo()
    assert moved == [None]
    assert [item(1) for item in items[1:]] == ["replaced"] * 2
    patches.restore()
    assert items[1] is items[2] is original


def test_an_interrupted_restore_can_be_made_good(library, monkeypatch):

    original, user = library.f, holders("library_of_patches", "f")
    patches = Patches(Patch(library.f, lambda x: "replaced"))
    patches.apply()
    monkeypatch.setattr(Sweep, "_swap", lambda self, *args: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        patches.restore()
    assert library.g(1) == user.part(1) == 2  # whoever holds a proxy still is passed through
    monkeypatch.undo()
    patches.apply()
    assert library.g(1) == user.part(1) == "replaced"
    patches.restore()
    assert unreached(user, original) == []


def test_two_patches_of_one_function_in_one_set(library):
    original = library.f
    with Patches(Patch(library.f, lambda x: "first"), Patch(library.f, lambda x: "second")):
        assert library.g(1) == "second"
    assert library.f is original


def test_what_was_made_while_it_was_applied_is_put_back_too(library):
    original = library.f
    patches = Patches(Patch(original, lambda x: "replaced"))
    patches.apply()
    user = holders("library_of_patches", "f")
    bound = {"f": types.MethodType(library.f, 1)}
    assert unreached(user, original) == list(GETTERS)
    patches.restore()
    assert unreached(user, original) == []
    assert bound["f"].__func__ is original


def test_keys_are_left_but_find_the_function(library):
    original = library.f
    members, keys = {library.f, *range(100), "a"}, {library.f: 1}
    frozen, order = frozenset(members), list(map(repr, members))
    patches = Patches(Patch(original, lambda x: "replaced"))
    patches.apply()
    assert library.f in members
    assert keys[library.f] == 1
    assert library.f == original
    assert [one(1) for one in (*members, *frozen) if callable(one)] == ["replaced"] * 2
    assert list(map(repr, members)) == order
    members.discard(library.f)
    members.add(library.f)
    patches.restore()
    (member,) = filter(callable, members)
    (other,) = filter(callable, frozen)
    assert next(iter(keys)) is member is other is original


def test_a_registry_with_weak_keys_keeps_what_it_learnt_while_patched(library):
    original = library.f
    registry = weakref.WeakKeyDictionary()
    with Patches(Patch(library.f)):
        registry[library.f] = "known"
        proxy = weakref.ref(library.f)
    assert library.f is original
    assert registry[library.f] == "known"
    with Patches(Patch(library.f)):
        assert library.f is proxy()
    patches_state.retired.clear()


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (numpy.ndarray.mean, "written in C"),
        (str.upper, "written in C"),
        (dict, "class"),
        (3, "cannot be called"),
        (json.decoder.JSONDecoder().decode, "bound method"),
    ],
)
def test_what_cannot_be_replaced_is_refused_with_a_reason(what, words):
    patches = Patches(Patch(what, lambda *args: None))
    assert patches.apply() == 0
    (refused,) = patches.refused.values()
    assert words in refused.reason
    patches.restore()


@pytest.mark.parametrize(("module", "name"), KINDS)
def test_it_looks_like_the_function(module, name):
    original = getattr(importlib.import_module(module), name)
    before = _attributes(original)
    texts = repr(original), str(original), _signature(original), dir(original), hash(original)
    with Patches(Patch(original)):
        proxy = getattr(sys.modules[module], name)
        assert proxy.__wrapped__ is original
        assert _attributes(proxy) == before
        assert (repr(proxy), str(proxy), _signature(proxy), dir(proxy), hash(proxy)) == texts
        assert isinstance(proxy, type(original))
        assert _takes_weak_references(proxy) == _takes_weak_references(original)
        assert _checks(proxy) == _checks(original)
        assert copy.copy(proxy) is copy.deepcopy(proxy) is proxy
        with pytest.raises(AttributeError) as theirs:
            original.missing
        with pytest.raises(AttributeError) as ours:
            proxy.missing
        assert str(ours.value) == str(theirs.value)


def _attributes(function):
    return [getattr(function, one, "none") for one in ("__name__", "__qualname__", "__module__", "__doc__")]


def _checks(function):
    return [check(function) for check in (inspect.isfunction, inspect.isbuiltin, inspect.isroutine, callable)]


def _takes_weak_references(function):
    try:
        return weakref.ref(function)() is function
    except TypeError:
        return False


def _signature(function):
    try:
        return str(inspect.signature(function))
    except ValueError as error:
        return str(error)


def test_attributes_that_the_program_sets_stay(library):
    original = library.f
    with Patches(Patch(original)):
        library.f.note = "mine"
    assert library.f is original
    assert original.note == "mine"


def test_methods_of_a_ufunc_work():
    with Patches(Patch(numpy.add)) as patches:
        assert numpy.add.reduce([1, 2, 3]) == 6
        assert numpy.add(numpy.arange(3), 1).tolist() == [1, 2, 3]
        assert numpy.add.nin == 2
    assert patches.counts()["numpy.add"].calls == 1


@pytest.mark.parametrize(("module", "name"), KINDS)
def test_pickles_name_the_original(module, name):
    original = getattr(importlib.import_module(module), name)
    ways = [(dumps, n) for dumps in (pickle.dumps, pickle._dumps) for n in range(pickle.HIGHEST_PROTOCOL + 1)]
    plain = [dumps([original, {"f": original}], protocol) for dumps, protocol in ways]
    with Patches(Patch(original)):
        proxy = getattr(sys.modules[module], name)
        made = [dumps([proxy, {"f": proxy}], protocol) for dumps, protocol in ways]
        assert all(pickle.loads(one)[0] is proxy for one in (*made, *plain))
    assert made == plain
    assert all(pickle.loads(one)[0] is original for one in made)


def test_tracebacks_and_warnings_have_no_frame_of_ours(library):
    exec("def f(x):\n import warnings\n warnings.warn('here', stacklevel=2)\n raise ValueError(x)", vars(library))
    seen = []
    for patch in (None, Patch(library.f), Patch(library.f, lambda x: proxies.native.DECLINED)):
        patches = Patches(*filter(None, [patch]))
        with patches, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with pytest.raises(ValueError) as error:
                library.f(1)
        names = [frame.name for frame in traceback.extract_tb(error.value.__traceback__)]
        seen.append((names, caught[0].filename))
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][1] == __file__


@pytest.mark.slow
def test_threads_see_the_original_or_the_replacement(library):
    user = holders("library_of_patches", "f")
    original, seen, stop = library.f, set(), threading.Event()

    def call():
        ways = (lambda: user.f(1), lambda: user.part(1), lambda: user.items[1](1), lambda: user.pair[0](1))
        ways += (lambda: user.Static.op(1), lambda: user.captured()(1), lambda: user.default()(1))
        while not stop.is_set():
            for way in ways:
                try:
                    seen.add(way())
                except (TypeError, AttributeError, ReferenceError, SystemError) as error:
                    seen.add(repr(error))

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        with Patches(Patch(original, lambda x: "replaced")):
            while "replaced" not in seen:
                time.sleep(0.001)
    stop.set()
    for thread in threads:
        thread.join()
    assert seen == {2, "replaced"}
    assert unreached(user, original) == []


def test_nothing_is_kept_alive():
    class Holder:
        pass

    made = fresh("def f(x): return x")
    holder, replacement = Holder(), eval("lambda x: 1", {})
    holder.f = made.f
    watched = [weakref.ref(one) for one in (holder, replacement, made.f, made)]  # a proxy would keep the function
    patches = Patches(Patch(made.f, replacement))
    patches.apply()
    del holder
    assert watched[0]() is None  # no holder is kept alive, not even while applied
    patches.restore()
    del sys.modules[made.__name__]
    del patches, replacement, made
    gc.collect()
    assert [one() for one in watched] == [None] * 4


def test_layers_answer_decline_or_see_the_result(library):
    native = proxies.native
    layer = native.Layer(lambda x: native.DECLINED if x else "fast")
    proxy = native.BindingProxy(library.f)
    native.set_layers(proxy, (layer,))
    seen = []
    then = native.Layer(lambda x: native.Then(seen.append))
    assert (proxy(1), proxy(0)) == (2, "fast")
    assert (layer.calls, layer.fast, layer.declined) == (2, 1, 1)
    native.set_layers(proxy, (layer, then))
    assert (proxy(5), seen, then.fast, then.checked) == (6, [6], 0, 1)
    then.run = None
    assert (proxy(6), seen, then.calls) == (7, [6], 2)


def test_a_module_loaded_later_is_patched_too(library, tmp_path, monkeypatch):
    original = library.f
    hidden = {original: 1}  # past us: the module takes it from the key of a dict
    sys.modules["library_of_patches"].hidden = hidden
    (tmp_path / "late_user.py").write_text("from library_of_patches import f, hidden\n(past,) = hidden\n")
    (tmp_path / "late_broken.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with Patches(Patch(original, lambda x: "replaced")):
        late = importlib.import_module("late_user")
        assert late.f(1) == late.past(1) == "replaced"
        assert "exec_module" not in vars(late.__spec__.loader)
        importlib.reload(late)
        assert late.past(1) == "replaced"
        with pytest.raises(ZeroDivisionError) as error:
            import late_broken  # noqa: F401
        files = [frame.filename for frame in traceback.extract_tb(error.value.__traceback__)]
        assert not [file for file in files if "codedag" in file and "tests" not in file]
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("there_is_no_such_module")
    assert late.f is late.past is original
    sys.modules.pop("late_user")


def test_a_library_that_is_being_loaded_is_left_alone(tmp_path, monkeypatch):
    inner = tmp_path / "outer_library" / "part"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").write_text("")
    (inner / "_fast.py").write_text("def f(x):\n    return x\n")
    (inner / "__init__.py").write_text("from ._fast import f as _f\ndef f(x):\n    return _f(x) + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    patches = Patches(Patch("outer_library.part.f", lambda x: "replaced"))
    patches.apply()
    part = importlib.import_module("outer_library.part")
    assert (part.f(1), part._f(1)) == ("replaced", 1), "the function of the same name inside is another one"
    patches.restore()
    assert part.f(1) == 2
    for name in [each for each in sys.modules if each.startswith("outer_library")]:
        sys.modules.pop(name)


def test_a_function_by_name_waits_for_its_library(tmp_path, monkeypatch):
    (tmp_path / "late_library.py").write_text("def f(x): return x\ndef g(x): return f(x)\n")
    monkeypatch.syspath_prepend(tmp_path)
    patches = Patches(Patch("late_library.f", lambda x: "replaced"))
    assert patches.apply() == 0
    assert patches.refused == {"late_library.f": No("late_library.f is not loaded yet", Code.NOT_LOADED)}
    assert "late_library" not in sys.modules
    late = importlib.import_module("late_library")
    assert late.g(1) == "replaced"
    assert patches.refused == {}
    patches.restore()
    assert late.g(1) == 1
    assert isinstance(late.f, types.FunctionType)
    sys.modules.pop("late_library")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_keeps_it_and_can_restore(library):
    patches = Patches(Patch(library.f, lambda x: "replaced"))
    patches.apply()
    child = os.fork()
    if child == 0:
        good = library.g(1) == "replaced" and patches.restore() > 0 and library.g(1) == 2
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert library.g(1) == "replaced"
    patches.restore()


def test_codedags_own_modules_are_not_touched():
    import codedag.migrate.patches.referrers as ours

    original = ours.proxies.name_of
    user = types.ModuleType("user_of_patches")
    user.f = original
    sys.modules["user_of_patches"] = user
    with Patches(Patch(original, lambda function: "replaced")):
        assert user.f(1) == "replaced"
        assert proxies.name_of is original
    assert user.f is original


def test_without_the_extension_nothing_is_replaced_and_the_reason_is_told(tmp_path):
    code = """
        import sys
        sys.modules["codedag.migrate._patch"] = None
        import textwrap
        import codedag
        from codedag.api.migrator import UniversalWrapper
        from codedag.migrate.patches.library_patches import Patch, Patches
        before = textwrap.indent
        patches = Patches(Patch(before, lambda *args: "replaced"))
        with patches:
            assert textwrap.indent is before
            import wave
        assert before("a", " ") == " a"
        assert "C extension" in patches.refused["textwrap.indent"].reason
        assert UniversalWrapper("textwrap.indent", before)("a", " ") == " a"
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, cwd=tmp_path, timeout=120)
