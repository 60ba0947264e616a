"""Regions with reductions and products: run as written and as one kernel, they cannot be told apart."""

from __future__ import annotations

import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codedag.autopilot.moves import find
from codedag.backends.effects import Effects
from codedag.backends.same import same
from codedag.instrument import sites as site_module
from codedag.instrument.program import Program
from codedag.ir.verdict import No
from codedag.migrate import region
from codedag.migrate.fuse.kernel_pool import KernelPool
from codedag.migrate.region import Region
from codedag.migrate.trial import Trial
from codedag.trace.recorder import Recorder
from codedag.tune.compiler import find_compiler
from codedag.tune.measure.inputs import laid_out, values
from codedag.tune.program.program import Buffer

CALLS = 200
PATH = "/generated/program.py"
SOURCE = """
import numpy as np
log = []

def layer_norm(x, gain, shift):
    mean = x.mean(axis=-1, keepdims=True)
    var = x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5) * gain + shift

def softmax(z):
    z = z - z.max(axis=-1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=-1, keepdims=True)

def softmax_in_place(z):
    z = z - np.max(z, axis=1, keepdims=True)
    z = np.exp(z)
    z /= z.sum(axis=1, keepdims=True)
    return z

def standardise(x):
    return (x - x.mean()) / (x.std() + 1e-8)

def standardise_bytes(x):
    y = x.astype(np.float32) / 255.0
    return (y - y.mean(axis=(0, 1))) / y.std(axis=(0, 1))

def decibel(power):
    db = 10.0 * np.log10(np.maximum(power, 1e-10))
    return np.maximum(db, db.max() - 80.0)

def ranges(x):
    low = x.min(axis=0)
    return np.clip((x - low) / (x.max(axis=0) - low + 1e-6), 0.1, 0.9)

def energy(x):
    return ((x - x.mean()) ** 2).sum()

def two_results(x):
    mean = x.mean(axis=1, keepdims=True)
    centred = x - mean
    return centred / centred.std(), mean

def between(x, names):
    mean = x.mean()
    log.append("seen")
    spread = x.std()
    return (x - mean) / (spread + names["eps"])

def changes(x):
    mean, spread = x.mean(), x.std()
    y = x - x.mean()
    x[0] = 3
    return (y + x.sum()) / y.std()

def loops(rows):
    total = 0.0
    for row in rows:
        try:
            d = row - row.mean()
            total = total + (d * d).sum() / len(rows) * d.max()
        except ValueError as error:
            log.append(str(error))
    return total

def stacks(a, b):
    return np.einsum("nik,nkj->nij", a, b)

def pixels(image, matrix):
    return image @ matrix
"""
LIKE: dict[str, list[tuple[str, tuple[int, ...]]]] = {
    "layer_norm": [("f4", (13, 211)), ("f4", (211,)), ("f4", (211,))],
    "softmax": [("f4", (31, 53))],
    "softmax_in_place": [("f8", (31, 53))],
    "standardise": [("f4", (23, 29, 3))],
    "standardise_bytes": [("u1", (23, 29, 3))],
    "decibel": [("f4", (13, 101))],
    "ranges": [("f4", (37, 41))],
    "energy": [("f8", (37, 41))],
    "two_results": [("f4", (37, 41))],
    "changes": [("f4", (37, 41))],
    "stacks": [("f4", (53, 9, 9)), ("f4", (53, 9, 9))],
    "pixels": [("f4", (331, 3)), ("f4", (3, 3))],
}


class NeverDue(Trial):
    """A trial without checks that goes on whatever happens: the kernel's result is what the program gets."""

    def due(self) -> bool:
        self.calls += 1
        return False

    def stop(self, reason: str) -> None:
        self.reason = self.reason or reason


class Applied:
    """The module with one function's regions applied."""

    def __init__(self, name: str, warm: list[Any]) -> None:
        self.program = Program([Path("/generated")])
        self.module = types.ModuleType("generated")
        exec(self.program.load(PATH, SOURCE.encode()), vars(self.module))
        recorder = Recorder(self.program.names)
        site_module.native.start(recorder, self.program.names)
        getattr(self.module, name)(*warm)
        site_module.native.stop()
        file, self.trials = self.program.files[PATH], []
        self.program.settle(PATH, name)
        for found in find.regions(file, name, [t for t in recorder.templates if t.site.info.owner == name]):
            trial, shelf = NeverDue(name), KernelPool(synchronous=True)
            sites, between = ([file.sites[i] for i in part] for part in (found.sites, found.between))
            own = Region(found, sites, between, shelf.loops, trial, Effects())
            self.program.plan(PATH, name, own.variants())
            self.trials.append(trial)
        self.program.install(PATH, [name])


@pytest.fixture(autouse=True)
def small_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(find_compiler(), No):
        pytest.skip("no C compiler")
    for module in (region, find):
        monkeypatch.setattr(module, "ELEMENTS_MIN", 64)


