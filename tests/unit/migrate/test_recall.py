"""Results of slow pure calls that are found again by the contents of their arguments."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")

import numpy as np

from codedag.instrument.sites import CALL, SiteInfo
from codedag.migrate.memo import call_memo as recall_module
from codedag.migrate.memo.call_memo import Recall
from codedag.migrate.memo.store import Memory
from codedag.migrate.trial import FIRST, Trial


class Site:
    """A call site without anything behind it."""

    def __init__(self, variant=None):
        self.info = SiteInfo(0, CALL, "", __file__, 1, 0, 1, 1, "work")
        self.kind, self.function, self.variant = CALL, None, variant


def made(most=1 << 30, variant=None):
    """A recall on trial, and what its site runs."""
    recall = Recall(Site(variant), Trial("numpy.sort", first=0), Memory(most))
    return recall, recall.variants()[0]


def arrays(count=5, size=1000):
    rng = np.random.default_rng(1)
    return [rng.random(size) for _ in range(count)]


@pytest.fixture
def runs(monkeypatch):
    """How often calls really ran."""
    ran = []
    plain = Recall._run

    def counted(self, *args):
        ran.append(args[1])
        return plain(self, *args)

    monkeypatch.setattr(Recall, "_run", counted)
    return ran


def test_the_third_time_the_result_is_there(runs):
    recall, call = made()
    data = arrays()
    for epoch in range(4):
        for each in data:
            assert np.array_equal(call(np.sort, each.copy()), np.sort(each))
        assert len(runs) == min(epoch + 1, 2) * len(data) or recall.trial.checked


def test_what_is_given_can_be_written(runs):
    _, call = made()
    data = arrays(1)[0]
    for _ in range(2):
        call(np.sort, data)
    first = call(np.sort, data)
    first[:] = 0
    assert np.array_equal(call(np.sort, data), np.sort(data))


def test_an_argument_that_was_changed_is_another(runs):
    _, call = made()
    data = arrays(1, 100_000)[0]
    for _ in range(3):
        call(np.sort, data)
    data[12_345] = 5.0  # not among the elements by which it is found
    assert np.array_equal(call(np.sort, data), np.sort(data))
    data[0] = -1.0
    assert np.array_equal(call(np.sort, data), np.sort(data))


@pytest.mark.parametrize("other", [{"axis": 0}, {"kind": "stable"}])
def test_other_options_are_another_call(runs, other):
    _, call = made()
    data = arrays(1)[0].reshape(10, 100)
    for _ in range(3):
        call(np.sort, data)
    assert np.array_equal(call(np.sort, data, **other), np.sort(data, **other))
    assert np.array_equal(call(np.sort, data.T), np.sort(data.T))
    assert np.array_equal(call(np.sort, data.astype(np.float32)), np.sort(data.astype(np.float32)))


def test_zeros_of_both_signs_and_nan_are_told_apart(runs):
    _, call = made()
    data = np.zeros(8)
    for _ in range(3):
        call(np.copysign, np.ones(8), data)
    assert call(np.copysign, np.ones(8), -data)[0] == -1.0


def test_arguments_that_never_come_again_cost_nothing_more(monkeypatch, runs):
    monkeypatch.setattr(recall_module, "HOPEFUL", 50)
    recall, call = made()
    for number in range(500):
        call(np.sort, np.arange(100.0) + number)
    assert not recall.trial.active
    assert not recall._kept
    assert not recall._seen


def test_unknown_and_drawing_functions_run_each_time(runs):
    recall, call = made()
    data = arrays(1)[0]
    seen = []

    def own(array):
        seen.append(1)
        return array + len(seen)

    for number in range(4):
        assert call(own, data)[0] == data[0] + number + 1
    for _ in range(4):
        call(np.random.permutation, data)
    assert not recall._kept


def test_a_view_of_an_argument_is_not_kept(runs):
    recall, call = made()
    data = arrays(1)[0]
    for _ in range(3):
        assert call(np.reshape, data, (10, 100)).base is data
    assert not recall._kept


def test_no_more_than_the_budget_is_kept(runs):
    recall, call = made(most=30_000)
    data = arrays(20)
    for _ in range(3):
        for each in data:
            call(np.sort, each)
    assert 0 < len(recall._kept) < 3
    assert recall.memory.nbytes <= 30_000


def test_a_function_that_is_not_what_it_seems_is_found_out(monkeypatch):
    recall, call = made()
    recall.trial.first = FIRST
    data, count = arrays(1)[0], []
    plain = Recall._run

    def drifting(self, *args):
        count.append(1)
        return plain(self, *args) + len(count)

    monkeypatch.setattr(Recall, "_run", drifting)
    results = [call(np.sort, data)[0] - np.sort(data)[0] for _ in range(4)]
    assert [round(each) for each in results] == [1, 2, 3, 4]
    assert recall.trial.mismatches == 1
    assert not recall.trial.active


def test_nothing_is_copied_for_an_argument_that_came_once(runs):
    recall, call = made()
    for each in arrays(20):
        call(np.sort, each)
    assert not recall._kept
    assert recall.memory.nbytes == 0
    again = arrays(20)[:3]
    for each in again:
        call(np.sort, each)
    assert len(recall._kept) == len(again)  # and not the others, because some came again


def test_arguments_that_only_look_alike_end_it(monkeypatch, runs):
    monkeypatch.setattr(recall_module, "MOST_ALIKE", 5)
    recall, call = made()
    for number in range(20):
        data = np.zeros(100_000)
        data[12_345] = number  # not among the elements by which it is found
        assert call(np.sort, data)[-1] == number
    assert not recall.trial.active
    assert "only looked like" in recall.trial.reason
    assert not recall._kept
    assert recall.memory.nbytes == 0


def test_a_call_that_writes_into_its_argument_is_found_out(monkeypatch):
    recall, call = made()
    recall.trial.first = FIRST
    data, plain = arrays(1)[0], Recall._run
    for _ in range(2):
        call(np.sort, data)

    def writing(self, space, function, args, keywords):
        found = plain(self, space, function, args, keywords)
        args[0][0] = 7.0
        return found

    monkeypatch.setattr(Recall, "_run", writing)
    call(np.sort, data)
    assert recall.trial.mismatches == 1
    assert "wrote into an argument" in recall.trial.reason


def test_in_another_floating_point_mode_it_is_another_call(runs):
    torch = pytest.importorskip("torch")
    _, call = made()
    data = np.full(1000, 1e-308)
    for _ in range(4):
        expected = call(np.multiply, data, 0.1)
    assert expected[0] != 0
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor does not flush")
    try:
        flushed = call(np.multiply, data, 0.1)[0].tobytes()
    finally:
        torch.set_flush_denormal(False)
    assert flushed == bytes(8)
    assert call(np.multiply, data, 0.1)[0] == expected[0]


def test_comparing_is_by_bytes():
    left, right = np.array([0.0, 1.0]), np.array([-0.0, 1.0])
    assert not recall_module._equal(left, right)
    assert recall_module._equal(np.array([np.nan]), np.array([np.nan]))
    assert recall_module._equal(np.arange(3, dtype=np.uint8), np.arange(3, dtype=np.uint8))


def test_a_call_that_warns_warns_each_time(runs):
    _, call = made()
    for _ in range(5):
        with pytest.warns(RuntimeWarning):
            call(np.log, np.zeros(1000))
    assert len(runs) == 5


def test_under_other_settings_of_numpy_it_is_another_call(runs):
    _, call = made()
    with np.errstate(all="ignore"):
        for _ in range(4):
            call(np.sqrt, np.full(1000, 1e300))
        assert len(runs) < 4
    with np.errstate(all="raise"):
        call(np.sqrt, np.full(1000, 1e300))
    assert runs[-1] is np.sqrt
    ran = len(runs)
    with np.errstate(all="ignore"):
        call(np.sqrt, np.full(1000, 1e300))
    assert len(runs) == ran


def test_numpy_calls_the_program_each_time(runs):
    _, call = made()
    found = []
    with np.errstate(all="call", call=lambda kind, flag: found.append(kind)):
        for _ in range(5):
            call(np.log, np.zeros(1000))
    assert len(found) == 5


@pytest.mark.parametrize("name", ["torch.from_numpy", "torch.as_tensor", "PIL.Image.fromarray"])
def test_what_shares_the_memory_of_an_argument_in_another_library_is_not_kept(runs, name):
    module = pytest.importorskip(name.rpartition(".")[0])
    recall, call = made()
    function, data = getattr(module, name.rpartition(".")[2]), np.zeros((40, 40), np.uint8)
    for _ in range(6):
        call(function, data)
    assert len(runs) == 6
    assert not recall.trial.active or not recall._kept


def test_arguments_that_never_come_again_are_seldom_looked_at(monkeypatch):
    recall, call = made()
    looked = []
    key = Recall._key
    monkeypatch.setattr(Recall, "_key", lambda self, *args: looked.append(1) or key(self, *args))
    rng = np.random.default_rng(2)
    for _ in range(600):
        call(np.sort, rng.random(1000))
    assert recall_module.LOOK_FIRST < len(looked) < recall_module.LOOK_FIRST + 600 // 4
    assert recall.memory.nbytes == 0


def test_arguments_that_come_again_late_are_noticed(runs):
    recall, call = made()
    data = arrays(200, 500)
    for _ in range(4):
        for each in data:
            assert np.array_equal(call(np.sort, each.copy()), np.sort(each))
    assert recall.trial.calls > len(data)
    assert len(runs) < 3 * len(data)
