"""The monitor of an experiment: its files field for field, its order of calls, and what it reads from the machine."""

from __future__ import annotations

import json
import math
import threading
import time
from types import SimpleNamespace

import pytest

from codedag.experiment import ExperimentMonitor, MetricsLogger, ResourceMonitor, Timer
from codedag.experiment.gpus import Reading
from codedag.experiment.metrics import NotANumber
from codedag.experiment.monitor import plain
from codedag.experiment.timing import OutOfTurn
from codedag.ir import CannotWrite


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class FakeMeter:
    source, cpus = "fake", 2.0

    def __init__(self):
        self.used = 0.0

    def cpu_seconds(self):
        self.used += time.perf_counter() * 0 + 0.001
        return self.used

    def memory_percent(self):
        return 12.5


def test_a_timer_counts_batches_and_the_whole():
    clock = Clock()
    timer = Timer(clock)
    timer.start()
    for seconds in (0.5, 1.5):
        timer.start_batch()
        clock.now += seconds
        assert timer.end_batch() == seconds
        clock.now += 1.0  # between batches
    assert timer.stop() == timer.total_time == 4.0
    assert timer.batch_times == [(0, 0.5), (1, 1.5)]
    assert timer.summary() == {"mean": 1.0, "std": 0.5, "min": 0.5, "max": 1.5}


def test_a_batch_that_was_left_is_forgotten():
    clock = Clock()
    timer = Timer(clock)
    timer.start_batch()
    clock.now += 9
    timer.start_batch()
    clock.now += 1
    timer.end_batch()
    assert timer.batch_times == [(0, 1.0)]
    with pytest.raises(OutOfTurn, match="start_batch"):
        timer.end_batch()


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        (["stop_mode"], "no mode is running"),
        (["start_batch"], "no mode is running"),
        (["start", "start"], "'baseline' is running"),
        (["start", "end_batch"], "without start_batch"),
        (["start", "stop_mode", "end_batch"], "no mode is running"),
    ],
)
def test_calls_out_of_turn_name_what_comes_first(tmp_path, calls, message):
    monitor = ExperimentMonitor("x", tmp_path)
    steps = {"start": lambda: monitor.start_mode("baseline")}
    *before, last = [steps.get(call, getattr(monitor, call, None)) for call in calls]
    for call in before:
        call()
    try:
        with pytest.raises(OutOfTurn, match=message):
            last()
    finally:
        if monitor._current:
            monitor.stop_mode()


def test_the_results_have_the_guides_fields(tmp_path):
    monitor = ExperimentMonitor("BirdCLEF_2023", save_dir=tmp_path / "results")
    for mode in ("baseline", "optimization"):
        monitor.start_mode(mode, config={"epochs": 1, "batch_size": 32}, resource_interval=0.02)
        for batch in range(3):
            monitor.start_batch()
            time.sleep(0.01)
            monitor.end_batch()
            monitor.log_loss(0, batch, 2.5 - batch)
            monitor.log_accuracy(0, batch, 0.5 + batch / 10)
        monitor.stop_mode()
    place = monitor.save_json()
    found = json.loads(place.read_text())
    assert place == tmp_path / "results" / f"BirdCLEF_2023_{found['timestamp']}.json"
    assert list(found)[:4] == ["experiment_name", "timestamp", "datetime", "modes"]
    assert isinstance(found["timestamp"], int)
    assert time.mktime(time.strptime(found["datetime"], "%Y-%m-%dT%H:%M:%S")) == found["timestamp"]
    assert found["versions"]["python"]
    assert found["machine"]["cpus"] >= 1
    for mode in ("baseline", "optimization"):
        facts = found["modes"][mode]
        assert list(facts)[:5] == ["config", "batch_times", "resource_usage", "metrics", "summary"]
        assert facts["config"] == {"epochs": 1, "batch_size": 32}
        assert [index for index, _ in facts["batch_times"]] == [0, 1, 2]
        used = facts["resource_usage"]
        assert set(used) >= {"cpu_usage", "memory_usage", "gpu_usage", "gpu_memory"}
        assert all(0 <= percent <= 100 for _, percent in used["cpu_usage"] + used["memory_usage"])
        assert used["cpu_usage"]
        assert abs(used["cpu_usage"][0][0] - found["timestamp"]) < 3600
        assert facts["metrics"]["losses"] == [[0, 0, 2.5], [0, 1, 1.5], [0, 2, 0.5]]
        assert facts["metrics"]["accuracies"] == [[0, 0, 0.5], [0, 1, 0.6], [0, 2, 0.7]]
        summary = facts["summary"]
        assert summary["total_time"] >= sum(seconds for _, seconds in facts["batch_times"])
        assert set(summary["batch_time"]) == {"mean", "std", "min", "max"}
        assert summary["loss"] == {"initial": 2.5, "final": 0.5, "min": 0.5, "max": 2.5}
        assert summary["accuracy"] == {"initial": 0.5, "final": 0.7, "best": 0.7}


