"""The next batch of a DataLoader without workers is begun while the program works on the one that it has.

Batches are compared with the same items fetched as written at first and now and then; batches with and without a
head start take turns at first, and if that is not faster from one batch to the next, it is not done any more.
"""

from __future__ import annotations

import operator
import sys
import weakref
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from codedag.autopilot.pulled import Pulled, length_of_epoch, looked_up_in, permuted_at_once
from codedag.autopilot.stacking import is_default
from codedag.autopilot.stored import Stored, stored_while_running
from codedag.backends.same import same
from codedag.ir import clock as time
from codedag.ir.verdict import No
from codedag.migrate.guard import Failed, attempt
from codedag.migrate.trial import SLOWER, Trial

if TYPE_CHECKING:
    from codedag.autopilot.early import EarlyBatch
    from codedag.autopilot.reach import Reach
    from codedag.autopilot.widen import Lane, Widen

LOADER = "torch.utils.data.dataloader"
COMPARED, PAIRS, FEW = 3, 8, 3  # batches that are compared at first, pairs of timings until it is decided, and if clear
EVERY = 60  # batches per comparison, and per batch without a head start, later on
FAILURES = 3
#: Samplers of torch that draw nothing but from a generator of their own once they have begun.
_SAMPLERS = ("SequentialSampler", "RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler")


@dataclass(slots=True)
class Course:
    """What is known about beginning early for one lane."""

    trial: Trial
    begun: bool = False
    declined: str = ""
    failures: int = 0
    batches: int = 0
    since: float = 0.0  # when the program got its last batch
    early: list[float] = field(default_factory=list)  # seconds from batch to batch
    plain: list[float] = field(default_factory=list)

    def is_over(self) -> bool:
        """Whether no batch begins early any more."""
        return bool(self.declined) or not self.trial.active

    def begins_early(self) -> bool:
        """Whether the next batch gets a head start: while it is not decided every second one."""
        if self.trial.checked < COMPARED:
            return True
        decided = len(self.trial.pairs) >= PAIRS
        return self.batches % EVERY != 0 if decided else self.batches % 2 == 0

    def is_due(self) -> bool:
        """Whether this batch is compared."""
        return self.trial.checked < COMPARED or self.batches % (EVERY * 4) == EVERY * 2

    def took(self, early: bool, seconds: float) -> None:
        """Takes in the time from one batch to the next."""
        (self.early if early else self.plain).append(seconds)
        if self.early and self.plain:
            self.trial.pairs.append((self.plain.pop(), self.early.pop()))
            self.early.clear()
            self.plain.clear()
        pairs = self.trial.pairs
        clear = len(pairs) >= FEW and all(plain < SLOWER * early for plain, early in pairs)
        if (clear or len(pairs) >= PAIRS) and self.trial.gain() < SLOWER:
            self.trial.stop(f"not faster here: {self.trial.gain():.2f}x over {len(self.trial.pairs)} pairs of batches")


