from __future__ import annotations

import numpy as np
import pytest

from codedag.ir.verdict import No
from codedag.tune.layout import Axis, layout_of


def layout(view, row_step, out):
    return layout_of(view.shape, view.strides, row_step, out.strides, out.itemsize)


IMAGE = np.zeros((20, 30, 3), np.uint8)


def test_an_image_kept_in_order_is_pixels_of_channels():
    found = layout(IMAGE, (0, 0, 1), np.empty((20, 30, 3), "f4"))
    assert found.axes == (Axis(600, 3, 0), Axis(3, 1, 1))
    assert (found.rows, found.size, found.channels) == (3, 1800, 3)


def test_channels_first_is_planes_of_pixels():
    found = layout(IMAGE.transpose(2, 0, 1), (1, 0, 0), np.empty((3, 20, 30), "f4"))
    assert found.axes == (Axis(3, 1, 1), Axis(600, 3, 0))
    assert found.channels == 0


def test_out_in_the_order_of_the_image_makes_the_same_loops():
    view = IMAGE.transpose(2, 0, 1)
    found = layout(view, (1, 0, 0), np.empty_like(view, np.float32))
    assert found.axes == layout(IMAGE, (0, 0, 1), np.empty((20, 30, 3), "f4")).axes
    assert found.order == (1, 2, 0)


def test_a_flip_keeps_rows_apart():
    found = layout(IMAGE[:, ::-1], (0, 0, 1), np.empty((20, 30, 3), "f4"))
    assert found.axes == (Axis(20, 90, 0), Axis(30, -3, 0), Axis(3, 1, 1))


def test_rows_on_two_axes_that_join_are_one_loop():
    found = layout(IMAGE, (0, 3, 1), np.empty((20, 30, 3), "f4"))
    assert found.axes == (Axis(20, 90, 0), Axis(90, 1, 1))
    assert found.rows == 90


def test_the_packed_form_is_padded_in_front():
    found = layout(IMAGE, (0, 0, 1), np.empty((20, 30, 3), "f4"))
    assert list(found.packed) == [1, 0, 0] * 3 + [600, 3, 0, 3, 1, 1]


def test_nothing_to_do_is_a_layout_too():
    assert layout(IMAGE[:0], (0, 0, 1), np.empty((0, 30, 3), "f4")).size == 0


@pytest.mark.parametrize(
    ("view", "row_step", "out", "why"),
    [
        (np.zeros((), np.uint8), (), np.empty(()), "0 axes"),
        (np.zeros((1,) * 6, np.uint8), (0,) * 6, np.empty((1,) * 6), "6 axes"),
        (IMAGE, (0, 1), np.empty((20, 30, 3)), "2 row steps"),
        (IMAGE, (0, 0, -1), np.empty((20, 30, 3)), "negative"),
        (IMAGE, (0, 0, 1), np.empty((20, 30, 6))[..., ::2], "not contiguous"),
        (IMAGE, (0, 0, 1), np.empty((20, 30, 3))[::-1], "not contiguous"),
        (IMAGE, (0, 0, 1), np.broadcast_to(np.empty(3), (20, 30, 3)), "not contiguous"),
    ],
)
def test_what_no_kernel_takes_has_a_reason(view, row_step, out, why):
    found = layout(view, row_step, out)
    assert isinstance(found, No)
    assert why in found.reason
