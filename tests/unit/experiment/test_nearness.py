"""Runs that may round differently: what is near, what is not, and that form and order always count."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from codedag.experiment import equality, nearness
from codedag.experiment.nearness import Aside, Nearness, Numbers, printed_near, tolerance
from codedag.experiment.watching import Beside, Watch


def _run(
    folder: Path, name: str, *values: object, allow: tuple[str, ...] = ("ulp",)
) -> tuple[equality.Streams, Numbers]:
    """What a watched program leaves that passed these around as batches."""
    seen, numbers = folder / name, folder / f"{name}.numbers"
    with seen.open("w", buffering=1) as file, numbers.open("wb") as beside:
        watch = Watch(file, (), Beside(beside, allow))
        for value in values:
            watch.saw("batch", value)
    lines = seen.read_text().split("\n")
    return equality.read_streams(lines), Numbers.read(lines, numbers)


def _compared(folder: Path, plain: list, other: list, allow: tuple[str, ...] = ("ulp",)) -> equality.Same:
    one, numbers = _run(folder, "plain", *plain, allow=allow)
    two, others = _run(folder, "other", *other, allow=allow)
    (same,) = equality.passed_around([one, one], [two], Nearness(allow, numbers, [others]))
    return same


A = np.linspace(-3, 5, 40_000, dtype=np.float32).reshape(200, 200)
STEP = np.nextafter(A, np.float32(9))


@pytest.mark.parametrize(
    ("plain", "other", "equal"),
    [
        (A, A, True), (A, STEP, True), ([A, 3], [STEP, 3], True), ({"x": A}, {"x": STEP}, True),
        (A, A + 0.1, False), (A, STEP.T, False), (A, STEP.astype("f8"), False), (A, STEP.reshape(-1), False),
        ([A, 3], [STEP, 4], False), ([A, "x"], [STEP, "y"], False), ([A, A], [STEP], False),
        (0.25, 0.25 + 1e-9, True), (0.25, 0.26, False), (1, 2, False),
        (np.array([1.0, np.nan, np.inf]), np.array([1.0 + 1e-9, np.nan, np.inf]), True),
        (np.array([1.0, np.nan]), np.array([np.nan, 1.0]), False),
        (np.array([1.0, np.inf]), np.array([1.0, 5.0]), False),
        (np.zeros(3), np.full(3, 1e-30), False),
        (np.array([1 + 2j]), np.array([1 + 2.0000001j]), True), (np.array([1 + 2j]), np.array([1 + 3j]), False),
        (np.array([5, 6], np.uint8), np.array([5, 7], np.uint8), False),
    ],
)  # fmt: skip
def test_only_rounding_is_near(tmp_path, plain, other, equal):
    same = _compared(tmp_path, [1, plain], [1, other])
    assert same.equal is equal
    assert bool(same.difference) is (equal and not np.array_equal(_flat(plain), _flat(other), equal_nan=True))


def _flat(value: object) -> np.ndarray:
    value = value["x"] if isinstance(value, dict) else value[0] if isinstance(value, list) else value
    return np.asarray(value, np.complex128)


def test_grey_levels_are_near_only_where_they_are_allowed(tmp_path):
    one, other = np.full((4, 4), 100, np.uint8), np.full((4, 4), 101, np.uint8)
    assert _compared(tmp_path, [one], [other]).equal is False
    same = _compared(tmp_path, [one], [other], allow=("ulp", "level1"))
    assert (same.equal, same.detail) == (True, "within 0.01 of the largest value")
    assert _compared(tmp_path, [one], [other + np.uint8(9)], allow=("level1",)).equal is False


def test_tensors_are_looked_into(tmp_path):
    torch = pytest.importorskip("torch")
    one = torch.linspace(0, 1, 1000)
    assert _compared(tmp_path, [[one, torch.tensor([1])]], [[one * (1 + 1e-7), torch.tensor([1])]]).equal is True
    assert _compared(tmp_path, [[one, torch.tensor([1])]], [[one * (1 + 1e-7), torch.tensor([2])]]).equal is False
    half = one.to(torch.bfloat16)
    assert _compared(tmp_path, [half], [half * 1.02]).equal is True
    assert _compared(tmp_path, [half], [half * 1.2]).equal is False


def test_a_stream_of_another_length_or_without_numbers_is_different(tmp_path):
    assert _compared(tmp_path, [A, A], [STEP]).equal is False
    one, _ = _run(tmp_path, "plain", A)
    two, _ = _run(tmp_path, "other", STEP)
    (same,) = equality.passed_around([one], [two])
    assert same.equal is False


def test_of_large_arrays_numbers_are_kept_evenly_spread(tmp_path, monkeypatch):
    monkeypatch.setattr(nearness, "MOST_NUMBERS", 100)
    _, numbers = _run(tmp_path, "plain", np.arange(1000.0))
    ((_, at, count),) = numbers.kept["batch"][0].leaves
    assert list(numbers.leaf(at, count)) == list(range(0, 1000, 10))
    monkeypatch.setattr(nearness, "MANY_NBYTES", 0)
    _, numbers = _run(tmp_path, "plain", np.arange(1000.0))
    assert numbers.kept["batch"][0].leaves[0][2] == 250


def test_what_was_kept_is_read_as_it_was_written():
    kept = Aside("ab", (("float32", 0, 5), ("uint8", 40, 7)))
    assert Aside.of(kept.text()) == kept


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        ("0.512345", "0.512346", True), ("0.51", "0.52", True), ("0.51", "0.53", False), ("1.5e-3", "1.6e-3", True),
        ("1.5e-3", "1.8e-3", False), ("12", "13", False), ("12.0", "12.001", True), ("1.25", "1", False),
        ("0x1f", "0x20", False), ("12:30", "12:31", False), ("100.0", "100.02", True), ("100.00", "100.20", False),
    ],
)  # fmt: skip
def test_printed_figures(one, other, near):
    assert printed_near(one, other, tolerance(("ulp",))) is near
    found = equality.printed([f"loss {one} x"] * 2, [f"loss {other} x"], tolerance(("ulp",)))
    assert found.equal is near
    assert equality.printed([f"loss {one} x"] * 2, [f"loss {other} x"]).equal is False


def test_the_tolerance_of_a_class():
    assert tolerance(("ulp",)) == pytest.approx(math.sqrt(np.finfo(np.float32).eps))
    assert tolerance(("ulp",), "float16") == pytest.approx(math.sqrt(np.finfo(np.float16).eps))
    assert tolerance(("ulp", "level1")) == 0.02