class Overlap:
    """Begins the next batch of a loader early, and hands it over when it is asked for."""

    def __init__(self, widen: Widen) -> None:
        self.widen = widen
        self._courses: dict[int, Course] = {}
        self._pulled: weakref.WeakKeyDictionary[Any, Pulled] = weakref.WeakKeyDictionary()  # by iterator
        self._loader: Any = None  # a weak reference to the iterator that is asked
        self._changed: Any = None
        self._batch: EarlyBatch | None = None
        self._of: Any = None  # the fetcher that it is for
        self._left: Any = None  # gives it up once its iterator is gone
        self._stored = Stored()
        self._looked_at = (-1, -1)  # how many files and functions that ask there were

    # -- getting in and out

    def enter(self, method: Any) -> None:
        """Is asked for the indices of the next batch from now on."""
        kind = getattr(sys.modules.get(LOADER), "_SingleProcessDataLoaderIter", None)
        original = getattr(kind, "_next_index", None)
        if self._changed is None and kind is not None and original is not None:
            self._changed = kind
            kind._next_index = method(original, partial(self.next_index, original))

    def restore(self) -> None:
        """Puts the loader back as it was."""
        self.pause()
        if self._changed is not None:
            del self._changed._next_index
            self._changed = None

    def pause(self) -> None:
        """Ends what runs beside the program: it forks, or ends."""
        batch, self._batch = self._batch, None
        if batch is not None:
            self._left.detach()
            batch.leave()
            batch.end()

    def next_index(self, original: Any, iterator: Any) -> Any:
        """What the loader's own method gives: the indices of the next batch, which may have been looked up already."""
        self._loader = weakref.ref(iterator)
        pulled = self._pulled.pop(iterator, None)
        return original(iterator) if pulled is None else pulled.now()

    # -- a batch that is asked for

    def batches(self) -> int:
        """How many batches the loader that is asked has in an epoch; many, if it does not say."""
        iterator = self._loader() if self._loader is not None else None
        batches = _known_sampler(iterator) if iterator is not None else None
        length = None if batches is None else length_of_epoch(iterator)
        return sys.maxsize if batches is None or length is None else -(-length // batches.batch_size)

    def is_idle(self) -> bool:
        """Whether no batch has been begun early."""
        return self._batch is None

    def hold(self, lane: Lane) -> None:
        """A batch was fetched as written: the time from it to the next one tells nothing."""
        course = self._courses.get(id(lane))
        if course is not None:
            course.since = 0.0

    def compared(self, lane: Lane) -> int:
        """How many batches of a lane were fetched once more, to compare them."""
        course = self._courses.get(id(lane))
        return course.trial.checked if course is not None else 0

    def take(self, lane: Lane, fetcher: Any, indices: Any) -> list[Any] | None:
        """The items of a batch that was begun early, or None."""
        batch = self._batch
        if batch is None or batch.indices is not indices or self._of is not fetcher:
            return None
        self._batch = self._of = None
        self._left.detach()
        course = self._courses[id(lane)]
        verdict = attempt(batch.as_it_was)
        why = verdict.reason if isinstance(verdict, Failed | No) else ""
        if why:
            batch.give_up(why, batch.wants)
        with self.widen.one_thread():
            done = attempt(batch.finish) is True
        if not done:
            batch.take_back()
            self._failed(lane, course, batch)
            return None
        course.trial.calls += 1
        return self._compared(lane, course, fetcher, batch) if course.is_due() else batch.results

    def _failed(self, lane: Lane, course: Course, batch: EarlyBatch) -> None:
        course.trial.decline(batch.reason)
        course.failures += not batch.wants
        course.since = 0.0
        if course.failures >= FAILURES or batch.unasked:
            self._decline(lane, course, batch.reason)

    def _compared(self, lane: Lane, course: Course, fetcher: Any, batch: EarlyBatch) -> list[Any]:
        batch.take_back()
        course.since, started = 0.0, time.perf_counter()
        with self.widen.memory.doing(recalls=course.trial.checked > 0):
            data = [fetcher.dataset[index] for index in batch.indices]
        lane.twice += time.perf_counter() - started
        verdict = attempt(same, data, batch.results)
        course.trial.record(0.0, 0.0, verdict)
        if not course.trial.active:
            self._decline(lane, course, course.trial.reason)
        elif not isinstance(verdict, Failed):
            course.trial.pairs.pop()
        return data

    # -- the batch after it

    def go_on(self, lane: Lane, fetcher: Any, early: bool) -> None:
        """The program has got a batch: the next one may begin."""
        course = self._courses.get(id(lane))
        if course is None:
            course = self._courses[id(lane)] = Course(Trial(f"{lane.trial.what}, next batch", patient=True))
            known = self.widen.in_vain.get(("overlap", *lane.root, lane.site))
            if known:
                self._decline(lane, course, known)
        if course.is_over() or not lane.trial.active or lane.due_soon():
            return
        now = time.perf_counter()
        if course.since and course.trial.checked >= COMPARED:
            course.took(early, now - course.since)
        if course.is_over():
            return
        course.batches += 1
        course.since = now
        if course.begins_early() and (course.trial.checked >= COMPARED or self._affords(lane)):
            self._begin(lane, course, fetcher)

    def _affords(self, lane: Lane) -> bool:
        return not self.widen.frugal or lane.affords()

    def _begin(self, lane: Lane, course: Course, fetcher: Any) -> None:
        from codedag.autopilot.early import EarlyBatch

        iterator = self._loader() if self._loader is not None else None
        if iterator is None or iterator._dataset_fetcher is not fetcher or self._batch is not None:
            self.pause()
            return
        indices = self._pull(iterator)
        if indices is None:
            return
        get, helpers = partial(operator.getitem, fetcher.dataset), max(self.widen.threads - 1, 1)
        attempt(lane.stacking.begin, fetcher.collate_fn, len(indices))
        batch = EarlyBatch(get, indices, lane.habit, lane.stacking, helpers, [fetcher.dataset])
        why = batch.reach.why.reason if batch.reach.why is not None else self._is_set(batch.reach, fetcher.collate_fn)
        if why:
            self._decline(lane, course, why)
            return
        if not course.begun:
            course.begun = True
            self.widen.begin(lane.root, course.trial, "the next batch while this one is used", lane.site, "overlap")
        self._batch, self._of = batch, fetcher
        self._left = weakref.finalize(iterator, batch.leave)
        self._left.atexit = False
        batch.start()

    def _pull(self, iterator: Any) -> Any:
        """The indices of the next batch, if they can be looked up without anybody noticing."""
        batches = _known_sampler(iterator)
        if batches is None:
            return None
        sampler, length = batches.sampler, length_of_epoch(iterator)
        first, end = ((iterator._num_yielded + more) * batches.batch_size for more in (1, 2))
        if length is None or first >= length or _draws_again(sampler, end, permuted_at_once(iterator)):
            return None
        if end > length and (batches.drop_last or hasattr(sampler, "_num_samples")):
            return None  # one that permutes asks the data set for its length when it comes to the end
        before = looked_up_in(sampler) if hasattr(sampler, "indices") else None
        if before is None and hasattr(sampler, "indices"):
            return None
        indices = next(iterator._sampler_iter, None)
        if indices is not None:
            self._pulled[iterator] = Pulled(sampler, before, indices)
        return indices

    def _decline(self, lane: Lane, course: Course, why: str) -> None:
        course.declined = why
        course.trial.stop(why)
        self.widen.refuse("its next batch while this one is used", lane.root, why)

    def _is_set(self, reach: Reach, collate: Any) -> str:
        """Why something that items read could change and change back while they run, as far as the source says."""
        program, asking = self.widen.program, self.widen.cover.ready
        if self._looked_at != (len(program.files), len(asking)):
            self._looked_at = len(program.files), len(asking)
            self._stored = stored_while_running(program, asking)
        stored = self._stored
        both = (reach.names & stored.attributes) | (reach.globals & stored.globals)
        both |= reach.changeable & (stored.inside | stored.others)
        if not both and "*" in stored.others and reach.changeable and not is_default(collate):
            return "the program changes something in place that its items may be made of"
        return f"the program sets {min(both)} while it runs, which its items may read" if both else ""


def _known_sampler(iterator: Any) -> Any:
    """What chooses the batches of an iterator, if that is torch's own, over one of torch's own samplers."""
    batches = iterator._index_sampler
    data = sys.modules.get("torch.utils.data")
    known = [getattr(data, name, None) for name in _SAMPLERS]
    fits = type(batches) is getattr(data, "BatchSampler", None) and type(getattr(batches, "sampler", None)) in known
    return batches if fits else None


def _draws_again(sampler: Any, count: int, at_once: int | None) -> bool:
    """Whether a sampler that is asked for so many indices in all draws from a generator of the program's as it goes.

    One that permutes does so once more when it is asked for an index after the last one: so does a last batch that is
    not full.
    """
    if getattr(sampler, "generator", None) is None or not hasattr(sampler, "replacement"):
        return False
    if not hasattr(sampler, "data_source"):  # one that weighs: it draws all of them at once, before the first
        return False
    return bool(sampler.replacement or at_once is None or count > at_once)