def test_only_monitoring_without_losses(tmp_path, monkeypatch):
    """The guide's fourth question: nothing but a mode."""
    monkeypatch.chdir(tmp_path)
    monitor = ExperimentMonitor("baseline_only")
    monkeypatch.chdir("/")
    monitor.start_mode("baseline")
    monitor.stop_mode()
    place = monitor.save_json()
    assert place.parent.resolve() == tmp_path / "results"
    summary = json.loads(place.read_text())["modes"]["baseline"]["summary"]
    assert (summary["batch_time"], summary["loss"], summary["accuracy"]) == (None, None, None)
    assert json.loads(place.read_text())["modes"]["baseline"]["config"] == {}


def test_a_mode_that_still_runs_can_be_saved(tmp_path):
    monitor = ExperimentMonitor("x", tmp_path)
    monitor.start_mode("baseline")
    monitor.log_loss(0, 0, 1.0)
    first = monitor.save_json()
    monitor.log_loss(0, 1, 0.5)
    monitor.stop_mode()
    assert monitor.save_json() == first
    assert len(json.loads(first.read_text())["modes"]["baseline"]["metrics"]["losses"]) == 2


def test_two_experiments_of_one_second_do_not_share_a_file(tmp_path):
    places = {ExperimentMonitor("x", tmp_path).save_json() for _ in range(3)}
    assert len(places) == 3


def test_losses_that_are_no_numbers_stay_valid_json(tmp_path):
    monitor = ExperimentMonitor("x", tmp_path)
    monitor.start_mode("baseline")
    for batch, loss in enumerate((1.0, math.nan, math.inf)):
        monitor.log_loss(0, batch, loss)
    monitor.stop_mode()
    assert math.isnan(monitor.modes["baseline"].metrics.losses[1][2])
    found = json.loads(monitor.save_json().read_text(), parse_constant=pytest.fail)
    assert found["modes"]["baseline"]["metrics"]["losses"] == [[0, 0, 1.0], [0, 1, None], [0, 2, None]]
    assert found["modes"]["baseline"]["summary"]["loss"]["min"] == 1.0


def test_a_loss_that_is_not_one_number_says_so():
    with pytest.raises(NotANumber, match="accuracy is a list"):
        MetricsLogger().log_accuracy(0, 0, [1, 2])
    with pytest.raises(NotANumber, match="loss is a NoneType"):
        MetricsLogger().log_loss(0, 0, None)


def test_any_configuration_can_be_saved(tmp_path):
    class Settings:
        def __init__(self):
            self.rate, self.path = 0.1, tmp_path

    monitor = ExperimentMonitor("a/b: <ü>", tmp_path)
    monitor.start_mode("baseline", config={"s": Settings(), 3: (1, {2}), "f": print, "bad": "\udc80", "n": 10**30})
    monitor.stop_mode()
    place = monitor.save_json()
    assert place.parent == tmp_path
    found = json.loads(place.read_text())
    config = found["modes"]["baseline"]["config"]
    assert config["s"] == {"rate": 0.1, "path": str(tmp_path)}
    assert config["3"] == [1, [2]]
    assert config["bad"] == "\udc80"
    assert config["n"] == 10**30
    assert found["experiment_name"] == "a/b: <ü>"


