"""Native chains: their tables are those of numpy bit for bit or refused, and programs with them are as plain ones."""

from __future__ import annotations

import random
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("codedag.migrate._chain")

sys.path.insert(0, str(Path(__file__).resolve().parent))
from chain_runs import NeverDue, fused_module, plain_module

from codedag.backends.same import same
from codedag.migrate import _chain
from codedag.migrate.fuse import native_chain

OPERATIONS = {
    _chain.ADD: lambda x, v: x + v,
    _chain.SUB: lambda x, v: x - v,
    _chain.RSUB: lambda x, v: v - x,
    _chain.MUL: lambda x, v: x * v,
    _chain.DIV: lambda x, v: x / v,
    _chain.RDIV: lambda x, v: v / x,
    _chain.LEAST: np.maximum,
    _chain.MOST: np.minimum,
    _chain.NEG: lambda x, v: -x,
    _chain.ABS: lambda x, v: np.absolute(x),
    _chain.ROOT: lambda x, v: np.sqrt(x),
    _chain.SQUARE: lambda x, v: np.square(x),
}
TYPES = {_chain.SINGLE: np.float32, _chain.DOUBLE: np.float64}
HARD = (0.0, -0.0, 1.0, 255.0, 1e-40, 1e38, 3e38, 1e-300, 1e308, float("inf"), float("nan"), -1.0, 0.1, 1 / 3)


def number(chance: random.Random) -> float:
    return chance.choice(HARD) if chance.random() < 0.2 else chance.uniform(-3, 3) * 10 ** chance.randrange(-2, 4)


def case(chance: random.Random):
    """Operations, the numbers they take, and how many rows."""
    rows, ops, numbers = chance.choice((1, 3, 4)), [], []
    for _ in range(chance.randrange(1, 8)):
        code, kind = chance.choice(list(OPERATIONS)), chance.choice(list(TYPES))
        if ops and kind < ops[-1][1]:
            ops.append((_chain.CAST, kind, -1, 0.0))
        form = chance.random()
        if form < 0.4:
            ops.append((code, kind, -1, number(chance)))
        else:
            numbers.append(tuple(number(chance) for _ in range(rows if form < 0.7 else 1)))
            ops.append((code, kind, len(numbers) - 1, 0.0))
    ops.append((_chain.CAST, chance.choice((_chain.SINGLE, _chain.DOUBLE)), -1, 0.0))
    return tuple(ops), tuple(numbers), rows


def by_numpy(ops, numbers, rows):
    """The table as numpy computes it; None where numpy would warn."""
    x = np.repeat(np.arange(256, dtype=np.uint8)[None], rows, 0)
    try:
        with np.errstate(all="raise"):
            for code, kind, source, value in ops:
                x = x.astype(TYPES[kind])
                if code == _chain.CAST:
                    continue
                taken = np.array(numbers[source] if source >= 0 else [value]).astype(TYPES[kind])[:, None]
                x = OPERATIONS[code](x, taken)
    except FloatingPointError:
        return None
    return np.ascontiguousarray(x).tobytes()


def test_tables_are_those_of_numpy_or_refused(seed):
    chance, made = random.Random(seed), 0
    for _ in range(3000):
        ops, numbers, rows = case(chance)
        table = _chain.table(ops, numbers, rows)
        if table is None:
            continue
        made += 1
        assert table == by_numpy(ops, numbers, rows), (ops, numbers, rows)
    assert made > 300


PROGRAMS = {
    "float32": """
    image = np.clip(image.astype(np.float32) * a + b, 0, 255)
    image = (image / 255.0 - mean) / np.array([0.229, 0.224, 0.225])
    return torch.from_numpy(image.transpose(2, 0, 1)).float()""",
    "float64": """
    image = (image / 255.0 - mean) / 0.25
    image = image * a
    return np.ascontiguousarray(image.transpose(2, 0, 1).astype(np.float32))""",
    "in place": """
    image = image.astype(np.float32)
    image *= a
    image += b
    image /= 255
    return torch.tensor(image.transpose(2, 0, 1), dtype=torch.float32)""",
    "bytes again": """
    image = np.clip(image * a + b, 0.0, 255.0).astype(np.uint8)
    return image""",
    "reversed": """
    image = 1.0 - np.float32(image) / 255.0
    image = np.maximum(-image * a, b) - mean.astype(np.float32)
    return torch.from_numpy(image).permute(2, 0, 1).contiguous()""",
    "keywords": """
    image = np.clip(image.astype(np.float64, copy=True) - a, a_min=-5, a_max=300)
    image = np.sqrt(np.square(image) + 1.0) * random.uniform(0.5, 1.5)
    return np.array(image, dtype=np.float32)""",
}
SOURCE = "import random\nimport numpy as np\nimport torch\ndef f(image, a, b, mean):"


