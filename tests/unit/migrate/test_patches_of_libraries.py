"""Patches of real libraries, substitutions on trial, and random holders."""

from __future__ import annotations

import functools
import gc
import importlib
import subprocess
import sys
import types

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from patched import holders, unreached

from codedag.backends import registry
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.ir.verdict import No, Yes
from codedag.migrate.patches.library_patches import REASONS, Dispatcher, Patch, Patches
from codedag.migrate.trial import FIRST

LIBRARIES = [
    ("cv2", "resize"),
    ("scipy.ndimage", "median_filter"),
    ("torch", "add"),
    ("torch.nn.functional", "relu"),
    ("scipy.special", "expit"),
]


@pytest.fixture(autouse=True)
def no_user():
    yield
    sys.modules.pop("user_of_patches", None)
    sys.modules.pop("toy_of_patches", None)


@pytest.mark.parametrize(("module", "name"), LIBRARIES)
def test_every_way_of_holding_a_librarys_function(module, name):
    pytest.importorskip(module.partition(".")[0])
    original = getattr(importlib.import_module(module), name)
    user = holders(module, name)
    with Patches(Patch(original, lambda *args, **keywords: "replaced")):
        proxy = getattr(sys.modules[module], name)
        missed = unreached(user, proxy)
        results = {user.part(1), user.table["r"](2), user.captured()(3), user.plain.f(4), user.default()(5)}
    assert (missed, results) == ([], {"replaced"})
    assert unreached(user, original) == []


def test_calls_inside_a_package_are_reached():
    ndimage, filters = pytest.importorskip("scipy.ndimage"), pytest.importorskip("skimage.filters")
    image = numpy.arange(49.0).reshape(7, 7)
    expected = filters.gaussian(image, 1)
    patch = Patch(ndimage.gaussian_filter)
    with Patches(patch):
        assert numpy.array_equal(filters.gaussian(image, 1), expected)
    assert patch.counts().calls >= 1


def test_a_dispatched_torch_function_still_dispatches():
    torch = pytest.importorskip("torch")

    class Logged(torch.Tensor):
        seen = []

        @classmethod
        def __torch_function__(cls, func, kinds, args=(), kwargs=None):
            cls.seen.append(func)
            return super().__torch_function__(func, kinds, args, kwargs or {})

    with Patches(Patch(torch.add)):
        torch.add(torch.ones(2).as_subclass(Logged), 1)
        assert torch.add in Logged.seen  # equal and of the same hash, though not the same object


NUMBA = """
import math, numba, numpy
from codedag.migrate.patches.library_patches import Patch, Patches
from numpy import exp
space = globals()
def compiled(text):
    exec("def made(x): return " + text, space)
    return str(numba.njit(made)(numpy.ones(3)))
texts = ["numpy.exp(x)", "exp(x)", "numpy.clip(x, 0, 1)", "math.sin(x[0])"]
with Patches(*map(Patch, (numpy.exp, numpy.clip, math.sin))):
    inside = list(map(compiled, texts))
assert inside == list(map(compiled, texts)), inside
print("same")
"""


def test_numba_compiles_calls_of_patched_functions_then_and_later():
    pytest.importorskip("numba")
    done = subprocess.run([sys.executable, "-c", NUMBA], capture_output=True, text=True, timeout=600)
    assert (done.stdout.strip(), done.stderr) == ("same", "")


# ---- substitutions ----


def toy():
    made = types.ModuleType("toy_of_patches")
    exec("def double(x):\n    'Doubles.'\n    if x is None: raise KeyError(x)\n    return x * 2", vars(made))
    made.double.__module__ = "toy_of_patches"
    sys.modules["toy_of_patches"] = made
    return made


@pytest.fixture
def registered():
    registry.all_substitutions()  # loaded, so that they are among what is put back
    library, before = toy(), dict(registry._table._by_key)

    def make(run, guard=lambda call: Yes):
        made = substitutes("toy_of_patches.double", into="toy", gives=EXACT, needs="")(run)
        made.guard(guard)
        made.calls(lambda rng: Call.of(rng.random()))
        return made

    yield library, make
    registry._table._by_key = before
    registry._table._index()


