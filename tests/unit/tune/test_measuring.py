"""Measuring: candidates that crash, hang or are wrong are records with a reason; stores that fail are told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from codedag.ir.verdict import No
from codedag.tune import compiler as compilers
from codedag.tune.declined import CannotTune
from codedag.tune.first_kernel import first_kernel
from codedag.tune.measure import measurer, records, worker
from codedag.tune.measure.process import MeasuringProcess
from codedag.tune.schedule.family import Emitted
from codedag.tune.task import Task

HEAD = "int codedag_kernel(const float *a, const float *b, float *c, const long *n, float *s)"
CRASH = f"{HEAD} {{ *(volatile int *)0 = 1; return 0; }}\n"
HANG = f'{HEAD} {{ for (;;) __asm__ volatile(""); }}\n'
WRONG = f"{HEAD} {{ c[0] = 1; return 0; }}\n"
BEYOND = f"{HEAD} {{ c[0] = a[50*40]; return 0; }}\n"


@pytest.fixture
def task(compiler, codedag_home):
    with Task.of("matmul", shape=(50, 40, 30)) as made:
        yield made


def _measured(task, monkeypatch, source):
    monkeypatch.setattr(type(task.family), "emitted", lambda self, point: Emitted(source, ()))
    return task.measure(task.space.sample(1, seed=0))[0]


@pytest.mark.parametrize(
    ("source", "words"),
    [(CRASH, "crashed"), (WRONG, "differs from numpy"), (BEYOND, "crashed"), ("int x = ;", "failed with exit code")],
)
def test_bad_candidates_are_records_with_a_reason(task, monkeypatch, source, words):
    found = _measured(task, monkeypatch, source)
    assert found.seconds is None
    assert words in found.why


def test_a_candidate_that_hangs_is_ended(task, monkeypatch):
    monkeypatch.setattr(measurer, "CANDIDATE_SECONDS", 2.0)
    found = _measured(task, monkeypatch, HANG)
    assert (found.seconds, found.why) == (None, "it did not end in time")


def test_after_a_crash_the_next_candidate_is_measured(task, monkeypatch):
    with monkeypatch.context() as patched:
        _measured(task, patched, CRASH)
    good = task.measure(task.space.sample(2, seed=1))
    assert all(one.seconds and not one.why for one in good)


def test_measured_points_are_kept_and_points_of_other_spaces_are_refused(task):
    points = task.space.sample(2, seed=1)
    task.measure(points)
    kept = list(records.read())
    assert len(kept) == 2
    assert all(len(one["row"]) == task.features(points).shape[1] for one in kept)
    with pytest.raises(CannotTune, match="no point of this space"):
        task.measure([{"sketch": "block"}])


def test_a_search_measures_and_its_kernel_computes(task):
    found = task.search("gradient", measurements=6)
    kernel = task.kernel(found.best)
    draw = np.random.default_rng(0)
    a, b = draw.standard_normal((50, 40)).astype("f4"), draw.standard_normal((40, 30)).astype("f4")
    assert np.allclose(kernel(a, b), a @ b, atol=1e-4)
    assert np.array_equal(task.reference(a, b), a @ b)
    assert "codedag_kernel" in kernel.source
    assert kernel.exactness == task.exactness


def test_fast_math_is_refused_by_the_proof(codedag_home, monkeypatch, compiler, script):
    own = script("fastcc", f'exec {" ".join(compiler.command)} "$@" -ffast-math')
    monkeypatch.setenv("CC", str(own))
    with Task.of(lambda x: (x - x.mean(-1, keepdims=True)) * 2, like="f4[20,300]") as task:
        found = task.measure(task.space.sample(1, seed=0))[0]
        assert found.seconds is None
        assert "-ffast-math" in found.why or "differs" in found.why
        with pytest.raises(CannotTune, match="proof"):
            task.kernel(task.space.sample(1, seed=0)[0])


def test_without_a_compiler_a_task_says_so(codedag_home, monkeypatch):
    monkeypatch.setenv("CODEDAG_COMPILER", "none")
    task = Task.of("softmax", shape=(5, 7))
    assert task.space.points > 1
    with pytest.raises(CannotTune, match="CODEDAG_COMPILER=none"):
        task.measure(task.space.sample(1))
    with pytest.raises(CannotTune, match="CODEDAG_COMPILER=none"):
        task.kernel(task.space.sample(1)[0])


def test_a_compiler_that_hangs_is_passed_over(codedag_home, monkeypatch, script):
    slow = script("slowcc", "while :; do :; done")
    monkeypatch.setenv("CC", str(slow))
    monkeypatch.setenv("PATH", str(slow.parent))
    monkeypatch.setattr(compilers, "SECONDS", 0.5)
    monkeypatch.setattr(compilers.importlib.util, "find_spec", lambda name: None)
    task = Task.of("softmax", shape=(5, 7))
    with pytest.raises(CannotTune, match="did not finish"):
        task.measure(task.space.sample(1))


def test_records_survive_damage_and_are_bounded(codedag_home, monkeypatch):
    place = records.place()
    assert records.append([{"kind": "rows", "n": 1}]) == ""
    with place.open("ab") as file:
        file.write(b'{"format": "codedag/tuning-rec\xff\n[]\n')
    assert records.append([{"kind": "rows", "n": 2}]) == ""
    assert [one["n"] for one in records.read()] == [1, 2]
    monkeypatch.setattr(records, "NBYTES_MAX", 2000)
    for k in range(100):
        records.append([{"kind": "rows", "n": k}])
    assert place.stat().st_size <= 2100
    assert [one["n"] for one in records.read()][-1] == 99


def test_processes_side_by_side_lose_no_record(codedag_home, child_environment):
    text = (
        "from codedag.tune.measure import records\nfor k in range(50): records.append([{'n': k, 'pad': 'x' * 700}])\n"
    )
    children = [subprocess.Popen([sys.executable, "-c", text], env=child_environment) for _ in range(3)]
    assert [child.wait() for child in children] == [0, 0, 0]
    assert len(list(records.read())) == 150


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_store_that_cannot_be_written_is_told(codedag_home):
    records.place().parent.mkdir(parents=True)
    records.place().parent.chmod(0o500)
    assert "not kept" in records.append([{"n": 1}])


def test_a_store_whose_place_is_a_file_is_told(codedag_home):
    records.place().parent.parent.mkdir(parents=True, exist_ok=True)
    records.place().parent.write_text("")
    assert "not kept" in records.append([{"n": 1}])
    assert list(records.read()) == []


def test_a_process_that_cannot_be_asked_is_told(monkeypatch):
    monkeypatch.setattr(sys, "executable", "")
    assert isinstance(MeasuringProcess().ask({"do": "peak"}), No)


def test_nothing_is_left_in_the_temporary_folder(codedag_home, compiler):
    with Task.of("softmax", shape=(5, 7)) as task:
        task.measure(task.space.sample(1))
        folder = Path(task.measurer.folder.name)
        assert folder.exists()
    assert not folder.exists()
    assert json.dumps([one["kind"] for one in records.read()]) == '["rows"]'


def test_a_candidate_that_is_clearly_worse_is_timed_once(monkeypatch):
    """Calls that take long are not repeated to know how bad they are."""
    calls = []
    monkeypatch.setattr(worker, "check", lambda *_: "")
    monkeypatch.setattr(worker, "_runner", lambda request: (None, None))
    monkeypatch.setattr(worker, "_case", lambda text: ([], None))
    monkeypatch.setattr(worker, "_once", lambda runner, arrays: calls.append(1) or 0.5)
    monkeypatch.setattr(worker, "_timed", lambda *_: 0.25)
    assert worker.do_measure({"program": "", "best": 0.1})["seconds"] == 0.5
    assert worker.do_measure({"program": "", "best": 0.4})["seconds"] == 0.25
    assert worker.do_measure({"program": "", "best": 0.0001})["seconds"] == 0.25  # short ones are cheap to repeat
    assert worker.do_measure({"program": ""})["seconds"] == 0.25
    assert len(calls) == 2


def test_kernels_of_running_programs_leave_their_warning_filters_alone(compiler, codedag_home, monkeypatch):
    """Filters belong to the whole process, and a kernel is built while the program's own threads run."""

    def refused(*_, **__):
        raise AssertionError("the filters of the program are changed")

    monkeypatch.setattr(warnings, "catch_warnings", refused)
    monkeypatch.setattr(warnings, "simplefilter", refused)
    kernel = first_kernel(lambda x: x - x.mean(), [("f4", (40, 50))], "centred")
    x = np.arange(2000, dtype=np.float32).reshape(40, 50)
    assert kernel(x).tobytes() == (x - x.mean()).tobytes()


