"""The turn of a program: the outermost loop of a fitting length; its frame stays while its position goes back."""

import asyncio
import hashlib
import inspect
import threading
import time
from multiprocessing.pool import ThreadPool

import pytest

from codedag.autopilot.heat import Heat, HotLoop, RatePolicy, choose_turn
from codedag.autopilot.heat.sampler import native_sampler

needs_native = pytest.mark.skipif(native_sampler() is None, reason="the C sampler is not built here")
BLOB = bytes(2_000_000)


@pytest.fixture(params=["native", "python"])
def heat(request):
    if request.param == "native" and native_sampler() is None:
        pytest.skip("the C sampler is not built here")
    made = Heat(RatePolicy(first_hz=300.0), is_python_only=request.param == "python")
    yield made
    made.stop()


@pytest.fixture
def native():
    made = Heat(RatePolicy(first_hz=300.0))
    yield made
    made.stop()


def line_of(function, text):
    """The number of the first line of a function that has this text."""
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def forward():
    for _ in range(4):
        hashlib.sha256(BLOB)


def backward():
    for _ in range(8):
        hashlib.sha256(BLOB)


def step(batch):
    forward()
    backward()
    return batch


def train(batches):
    for batch in range(batches):
        forward()
        backward()
    return batch


def three_epochs():
    for _ in range(3):
        train(40)


def test_the_loop_over_batches_is_the_turn(heat):
    heat.start()
    three_epochs()
    report = heat.look()
    turn = report.turn
    assert turn is not None, report.loops
    assert turn.qualname == "train", report.loops
    assert (turn.loop_first_line, turn.loop_last_line) == (line_of(train, "for batch"), line_of(train, "backward()"))
    assert turn.thread == threading.get_ident()
    assert turn.turns_at_least >= 3
    assert turn.cumulative_seconds > 0.5 * report.cpu_seconds


@needs_native
def test_seconds_below_the_turn_reach_back(native):
    native.start()
    three_epochs()
    report = native.look()  # here the turn is chosen, for the first time
    seconds = {each.qualname: each.below_turn_seconds for each in report.functions if each.file == __file__}
    assert report.turn_seconds > 0.5 * report.cpu_seconds
    assert seconds["train"] == pytest.approx(report.turn_seconds)
    assert seconds["three_epochs"] == 0.0
    assert 0.0 < seconds["forward"] < seconds["backward"] < seconds["train"]


def endless(count):
    while count:
        step(count)
        count -= 1


@needs_native
def test_a_loop_with_one_call_is_seen_through_what_it_calls(native):
    native.start()
    endless(60)
    report = native.look()
    assert report.turn is not None, report.loops
    assert report.turn.qualname == "endless", report.loops


def batches(count):
    for number in range(count):
        forward()
        backward()
        yield number


def over_generator():
    for _ in batches(60):
        backward()


@needs_native
def test_a_generator_drives(native):
    native.start()
    over_generator()
    report = native.look()
    assert report.turn is not None, report.loops
    assert report.turn.qualname == "over_generator", report.loops
    assert any(loop.qualname == "batches" for loop in report.loops), report.loops


async def served():
    for _ in range(60):
        forward()
        await asyncio.sleep(0)
        backward()


@needs_native
def test_a_coroutine_drives(native):
    native.start()
    asyncio.run(served())
    report = native.look()
    assert report.turn is not None, report.loops
    assert report.turn.qualname == "served", report.loops


@needs_native
def test_a_function_that_c_calls_again_and_again(native):
    native.start()
    list(map(step, range(60)))
    report = native.look()
    assert report.turn is not None, report.loops
    assert report.turn.qualname == "test_a_function_that_c_calls_again_and_again", report.loops
    assert report.turn.is_call


@needs_native
def test_the_loop_of_a_pool_worker(native):
    native.start()
    with ThreadPool(1) as pool:
        pool.map(step, range(60), chunksize=1)
        report = native.look()
    assert report.turn is not None, report.loops
    assert report.turn.qualname == "worker", report.loops
    assert report.turn.thread != threading.get_ident()


def linear():
    hashlib.sha256(BLOB)
    hashlib.sha256(BLOB)
    hashlib.sha256(BLOB)


@needs_native
def test_a_function_without_a_loop_has_none(native):
    native.start()
    for _ in range(100):
        linear()
    assert not [loop for loop in native.look().loops if loop.qualname == "linear"]


@needs_native
def test_what_was_hot_before_fades_from_recent_seconds(native):
    native.start()
    started = time.thread_time()
    while time.thread_time() - started < 0.3:
        forward()
    first = {each.qualname: each for each in native.look().functions}["forward"]
    time.sleep(3.0)
    later = {each.qualname: each for each in native.look().functions}["forward"]
    assert first.recent_seconds <= first.cumulative_seconds
    assert later.cumulative_seconds == pytest.approx(first.cumulative_seconds, abs=0.05)
    assert later.recent_seconds < 0.9 * first.recent_seconds


def loop(**values):
    fields = {
        "file": "a.py", "qualname": "f", "first_line": 1, "loop_first_line": 2, "loop_last_line": 3, "start_offset": 0,
        "end_offset": 10, "thread": 1, "depth": 0, "is_call": False, "turns_at_least": 10, "period_seconds": 0.1,
        "period_cpu_seconds": 0.1, "is_period_upper_bound": False, "cumulative_seconds": 1.0, "recent_seconds": 1.0,
        "last_seen_seconds_ago": 0.0,
    }  # fmt: skip
    return HotLoop(**{**fields, **values})


def test_of_nested_loops_the_outermost_that_is_short_enough():
    epochs = loop(qualname="epochs", period_seconds=30.0)
    steps = loop(qualname="steps", depth=1)
    layers = loop(qualname="layers", depth=7, period_seconds=0.01)
    assert choose_turn([layers, steps, epochs], 1.0, 1) is steps


def test_of_two_loops_of_one_frame_the_outer():
    outer, inner = loop(end_offset=90), loop(start_offset=20, end_offset=60)
    assert choose_turn([inner, outer], 1.0, 1) is outer


def test_loops_that_are_over_cold_or_rare_are_no_turns():
    assert choose_turn([loop(last_seen_seconds_ago=30.0)], 1.0, 1) is None
    assert choose_turn([loop(recent_seconds=0.1)], 1.0, 1) is None
    assert choose_turn([loop(turns_at_least=2)], 1.0, 1) is None
    assert choose_turn([], 0.0, 1) is None


def test_loops_of_the_import_system_are_no_turns():
    importing = loop(file="<frozen importlib._bootstrap>", qualname="_handle_fromlist")
    assert choose_turn([importing], 1.0, 1) is None
    assert choose_turn([importing, work := loop(depth=9)], 1.0, 1) is work


def test_an_event_loop_gives_way_to_what_it_runs():
    events = loop(file="/usr/lib/python3/asyncio/base_events.py", qualname="run_forever")
    work = loop(depth=9)
    assert choose_turn([events, work], 1.0, 1) is work
    assert choose_turn([events], 1.0, 1) is events


def test_the_main_thread_is_preferred_to_one_that_does_little_more():
    main, helper = loop(thread=1, recent_seconds=1.0), loop(thread=2, recent_seconds=1.5, qualname="helper")
    assert choose_turn([helper, main], 2.5, 1) is main
    assert choose_turn([helper, main], 2.5, 3) is helper
