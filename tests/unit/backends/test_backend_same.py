"""The strict comparator sees every difference that a program could see."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from codedag.backends.same import same

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
