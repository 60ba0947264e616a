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
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from codedag.autopilot.loops import Loops
from codedag.autopilot.overlap import Overlap
from codedag.autopilot.repeats import Repeats
from codedag.autopilot.rest import Rest
from codedag.autopilot.used import Use
from codedag.backends.same import same
from codedag.instrument.program import Program, owner_of
from codedag.instrument.sites import CALL, VARIANT, SiteInfo, make, native
from codedag.ir import clock as time
from codedag.ir.verdict import No
from codedag.migrate.guard import Failed, attempt
from codedag.migrate.later import Watch
from codedag.migrate.memory import Memory
from codedag.migrate.trial import SLOWER, Trial

if TYPE_CHECKING:
    from codedag.autopilot.cover import Cover
    from codedag.autopilot.ordered import Batch

FIRST, UNSURE = 3, 6  # batches that are fetched both ways: always, and while the gain is small
SEEN = 2  # batches fetched as ever before it is asked which functions their items come from
EVERY, RAREST = 40, 400  # batches per check later on, at first and after many without a difference
SMALL_GAIN = 1.15
#: Batches after which so little gain ends it: dense code asks at every step, and every one costs twice the time.
HOPELESS = ((2, 0.7), (FIRST, 0.85))
NEVER = 0.2  # what gains less is not tried again
FAILURES, PREPARED = 3, 25  # batches given up before the move is, and functions prepared on demand
RETRIES, AGAIN = 2, 40  # how often it is tried again, and after how many batches (4 and 16 times as many)
FREE, SHARE = 0.6, 0.1  # seconds, and share of the time, that may be spent on doing work twice before there is a gain
MOST_THREADS = 4
SHORT = range(6, 61)  # batches of an epoch of which the next one is waited for, if that tells more
FETCHER = "torch.utils.data._utils.fetch"

Function = tuple[str, str]
Later = Callable[[Callable[[], None]], None]
Planned = Callable[[Function], bool]
Begin = Callable[[Function, Trial, str, int, str], None]
Refuse = Callable[[str, Function, str], None]


