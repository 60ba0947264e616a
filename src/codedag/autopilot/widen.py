"""A DataLoader without workers fetches the items of a batch in several threads, as if it had fetched them in order.

Batches are first fetched both ways, one after the other, on the same generators' states, and every item is compared;
later one in many is.  Whatever cannot be proven to be in order runs as written, and says why.
"""

from __future__ import annotations

import operator
import os
import random
import sys
import threading
import time
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from codedag.backends.same import same
from codedag.instrument.program import Program, owner_of
from codedag.instrument.sites import CALL, VARIANT, SiteInfo, make, native
from codedag.ir.verdict import No
from codedag.migrate.guard import Failed, attempt
from codedag.migrate.later import Watch
from codedag.migrate.memory import Memory
from codedag.migrate.trial import SLOWER, Trial

if TYPE_CHECKING:
    from codedag.autopilot.ordered import Batch

FIRST, UNSURE = 3, 6  # batches that are fetched both ways: always, and while the gain is small
SEEN = 2  # batches fetched as ever before it is asked which functions their items come from
EVERY, RAREST = 40, 400  # batches per check later on, at first and after many without a difference
SMALL_GAIN = 1.15
FAILURES, PREPARED = 3, 25  # batches given up before the move is, and functions prepared on demand
RETRIES, AGAIN = 2, 40  # how often it is tried again, and after how many batches (4 and 16 times as many)
MOST_THREADS = 4
FETCHER = "torch.utils.data._utils.fetch"

Function = tuple[str, str]
Later = Callable[[Callable[[], None]], None]
Planned = Callable[[Function], bool]
Begin = Callable[[Function, Trial, str], None]
Refuse = Callable[[str, Function, str], None]


