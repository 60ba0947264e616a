"""What counts as the same: output without its figures of time, and streams without what varies by itself."""

from __future__ import annotations

import math
import random
import sys
import time
from pathlib import Path

import pytest

from codedag.cli.compare import _counted, _lines
from codedag.experiment import child, equality
from codedag.experiment.child import Ended, ProgramFailed
from codedag.experiment.comparison import Comparison, Subject, _warnings
from codedag.experiment.equality import Same
from codedag.experiment.ratio import Ratio, is_enough, ratio

PLAIN = "loading 10 files\nepoch 0: loss 0.512345, 431 images/s\ndone in 3.2 s\n"


@pytest.mark.parametrize(
    "other",
    [
        PLAIN,
        PLAIN.replace("431 images", "900 images"),
        PLAIN.replace("3.2 s", "1.04 s"),
        PLAIN.replace("431 images/s", "1,431.5 images/s"),
    ],
)
def test_output_is_equal_apart_from_time(other):
    found = equality.printed([PLAIN, PLAIN], [other])
    assert found.equal is True
    assert "2 varying or timed" in found.detail


@pytest.mark.parametrize(
    ("line", "is_time"),
    [
        ("took 3.1", True), ("3.1s", True), ("(3.1 sec)", True), ("12min", True), ("fps: 31", True), ("31 it/s", True),
        ("elapsed=0:00:31", True), ("images/sec: 31", True), ("31 samples per second", True), ("Time: 31.5", True),
        ("loss 31", False), ("31 min 2", False), ("learning rate 31", False), ("found in 31 files", False),
        ("31 samples", False), ("31 hidden", False), ("step 31", False), ("score=31.5", False),
    ],
)  # fmt: skip
def test_figures_of_time_are_known_by_their_units(line, is_time):
    other = line.replace("31", "77").replace("12", "77").replace("3.1", "7.7")
    assert other != line
    assert equality.printed([line, line], [other]).equal is is_time


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (PLAIN.replace("0.512345", "0.512346"), "line 2.*0.512346.*0.512345"),
        (PLAIN.replace("10 files", "11 files"), "line 1"),
        (PLAIN + "more\n", "4 lines optimised, 3 plain"),
        (PLAIN.replace("done", "gone"), "line 3"),
        (PLAIN.replace("0.512345", ""), "line 2"),
        ("", "0 lines"),
    ],
)
def test_output_that_differs_is_named(other, message):
    found = equality.printed([PLAIN, PLAIN], [PLAIN, other])
    assert found.equal is False
    assert __import__("re").search(message, found.detail)


def test_what_varies_by_itself_is_not_asked_of_the_others():
    plain = ["pid 12, score 5\nid a\n", "pid 13, score 5\nid b\n"]
    assert equality.printed(plain, ["pid 99, score 5\nid c\n"]).equal is True
    assert equality.printed(plain, ["pid 99, score 6\nid c\n"]).equal is False
    assert equality.printed(["a\n", "a\nb\n"], ["c\n"]).equal is None


def test_streams():
    def streams(*codes, kind="batch"):
        return equality.read_streams([f"{kind}\t{code}\tTensor" for code in codes])

    (same,) = equality.passed_around([streams("a", "b")] * 2, [streams("a", "b")])
    assert (same.equal, same.compared) == (True, 2)
    (moved,) = equality.passed_around([streams("a", "b")] * 2, [streams("a", "b"), streams("b", "a")])
    assert (moved.equal, moved.detail) == (False, "number 1 of 2 differs (Tensor)")
    (short,) = equality.passed_around([streams("a", "b")] * 2, [streams("a")])
    assert (short.equal, short.detail) == (False, "1 optimised, 2 plain")
    (unseeded,) = equality.passed_around([streams("a"), streams("c")], [streams("d")])
    assert unseeded.equal is None
    assert "seed it" in unseeded.detail
    (extra,) = equality.passed_around([{}, {}], [streams("a", kind="loss")])
    assert extra.equal is False


def test_a_line_that_was_cut_short_is_left_out():
    found = equality.read_streams(["batch\ta\tTensor", "batch\tb", ""])
    assert found == {"batch": [("a", "Tensor")]}


