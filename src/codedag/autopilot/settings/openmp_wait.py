"""The threads of torch sleep while they wait for work, where worker processes have use for the cores.

The threads of GNU OpenMP, with which torch computes, turn in circles for some milliseconds before they sleep.  With a
core to spare that is the fastest way to wait; beside workers it takes half of a small machine.
OpenMP itself waits patiently once it manages more threads than there are cores.  So a thread of ours makes a team that
does nothing; when it ends, all is as before.  No result can depend on how a thread waits.

Blocks of batches with and without it are timed in turns, and it is only kept if that is no slower and saves CPU time.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codedag.instrument.guard import Failed, attempt
from codedag.instrument.hidden_thread import HiddenThread
from codedag.instrument.sites import CALL, PASS, SiteInfo, make, native
from codedag.ir import clock as time
from codedag.migrate.trial import median

BLOCK = 4  # batches that are timed together
PAIRS, CLEAR = 4, 2  # pairs of blocks until it is decided, and if all say the same
SAVES, NOT_SLOWER, DEMOTED = 1.05, 1.0, 0.97  # CPU time and time as written, over those with resting threads
EVERY = 50  # blocks per pair, once it is decided
LATEST = 8  # pairs that may change the decision
MOST_THREADS = 64
LOADER, ITERATOR, METHOD = "torch.utils.data.dataloader", "_MultiProcessingDataLoaderIter", "_process_data"
#: With these in its environment, a program has said itself how threads are to wait.
SAID = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


class SleepingThreads:
    """More threads than cores, as GNU OpenMP counts them; they sleep."""

    def __init__(self, library: Any, threads: int) -> None:
        self._library, self._threads = library, threads
        self._end, self._made = threading.Lock(), threading.Event()
        self._thread = HiddenThread(self._work)

    def start(self) -> None:
        """Returns once they are counted."""
        self._end.acquire()
        self._thread.start()
        self._made.wait()

    def stop(self) -> None:
        """Returns once they are not counted any more."""
        self._end.release()
        self._thread.join()

    def _work(self) -> None:
        free = ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p)  # does nothing with nothing
        attempt(self._library.GOMP_parallel, free, None, ctypes.c_uint(self._threads), ctypes.c_uint(0))
        self._made.set()
        self._end.acquire()


@dataclass(slots=True)
class Block:
    """Some batches that are timed together."""

    resting: bool
    batches: int = 0
    seconds: float = 0.0
    cpu: float = 0.0

    def per_batch(self) -> tuple[float, float]:
        """Seconds and CPU seconds of a batch."""
        return self.seconds / self.batches, self.cpu / self.batches


@dataclass(slots=True)
class WaitTrial:
    """What has been timed so far, and what was decided."""

    pairs: list[tuple[float, float]] = field(default_factory=list)  # as written over resting: seconds, CPU seconds
    decided: bool | None = None
    blocks: int = 0
    last: Block | None = None

    def rests(self) -> bool:
        """Whether threads rest in the next block: in turns while it is not decided (yes no no yes), later mostly."""
        if self.decided is None:
            return self.blocks % 4 in (0, 3)
        return self.decided and self.blocks % EVERY != 0

    def took(self, block: Block) -> None:
        """Takes in a block that has ended."""
        self.blocks += 1
        before, self.last = self.last, block
        if before is not None and before.resting is not block.resting:
            plain, rest = (before, block) if block.resting else (block, before)
            (a, a_cpu), (b, b_cpu) = plain.per_batch(), rest.per_batch()
            self.pairs.append((a / b, a_cpu / b_cpu if b_cpu > 0 else 1.0))
            self.last = None
            self._decide()

    def gains(self) -> tuple[float, float]:
        """How much longer a batch took as written, and how much more CPU time."""
        latest = self.pairs[-LATEST:]
        return median(wall for wall, _ in latest), median(cpu for _, cpu in latest)

    def _decide(self) -> None:
        wall, cpu = self.gains()
        if self.decided is None:
            clear = len(self.pairs) >= CLEAR and all(min(pair) > SAVES for pair in self.pairs)
            if clear or len(self.pairs) >= PAIRS:
                self.decided = wall >= NOT_SLOWER and cpu >= SAVES
        elif self.decided and wall < DEMOTED:
            self.decided = False


class OpenMPWait:
    """Has the threads of torch rest while the program gets batches that other processes make."""

    def __init__(self) -> None:
        self.course = WaitTrial()
        self._library: Any = None
        self._asked = False
        self._team: SleepingThreads | None = None
        self._block: Block | None = None
        self._of: Any = None
        self._since = self._cpu = 0.0
        self._changed: tuple[Any, Any] | None = None  # the class of loaders with workers, and its own method
        self._process = os.getpid()

    # -- getting in and out

    def enter(self) -> None:
        """Is told of batches that worker processes have made from now on."""
        kind = getattr(sys.modules.get(LOADER), ITERATOR, None)
        original = vars(kind).get(METHOD) if kind is not None else None
        code = getattr(original, "__code__", None)
        if self._changed is not None or code is None:
            return
        site = make(SiteInfo(0, CALL, "", code.co_filename, code.co_firstlineno, 0, code.co_firstlineno, 0, ""))
        site.watch, site.mode = self._came, PASS
        self._changed = (kind, original)
        setattr(kind, METHOD, native.method(site, original))

    def restore(self) -> None:
        """Puts the loader back as it was."""
        self.pause()
        if self._changed is not None:
            setattr(self._changed[0], METHOD, self._changed[1])
            self._changed = None

    def _came(self, args: tuple[Any, ...], result: Any, raised: Any) -> None:
        if os.getpid() == self._process and threading.get_ident() == threading.main_thread().ident:
            attempt(self.batch, args[0])

    # -- a batch

    def batch(self, of: Any) -> None:
        """The program has got a batch from this loader."""
        if self.course.decided is False or not self._can():
            return
        now, cpu = time.perf_counter(), time.process_time()
        follows = self._of is not None and self._of() is of
        if follows and self._block is not None and self._since:
            self._count(self._block, now - self._since, cpu - self._cpu)
        if self._block is None:
            self._begin()
        self._of, self._since, self._cpu = weakref.ref(of, self._left), time.perf_counter(), time.process_time()

    def _left(self, of: Any) -> None:
        """The loader is gone: what comes now may have all cores for itself."""
        attempt(self.pause)

    def pause(self) -> None:
        """Has threads wait as they would: the program forks, or ends."""
        team, self._team = self._team, None
        self._block, self._since = None, 0.0
        if team is not None:
            team.stop()

    def forget(self) -> None:
        """Begins anew in another process: no thread of ours is there, and nothing more is done."""
        self._team, self.course.decided = None, False

    def notes(self) -> list[str]:
        """What is to be said about it at the end."""
        if not self.course.decided:
            return []
        wall, cpu = self.course.gains()
        return [
            f"torch's threads slept while they waited, as the cores were in use: {wall:.2f}x from batch to batch, "
            f"{cpu:.2f}x in CPU time, over {len(self.course.pairs)} pairs of blocks of batches"
        ]

    def _count(self, block: Block, seconds: float, cpu: float) -> None:
        block.batches += 1
        block.seconds += seconds
        block.cpu += cpu
        if block.batches >= BLOCK:
            self.course.took(block)
            self._block = None

    def _begin(self) -> None:
        resting = self.course.rests()
        if resting is not (self._team is not None):
            self.pause()
            if resting:
                self._start()
        if self.course.decided is not False:
            self._block = Block(resting)

    def _start(self) -> None:
        self._team = SleepingThreads(self._library, self._library.omp_get_num_procs())
        self._team.start()

    def _can(self) -> bool:
        """Whether torch computes with several threads of GNU OpenMP, and nobody said how they are to wait."""
        torch = sys.modules.get("torch")
        if torch is None or torch.get_num_threads() < 2:
            return False
        if not self._asked:
            self._asked = True
            found = attempt(library) if not any(name in os.environ for name in SAID) else None
            self._library = None if isinstance(found, Failed) else found
        return self._library is not None


def library() -> Any:
    """GNU OpenMP as torch has loaded it, or None."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return None
    paths = {line.split(maxsplit=5)[-1] for line in maps.read_text().splitlines() if "libgomp" in line}
    own = [path for path in paths if "/torch/" in path or len(paths) == 1]
    if len(own) != 1:
        return None
    found = ctypes.CDLL(own[0], mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    has_all = hasattr(found, "GOMP_parallel") and hasattr(found, "omp_get_num_procs")
    return found if has_all and 2 <= found.omp_get_num_procs() <= MOST_THREADS else None