def test_arguments_without_axes_are_drawn(compiler, codedag_home):
    with Task.of(lambda x, s, m: np.where(m, x * s, x), like="i2[50],f8[],b1[]") as own:
        (found,) = own.measure(own.space.sample(1, seed=0))
        assert found.seconds, found.why
        kernel = own.kernel(own.space.sample(1, seed=0)[0])
        x, s, m = np.arange(50, dtype="i2"), np.array(0.3), np.array(True)
        assert kernel(x, s, m).tobytes() == own.reference(x, s, m).tobytes()
        assert (kernel(x, 0.3, True) == own.reference(x, 0.3, True)).all()


def _kept_kernel(task):
    kernel = task.kernel(task.space.sample(1, seed=0)[0])
    draw = np.random.default_rng(0)
    return kernel, [draw.standard_normal((200, 300)).astype("f4") for _ in range(6)]


def test_memory_of_results_is_used_again_only_if_nobody_holds_it(compiler, codedag_home):
    with Task.of(lambda x: x * 2 + 1, like="f4[200,300]") as own:
        kernel, arrays = _kept_kernel(own)
        first = kernel(arrays[0]).ctypes.data
        assert kernel(arrays[1]).ctypes.data == first
        holders = [
            lambda y: y,
            lambda y: y[3:5],
            memoryview,
            lambda y: y.T.base,
            lambda y: [y][0].reshape(-1),
            weakref.ref,
        ]
        for hold, x in zip(holders, arrays, strict=True):
            result = kernel(x)
            kept, expected = hold(result), own.reference(x)
            del result
            again = kernel(-x)
            held = kept() if isinstance(kept, weakref.ref) else kept
            assert held is not again
            if not isinstance(kept, weakref.ref):
                assert not np.shares_memory(np.asarray(held), again)
                assert bytes(np.asarray(held))[:400] in expected.tobytes()
        odd = kernel(arrays[0])
        odd.shape, odd.flags.writeable = (300, 200), False
        del odd
        last = kernel(arrays[0])
        assert (last.shape, last.flags.writeable, last.flags.owndata) == ((200, 300), True, True)


def test_threads_never_share_the_memory_of_a_result(compiler, codedag_home):
    with Task.of(lambda x: x * 2 + 1, like="f4[200,300]") as own, ThreadPoolExecutor(4) as pool:
        kernel, arrays = _kept_kernel(own)
        wanted = [own.reference(x).tobytes() for x in arrays]

        def work(k):
            return all(kernel(arrays[(k + i) % 6]).tobytes() == wanted[(k + i) % 6] for i in range(300))

        assert all(pool.map(work, range(4)))


def test_results_in_another_order_own_their_memory(compiler, codedag_home):
    with Task.of(lambda x: (x.T * 2).astype("f8"), like="f4[200,300]") as own:
        kernel, arrays = _kept_kernel(own)
        found, expected = kernel(arrays[0]), own.reference(arrays[0])
        assert (found.tobytes(), found.strides, found.flags.owndata) == (expected.tobytes(), expected.strides, True)
