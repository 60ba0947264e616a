"""The background thread of one run: jobs are done there one after the other, and forks wait for a safe point."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from codedag.instrument.guard import attempt
from codedag.instrument.hidden_thread import HiddenThread
from codedag.ir import clock as time

if TYPE_CHECKING:
    from codedag.autopilot.proving import Proving

TICK = 0.2  # seconds between looks at what is hot, and at what workers have proven
BEATS = 4  # looks at a proof that runs, between two others
SLOWEST = 1.0  # seconds between them once nothing happens any more
PATIENCE = 1.0  # seconds that a fork waits for planning to reach a safe point


class Background:
    """Jobs of one process beside the program; in a run that must be repeatable they are done at once."""

    def __init__(self, synchronous: bool, begin: Callable[[], None], look_around: Callable[[], None]) -> None:
        self._synchronous, self._begin, self._look_around = synchronous, begin, look_around
        self.prove: Proving
        self._inbox: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._thread: HiddenThread | None = None
        self._is_paused = False
        self.is_ending = False  # the program has ended: what is not begun is not done
        self._working = threading.Lock()  # held while something is being planned
        self._is_forking = False
        self._beats = 0
        self.inline = 0.0  # seconds of planning in the program's own thread
        self.beside = 0.0  # seconds of the processor that planning took

    # -- jobs

    def later(self, job: Callable[[], None]) -> None:
        """Has a job done by the background thread, or at once."""
        if self._synchronous or self._thread is None:
            started = time.perf_counter()
            job()
            self.inline += time.perf_counter() - started
        else:
            self._inbox.put(job)

    def again(self, job: Callable[[], None]) -> None:
        """Leaves a job to the thread that is started again in a process that was just forked."""
        self._inbox.put(job)

    def is_beside(self) -> bool:
        """Whether this is the background thread."""
        return self._thread is not None and self._thread.is_current

    @contextmanager
    def aside(self) -> Iterator[None]:
        """A block for which a fork need not wait."""
        held = self.is_beside()
        if held:
            self._working.release()
        try:
            yield
        finally:
            if held:
                self._working.acquire()

    # -- the thread

    def start(self) -> None:
        """Starts the thread."""
        self._is_paused = False
        self._thread = HiddenThread(self._work)
        self._thread.start()

    def start_again(self) -> None:
        """Starts the thread if it had to rest for a fork."""
        if self._is_paused:
            self.start()

    def tick(self) -> None:
        """Looks around now and then from now on, also if nothing is observed."""
        if self._thread is None:
            self.start()

    def end(self) -> None:
        """Ends the thread; what is asked of it from now on is not done."""
        self._rest()

    def close(self) -> None:
        """Has what is still asked for done at once: nothing goes on beside it any more."""
        self._thread, self._is_paused = None, False

    def _rest(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            self._inbox.put(None)
            self._thread.join(5)
            self._is_paused = not self._thread.is_alive()

    def _work(self) -> None:
        self._begin()
        pace = TICK
        while True:
            try:
                job, pace = self._inbox.get(timeout=TICK / BEATS if self.prove.waits() else pace), TICK
            except queue.Empty:  # less and less often while nothing happens
                job, pace = self._look_around, min(1.2 * pace, SLOWEST)
                if self.prove.waits():
                    job, pace = self._look_at_proofs, TICK
            if job is None:
                return
            if self.is_ending:
                continue
            with self._working:
                job()
            self.beside = time.thread_time()
            if self._inbox.empty():
                self.prove.rest()

    def _look_at_proofs(self) -> None:
        attempt(self.prove.look)
        self._beats += 1
        if self._beats % BEATS == 0:
            self._look_around()

    # -- forks

    def pause(self) -> None:
        """Brings planning to a safe point before a fork."""
        if self.is_beside():
            return
        # From 3.12 on Python warns the program about a fork with threads, and this thread is ours.  It starts again
        # with the next operation: Python 3.13 counts the threads when everything after the fork is done.
        if sys.version_info >= (3, 12):
            self._rest()
        self._is_forking = self._working.acquire(timeout=PATIENCE)

    def resume(self) -> None:
        """Goes on in the process that forked."""
        if self._is_forking:
            self._is_forking = False
            self._working.release()

    def renew(self) -> None:
        """Begins anew in a process that was just forked, where nothing of the parent's thread is left."""
        self._inbox, self._working, self._is_forking = queue.Queue(), threading.Lock(), False
        self._thread, self._is_paused = None, True
