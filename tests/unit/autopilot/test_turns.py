"""Turns that have run ahead: what is held for them."""

from __future__ import annotations

import numpy as np
import pytest

from codedag.autopilot.ordered import Habit
from codedag.autopilot.turns import Turn, Turns


class Sized:
    """A value of the program, whose attributes are its own code."""

    @property
    def nbytes(self) -> int:
        pytest.fail("an attribute of the program's object was read")


def test_only_arrays_are_asked_for_their_size() -> None:
    turns = Turns(lambda element: element, [], [1, 2], Habit(), True, ())
    turns.turns[0] = turn = Turn(turns, 0)
    turn.notes += [None, np.ndarray, None, np.zeros(5), None, Sized()]  # sites, and what they gave
    assert turns.nbytes() == 40