def test_a_place_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite, match="file"):
        ExperimentMonitor("x", tmp_path / "file").save_json()


def test_resources_are_sampled_in_the_background():
    device = SimpleNamespace(name="a GPU", read=lambda: Reading(78.5, 2048.0))
    monitor = ResourceMonitor(0.005, meter=FakeMeter, devices=lambda: [device, device])
    monitor.start()
    while len(monitor.cpu_usage) < 3:
        time.sleep(0.005)
    monitor.stop()
    count = len(monitor.cpu_usage)
    used = monitor.usage()
    assert set(used["gpu_usage"]) == set(used["gpu_memory"]) == {"0", "1"}
    assert used["gpu_usage"]["1"][0][1] == 78.5
    assert used["gpu_memory"]["0"][0][1] == 2048.0
    assert {percent for _, percent in monitor.memory_usage} == {12.5}
    time.sleep(0.03)
    assert len(monitor.cpu_usage) == count
    assert "codedag-resources" not in [thread.name for thread in threading.enumerate()]


def test_a_run_shorter_than_the_interval_has_one_sample():
    monitor = ResourceMonitor(60, meter=FakeMeter, devices=list)
    monitor.start()
    monitor.stop()
    assert len(monitor.cpu_usage) == 1


def test_a_device_that_stops_answering_ends_sampling_and_is_noted():
    def read():
        raise OSError("fell off the bus")

    monitor = ResourceMonitor(0.005, meter=FakeMeter, devices=lambda: [SimpleNamespace(name="x", read=read)])
    monitor.start()
    while not monitor.notes:
        time.sleep(0.005)
    monitor.stop()
    assert "fell off the bus" in monitor.notes[0]


def test_the_real_machine_can_be_read():
    monitor = ResourceMonitor(0.01)
    monitor.start()
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    monitor.stop()
    assert not monitor.notes
    assert any(percent > 0 for _, percent in monitor.cpu_usage)
    assert all(0 < percent <= 100 for _, percent in monitor.memory_usage)
    assert monitor.source


@pytest.mark.parametrize("interval", [0, -1, math.nan])
def test_an_impossible_interval_is_refused(interval):
    with pytest.raises(OutOfTurn, match="interval"):
        ResourceMonitor(interval)


def test_without_matplotlib_the_log_says_what_to_install(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("codedag.experiment.plots.is_possible", lambda: False)
    import logging

    monkeypatch.setattr(logging.getLogger("codedag"), "propagate", True)
    monitor = ExperimentMonitor("x", tmp_path)
    assert monitor.plot_metrics() is None
    assert "codedag[plots]" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_the_picture_is_a_png(tmp_path):
    pytest.importorskip("matplotlib")
    monitor = ExperimentMonitor("鸟 $x$", tmp_path)
    for mode in ("baseline", "_optimization"):
        monitor.start_mode(mode)
        for batch in range(3):
            monitor.start_batch()
            monitor.end_batch()
            monitor.log_loss(0, batch, 1.0 / (batch + 1))
        monitor.stop_mode()
    place = monitor.plot_metrics()
    assert place == monitor.file(".png")
    assert place.read_bytes().startswith(b"\x89PNG")


def test_numbers_of_numpy_stay_numbers_and_circles_end():
    class Scalar:
        dtype, nbytes, shape = "float64", 8, ()

        def item(self):
            return 1.5

        def __str__(self):
            return "1.5"

    class Array(Scalar):
        nbytes, shape = 16, (2,)

        def tolist(self):
            return [1, float("nan")]

    class Settings:
        pass

    settings = Settings()
    settings.me, settings.rate = settings, 0.1
    rows: list = [1]
    rows.append(rows)
    large = type("Large", (Array,), {"nbytes": 1 << 30, "__str__": lambda self: "[1 2 ...]"})()
    assert plain({"large": large}) == {"large": "[1 2 ...]"}
    assert plain({"a": Scalar(), "b": Array()}) == {"a": 1.5, "b": [1, None]}
    assert plain(settings) == {"me": "...", "rate": 0.1}
    assert plain(rows) == [1, "..."]
    twice = [3]
    assert plain([twice, twice]) == [[3], [3]]
