"""Operations side by side: the model of a pair, the fit over pairs, lanes, and the table; no clock decides."""

from __future__ import annotations

import threading
import time
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codedag.ir import CostTable, No, Op, load, save
from codedag.profile.lanes import finish, rates
from codedag.profile.process import Ended, PuProcess
from codedag.profile.sample import Samples
from codedag.profile.together import MOST_OPS, Meter, Pair, Together, foretold, pair_seconds

positive = st.floats(0.01, 10.0)


@given(positive, positive, st.floats(1.0, 4.0), st.floats(1.0, 4.0))
def test_a_pair_takes_what_small_steps_add_up_to(one, other, slow_one, slow_other):
    left, now = [one, other], 0.0
    while max(left) > 1e-12:  # until the next of them ends
        speeds = [1 / slow_one, 1 / slow_other] if min(left) > 1e-12 else [1.0, 1.0]
        step = min(part / speed for part, speed in zip(left, speeds, strict=True) if part > 1e-12)
        left = [max(part - step * speed, 0.0) for part, speed in zip(left, speeds, strict=True)]
        now += step
    assert pair_seconds(one, other, slow_one, slow_other) == pytest.approx(now, rel=1e-6)
    assert pair_seconds(one, other, 1.0, 1.0) == pytest.approx(max(one, other))


@given(st.lists(st.floats(0.1, 1.5), min_size=4, max_size=4), st.lists(st.floats(0.1, 1.5), min_size=4, max_size=4))
def test_a_left_out_pair_is_foretold_where_the_model_holds(suffers, presses):
    slow = {(i, j): 1 + suffers[i] * presses[j] for i, j in product(range(4), repeat=2)}
    for pair in ((0, 1), (2, 2), (1, 3)):
        known = {cell: each for cell, each in slow.items() if cell not in (pair, pair[::-1])}
        assert foretold(known, *pair) == pytest.approx((slow[pair], slow[pair[::-1]]), rel=1e-3)
        assert foretold(slow, *pair) == foretold(known, *pair)  # it never looks at the pair itself


def test_nothing_known_means_no_slowdown():
    assert foretold({}, 0, 1) == (1.0, 1.0)


class CallCounts:
    def __init__(self, calls=5, error=None):
        self.calls, self.error, self.made, self.threads = calls, error, 0, set()

    def run(self, calls):
        if self.error and threading.active_count() > 2:
            raise self.error
        self.made += calls
        self.threads.add(threading.get_ident())
        time.sleep(0.0002)


def test_lanes_make_their_calls_in_threads_of_their_own():
    cases = [CallCounts(), CallCounts()]
    assert all(each.seconds > 0 and each.waited >= 0 for each in rates(cases, 0.01))
    assert all(case.made and case.made % case.calls == 0 for case in cases)
    assert not cases[0].threads & cases[1].threads
    fixed = [CallCounts(), CallCounts()]
    assert finish(fixed, [3, 4], in_turn=False) > 0
    assert [case.made for case in fixed] == [3, 4]
    turns = [CallCounts(), CallCounts()]
    finish(turns, [3, 4], in_turn=True)
    assert turns[0].threads == turns[1].threads == {threading.get_ident()}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_call_that_raises_beside_another_ends_nobody():
    with pytest.raises(RuntimeError, match="raised beside"):
        rates([CallCounts(), CallCounts(error=ValueError("not twice"))], 0.01)


