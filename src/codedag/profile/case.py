"""One case in a measuring process: a function with its inputs, timed in batches; and what a call allocates."""

from __future__ import annotations

import inspect
import os
import resource
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from statistics import median
from typing import Any

from codedag.profile.leaves import arrays_in, nbytes_of
from codedag.trace.held_up import Turns

BLOCK_SECONDS = 20e-6  # long against the clock
BATCH_SECONDS = 0.002  # short against the time slices of the scheduler
MOST_CALLS, MOST_BLOCKS = 1_000, 100
LONG_SECONDS = 0.001  # a call of this length is often held up: of it, what the thread waited is taken off
_OUTS = ("out", "dst")


@dataclass(slots=True)
class Batch:
    """What one batch took: seconds and page faults per call, and whether the process ran all the time."""

    seconds: float
    page_faults: float
    clean: bool


class Case:
    """A function, its arguments and the number of calls in a batch."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        keywords: dict[str, Any],
        wait: Callable[[], Any] | None = None,
    ) -> None:
        self.function, self.args, self.keywords, self.wait = function, args, keywords, wait
        self._given = arrays_in((args, {name: each for name, each in keywords.items() if name not in _OUTS}))
        self._before = [array.copy() for array in self._given]
        self.result = self._call()
        self.writes = any(not _equal(a, b) for a, b in zip(self._given, self._before, strict=True))
        self._restore()
        self.calls, self.blocks = self._calibrated()

    def _call(self) -> Any:
        result = self.function(*self.args, **self.keywords)
        if self.wait is not None:
            self.wait()
        return result

    def run(self, calls: int) -> None:
        """Makes some calls; what they write over is not given back."""
        function, args, keywords = self.function, self.args, self.keywords
        for _ in repeat(None, calls):
            function(*args, **keywords)
        if self.wait is not None:
            self.wait()

    def _restore(self) -> None:
        """Gives the arguments back what a call has written over: the next one must do the same work."""
        if self.writes:
            for array, before in zip(self._given, self._before, strict=True):
                if array.flags.writeable:
                    array[...] = before

    def _calibrated(self) -> tuple[int, int]:
        """How many calls make a block, and how many blocks a batch."""
        self._long = False
        took = max(min(self._block(1) for _ in range(3)), 1e-7)
        self._long = took >= LONG_SECONDS
        calls = 1 if self.writes else max(1, min(MOST_CALLS, round(BLOCK_SECONDS / took)))
        return calls, max(1, min(MOST_BLOCKS, round(BATCH_SECONDS / (took * calls))))

    def _block(self, calls: int) -> float:
        """The seconds of some calls; where they write their arguments, without what it takes to restore these."""
        self._restore()
        function, args, keywords = self.function, self.args, self.keywords
        waited = Turns.so_far().waited if self._long else 0.0
        begun = time.perf_counter()
        for _ in repeat(None, calls):  # not by `run`: its call would count as well
            function(*args, **keywords)
        if self.wait is not None:
            self.wait()
        took = time.perf_counter() - begun
        return max(took - (Turns.so_far().waited - waited), LONG_SECONDS / 2) if self._long else took

    def batch(self) -> Batch:
        """One more batch: the median of its blocks, of which a few may have been held up."""
        before, waited = resource.getrusage(resource.RUSAGE_SELF), _waited()
        begun = time.perf_counter()
        blocks = [self._block(self.calls) for _ in range(self.blocks)]
        took = time.perf_counter() - begun
        after, held_up = resource.getrusage(resource.RUSAGE_SELF), _waited() - waited
        faults = (after.ru_minflt - before.ru_minflt) / (self.calls * self.blocks)
        return Batch(median(blocks) / self.calls, faults, _is_clean(self.blocks, held_up, took))

    def peak_nbytes(self) -> int:
        """The most that one call allocates: as Python and numpy tell, or as the process grows."""
        self._restore()
        return max(self._traced_peak(), self._grown_peak())

    def _traced_peak(self) -> int:
        tracemalloc.start(1)
        try:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            kept = self._call()
            peak = tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
        del kept
        return max(peak, 0)

    def _grown_peak(self) -> int:
        if not _reset_high_water():
            return 0
        before = _status("VmRSS")
        kept = self._call()
        grown = _status("VmHWM") - before
        del kept
        return max(grown, 0)


def with_reused_buffer(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[Callable[..., Any], dict[str, Any]] | None:
    """The function and keywords that write into memory kept from an earlier call; None if it takes none."""
    found = _ufunc_of(function)
    if any(name in keywords for name in _OUTS):
        return None
    result = function(*args, **keywords)
    if not arrays_in(result) or nbytes_of(result) == 0 or any(result is each for each in args):
        return None
    for name in _OUTS:
        if _takes(found, name):
            return found, {**keywords, name: result}
    return None


def _ufunc_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of numpy behind an operator, which can be told where to write."""
    import operator

    import numpy as np

    names = {"truediv": "true_divide", "mul": "multiply", "sub": "subtract", "add": "add", "floordiv": "floor_divide"}
    found: dict[Callable[..., Any], Callable[..., Any]] = {
        getattr(operator, name): getattr(np, ufunc) for name, ufunc in names.items()
    }
    return found.get(function, function)


def _takes(function: Callable[..., Any], name: str) -> bool:
    import numpy as np

    if isinstance(function, np.ufunc):
        return name == "out" and function.nout == 1
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):  # functions in C say it in the first line of their documentation
        return f"{name}" in (getattr(function, "__doc__", None) or "").partition("\n")[0].replace("[", " ").split()


def _is_clean(blocks: int, held_up: float, took: float) -> bool:
    """Whether waiting for a processor cannot have moved the median: of many blocks some may have been hit."""
    return held_up < (0.1 if blocks >= 10 else 0.02) * took


def _equal(left: Any, right: Any) -> bool:
    return bool(left.tobytes() == right.tobytes())


def _waited() -> float:
    """The seconds for which threads of this process could have run and were not let."""
    total = 0
    for task in _tasks():
        try:
            total += int(Path(f"/proc/self/task/{task}/schedstat").read_bytes().split()[1])
        except (OSError, IndexError, ValueError):
            continue
    return total / 1e9


def _tasks() -> list[str]:
    try:
        return os.listdir("/proc/self/task")  # noqa: PTH208 - once per batch
    except OSError:
        return []


def _reset_high_water() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) << 10
    return 0