def test_a_substitution_is_guarded_checked_and_counted(registered):
    library, make = registered
    ran = []

    def run(x):
        ran.append(x)
        return x + x

    made = make(run, lambda call: Yes if isinstance(call.x, float) else No(f"x is a {type(call.x).__name__}"))
    with Patches(Patch(library.double, Dispatcher(made, demote=False))) as patches:  # how fast it is here is no matter
        results = [library.double(x) for x in (1.5, "ab", 2, 2.5)] + [library.double(1.0) for _ in range(40)]
        with pytest.raises(KeyError):
            library.double(None)
        with pytest.raises(TypeError):
            library.double()
    assert results == [3.0, "abab", 4, 5.0] + [2.0] * 40
    counts = patches.counts()["toy_of_patches.double"]
    assert len(ran) == 42
    assert 0 < counts.fast <= 42 - FIRST
    assert counts.calls == 46
    assert counts.fast + counts.checked == 42
    assert counts.declined["x is a str"] == counts.declined["x is a int"] == counts.declined["x is a NoneType"] == 1
    assert sum(counts.declined.values()) == 4


def test_a_wrong_substitution_is_found_and_taken_back(registered):
    library, make = registered
    with Patches(Patch(library.double, make(lambda x: x * 3))) as patches:
        assert [library.double(2.0) for _ in range(20)] == [4.0] * 20
    counts = patches.counts()["toy_of_patches.double"]
    assert (counts.mismatches, counts.fast, counts.checked, counts.calls) == (1, 0, 1, 20)
    assert [("differed" in reason, calls) for reason, calls in counts.declined.items()] == [(True, 19)]
    assert patches.patches[0].layer.run is None  # from then on its calls are only counted


def test_a_failing_substitution_never_shows(registered):
    library, make = registered

    def run(x):
        raise RuntimeError("ours")

    with Patches(Patch(library.double, make(run))) as patches:
        assert [library.double(2.0) for _ in range(20)] == [4.0] * 20
    assert sum(patches.counts()["toy_of_patches.double"].declined.values()) == 20


def test_the_reasons_are_bounded(registered):
    library, make = registered
    with Patches(Patch(library.double, make(lambda x: x, lambda call: No(f"not {call.x}")))) as patches:
        for number in range(90):
            library.double(number)
    declined = patches.counts()["toy_of_patches.double"].declined
    assert len(declined) == REASONS + 1
    assert sum(declined.values()) == 90


# ---- random holders ----


class Thing:
    """An object with an attribute."""


class Slots:
    __slots__ = ("f",)


def _thing(kind, value):
    made = kind()
    made.f = value
    return made


WRAPS = {
    "list": (lambda v: [0, v], lambda h: h[1]),
    "dict": (lambda v: {"f": v}, lambda h: h["f"]),
    "tuple": (lambda v: (v, 1), lambda h: h[0]),
    "thing": (lambda v: _thing(Thing, v), lambda h: h.f),
    "slots": (lambda v: _thing(Slots, v), lambda h: h.f),
    "cell": (types.CellType, lambda h: h.cell_contents),
    "namespace": (lambda v: types.SimpleNamespace(f=v), lambda h: h.f),
    "partial": (lambda v: functools.partial(len, v), lambda h: h.args[0]),
    "class": (lambda v: type("C", (), {"f": staticmethod(v) if callable(v) else v}), lambda h: h.f),
}


SHAPES = st.lists(st.lists(st.sampled_from(sorted(WRAPS)), min_size=1, max_size=4), min_size=1, max_size=12)


@pytest.mark.parametrize("examples", [8, pytest.param(100, marks=pytest.mark.long)])
def test_after_restore_every_random_holder_has_the_original(examples):
    check = given(shapes=SHAPES, late=st.integers(0, 12), collect=st.booleans())(_check_random_holders)
    gc.collect()
    gc.freeze()  # what other tests have left in this process is not looked through a hundred times
    try:
        settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)(check)()
    finally:
        gc.unfreeze()


def _check_random_holders(shapes, late, collect):
    library = toy()
    original = library.double
    built = [_build(shape, library) for shape in shapes[late:]]
    if collect:
        gc.collect()
    patches = Patches(Patch(original, lambda x: "replaced"))
    patches.apply()
    proxy = library.double
    built += [_build(shape, library) for shape in shapes[:late]]
    order = shapes[late:] + shapes[:late]
    missed = [shape for shape, made in zip(order, built, strict=True) if _inner(shape, made) is not proxy]
    patches.restore()
    kept = [shape for shape, made in zip(order, built, strict=True) if type(_inner(shape, made)) is not type(_inner)]
    assert (missed, kept) == ([], [])
    assert library.double is original
    assert all(map(functools.partial(_is_it, original), order, built))


def _is_it(original, shape, made):
    return _inner(shape, made) is original


def _build(shape, library):
    value = library.double
    for name in shape:
        value = WRAPS[name][0](value)
    return value


def _inner(shape, made):
    for name in reversed(shape):
        made = WRAPS[name][1](made)
    return made