def test_exit_codes():
    assert equality.exit_codes([0, 0], [0, 0]).equal is True
    assert equality.exit_codes([0, 0], [0, 1]).equal is False


def test_the_exit_code_is_one_thing_however_many_runs_there_were():
    assert _counted(*_told(equality.exit_codes([0, 0], [0] * 7))) == " (0)"
    assert _counted(*_told(equality.exit_codes([0, 0], [0, 3]))) == " (3 optimised, 0 plain)"


def _told(same: Same) -> tuple[int, str]:
    return same.compared, same.detail


def test_the_ratio_is_the_middle_of_the_rounds():
    found = ratio([2.0, 4.0, 8.0], [1.0, 2.0, 4.0])
    assert (found.middle, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))
    assert found.verdict == "faster"
    assert ratio([1.0, 1.002], [1.002, 1.0]).verdict == "no difference"
    assert ratio([1.0, 1.1], [1.1, 1.0]).verdict == "unclear"  # two rounds that hold a loss and a gain of 80 %
    assert ratio([1.0, 1.01, 1.0], [2.0, 2.0, 2.01]).verdict == "slower"
    assert ratio([1.0], [2.0]) == Ratio(0.5, 0.0, math.inf)


def test_the_interval_holds_the_truth_as_often_as_it_says(seed):
    """Rounds of a program that is 1.2 times faster on a noisy machine: 95 % of the intervals hold 1.2."""
    draw = random.Random(seed)
    held = 0
    for _ in range(2000):
        plain = [draw.lognormvariate(0, 0.2) for _ in range(6)]
        other = [each / 1.2 * draw.lognormvariate(0, 0.1) for each in plain]
        found = ratio(plain, other)
        held += found.low <= 1.2 <= found.high
    assert 0.93 < held / 2000 < 0.97


@pytest.mark.parametrize(
    ("equal", "optimised", "code"),
    [(True, 1.0, 0), (None, 1.0, 0), (True, 0.2, 0), (True, 5.0, 3), (False, 5.0, 1), (False, 0.2, 1)],
)
def test_the_exit_code_is_the_verdict(equal, optimised, code):
    found = Comparison(Subject(("x.py",), Path()), seed=0)
    found.plain = [Ended(0, 1.0 + n / 100, 1.0, "", "") for n in range(5)]
    found.optimised = [Ended(0, optimised * (1.0 + (4 - n) / 100), 1.0, "", "") for n in range(5)]
    found.same = [Same("stdout", equal, 1), Same("exit code", True, 1)]
    assert found.exit_code == found.facts()["exit_code"] == code
    assert found.is_identical is (equal is not False)
    assert found.wall.verdict == {1.0: "no difference", 0.2: "faster", 5.0: "slower"}[optimised]


def test_rounds_end_when_they_tell_little_more():
    steady = [1.0, 1.001, 0.999, 1.0, 1.0]
    assert is_enough(steady, steady)
    assert is_enough([2 * each for each in steady], steady)
    assert not is_enough([1.0, 2.0, 0.5, 1.5, 0.7], steady)


def _compared(plain: list[float], other: list[float], **more) -> Comparison:
    def ended(seconds: float) -> Ended:
        return Ended(code=0, output="", last_words="", seconds=seconds, cpu_seconds=seconds, peak_nbytes=1 << 20)

    runs = {"plain": [ended(each) for each in plain], "optimised": [ended(each) for each in other]}
    return Comparison(Subject(("train.py", "--name", "a b"), Path()), 0, **runs, **more)


def test_a_short_program_that_is_faster_is_not_told_that_it_cannot_be():
    slower, faster = _compared([0.5] * 5, [0.7] * 5), _compared([1.6] * 5, [1.0] * 5)
    assert any("more epochs" in note for note in _warnings(slower))
    assert _warnings(faster) == []


def test_a_wide_interval_is_not_called_no_difference():
    wide, narrow = _compared([1.0, 4.0], [1.0, 1.0]), _compared([3.0, 3.0, 3.0], [3.01, 3.0, 2.99])
    assert "(unclear: more rounds would tell)" in _lines(wide)[1]
    assert "(no difference)" in _lines(narrow)[1]


