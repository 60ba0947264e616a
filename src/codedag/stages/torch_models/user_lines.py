"""The user's line at which an exception was raised, without an except clause of our own."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

_OURS = str(Path(__file__).parents[1])


def is_users(path: str) -> bool:
    """Whether a file is the user's own: no installed package, nothing of ours, nothing generated."""
    return not path.startswith(("<", _OURS)) and "site-packages" not in path


class UserLine:
    """Notes the user's line at which an exception that passes through was raised, and the exception's class."""

    def __init__(self) -> None:
        self.place = ""
        self.kind = ""

    def __enter__(self) -> UserLine:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kind = kind.__name__ if kind else ""
        while trace is not None:
            path = trace.tb_frame.f_code.co_filename
            if is_users(path):
                self.place = f"{path}:{trace.tb_lineno}"
            trace = trace.tb_next
