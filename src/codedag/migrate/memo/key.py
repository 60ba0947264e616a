"""Comparable parts of a call: plain arguments, such that equal ones of different types are told apart."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Any

from codedag.migrate.memo.copies import ATOMS


def is_plain(value: Any, depth: int = 3) -> bool:
    """Whether a value is a number, a text, a member of an enumeration, a dtype, or a short nest of tuples of such."""
    if type(value) in (tuple, list):
        return depth > 0 and all(is_plain(item, depth - 1) for item in value)
    if type(value) in ATOMS or type(value) is slice or isinstance(value, Enum):
        return True
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.dtype | type)


def told_apart(value: Any) -> Any:
    """A value such that 1, 1.0 and True are not the same."""
    if type(value) in (tuple, list):
        return (type(value), *map(told_apart, value))
    if type(value) is slice:
        return (slice, value.start, value.stop, value.step)
    return (type(value), repr(value) if type(value) is float else value)