def test_of_two_values_that_differ_it_is_said_whose_they_are():
    found = equality.printed(["a 1\nb\n"] * 2, ["a 1\nb\n", "a 2\nb\n"])
    assert (found.compared, found.detail) == (2, "line 1: 'a 2' optimised, 'a 1' plain")
    assert equality.exit_codes([0, 0], [0, 3]).detail == "3 optimised, 0 plain"
    (short,) = equality.passed_around([{"loss": [("x", "0.5")]}] * 2, [{"loss": [("y", "0.25")]}])
    assert short.detail == "number 1 of 1 differs: 0.25 optimised, 0.5 plain"
    (unseeded,) = equality.passed_around([{"loss": [("x", "1")]}, {"loss": [("y", "2")]}], [{"loss": [("z", "3")]}])
    assert "(number 1 of 1 differs: 2 the second time, 1 the first); seed it" in unseeded.detail
    one = equality.printed(["took 3 s\n"] * 2, ["took 3 s\n"])
    assert one.detail == "1 varying or timed figure left out"


def test_what_differs_is_looked_into_next_and_not_run():
    different = _compared([1.0] * 3, [1.0] * 3, same=[Same("stdout", False, 1, "line 1")])
    assert _lines(different)[-1] == "next: codedag run -o RUN train.py --name 'a b', then codedag view RUN"
    assert _lines(_compared([1.0] * 3, [1.0] * 3))[-1] == "next: codedag run train.py --name 'a b'"


def test_a_child_is_followed_to_its_end(tmp_path):
    code = "import sys, os; print(os.environ['A'], os.getcwd()); sys.stderr.write('x' * 9000 + 'last'); sys.exit(7)"
    ended = child.run([sys.executable, "-c", code], tmp_path, {"A": "1"})
    assert (ended.code, ended.output) == (7, f"1 {tmp_path}\n")
    assert ended.last_words.endswith("last")
    assert ended.seconds > 0
    assert ended.cpu_seconds > 0
    assert 1 << 20 < ended.peak_nbytes < 1 << 36


def test_a_child_that_does_not_end_is_ended_with_its_children(tmp_path):
    code = (
        "import subprocess, sys, pathlib, time; "
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
        "pathlib.Path('pid').write_text(str(p.pid)); time.sleep(600)"
    )
    for seconds in (1.5, 12.0, 60.0):  # a busy machine needs longer to begin it
        with pytest.raises(ProgramFailed, match=f"within {seconds:g} s"):
            child.run([sys.executable, "-c", code], tmp_path, {}, timeout=seconds)
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
            break
    process = Path("/proc") / (tmp_path / "pid").read_text()
    for _ in range(3000):
        if not process.exists() or " Z " in (process / "stat").read_text():
            return
        time.sleep(0.02)
    pytest.fail("the child of the child still runs")


def test_who_ends_a_child_late_may_be_slow_to_say_so(tmp_path, monkeypatch):
    end = child._end

    def slowly(process):
        end(process)
        time.sleep(0.3)  # as a thread that is not given the processor

    monkeypatch.setattr(child, "_end", slowly)
    with pytest.raises(ProgramFailed, match=r"within 0.1 s"):
        child.run([sys.executable, "-c", "import time; time.sleep(600)"], tmp_path, {}, timeout=0.1)


def test_the_peak_of_a_program_is_its_own_and_not_that_of_who_started_it(tmp_path):
    held = bytearray(300 << 20)
    held[::4096] = b"x" * len(held[::4096])
    small = child.run([sys.executable, "-S", "-c", "pass"], tmp_path, {})
    large = child.run([sys.executable, "-S", "-c", "b'x' * (400 << 20)"], tmp_path, {})
    assert small.peak_nbytes < 200 << 20
    assert large.peak_nbytes > 400 << 20
    assert len(held) == 300 << 20


def test_a_program_that_ends_its_whole_session_is_told_by_its_signal(tmp_path):
    ended = child.run([sys.executable, "-c", "import os, signal; os.killpg(0, signal.SIGTERM)"], tmp_path, {})
    assert ended.code == -15
    assert ended.seconds > 0
    assert child.run([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], tmp_path, {}).code == -9
