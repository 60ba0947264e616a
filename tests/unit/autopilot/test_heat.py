"""The sampling profiler tells where CPU time goes; shares have wide bounds, since the machine may be busy."""

import hashlib
import json
import subprocess
import sys
import threading
import time

import pytest

from codedag.autopilot.heat import Heat, HeatReport, HotFunction, RatePolicy
from codedag.autopilot.heat.call_tree import call_tree
from codedag.autopilot.heat.line_table import positions_of
from codedag.autopilot.heat.sampler import native_sampler

needs_native = pytest.mark.skipif(native_sampler() is None, reason="the C sampler is not built here")
WITHIN = 0.15
SAMPLES_MIN, CPU_SECONDS_MAX = 500, 8.0


def function_of(report: HeatReport, name: str) -> HotFunction:
    found = [each for each in report.functions if each.qualname == name and each.file == __file__]
    assert found, (name, [(each.qualname, each.cumulative_seconds) for each in report.functions])
    return found[0]


def share_of(report: HeatReport, name: str) -> float:
    return function_of(report, name).cumulative_seconds / report.cpu_seconds


@pytest.fixture(params=["native", "python"])
def heat(request):
    if request.param == "native" and native_sampler() is None:
        pytest.skip("the C sampler is not built here")
    made = Heat(RatePolicy(first_hz=500.0), is_python_only=request.param == "python")
    yield made
    made.stop()


@pytest.fixture
def native():
    made = Heat(RatePolicy(first_hz=1000.0, own_cpu_share_max=1.0))
    assert not made.is_biased
    yield made
    made.stop()


DATA = [((i * 7919) % 100003) for i in range(60000)]
BLOB = bytes(6_000_000)


def python_work():
    total = 0
    for number in range(100_000):
        total += number * number
    return total


def holding_work():
    return sorted(DATA)


def releasing_work():
    return hashlib.sha256(BLOB).digest()


def waits():
    time.sleep(0.005)


def mixed_program(cpu_seconds):
    spent = {}
    started = time.thread_time()
    while time.thread_time() - started < cpu_seconds:
        for work in (python_work, holding_work, releasing_work, waits):
            before = time.thread_time()
            work()
            spent[work.__name__] = spent.get(work.__name__, 0.0) + time.thread_time() - before
    return spent


@needs_native
def test_shares_are_those_of_cpu_time_whoever_holds_the_lock(native):
    native.start()
    spent, report = {}, native.look()
    while report.samples < SAMPLES_MIN and sum(spent.values()) < CPU_SECONDS_MAX:  # fewer on a machine that is busy
        spent = {name: spent.get(name, 0.0) + seconds for name, seconds in mixed_program(0.3).items()}
        report = native.look()
    total = sum(spent.values())
    for name, seconds in spent.items():
        assert abs(share_of(report, name) - seconds / total) < WITHIN, (name, spent, report.functions[:8])
    assert function_of(report, "waits").waiting_seconds > 0.01


def test_both_samplers_give_the_same_shape_of_report(heat):
    heat.start()
    mixed_program(cpu_seconds=0.8)
    report = heat.look()
    heat.stop()
    assert report.is_biased == heat.is_biased
    assert report.cpu_seconds > 0.4
    assert report.wall_seconds > 0.4
    assert report.samples > 3
    assert share_of(report, "mixed_program") > 0.6
    function = function_of(report, "mixed_program")
    assert function.first_line == mixed_program.__code__.co_firstlineno
    assert all(function.first_line <= line.line <= function.first_line + 10 for line in function.lines)
    assert [each.cumulative_seconds for each in report.functions] == sorted(
        (each.cumulative_seconds for each in report.functions), reverse=True
    )
    assert any(loop.qualname == "mixed_program" for loop in report.loops), report.loops
    assert 0.0 < report.recent_cpu_seconds <= report.cpu_seconds + 1e-6
    assert report.own_cpu_seconds > 0.0


def test_the_call_tree_has_all_seconds_once_and_says_where_calls_are_written(heat):
    heat.start()
    mixed_program(cpu_seconds=0.8)
    heat.stop()
    tree, report = heat.tree(), heat.look()
    assert all(call.parent < number for number, call in enumerate(tree))  # callers stand first
    assert sum(call.self_seconds for call in tree) == pytest.approx(report.cpu_seconds, rel=0.1, abs=0.1)
    (holding,) = {(c.line, c.column, c.end_column) for c in tree if c.qualname == "holding_work" and c.file == __file__}
    start = holding_work.__code__.co_firstlineno
    assert holding == (start + 1, len("    return "), len("    return sorted(DATA)"))
    callers = {tree[call.parent].qualname for call in tree if call.qualname == "holding_work"}
    assert callers == {"mixed_program"}


def test_what_took_little_counts_as_its_callers_own_time():
    nodes = [(-1, 1, 0, 1.0, 3.0), (0, 2, 0, 0.001, 0.0), (1, 3, 0, 0.0, 5.0), (0, 4, 0, 2.0, 0.0)]
    names = {serial: ("a.py", f"f{serial}", 1, b"") for serial in (1, 2, 3)}
    found = call_tree(nodes, (3.0, 100.0), lambda serial: names.get(serial))
    # f2 is kept for what waits below it; f4's code is gone
    assert [(call.qualname, call.parent, call.self_seconds) for call in found] == [
        ("f1", -1, 3.0), ("f2", 0, 0.001), ("f3", 1, 0.0),
    ]  # fmt: skip
    assert len(call_tree(nodes, (3.0, 1000.0), lambda serial: names.get(serial))) == 1
    # f1 waited for its core beside its work; f3 waited for somebody
    assert [call.waiting_seconds for call in found] == [0.0, 0.0, 5.0]