@pytest.fixture(scope="module", autouse=True)
def kernels_once(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CODEDAG_HOME", str(tmp_path_factory.mktemp("kernels")))
        yield


@pytest.fixture(autouse=True)
def codedag_home() -> None:
    """Instead of a home per test: the one above."""


@pytest.fixture
def counted(monkeypatch):
    """Counts results of the extension: the trial is asked from there alone while the other way is not taken."""
    counts = {"all": 0, "slow": 0}
    due, finish = NeverDue.due, chain_finish()

    def count(self):
        counts["all"] += 1
        return due(self)

    def slow(self, *args):
        counts["slow"] += 1
        return finish(self, *args)

    monkeypatch.setattr(NeverDue, "due", count)
    monkeypatch.setattr("codedag.migrate.fuse.chain.Chain._finish", slow)
    return counts


def chain_finish():
    from codedag.migrate.fuse.chain import Chain

    return Chain._finish


def arguments(chance, generator):
    shape = chance.choice(((40, 50, 3), (64, 33, 3), (50, 40, 3)))
    image = generator.integers(0, 256, shape, dtype=np.uint8)
    image = image[::-1] if chance.random() < 0.2 else image
    a = chance.choice((1.5, 2, 0.0, -0.0, np.float64(1.25), chance.uniform(0.5, 2), 1e-40, 1e300, float("nan"), True))
    b = chance.choice((0.0, -0.0, 3, chance.uniform(-20, 20), chance.uniform(-20, 20), float("inf")))
    mean = generator.uniform(0, 1, 3)
    if chance.random() < 0.85:
        return image, chance.uniform(0.5, 2), chance.uniform(-9, 9), mean
    return image, a, b, mean.astype(chance.choice((np.float64, np.float32)))


def outcome(function, given, state):
    random.seed(state)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result = function(*given)
        except Exception as error:  # noqa: BLE001 - whatever it is must be the same
            result = (type(error), str(error))
    return result, [(str(one.message), one.category) for one in seen], random.getstate()


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_cannot_be_told_from_plain_ones(name, seed, counted):
    source = SOURCE + PROGRAMS[name]
    chance, generator = random.Random(f"{seed}{name}"), np.random.default_rng(seed)
    usual = (generator.integers(0, 256, (40, 50, 3), dtype=np.uint8), 1.5, 2.5, np.array([0.485, 0.456, 0.406]))
    plain = plain_module(source)
    fused = fused_module(source, lambda module: [module.f(usual[0].copy(), *usual[1:]) for _ in range(3)])
    for number in range(120):
        given = usual if number < 2 else arguments(chance, generator)
        expected, warned, after = outcome(plain.f, given, number)
        got, warned_too, after_too = outcome(fused.module.f, given, number)
        assert same(expected, got), (name, number, given[1:])
        assert (warned, after) == (warned_too, after_too), (name, number, given[1:])
    assert not fused.reasons()
    assert counted["all"] - counted["slow"] > 20, counted


def test_without_the_extension_chains_go_on_in_python(monkeypatch, counted):
    monkeypatch.setattr(native_chain, "native", None)
    source = SOURCE + PROGRAMS["float32"]
    image, mean = np.full((40, 50, 3), 7, np.uint8), np.array([0.4, 0.5, 0.6])
    fused = fused_module(source, lambda module: [module.f(image.copy(), 1.5, 2.5, mean) for _ in range(3)])
    for number in range(5):
        given = (image, 1.0 + number, 2.5, mean)
        assert same(plain_module(source).f(*given), fused.module.f(*given))
    assert counted["all"] == counted["slow"] == 5


def test_threads_and_many_shapes_do_not_disturb_each_other(seed):
    source = SOURCE + PROGRAMS["float32"]
    mean = np.array([0.485, 0.456, 0.406])
    image = np.random.default_rng(seed).integers(0, 256, (60, 60, 3), dtype=np.uint8)
    plain = plain_module(source)
    fused = fused_module(source, lambda module: [module.f(image.copy(), 1.5, 2.5, mean) for _ in range(3)])
    wrong: list[tuple[int, int]] = []

    def work(number: int) -> None:
        chance = random.Random(f"{seed}{number}")
        for call in range(60):
            part = image[: 40 + chance.randrange(20), : 40 + chance.randrange(20)].copy()  # more than are remembered
            # an int now and then is analysed anew
            given = (part, chance.uniform(0.5, 2) if chance.random() < 0.9 else 2, chance.uniform(-9, 9), mean)
            if not same(plain.f(*given), fused.module.f(*given)):
                wrong.append((number, call))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert not fused.reasons()
