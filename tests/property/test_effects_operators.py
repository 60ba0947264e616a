"""What is said about operators against what they do, for every pair of a pool of operands."""

import copy
import itertools
import operator
import warnings

import numpy as np
import pytest
from test_effects_honesty import _frozen, _shares, _states

from codedag.backends.known import Effect, Known, known_operator

torch = pytest.importorskip("torch")

BINARY = "add sub mul truediv floordiv mod pow matmul lshift rshift or_ xor and_ lt le gt ge eq ne getitem contains"
INPLACE = "iadd isub imul itruediv ifloordiv imod ipow imatmul ilshift irshift ior ixor iand"
UNARY = "neg pos invert abs not_"


def operands(seed):
    numbers = np.random.default_rng(seed)
    real = numbers.random((3, 3))
    return [
        2, 1.5, True, 1j, "ab%s", b"ab", (1, 2), [1, 2], [real, 3], {"a": 1, 2: real}, {1, 2}, range(4), slice(0, 2),
        None, np.float32(1.5), np.int64(2), real, real[0], numbers.integers(0, 9, (3, 3), dtype=np.uint8), real > 0.5,
        np.array(2), [0, 1], (0, 1), np.array([0, 1]), torch.from_numpy(real.copy()), torch.arange(3),
        torch.tensor(2), torch.tensor([True]),
    ]  # fmt: skip


def problems(name, values):
    """Where one operation does other than it is said to do; None if nothing is said or it cannot be done."""
    known = known_operator(name, values)
    if not isinstance(known, Known):
        return None
    function, values = getattr(operator, name), tuple(map(copy.deepcopy, values))
    before, states = [_frozen(value) for value in values], _states()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            first = function(*values)
            kept, second = _frozen(first), None if known.writes else function(*values)
    except (TypeError, ValueError, IndexError, KeyError, ZeroDivisionError, OverflowError, RuntimeError):
        return None
    found = [f"operand {n} changes" for n, v in enumerate(values) if _frozen(v) != before[n] and n not in known.writes]
    found += ["a generator moves"] if _states() != states else []
    found += ["shares memory"] if known.fresh and _shares(first, values) else []
    found += ["not the same twice"] if not known.writes and _frozen(second) != kept else []
    return found + (["two results share memory"] if known.fresh and not known.writes and _shares(first, second) else [])


@pytest.mark.parametrize("name", f"{BINARY} {INPLACE}".split())
def test_operators_of_two_do_what_is_said(name, seed):
    looked = 0
    for values in itertools.product(operands(seed), repeat=2):
        found = problems(name, values)
        looked += found is not None
        assert not found, (name, values, found)
    assert looked >= 5


@pytest.mark.parametrize("name", UNARY.split())
def test_operators_of_one_do_what_is_said(name, seed):
    looked = 0
    for value in operands(seed):
        found = problems(name, (value,))
        looked += found is not None
        assert not found, (name, value, found)
    assert looked >= 5


def test_setting_items_writes_the_holder_alone(seed):
    looked = 0
    for holder, key, value in itertools.product(operands(seed), [0, "a", slice(0, 1), (0, 1)], operands(seed)):
        found = problems("setitem", (holder, key, value))
        looked += found is not None
        assert not found, (holder, key, value, found)
    assert looked >= 30
    assert known_operator("setitem", ([1], 0, 2)).effect is Effect.WRITES
