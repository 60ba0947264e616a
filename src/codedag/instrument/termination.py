"""SIGTERM while a program runs: what is left to do is done before the process dies of the signal, as it would have.

The program's frames are not unwound: plain Python runs no `finally` and no exit function on SIGTERM either.  A program
that asks for the handler is told that there is none, and one that sets its own has it.
"""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from codedag.instrument.guard import after
from codedag.instrument.hidden_thread import HiddenThread

END_SECONDS_MAX = 20.0  # of waiting for what is left to do; the thread that was interrupted may hold what it needs


@contextmanager
def concluding(end: Callable[[], object]) -> Iterator[None]:
    """Within it SIGTERM calls `end`, in a thread of its own, before this process dies of the signal."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    hidden = _Handler(end)
    hidden.install()
    try:
        yield
    finally:
        hidden.remove()


class _Handler:
    """A handler of SIGTERM that the program does not see."""

    def __init__(self, end: Callable[[], object]) -> None:
        self._end, self._process = end, os.getpid()
        self._set, self._get = signal.signal, signal.getsignal

    def install(self) -> None:
        """Sets the handler, and answers for `signal.signal` and `signal.getsignal` from now on."""
        self._set(signal.SIGTERM, self._terminated)
        signal.signal = functools.wraps(self._set)(lambda *args, **words: self._set_by_program(*args, **words))
        signal.getsignal = functools.wraps(self._get)(lambda *args, **words: self._seen_by_program(*args, **words))

    def remove(self) -> None:
        """Puts back what was there, unless the program has put something else there."""
        if getattr(signal.signal, "__wrapped__", None) is self._set:
            signal.signal = self._set
        if getattr(signal.getsignal, "__wrapped__", None) is self._get:
            signal.getsignal = self._get
        if self._get(signal.SIGTERM) == self._terminated:
            self._set(signal.SIGTERM, signal.SIG_DFL)

    def _set_by_program(self, signalnum: Any, handler: Any) -> Any:
        if signalnum == signal.SIGTERM and handler == signal.SIG_DFL and os.getpid() == self._process:
            handler = self._terminated
        return self._shown(self._set(signalnum, handler))

    def _seen_by_program(self, signalnum: Any) -> Any:
        return self._shown(self._get(signalnum))

    def _shown(self, handler: Any) -> Any:
        return signal.SIG_DFL if handler == self._terminated else handler

    def _terminated(self, number: int, frame: object) -> None:
        self._set(signal.SIGTERM, signal.SIG_DFL)  # a second one ends it at once
        if os.getpid() == self._process:
            ending = HiddenThread(functools.partial(after, self._end))
            ending.start()
            ending.join(END_SECONDS_MAX)
        os.kill(os.getpid(), number)
