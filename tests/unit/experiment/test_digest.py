"""Digests tell apart whatever a program can tell apart, and only that."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codedag.experiment.digest import digest


@dataclasses.dataclass
class Item:
    x: object
    y: object = 1


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
VALUES = st.recursive(SCALARS, lambda some: st.lists(some) | st.tuples(some, some) | st.dictionaries(st.text(), some))


def _same(one, two):
    """Equal, with equal types all the way down: what digests must tell."""
    if type(one) is not type(two):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(_same, one, two))
    if isinstance(one, dict):
        return _same(list(one.items()), list(two.items()))
    return repr(one) == repr(two)


@pytest.mark.slow
@given(VALUES, VALUES)
def test_digests_are_equal_exactly_for_equal_values(one, two):
    assert (digest(one) == digest(two)) == _same(one, two)


DIFFERENT = [
    1, 1.0, True, "1", b"1", None, [1], (1,), [[1]], [1, 1], {"a": 1}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {1}, {1, 2},
    Item(1), Item(2), Item(1, 2), 0.0, -0.0, float("inf"),
    np.array([1, 2], np.int64), np.array([1, 2], np.int32), np.array([[1, 2]]), np.array([1.0, 2.0]), np.float64(1),
    np.array([1, "x"], object), np.array([2, "x"], object), np.array(1), np.array([]), np.zeros((0, 3)),
]  # fmt: skip


def test_different_things_have_different_digests():
    assert len({digest(value) for value in DIFFERENT}) == len(DIFFERENT)


def test_layout_of_memory_does_not_count():
    array = np.arange(12).reshape(3, 4)
    assert digest(array) == digest(np.asfortranarray(array)) == digest(array[:, :])
    assert digest(array) != digest(array.T)


def test_reading_leaves_the_value_as_it_is():
    item = Item([1, {"a": np.ones(3)}])
    before = repr(item)
    assert digest(item) == digest(item)
    assert repr(item) == before


def test_what_contains_itself_ends():
    loop = [1]
    loop.append(loop)
    assert digest(loop) == digest(loop)


def test_tensors_by_their_bits():
    torch = pytest.importorskip("torch")
    values = [
        torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]), torch.tensor([1, 2]), torch.tensor([[1.0, 2.0]]),
        torch.tensor(1.0), torch.tensor([1.0, 2.0], dtype=torch.bfloat16), torch.tensor([True, False]),
        torch.tensor([1 + 2j]), torch.tensor([1 + 2j]).conj(), torch.empty(0), torch.empty(0, 2),
        torch.nn.Parameter(torch.tensor([1.0, 2.0])),
    ]  # fmt: skip
    assert len({digest(value) for value in values}) == len(values)
    turned = torch.arange(6.0).reshape(2, 3).t()
    assert digest(turned) == digest(turned.contiguous())
    grown = torch.ones(3, requires_grad=True) * 1
    assert digest(grown) == digest(torch.ones(3))


def test_pictures_by_their_bytes():
    image = pytest.importorskip("PIL.Image")
    one, two, three = image.new("L", (2, 3)), image.new("L", (3, 2)), image.new("L", (2, 3), 7)
    assert len({digest(one), digest(two), digest(three)}) == 3
    assert digest(one) == digest(image.new("L", (2, 3)))


def test_no_library_is_imported_for_it():
    code = "import sys; from codedag.experiment.digest import digest; digest([1]); print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
