"""Threads of CodeDAG that the program does not see: `threading.enumerate()` and `active_count()` leave them out.

Programs wait until only their main thread is listed.  What runs here must not call `threading.current_thread()`, which
would list the thread.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable

from codedag.instrument.guard import attempt

_TIMED_OUT_NEVER = -1.0


class HiddenThread:
    """A daemon thread that runs a function; it can be joined."""

    __slots__ = ("_ended", "_target", "ident")

    def __init__(self, target: Callable[[], object]) -> None:
        self._target = target
        self._ended = _thread.allocate_lock()
        self.ident = 0

    def start(self) -> None:
        """Starts the thread; raises RuntimeError where the system has no room for it."""
        self._ended.acquire()
        try:
            _thread.start_new_thread(self._run, ())
        except BaseException:
            self._ended.release()
            raise

    def _run(self) -> None:
        self.ident = _thread.get_ident()
        attempt(self._target)
        self._ended.release()

    def join(self, seconds: float = _TIMED_OUT_NEVER) -> bool:
        """Waits for its end, at most so long; whether it has ended."""
        if not self._ended.acquire(timeout=seconds):
            return False
        self._ended.release()
        return True

    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._ended.locked()

    @property
    def is_current(self) -> bool:
        """Whether this is the calling thread."""
        return self.ident == _thread.get_ident()