@dataclass(slots=True)
class Lane:
    """What is known about fetching from one class of data sets."""

    root: Function
    trial: Trial
    habit: Any = None
    stacking: Any = None
    is_ready: bool = False
    waiting: bool = False
    declined: str = ""
    retry_at: int = 0  # the batch from which it is tried again after it was not faster: the machine may be less busy
    failures: int = 0
    prepared: int = 0
    batches: int = 0
    tried: int = 0
    due_at: int = 0
    chance: random.Random = field(default_factory=lambda: random.Random(0))

    def due(self) -> bool:
        """Whether this batch is fetched both ways."""
        checked = self.trial.checked
        if checked < FIRST or (checked < UNSURE and self.trial.gain() < SMALL_GAIN):
            return True
        if self.batches < self.due_at:
            return False
        due = self.due_at > 0
        distance = min(EVERY * (1 + checked // UNSURE), RAREST)
        self.due_at = self.batches + self.chance.randrange(1, 2 * distance)
        return due


class Widen:
    """Gives the fetches of a DataLoader more threads, and takes them away again."""

    def __init__(
        self, program: Program, memory: Memory, later: Later, planned: Planned, begin: Begin, refuse: Refuse
    ) -> None:
        self.program, self.memory, self.later, self.planned = program, memory, later, planned
        self.begin, self.refuse = begin, refuse
        self.threads = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1, MOST_THREADS)
        self.lanes: dict[type, Lane] = {}
        self._cover: Any = None
        self._make: Any = None
        self._original: Any = None
        self._changed: Any = None
        self._watch: Watch | None = None
        self._process = os.getpid()

    # -- getting in and out

    def look(self) -> None:
        """A function has been planned: if there is a loader, its fetches are looked at."""
        self._enter(sys.modules.get(FETCHER))

    def expect(self) -> None:
        """An earlier run has fetched items in threads: so will this one, once there is a loader."""
        self.look()
        if self._changed is None:
            self._watch = Watch(self._loaded)
            self._watch.start()

    def _loaded(self, module: Any) -> None:
        if module.__name__ == FETCHER:
            self._enter(module)

    def _enter(self, module: Any) -> None:
        of = getattr(module, "_MapDatasetFetcher", None)
        if self._changed is None and of is not None:
            self._original, self._changed = of.fetch, of
            of.fetch = _method(of.fetch, self.fetch)

    def restore(self) -> None:
        """Puts the loader back as it was."""
        if self._watch is not None:
            self._watch.stop()
        if self._changed is not None:
            self._changed.fetch, self._changed = self._original, None

    def leave(self) -> None:
        """Fetches as written from now on: this is a worker, and the program has as many of them as it wants."""
        self._process = 0

    def covers(self, path: str, owner: str) -> bool:
        """Whether the code of a function must stay as it is: its sites ask before they run ahead."""
        return self._cover is not None and self._cover.covers(path, owner)

    # -- a batch

    def fetch(self, fetcher: Any, indices: Any) -> Any:
        """What the loader's own fetch gives."""
        lane = attempt(self._lane, fetcher, indices)
        if lane is None or isinstance(lane, Failed):
            return self._original(fetcher, indices)
        dataset, trial = fetcher.dataset, lane.trial
        get, count = partial(operator.getitem, dataset), len(indices)
        due = lane.due()
        self.memory.paused = due  # what is compared is computed, both times
        if not due:
            attempt(lane.stacking.begin, fetcher.collate_fn, count)
        batch = self._make(get, indices, lane.habit, None if due else lane.stacking)
        started = time.perf_counter()
        done = self._run(batch)
        seconds = time.perf_counter() - started
        if not done:
            self.memory.paused = False
            batch.take_back()
            self._gave_up(lane, batch)
            return self._original(fetcher, indices)
        trial.calls += count
        trial.seconds += 0.0 if due else seconds
        data = batch.results
        if due:
            batch.take_back()
            started = time.perf_counter()
            data = [dataset[index] for index in indices]
            self.memory.paused = False
            self._judge(lane, data, batch.results, time.perf_counter() - started, seconds)
        made = attempt(lane.stacking.collated, fetcher.collate_fn, data)
        return made[0] if type(made) is tuple else fetcher.collate_fn(data)

    def _run(self, batch: Batch) -> bool:
        """Whether all items are done; meanwhile cv2 has one thread, since the items are what runs side by side."""
        cv2 = sys.modules.get("cv2")
        before = cv2.getNumThreads() if cv2 is not None else 1
        if before > 1:
            cv2.setNumThreads(1)  # type: ignore[union-attr]
        try:
            return attempt(batch.run, self.threads) is True  # items run on trial in there: what fails is ours
        finally:
            if before > 1:
                cv2.setNumThreads(before)  # type: ignore[union-attr]

    def _judge(self, lane: Lane, data: list[Any], ahead: list[Any], plain: float, seconds: float) -> None:
        verdict = attempt(same, data, ahead)
        verdict = No(verdict.reason) if isinstance(verdict, Failed) else verdict
        lane.trial.record(plain / len(data), seconds / len(data), verdict)
        if (
            lane.trial.checked >= UNSURE and lane.trial.gain() < SLOWER
        ):  # a batch is a long time: noise is not waited for
            lane.trial.stop(f"not faster here: {lane.trial.gain():.2f}x over {lane.trial.checked} interleaved batches")
        if not lane.trial.active:
            lane.declined = lane.trial.reason
            lane.tried += 1
            if verdict and lane.tried <= RETRIES:
                lane.retry_at = lane.batches + AGAIN * 4**lane.tried

    def _lane(self, fetcher: Any, indices: Any) -> Lane | None:
        """The lane of this fetch, if it can be widened now."""
        if os.getpid() != self._process or threading.current_thread() is not threading.main_thread():
            return None
        dataset = _innermost(fetcher.dataset)
        lane = self.lanes.get(type(dataset))
        if lane is None:
            lane = self.lanes[type(dataset)] = self._new(dataset)
        lane.batches += 1
        if lane.retry_at and lane.batches >= lane.retry_at:
            self._try_again(lane)
        if lane.declined or not fetcher.auto_collation or type(indices) is not list or len(indices) < 2:
            return None
        if hasattr(fetcher.dataset, "__getitems__") and not _is_subset(fetcher.dataset):
            return None
        if not lane.is_ready:
            self._prepare_later(lane)
            return None
        return lane if _is_usual() else None

    def _new(self, dataset: Any) -> Lane:
        function = getattr(type(dataset), "__getitem__", None)
        code = function.__code__ if isinstance(function, types.FunctionType) else None
        root = (code.co_filename, owner_of(code.co_qualname)) if code is not None else ("", "")
        lane = Lane(root, Trial(f"{type(dataset).__qualname__}.__getitem__"))
        if root[0] not in self.program.files:
            lane.declined = "its items do not come from code of the program"
        elif self.threads < 2:
            self._decline(lane, "there is one core")
        return lane

    def _try_again(self, lane: Lane) -> None:
        lane.declined, lane.retry_at, lane.due_at = "", 0, 0
        lane.trial = Trial(lane.trial.what)
        self.begin(lane.root, lane.trial, f"{self.threads} threads")

    # -- preparing

    def _prepare_later(self, lane: Lane) -> None:
        wanted = {lane.root} | (self._cover.wanted if self._cover is not None else set())
        if not lane.waiting and lane.batches > SEEN and all(map(self.planned, wanted)):
            lane.waiting = True
            self.later(partial(self._prepare, lane))

    def _prepare(self, lane: Lane) -> None:
        why = attempt(self._prepared, lane)
        lane.waiting = False
        if isinstance(why, Failed):
            why = why.reason
        if why:
            self._decline(lane, why)
        elif not lane.is_ready:
            lane.is_ready = True
            if not lane.prepared:
                self.begin(lane.root, lane.trial, f"{self.threads} threads")

    def _prepared(self, lane: Lane) -> str:
        if self._cover is None:
            from codedag.autopilot.cover import Cover
            from codedag.autopilot.ordered import Batch

            self._cover, self._make = Cover(self.program), Batch
        if lane.habit is None:
            from codedag.autopilot.ordered import Habit
            from codedag.autopilot.stacking import Stacking

            lane.habit, lane.stacking = Habit(), Stacking()
        why: str = self._cover.prepare({lane.root} | self._cover.wanted)
        self._cover.wanted.clear()
        return why

    def _gave_up(self, lane: Lane, batch: Batch) -> None:
        if batch.wants and self._cover.wanted and lane.prepared < PREPARED:
            lane.prepared += 1
            lane.is_ready = False
            self._prepare_later(lane)
            return
        lane.trial.decline(batch.reason)
        lane.failures += not batch.wants
        if lane.failures >= FAILURES:
            self._decline(lane, batch.reason)

    def _decline(self, lane: Lane, why: str) -> None:
        lane.declined = why
        lane.trial.stop(why)
        self.refuse("its items in several threads", lane.root, why)


def _method(original: types.FunctionType, instead: Callable[..., Any]) -> Any:
    """A method that runs something else, and has no frame of ours in its tracebacks."""
    code = original.__code__
    site = make(SiteInfo(0, CALL, "", code.co_filename, code.co_firstlineno, 0, code.co_firstlineno, 0, ""))
    site.variant = lambda _, fetcher, indices: instead(fetcher, indices)
    site.mode = VARIANT
    return native.method(site, original)


def _is_subset(dataset: Any) -> bool:
    return type(dataset) is getattr(sys.modules.get("torch.utils.data"), "Subset", None)


def _innermost(dataset: Any) -> Any:
    """The data set that the items come from, inside of torch's own wrappers that only choose among them."""
    while _is_subset(dataset):
        dataset = dataset.dataset
    return dataset


def _is_usual() -> bool:
    """Whether nothing is set for this thread alone that another thread would miss: a mode of torch, a debugger."""
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return False
    torch = sys.modules.get("torch")
    if torch is None:
        return True
    c = torch._C
    modes = c._len_torch_function_stack() or c._len_torch_dispatch_stack() or c._get_tracing_state() is not None
    return not (modes or torch.is_inference_mode_enabled() or torch.is_autocast_enabled())
