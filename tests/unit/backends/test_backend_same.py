"""The strict comparator sees every difference that a program could see."""

from __future__ import annotations

import sys
import tracemalloc

import numpy as np
import pytest

from codedag.backends.same import same
from codedag.ir.verdict import No

BASE = np.arange(12, dtype=np.float32).reshape(3, 4).copy()
READ_ONLY = BASE.copy()
READ_ONLY.flags.writeable = False
ZERO, MINUS = np.zeros(2), -np.zeros(2)
NAN = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, True),
        (1, 1.0),
        (1, 2),
        (0.0, -0.0),
        (0j, complex(-0.0, 0.0)),
        ("a", b"a"),
        ([1], (1,)),
        ([1], [1, 2]),
        ([1, [2, 3]], [1, [2, 4]]),
        ({"a": 1}, {"a": 2}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (ValueError("a"), ValueError("b")),
        (ValueError("a"), TypeError("a")),
        (object(), object()),
        (BASE, BASE.astype(np.float64)),
        (BASE, BASE.reshape(4, 3)),
        (BASE, np.asfortranarray(BASE)),
        (BASE.copy(), BASE.copy()[:]),
        (BASE.copy(), READ_ONLY),
        (BASE, BASE + 1),
        (BASE, BASE.astype(">f4")),
        (ZERO, MINUS),
        (NAN[:1].copy(), NAN[1:].copy()),
        (np.float32(0), np.float32(-0.0)),
        (np.float32(1), np.float64(1)),
        (np.array([1, "a"], object), np.array([1, "b"], object)),
        ([BASE], [BASE + 1]),
        (BASE, BASE.tolist()),
    ],
)
def test_different(left, right):
    verdict = same(left, right)
    assert not verdict
    assert verdict.reason


@pytest.mark.parametrize(
    "make",
    [
        lambda: None,
        lambda: float("nan"),
        lambda: [1, (2.5, "x"), {"k": BASE.copy()}],
        lambda: ValueError("a", 1),
        lambda: np.full((2, 3), np.nan),
        lambda: np.array([1, "a", None], object),
        lambda: np.zeros((0, 3)),
        lambda: np.array(5),
        lambda: np.float32("nan"),
        lambda: np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
        lambda: {1, 2},
    ],
)
def test_same(make):
    verdict = same(make(), make())
    assert verdict, verdict


def test_the_reason_says_where():
    assert same([1, {"k": 2}], [1, {"k": 3}]).reason == "value[1]['k']: 2 is not 3"
    assert "2 of 12 elements differ" in same(BASE, np.where(BASE < 2, 9, BASE).astype(np.float32)).reason


def test_tensors():
    torch = pytest.importorskip("torch")
    base = torch.arange(12.0).reshape(3, 4)
    assert same(base, base.clone())
    assert same(torch.tensor(1.5), torch.tensor(1.5))
    assert same(base.bfloat16(), base.bfloat16())
    for other in (
        base + 1,
        base.double(),
        base.T,
        base.t().contiguous().t(),
        base.clone().requires_grad_(),
        base.numpy(),
    ):
        assert not same(base, other)
    assert not same(torch.zeros(2), -torch.zeros(2))
    assert "not compared" in same(base.to_sparse(), base.to_sparse()).reason


def test_pictures():
    image = pytest.importorskip("PIL.Image")
    base = image.fromarray(np.arange(12, dtype=np.uint8).reshape(3, 4))
    assert same(base, base.copy())
    assert not same(base, base.convert("RGB"))
    assert not same(base, base.point(lambda level: level + 1))


def test_comparing_imports_nothing(monkeypatch):
    for name in ("torch", "PIL.Image", "numpy"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert same([1.5, "x"], [1.5, "x"])
    assert "numpy" not in sys.modules


def test_arrays_are_compared_without_copies_of_them():
    one = np.zeros((64, 1 << 16), np.float32)
    other = one.copy()
    tracemalloc.start()
    try:
        assert same(one.T, other.T)
        assert tracemalloc.get_traced_memory()[1] < one.nbytes / 4
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("place", [0, 1 << 20, (1 << 20) + 1, (3 << 20) - 1])
def test_the_last_byte_of_a_large_array_counts(place):
    one, other = np.zeros(3 << 20, np.uint8), np.zeros(3 << 20, np.uint8)
    other[place] = 1
    assert same(one, other) == No(f"value: 1 of {one.size} elements differ")


def test_a_text_is_not_shown_unless_it_differs():
    class Shown(str):
        def __repr__(self):
            raise AssertionError

    assert same(Shown("a"), Shown("a"))


def test_a_long_column_is_compared_by_its_bytes():
    pandas = pytest.importorskip("pandas")
    one = pandas.DataFrame({"a": [0.0, 1.5, float("nan")], "b": [1, 2, 3]})
    assert same(one, one.copy())
    other = one.copy()
    other.loc[0, "a"] = -0.0
    assert same(one, other) == No("value['a']: 1 of 3 elements differ")


def test_a_tensor_of_one_element_that_was_expanded():
    torch = pytest.importorskip("torch")
    one, other = (torch.full((1,), value).as_strided((1,), (0,)) for value in (1.0, 2.0))
    assert same(one, one.clone().as_strided((1,), (0,)))
    assert not same(one, other)