def test_what_an_import_imports_is_its_own_time():
    files = ["/home/me/a.py", "<frozen importlib._bootstrap>", json.__file__, "<frozen importlib._bootstrap>"]
    files += [json.decoder.__file__, json.decoder.__file__]
    nodes = [(number - 1, number + 1, 0, 1.0, 0.0) for number in range(6)]
    qualnames = ["<module>", "_find", "<module>", "_find", "<module>", "JSONDecoder"]
    names = {at + 1: (file, name, 1, b"") for at, (file, name) in enumerate(zip(files, qualnames, strict=True))}
    found = call_tree(nodes, (6.0, 6.0), names.get)
    assert [(call.qualname, call.self_seconds) for call in found] == [
        ("<module>", 2.0), ("<module>", 3.0), ("JSONDecoder", 1.0),
    ]  # fmt: skip


def test_a_tree_has_at_most_so_many_nodes():
    nodes = [(-1, 1, 0, 0.0, 0.0), *((0, number, 0, float(number), 0.0) for number in range(2, 1000))]
    found = call_tree(nodes, (1.0, 1.0), lambda serial: ("a.py", f"f{serial}", 1, b""))
    assert 200 < len(found) <= 400
    assert sum(call.self_seconds for call in found) == sum(range(2, 1000))


def three_calls(cpu_seconds):
    started = time.thread_time()
    a, b, c = BLOB, BLOB[:2_400_000], BLOB[:600_000]
    while time.thread_time() - started < cpu_seconds:
        one = (hashlib.sha256(a), hashlib.sha256(b), hashlib.sha256(c))
    return one


@needs_native
def test_three_c_calls_on_one_line_are_told_apart(native):
    native.start()
    while native.look().samples < 300 and native.look().cpu_seconds < CPU_SECONDS_MAX:
        three_calls(0.5)
    function = function_of(native.look(), "three_calls")
    positions = list(three_calls.__code__.co_positions())
    by_column = {}
    for line in function.lines:
        column = positions[line.offset // 2][2]
        if line.line == three_calls.__code__.co_firstlineno + 4:
            by_column[column] = by_column.get(column, 0.0) + line.cumulative_seconds
    shares = [by_column[column] / sum(by_column.values()) for column in sorted(by_column) if by_column[column] > 0.0]
    large = [share for share in shares if share > 0.02]
    assert len(large) == 3, by_column
    assert abs(large[0] - 0.667) < WITHIN, by_column
    assert abs(large[1] - 0.267) < WITHIN, by_column


def test_positions_are_those_of_the_code_object():
    for function in (mixed_program, three_calls, Heat.look, HeatReport.__new__, json.loads):
        code = function.__code__
        theirs = [tuple(-1 if n is None else n for n in (a, c, b, d)) for a, b, c, d in code.co_positions()]
        assert positions_of(code.co_linetable, code.co_firstlineno) == theirs


def recursive(depth):
    return python_work() if depth == 0 else recursive(depth - 1)


def test_recursion_counts_once_in_a_sample(heat):
    heat.start()
    started = time.thread_time()
    while time.thread_time() - started < 0.6:
        recursive(50)
    report = heat.look()
    assert function_of(report, "recursive").cumulative_seconds <= report.cpu_seconds + 1e-6
    assert share_of(report, "recursive") > 0.6


def test_a_look_before_the_start_is_an_error():
    with pytest.raises(RuntimeError, match="before"):
        Heat(is_python_only=True).look()


class Refused:
    """A C sampler on a system that refuses to read memory."""

    def start(self, *_):
        raise OSError("not permitted")

    def stop(self):
        pass

    def forget(self):
        pass


def test_where_memory_cannot_be_read_the_python_sampler_takes_over(monkeypatch):
    monkeypatch.setattr("codedag.autopilot.heat.native_sampler", Refused)
    heat = Heat()
    assert not heat.is_biased
    heat.start()
    try:
        mixed_program(0.3)
        report = heat.look()
    finally:
        heat.stop()
    assert report.is_biased
    assert report.functions


def test_rates_fall_with_the_age_of_the_process():
    policy = RatePolicy()
    assert [policy.hz_at(age) for age in (0.0, 59.0, 61.0, 599.0, 601.0)] == [100.0, 100.0, 20.0, 20.0, 5.0]


def test_the_clock_that_was_passed_in_decides_the_rate():
    now = [0.0]
    heat = Heat(clock=lambda: now[0], is_python_only=True)
    heat.start()
    try:
        assert heat.look().rate_hz == 20.0  # the most that the Python sampler does
        now[0] = 700.0
        assert heat.look().rate_hz == 5.0
    finally:
        heat.stop()


@needs_native
def test_the_thread_is_not_one_of_pythons_and_ends():
    before = threading.enumerate()
    heat = Heat()
    heat.start()
    assert threading.enumerate() == before
    assert heat.is_running
    heat.stop()
    assert not heat.is_running


def test_the_import_is_cheap():
    program = (
        "import sys; import codedag.autopilot.heat; print([m for m in ('numpy', 'msgspec', 'dis') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
