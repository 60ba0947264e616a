"""Nearness to the reference: what rounding explains, and what it does not."""

import numpy as np
import pytest

from codedag.stages.execution.verify import judged, largest_error, nearness

ONES = np.ones(4, np.float32)


def test_equal_bits_are_equal():
    near = nearness(ONES, ONES.copy())
    assert near
    assert near.equal
    assert near.worst == 0.0


def test_rounding_is_near_but_not_equal():
    near = nearness(ONES, ONES + np.float32(1e-6))
    assert near
    assert not near.equal


@pytest.mark.parametrize(
    ("got", "words"),
    [
        (ONES * 1.01, "off by"),
        (np.array([1, 1, 1, np.nan], np.float32), "NaN"),
        (np.array([1, 1, 1, np.inf], np.float32), "off by"),
        (ONES[:3], "not float32[4]"),
        (ONES.astype(np.float64), "float64"),
    ],
)
def test_what_rounding_does_not_explain_is_wrong(got, words):
    near = nearness(ONES, got)
    assert not near
    assert words in near.wrong


def test_nan_and_infinities_of_the_reference_are_expected():
    expected = np.array([np.nan, np.inf, -np.inf, 2.0], np.float32)
    assert nearness(expected, expected.copy()).equal
    assert not nearness(expected, np.array([np.nan, np.inf, np.inf, 2.0], np.float32))
    assert largest_error(np.array([np.nan, 2.0]), np.array([np.nan, 2.0])) == 0.0


def test_whole_numbers_must_be_equal():
    assert nearness(np.arange(3), np.arange(3))
    assert "1 of 3" in nearness(np.arange(3), np.array([0, 1, 3])).wrong


def test_float64_decides_where_the_reference_itself_is_far_off():
    exact = np.array([1.0, 1.0])
    reference = np.array([1.0, 1.001], np.float32)  # a sum that lost its digits
    assert judged("t", reference, np.array([1.0, 0.9995], np.float32), lambda name: exact)
    assert not judged("t", reference, np.array([1.0, 0.99], np.float32), lambda name: exact)
    assert not judged("t", reference, np.array([1.0, 0.9995], np.float32), lambda name: None)
    assert not judged("t", reference, np.array([1.0, np.nan], np.float32), lambda name: exact)


def test_float64_does_not_excuse_a_result_whose_reference_is_not_near_either():
    exact, reference = np.array([1.0, 1.0]), np.array([1.0, 0.2], np.float32)  # as a random stage gives
    assert not judged("t", reference, np.array([1.0, 1.9], np.float32), lambda name: exact)
