"""What no guard takes, whatever else is right: it would be forgotten in one of them.

Kernels read the bytes of numbers as this machine has them, hold whole numbers in 64 bits, and do not tell of numbers
that get too small.
"""

from __future__ import annotations

import contextvars
import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any

from codedag.instrument.floating_point import is_usual

FOREIGN = "numbers in the byte order of another machine, or with their own written out"
HUGE = "a whole number of more than 64 bits"
UNDERFLOW = "numpy tells here of numbers that get too small"
MODE = "the floating-point mode of the processor was changed"


def hazard(values: Iterable[Any]) -> str:
    """The reason why a call with these arguments is the original's, or an empty string."""
    numpy = sys.modules.get("numpy")
    array = () if numpy is None else numpy.ndarray
    for value in values:
        if type(value) is int:
            if not -(2**63) <= value < 2**63:
                return HUGE
        elif isinstance(value, array) and (not value.dtype.isnative or value.dtype.byteorder in "<>"):
            return FOREIGN  # a result may have the very type of its argument
    if not is_usual():
        return MODE
    return "" if numpy is None or _silent(numpy)() else UNDERFLOW


@functools.cache
def _silent(numpy: Any) -> Callable[[], bool]:
    """A function that says whether numpy is silent of underflow, as it is unless the program wants it otherwise."""
    core = getattr(numpy, "_core", None)
    state = getattr(getattr(core, "umath", None), "_extobj_contextvar", None)
    if not isinstance(state, contextvars.ContextVar):
        return lambda: bool(numpy.geterr()["under"] == "ignore")
    usual = contextvars.Context().run(state.get, None)  # geterr makes a dictionary, which takes twenty times as long
    return lambda: state.get(None) is usual or bool(numpy.geterr()["under"] == "ignore")
