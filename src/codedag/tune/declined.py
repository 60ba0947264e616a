"""The error of a tuning task that cannot be done here, and why; with the line of a recorded function, if one runs."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from typing import Any

from codedag.ir.errors import CodedagError

_OWN = str(Path(__file__).parent)
_OPERATORS = str(Path(__file__).parent / "program" / "operators.py")  # functions that are recorded themselves


class CannotTune(CodedagError):  # noqa: N818 - reads as what happened
    """A task that cannot be tuned: an unknown name, sizes that do not fit, an operation that is not written down."""

    slug = "cannot-tune"


def current_line() -> str:
    """The line of the recorded function that is running, with its text."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if (not file.startswith(_OWN) or file == _OPERATORS) and "numpy" not in file.split("/"):
            text = linecache.getline(file, frame.f_lineno).strip()
            return f"line {frame.f_lineno} ({text})" if text else f"line {frame.f_lineno}"
        frame = frame.f_back
    return "the function"


def declined(why: str) -> CannotTune:
    """The error of an operation that is not written down, with its line."""
    return CannotTune(f"{current_line()}: {why}", hint="docs/tuning.md lists the operations that are written down.")
