"""Whether an exception came out of a signal handler of the program that happened to run inside our own code."""

from __future__ import annotations

import signal
import types


def raised_by_handler(trace: types.TracebackType | None) -> bool:
    """Whether the traceback goes through one of the Python functions that handle signals."""
    codes = {code for number in signal.valid_signals() if (code := _code_of(signal.getsignal(number))) is not None}
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def _code_of(handler: object) -> types.CodeType | None:
    for function in (handler, getattr(handler, "__func__", None), vars(type(handler)).get("__call__")):
        code = getattr(function, "__code__", None)
        if isinstance(code, types.CodeType):
            return code
    return None