@dataclass(slots=True)
class Lane:
    """What is known about fetching from one class of data sets."""

    root: Function
    trial: Trial
    needs: frozenset[Function] = frozenset()  # functions whose sites must ask before anything runs ahead
    site: int = -1  # where it stands, if not all of a function
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
    began: float = field(default_factory=time.perf_counter)
    twice: float = 0.0  # seconds that comparing took
    use: Use = field(default_factory=Use)
    epoch: Any = None  # a weak reference to the fetcher of the epoch in which it was first ready
    chance: random.Random = field(default_factory=lambda: random.Random(0))

    def due_soon(self) -> bool:
        """Whether the gain is still being found out."""
        return self.trial.checked < FIRST

    def affords(self) -> bool:
        """Whether one more batch may be fetched twice: a few at once, more as time passes or time is gained."""
        checked, passed = self.trial.checked, time.perf_counter() - self.began
        next_one = self.twice / checked if checked else passed / max(self.batches, 1)
        gained = max(self.trial.seconds * (self.trial.gain() - 1), 0.0) / 2 if checked else 0.0
        return self.twice + next_one <= max(FREE, SHARE * passed) + gained

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
        self.lanes: dict[tuple[type, ...], Lane] = {}
        self.loops, self.overlap, self.rest = Loops(self), Overlap(self), Rest()
        self.cover: Any = None
        self.every: list[Lane] = []  # of loaders and of loops
        self.frugal = True  # whether comparing has to wait until it costs little
        self.in_vain: dict[tuple[str, str, str, int], str] = {}  # what earlier runs found not to be faster, and why
        self._relaxed = False  # whether no function asks any more
        self._make: Any = None
        self._original: Any = None
        self._changed: Any = None
        self._watch: Watch | None = None
        self._process = os.getpid()
        self._repeats = Repeats(program)

    # -- getting in and out

    def look(self) -> None:
        """A function has been planned: if there is a loader, its fetches are looked at."""
        self._enter(sys.modules.get(FETCHER))

    def expect(self) -> None:
        """An earlier run has fetched items in threads: so will this one, once there is a loader."""
        self.look()
        if self._changed is None and self._watch is None:  # each change that is known from it asks for this
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
            self.overlap.enter(_method)
            self.rest.enter()

    def restore(self) -> None:
        """Puts the loader back as it was."""
        if self._watch is not None:
            self._watch.stop()
        self.overlap.restore()
        self.rest.restore()
        for lane in self.every:
            _conclude(lane.trial, lane.use)
        if self._changed is not None:
            self._changed.fetch, self._changed = self._original, None

    def leave(self) -> None:
        """Fetches as written from now on: this is a worker, and the program has as many of them as it wants."""
        self._process = 0
        self.rest.forget()

    def has_left(self) -> bool:
        """Whether everything is fetched as written in this process."""
        return self._process == 0

    def covers(self, path: str, owner: str) -> bool:
        """Whether the code of a function must stay as it is: its sites ask before they run ahead."""
        return self.cover is not None and self.cover.covers(path, owner)

    # -- a batch

    def fetch(self, fetcher: Any, indices: Any) -> Any:
        """What the loader's own fetch gives."""
        lane = attempt(self._lane, fetcher, indices)
        if lane is None or isinstance(lane, Failed):
            attempt(self.rest.pause)
            attempt(self.relax)
            return self._original(fetcher, indices)
        if lane.use.plain and self.overlap.is_idle():
            return self._as_written(lane, fetcher, indices)
        attempt(self.rest.begin)
        compared = lane.trial.checked + self.overlap.compared(lane)
        early = self.overlap.take(lane, fetcher, indices)
        data = self._items(lane, fetcher, indices) if early is None else early
        if data is None:
            return self._original(fetcher, indices)
        made = attempt(lane.stacking.collated, fetcher.collate_fn, data)
        collated = made[0] if type(made) is tuple else fetcher.collate_fn(data)
        once = compared == lane.trial.checked + self.overlap.compared(lane)
        attempt(self._in_use, lane, fetcher, once)
        if lane.trial.active and not lane.use.plain:
            attempt(self.overlap.go_on, lane, fetcher, early is not None)
        attempt(self.rest.batch, fetcher, once)
        return collated

    def _as_written(self, lane: Lane, fetcher: Any, indices: Any) -> Any:
        """A batch as the program has it, to see how long that takes now."""
        batch = self._original(fetcher, indices)
        attempt(self._in_use, lane, fetcher, True)
        attempt(self.overlap.hold, lane)
        attempt(self.rest.batch, fetcher, False)
        return batch

    def _in_use(self, lane: Lane, fetcher: Any, once: bool) -> None:
        """Times a batch that was fetched once, and takes the move back if it is slower in use."""
        if lane.due_soon() or not lane.trial.active:
            return
        lane.use.batch(fetcher, lane.batches, once)
        if lane.use.is_in_vain():
            lane.trial.stop(f"not faster here: {lane.use.told()}")
            self._give_up(lane)

    def _give_up(self, lane: Lane) -> None:
        """Fetches as written from now on, and tries once more when the machine may be less busy."""
        lane.declined = lane.trial.reason
        lane.tried += 1
        if lane.tried <= RETRIES and lane.trial.gain() >= NEVER:
            lane.retry_at = lane.batches + AGAIN * 4**lane.tried

    def _items(self, lane: Lane, fetcher: Any, indices: list[Any]) -> list[Any] | None:
        """The items of a batch, fetched in threads; None if they have to be fetched as written."""
        get, due = partial(operator.getitem, fetcher.dataset), lane.due()
        first, memory = due and not lane.trial.checked, self.memory  # what is compared first is computed, both times
        if not due:
            attempt(lane.stacking.begin, fetcher.collate_fn, len(indices))
        batch: Batch = self._make(get, indices, lane.habit, None if due else lane.stacking)
        started, memory.paused = time.perf_counter(), first
        with memory.doing(keeps=not due):
            done = self.run(batch)
        seconds, memory.paused = time.perf_counter() - started, False
        if not done:
            batch.take_back()
            self.gave_up(lane, batch)
            return None
        lane.trial.calls += len(indices)
        lane.trial.seconds += 0.0 if due else seconds
        if not due:
            return batch.results
        batch.take_back()
        started = time.perf_counter()
        with memory.doing(recalls=not first):
            data = [fetcher.dataset[index] for index in indices]
        self.judge(lane, data, batch.results, time.perf_counter() - started, seconds)
        return data

    def run(self, batch: Batch, threads: int = 0) -> bool:
        """Whether all items are done."""
        with self.one_thread():  # items run on trial in there: what fails is ours
            return attempt(batch.run, threads or self.threads) is True

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        """Meanwhile cv2 has one thread, since the items are what runs side by side."""
        cv2 = sys.modules.get("cv2")
        before = cv2.getNumThreads() if cv2 is not None else 1
        if before > 1:
            cv2.setNumThreads(1)  # type: ignore[union-attr]
        try:
            yield
        finally:
            if before > 1:
                cv2.setNumThreads(before)  # type: ignore[union-attr]

    def judge(self, lane: Lane, data: list[Any], ahead: list[Any], plain: float, seconds: float) -> None:
        """Compares and times a batch that was fetched both ways, and takes the move back if that says so."""
        verdict = attempt(same, data, ahead)
        lane.twice += seconds
        lane.trial.record(plain / len(data), seconds / len(data), verdict)
        if _is_slow(lane.trial):  # a batch is a long time: noise is not waited for
            lane.trial.stop(f"not faster here: {lane.trial.gain():.2f}x over {lane.trial.checked} interleaved batches")
        if not lane.trial.active:
            lane.tried += RETRIES if isinstance(verdict, No | Failed) else 0
            self._give_up(lane)

    def _lane(self, fetcher: Any, indices: Any) -> Lane | None:
        """The lane of this fetch, if it can be widened now."""
        if not self.is_here():
            return None
        kinds = tuple(dict.fromkeys(map(type, _innermost(fetcher.dataset))))
        lane = self.lanes.get(kinds)
        if lane is None:
            lane = self.lanes[kinds] = self._new(kinds)
        lane.batches += 1
        if lane.retry_at and lane.batches >= lane.retry_at:
            self.try_again(lane)
        if lane.declined or not fetcher.auto_collation or type(indices) is not list or len(indices) < 2:
            return None
        if hasattr(fetcher.dataset, "__getitems__") and not _is_subset(fetcher.dataset):
            return None
        if not lane.is_ready:
            self.prepare_later(lane)
            return None
        return lane if self.is_usual() and not self.waits(lane) and not self._is_early(lane, fetcher) else None

    def _is_early(self, lane: Lane, fetcher: Any) -> bool:
        """Whether it can be told better soon: in the next epoch, what is kept now need not be made again."""
        if lane.trial.checked:
            return False
        if lane.epoch is None:
            lane.epoch = weakref.ref(fetcher)
        kept = lane.epoch() is fetcher and self.memory.nbytes > 0
        return kept and self.overlap.batches() in SHORT and self._repeats.expected()

    def waits(self, lane: Lane) -> bool:
        """Whether a lane has to be compared next, which costs more than it may while no gain is seen."""
        checked = lane.trial.checked
        shown = checked >= UNSURE or (checked > 0 and lane.trial.gain() >= SMALL_GAIN)
        return self.frugal and not shown and not lane.affords()

    def is_here(self) -> bool:
        """Whether this is the program's own thread, in the process that it began in."""
        return os.getpid() == self._process and threading.current_thread() is threading.main_thread()

    def is_usual(self) -> bool:
        """Whether functions ask, and nothing is set for this thread alone that another thread would miss."""
        return not self._relaxed and _is_usual()

    def _new(self, kinds: tuple[type, ...]) -> Lane:
        functions = [getattr(kind, "__getitem__", None) for kind in kinds]
        codes = [f.__code__ if isinstance(f, types.FunctionType) else None for f in functions]
        roots = [(code.co_filename, owner_of(code.co_qualname)) if code is not None else ("", "") for code in codes]
        lane = Lane(roots[0], Trial(f"{kinds[0].__qualname__}.__getitem__"), frozenset(roots))
        self.every.append(lane)
        if any(path not in self.program.files for path, _ in roots):
            lane.declined = "its items do not come from code of the program"
        elif self.threads < 2:
            self.decline(lane, "there is one core")
        return lane

    def try_again(self, lane: Lane) -> None:
        """Puts a lane on trial once more."""
        lane.declined, lane.retry_at, lane.due_at, lane.use = "", 0, 0, Use()
        lane.trial = Trial(lane.trial.what)
        self.begin(lane.root, lane.trial, f"{self.threads} threads", lane.site, "widen")

    def relax(self) -> None:
        """Gives functions their own code back once nothing runs ahead any more: asking would only cost time."""
        if self.cover is None or self._relaxed or not self.is_here():
            return
        from codedag.migrate import _order

        busy = any((lane.is_ready or lane.waiting) and not lane.declined for lane in self.every)
        if busy or _order.current() is not None:
            return
        self._relaxed = True
        self.overlap.pause()
        for lane in self.every:
            lane.prepared += lane.is_ready  # a lane that is tried again is prepared again
            lane.is_ready = False
        self.later(partial(_without_result, self.cover.leave))

    # -- preparing

    def prepare_later(self, lane: Lane) -> None:
        """Has a lane prepared in the background, once its functions are not observed any more."""
        wanted = lane.needs | (self.cover.wanted if self.cover is not None else set())
        if not lane.waiting and lane.batches > SEEN and all(map(self.planned, wanted)):
            known = self.in_vain.get(("widen", *lane.root, lane.site))
            if known:
                self.decline(lane, known)
                return
            lane.waiting = True
            self.later(partial(self._prepare, lane))

    def _prepare(self, lane: Lane) -> None:
        why = attempt(self._prepared, lane)
        if isinstance(why, Failed):
            why = why.reason
        if why:
            self.decline(lane, why)
        elif not lane.is_ready:
            lane.is_ready = True
            if not lane.prepared:
                self.begin(lane.root, lane.trial, f"{self.threads} threads", lane.site, "widen")
        lane.waiting = False  # last: until then nobody may think that nothing runs ahead

    def covering(self) -> Cover:
        """What makes sites ask, loaded with all that is known about effects when it is first needed."""
        if self.cover is None:
            from codedag.autopilot.cover import Cover
            from codedag.autopilot.ordered import Batch

            self.cover, self._make = Cover(self.program), Batch
        return self.cover  # type: ignore[no-any-return]

    def _prepared(self, lane: Lane) -> str:
        if lane.habit is None:
            from codedag.autopilot.ordered import Habit
            from codedag.autopilot.stacking import Stacking

            lane.habit, lane.stacking = Habit(), Stacking()
        self._relaxed = False
        return self.covering().prepare(lane.needs)

    def gave_up(self, lane: Lane, batch: Batch) -> None:
        """Prepares what a batch that was given up wanted, or counts it as a failure."""
        if batch.wants and not batch.unasked and self.cover.wanted and lane.prepared < PREPARED:
            lane.prepared += 1
            lane.is_ready = False
            self.prepare_later(lane)
            return
        lane.trial.decline(batch.reason)
        lane.failures += not batch.wants
        if lane.failures >= FAILURES or batch.unasked:
            self.decline(lane, batch.reason)

    def decline(self, lane: Lane, why: str) -> None:
        """Ends a lane for good, and says why."""
        lane.declined = why
        lane.trial.stop(why)
        line = f" of line {self.program.files[lane.root[0]].infos[lane.site].line}" if lane.site >= 0 else ""
        self.refuse(f"its loop{line} in several threads" if line else "its items in several threads", lane.root, why)