def plain() -> Any:
    module = types.ModuleType("generated")
    exec(compile(SOURCE, PATH, "exec", dont_inherit=True), vars(module))
    return module


def observed(module: Any, name: str, arguments: list[Any]) -> dict[str, Any]:
    """All that one call shows."""
    module.log.clear()
    result: Any = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = getattr(module, name)(*arguments)
        except Exception as error:  # noqa: BLE001 - the other run must raise it too
            result = (type(error).__name__, str(error))
    told = [(w.category.__name__, str(w.message), w.filename, w.lineno) for w in caught]
    return {"result": result, "warned": told, "log": list(module.log), "arguments": arguments}


def compare(name: str, applied: Applied, original: Any, make: Any, what: str) -> None:
    expected, found = observed(original, name, make()), observed(applied.module, name, make())
    assert found["warned"] == expected["warned"], what
    assert found["log"] == expected["log"], what
    for part in ("result", "arguments"):
        verdict = same(expected[part], found[part])
        assert verdict, f"{what}: {part}: {verdict.reason}"


def buffers(name: str) -> list[Buffer]:
    return [Buffer(f"x{k}", dtype, shape, ()) for k, (dtype, shape) in enumerate(LIKE[name])]


@pytest.mark.parametrize("name", LIKE)
def test_two_hundred_random_calls_show_the_same(name: str) -> None:
    draw = np.random.default_rng(len(name))
    applied = Applied(name, [values(one, draw) for one in buffers(name)])
    original = plain()
    assert applied.trials, "no region was found"
    for case in range(CALLS):
        seed = int(draw.integers(1 << 30))

        def make(seed: int = seed, case: int = case) -> list[Any]:
            own = np.random.default_rng(seed)
            return [laid_out(values(one, own, wild=case % 4 == 3), own) for one in buffers(name)]

        compare(name, applied, original, make, f"{name}, case {case}")
    assert sum(trial.calls for trial in applied.trials) > 20, [trial.declined for trial in applied.trials]


@pytest.mark.parametrize("name", [name for name in LIKE if name not in ("stacks", "pixels", "standardise_bytes")])
@pytest.mark.parametrize("extent", [0, 1, 2, 97])
def test_other_extents_show_the_same(name: str, extent: int) -> None:
    draw = np.random.default_rng(extent)
    applied, original = Applied(name, [values(one, draw) for one in buffers(name)]), plain()
    shapes = [(extent, *one.shape[1:]) if len(one.shape) > 1 else one.shape for one in buffers(name)]

    def make() -> list[Any]:
        own = np.random.default_rng(1)
        return [values(b, own, shape=s) for b, s in zip(buffers(name), shapes, strict=True)]

    for _ in range(3):
        compare(name, applied, original, make, f"{name}, extent {extent}")


def test_odd_arguments_show_the_same() -> None:
    applied, original = Applied("standardise", [np.ones((40, 50), np.float32)]), plain()
    odd: list[Any] = [
        None, 3.5, [1.0, 2.0], "text", np.ma.masked_array(np.ones((40, 50)), np.eye(40, 50)), np.ones((40, 50), ">f4"),
        np.ones((40, 50), np.float16), np.array([object()] * 100), np.ones((40, 50), complex),
        np.ones(200, bool), np.float32(3), np.ones((40, 50), np.float32).view([("a", "f4")]),
    ]  # fmt: skip
    for value in odd:
        compare("standardise", applied, original, lambda value=value: [value], repr(type(value)))


def test_calls_between_run_at_their_place() -> None:
    x, names = np.random.default_rng(0).random((40, 50), np.float32), {"eps": 1e-8}
    applied, original = Applied("between", [x, names]), plain()
    for given in ({"eps": 1e-8}, {"eps": np.float32(2)}, {"eps": "text"}, {}):
        compare("between", applied, original, lambda given=given: [x.copy(), given], str(given))


def test_an_exception_in_one_turn_leaves_no_trace_in_the_next() -> None:
    rows = [np.random.default_rng(k).random((40, 50), np.float32) for k in range(4)]
    applied, original = Applied("loops", [rows]), plain()
    bad = np.zeros((0, 5), np.float32)
    for given in (rows, [rows[0], bad, rows[1]], [bad], [rows[0], np.full((40, 50), np.nan, np.float32), rows[2]]):
        compare("loops", applied, original, lambda given=given: [given], str(len(given)))


def test_numpy_settings_are_obeyed() -> None:
    x = np.zeros((40, 50), np.float32)
    applied, original = Applied("standardise", [np.ones((40, 50), np.float32) + x]), plain()
    for setting in ({"divide": "raise"}, {"all": "raise"}, {"all": "ignore"}, {"under": "warn"}):
        with np.errstate(**setting):
            compare("standardise", applied, original, lambda: [x * 1e-30], str(setting))
            compare("standardise", applied, original, lambda: [x + np.inf], str(setting))
