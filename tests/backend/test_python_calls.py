"""Which calls of Python functions are memoised by their arguments: not those for which there are other moves."""

from __future__ import annotations

import pytest

from codedag.autopilot.moves import find

pytest.importorskip("scipy.ndimage")
pytest.importorskip("PIL.Image")


def made(path):
    return path


@pytest.mark.parametrize(
    ("name", "is_python"),
    [
        ("scipy.ndimage.median_filter", False), ("PIL.Image.Image.resize", False), ("numpy.pad", False),
        (f"{__name__}.made", True), ("__main__.f.<locals>.g", True), ("nowhere.made", False),
    ],
)  # fmt: skip
def test_functions_with_substitutes_and_known_ones_are_left_to_their_own_moves(name, is_python):
    assert find._is_python(name) is is_python