def _is_slow(trial: Trial) -> bool:
    """Whether batches that were fetched both ways say that it is not faster."""
    if trial.checked >= UNSURE and trial.gain() < SLOWER:
        return True
    return any(trial.checked >= least and trial.gain() < gain for least, gain in HOPELESS)


def _conclude(trial: Trial, use: Use) -> None:
    """Ends a trial that was compared too rarely for its results to be used, or was slower; the program has ended."""
    if trial.active and use.trial.pairs and use.trial.gain() < SLOWER:
        trial.stop(f"not faster here: {use.told()}")
    elif trial.active and 0 < trial.checked < UNSURE and trial.gain() < SLOWER:
        trial.stop(f"not faster here: {trial.gain():.2f}x over {trial.checked} interleaved batches")
    if trial.active and 0 < trial.checked < FIRST:
        slow = trial.gain() < SLOWER
        why = "not faster here" if slow else "the program ended before it was compared often enough"
        trial.stop(f"{why}: {trial.gain():.2f}x over {trial.checked} interleaved batches")


def _without_result(job: Callable[[], None]) -> None:
    attempt(job)


def _method(original: types.FunctionType, instead: Callable[..., Any]) -> Any:
    """A method that runs something else, and has no frame of ours in its tracebacks."""
    code = original.__code__
    site = make(SiteInfo(0, CALL, "", code.co_filename, code.co_firstlineno, 0, code.co_firstlineno, 0, ""))
    site.variant = lambda _, *args: instead(*args)
    site.mode = VARIANT
    return native.method(site, original)


def _is_subset(dataset: Any) -> bool:
    return type(dataset) is getattr(sys.modules.get("torch.utils.data"), "Subset", None)


def _innermost(dataset: Any) -> list[Any]:
    """The data sets that items come from, inside of torch's own wrappers that only choose among them."""
    if _is_subset(dataset):
        return _innermost(dataset.dataset)
    if type(dataset) is getattr(sys.modules.get("torch.utils.data"), "ConcatDataset", None) and dataset.datasets:
        return [inner for each in dataset.datasets for inner in _innermost(each)]
    return [dataset]


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
