"""Items ahead of the program when something of ours fails in the middle: none is lost, and what runs again is the same.

Zero loss: every item is there once, in order.  Exact replay: after a batch was given up, the generators are where they
were, so that the batch as written is the batch that the program would have had.  Bounded memory: one batch at a time,
and no more items at work than threads.
"""

from __future__ import annotations

import ctypes
import random
import threading
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_ordered import PLAIN, Ran, states

from codedag.autopilot import early, ordered
from codedag.autopilot.early import EarlyBatch
from codedag.autopilot.ordered import Batch, Habit
from codedag.backends.same import same
from codedag.instrument.guard import attempt

SECONDS = 20  # after which a batch is taken to hang
#: What runs in several threads on behalf of one batch: any of it may fail.
PLACES = [
    (ordered.Item, "draw"), (ordered.Item, "drew"), (ordered.Item, "end"), (ordered.Item, "look"),
    (ordered.Batch, "keep"), (ordered.Batch, "pass_on"), (ordered.Batch, "wait"), (ordered.Batch, "_take"),
    (ordered.Second, "start"), (ordered.Batch, "watch_generators"), (ordered.Batch, "look_at_generators"),
]  # fmt: skip
#: Those left out have tests of their own below: what fails there ends the batch before it has begun.
EARLY_PLACES = [
    *(place for place in PLACES if place[1] not in ("start", "watch_generators")), (early.EarlyItem, "begin"),
    (early.EarlyItem, "rest"), (early.EarlyBatch, "_count"), (early.EarlyBatch, "wait_for_the_program"),
]  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A program whose items may run ahead."""
    random.seed(5)
    np.random.seed(5)
    ran = Ran(tmp_path_factory.mktemp("failures"), PLAIN)
    for number in range(3):  # all that its items ask for is prepared
        ran.ahead([number, number + 1])
    yield ran
    ran.program.restore()


class Faulty:
    """While it is entered, one method fails at one of its calls, in whatever thread that is."""

    def __init__(self, kind, name, at, error):
        self.kind, self.name, self.at, self.error = kind, name, at, error
        self.plain, self.calls, self.failed = getattr(kind, name), 0, False

    def __enter__(self):
        lock = threading.Lock()

        def method(this, *args, **keywords):
            with lock:
                self.calls += 1
                fails = self.calls == self.at
            if fails:
                self.failed = True
                raise self.error("a fault")
            return self.plain(this, *args, **keywords)

        self.own = self.name in vars(self.kind)
        setattr(self.kind, self.name, method)
        return self

    def __exit__(self, *_):
        if self.own:
            setattr(self.kind, self.name, self.plain)
        else:
            delattr(self.kind, self.name)


def finished(job):
    """What a job gives, or what interrupts it; fails the test if it hangs."""
    answer = []

    def run():
        try:
            answer.append(attempt(job))
        except SystemExit as interrupt:  # is the program's own
            answer.append(interrupt)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert not thread.is_alive(), "it hangs"
    return answer[0]


def helpers():
    return [thread for thread in threading.enumerate() if thread.name == "codedag-items"]


def replayed(made, batch, done, indices, before):
    """Checks that the items of a batch, whichever way it ended, are those that the program would have had."""
    after = states()
    batch.take_back()
    assert states() == before
    plain = [made.data[i] for i in indices]
    assert len(plain) == len(indices)
    if done is True:
        assert same(plain, batch.results)
        assert states() == after
    for thread in helpers():
        thread.join(SECONDS)
    assert not helpers()
    assert states() != before  # the items did draw


failures = st.tuples(st.integers(1, 20), st.sampled_from([RuntimeError, MemoryError, SystemExit]), st.integers(2, 9))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(PLACES), failures, st.integers(2, 4))
def test_a_fault_of_ours_in_any_thread_loses_no_item_and_no_draw(made, place, failure, threads):
    at, error, count = failure
    indices, before = [(11 * k + at) % 64 for k in range(count)], states()
    batch = Batch(made.data.__getitem__, indices, Habit())
    with Faulty(*place, at, error if place[1] != "start" else RuntimeError):
        done = finished(lambda: batch.run(threads))
    replayed(made, batch, done, indices, before)


def run_early(made, indices, helpers_=2):
    batch = EarlyBatch(made.data.__getitem__, indices, Habit(), None, helpers_, [made.data])
    return batch, lambda: (attempt(batch.start), batch.finish())[1]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(EARLY_PLACES), failures)
def test_the_same_for_the_batch_that_begins_early(made, place, failure):
    at, error, count = failure
    indices, before = [(11 * k + at) % 64 for k in range(count)], states()
    batch, job = run_early(made, indices)
    with Faulty(*place, at, error if place[1] != "start" else RuntimeError):
        done = finished(job)
    replayed(made, batch, done, indices, before)


def test_a_thread_that_is_ended_from_outside(made):
    """What `PyThreadState_SetAsyncExc` does to a helper: the nearest that Python has to killing a thread."""
    entered, leave = threading.Event(), threading.Event()

    def get(i):
        if threading.current_thread().name == "codedag-items" and not entered.is_set():
            entered.set()
            while not leave.wait(0.001):
                pass
        return made.data[i]

    def end():
        entered.wait(SECONDS)
        (thread, *_) = helpers()
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
        thread.join(5)
        leave.set()

    indices, before = list(range(8)), states()
    batch = Batch(get, indices, Habit())
    killer = threading.Thread(target=end)
    killer.start()
    done = finished(lambda: batch.run(2))
    killer.join()
    assert done is False
    assert "SystemExit" in batch.reason
    replayed(made, batch, done, indices, before)


@pytest.mark.parametrize("threads", [2, 3, 4])
def test_no_more_items_are_at_work_than_there_are_threads(made, threads):
    lock, working, most = threading.Lock(), [0], [0]

    def get(i):
        with lock:
            working[0] += 1
            most[0] = max(most[0], working[0])
        try:
            return np.full(1000, i).sum()
        finally:
            with lock:
                working[0] -= 1

    batch = Batch(get, list(range(50)), Habit())
    assert finished(lambda: batch.run(threads))
    assert batch.results == [1000 * i for i in range(50)]
    assert most[0] <= threads
    assert not helpers()


def test_a_batch_that_nobody_asks_for_holds_one_batch_and_ends(made):
    before = states()
    batch, _ = run_early(made, list(range(16)))
    batch.start()
    assert len(helpers()) <= len(batch.indices)
    batch.leave()
    finished(batch.end)
    assert not helpers()
    assert len(batch.results) == 16
    assert states() == before


# -- what failed once in EarlyBatch.finish and .start


def faulty_finish(made, fails):
    """An early batch whose items take some time, after `finish` has failed; the helpers that it has left at work."""

    def get(i):
        threading.Event().wait(0.3)
        return made.data[i]

    batch = EarlyBatch(get, list(range(4)), Habit(), None, 2, [made.data])
    batch.start()
    with fails:
        finished(batch.finish)
    left = helpers()
    batch.take_back()
    batch.give_up("the test is over")
    for thread in left:
        thread.join(SECONDS)
    return left


def test_a_fault_when_generators_are_watched_leaves_no_thread(made):
    assert not faulty_finish(made, Faulty(ordered.Batch, "watch_generators", 1, MemoryError))


def test_a_thread_that_cannot_be_started_when_the_batch_is_asked_for(made):
    class Refused(Faulty):
        """Refuses a thread to `finish` alone."""

        def __enter__(self):
            def spawn(this):
                if this.is_asked_for() and threading.current_thread().name != "codedag-items":
                    raise RuntimeError("can't start new thread")
                self.plain(this)

            self.own = True
            early.EarlyBatch._spawn = spawn
            return self

    assert not faulty_finish(made, Refused(early.EarlyBatch, "_spawn", 0, RuntimeError))


def test_a_thread_that_cannot_be_started_at_first_leaves_nothing_behind(made):
    filters = list(warnings.filters)
    batch, job = run_early(made, list(range(4)))
    try:
        with Faulty(ordered.Second, "start", 1, RuntimeError):
            assert finished(job) is True
        assert warnings.filters == filters
    finally:
        batch.take_back()
        batch._ear.close()