class Scripted:
    """A measuring process whose cases take set times: even ones hold a lock all the time, odd ones never."""

    def __init__(self, dies_after=None, error=Ended, waited=0.0):
        self.asked, self.dies_after, self.error, self.waited = 0, dies_after, error, waited

    def ask(self, request, most_seconds):
        self.asked += 1
        if self.dies_after is not None and self.asked > self.dies_after:
            raise self.error("it is gone")
        return {"status": "ok", "waited": self.waited, **self._answer(request)}

    def _answer(self, request):
        if request["do"] == "prepare":
            return {"writes": False}
        locked = [case // 2 % 2 == 0 for case in request["cases"]]
        if request["do"] == "rates":
            return {"seconds": [0.01 * (2.2 if all(locked) and len(locked) > 1 else 1.0) for _ in locked]}
        work = [0.01 * calls for calls in request["calls"]]
        beside = sum(work) * 1.1 if all(locked) else max(work)
        return {"seconds": sum(work) if request["in_turn"] else beside}


def an_op(number, name="numpy.sort"):
    return Op(
        id=number, name=name, kind="call", file="/x/train.py", line=number, context=name, count=1, col=0,
        self_seconds=1.0 / number, total_seconds=1.0 / number, out_nbytes=0,
    )  # fmt: skip


@pytest.fixture
def kept(keep, spool):
    for line in range(1, 6):
        keep("numpy.sort", np.arange(10.0 * line), line=line)
    keep("numpy.sort", np.arange(10.0), line=6)  # the same call as the first one, at another place
    return Samples(spool.folder.parent)


def test_the_table_flips_the_choice_where_it_is_right(kept):
    found = Meter(Scripted(), 1.0).measure([an_op(line) for line in range(1, 7)], kept, 60.0)
    assert [op.id for op in found.ops] == [1, 2, 3, 4]
    assert len(found.pairs) == MOST_OPS * (MOST_OPS + 1) // 2
    for pair in found.pairs:
        locked = pair.one % 2 == 0 and pair.other % 2 == 0
        assert (pair.predicted_gain, pair.measured_gain, pair.clear) == (not locked, not locked, True)
        assert pair.predicted_seconds == pytest.approx(pair.beside[0])
    rows = {(row.op, row.beside): row.slowdown for row in found.rows()}
    assert rows[1, 3] == rows[6, 3] == pytest.approx(2.2)  # op 6 makes the same call as op 1
    assert rows[1, 2] == rows[2, 1] == 1.0


def test_what_was_measured_before_the_process_died_is_kept(kept):
    found = Meter(Scripted(dies_after=14), 1.0).measure([an_op(line) for line in range(1, 6)], kept, 60.0)
    assert len(found.pairs) == 1
    assert any("it is gone" in note for note in found.notes)


@pytest.mark.parametrize(("waited", "cores", "calm"), [(0.0, 2, True), (0.5, 2, False), (0.5, 1, True)])
def test_the_table_of_a_busy_machine_is_not_for_plans(kept, waited, cores, calm):
    found = Meter(Scripted(waited=waited), 1.0, cores=cores).measure([an_op(1), an_op(2)], kept, 60.0)
    assert found.calm is calm
    assert any("not kept for plans" in note for note in found.notes) is not calm


def test_an_interrupt_leaves_what_is_known(kept):
    found = Meter(Scripted(19, KeyboardInterrupt), 1.0).measure([an_op(line) for line in range(1, 6)], kept, 60.0)
    assert found.interrupted
    assert len(found.pairs) == 2


def test_a_table_survives_its_file(tmp_path):
    pair = Pair(0, 1, slow=[(1.5, 1.25)], alone=[(1.0, 1.0)], in_turn=[2.0], beside=[1.5])
    rows = Together([an_op(1), an_op(2)], [pair], [[1], [2]]).rows()
    save(CostTable(pus=["cpu"], rows=[], beside=rows), tmp_path / "costs.json")
    assert load(tmp_path / "costs.json", "costs").beside == rows
    from codedag.ir.cost_columns import read_cost_columns

    assert read_cost_columns(tmp_path / "costs.json").beside == rows


def test_real_calls_run_side_by_side(keep, spool, numbers):
    keep("numpy.sort", numbers, line=1)
    keep("numpy.sqrt", numbers, line=2)
    keep("numpy.ndarray.sort", numbers, line=3)  # writes what it is given
    process = PuProcess("cpu")
    ops = [an_op(1), an_op(2, "numpy.sqrt"), an_op(3, "numpy.ndarray.sort")]
    try:
        found = Meter(process, 300.0).measure(ops, Samples(spool.folder.parent), 0.0)
    finally:
        process.close()
    assert [op.id for op in found.ops] == [1, 2]
    assert len(found.pairs) == 3
    assert all(min(each) > 0 for pair in found.pairs for each in pair.slow)
    assert any("op 3" in note for note in found.notes)


def test_a_reason_is_kept_where_nothing_can_be_run(tmp_path):
    found = Meter(Scripted(), 1.0).measure([an_op(1)], Samples(tmp_path), 1.0)
    assert (found.ops, found.pairs) == ([], [])
    assert isinstance(Samples(tmp_path).of(an_op(1)), No)
