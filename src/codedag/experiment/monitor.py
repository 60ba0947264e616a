"""One experiment: the same training in several modes, with what each took, used and reached."""

from __future__ import annotations

import datetime
import json
import logging
import math
import os
import platform
import re
import time
from pathlib import Path
from typing import Any

from codedag.experiment.metrics import MetricsLogger
from codedag.experiment.resources import ResourceMonitor
from codedag.experiment.timing import OutOfTurn, Timer
from codedag.ir.files import write_atomically

log = logging.getLogger("codedag.experiment")

SMALL_NBYTES = 8192  # arrays in a configuration that are written out: weights of classes, not data


class Mode:
    """One way of running the training, such as "baseline": its configuration, times, resources and metrics."""

    def __init__(self, config: Any, resource_interval: float) -> None:
        self.config = config
        self.timer, self.metrics = Timer(), MetricsLogger()
        self.resources = ResourceMonitor(resource_interval)

    def facts(self) -> dict[str, Any]:
        """What is known of this mode, in the fields of the results file."""
        return {
            "config": self.config,
            "batch_times": self.timer.batch_times,
            "resource_usage": {**self.resources.usage(), "source": self.resources.source},
            "metrics": {"losses": self.metrics.losses, "accuracies": self.metrics.accuracies},
            "summary": {
                "total_time": self.timer.total_time,
                "batch_time": self.timer.summary(),
                **self.metrics.summary(),
            },
            "notes": self.resources.notes,
        }


class ExperimentMonitor:
    """Follows a training through its modes and writes `<name>_<timestamp>.json` and `.png` into `save_dir`.

    One mode runs at a time: `start_mode`, then per batch `start_batch`, `end_batch`, `log_loss`, `log_accuracy`, then
    `stop_mode`.
    """

    def __init__(self, experiment_name: str, save_dir: str | os.PathLike[str] = "./results") -> None:
        self.experiment_name = experiment_name
        self.save_dir = Path(save_dir).absolute()  # a program may change its directory meanwhile
        self.timestamp = self._free_timestamp(int(time.time()))
        self.modes: dict[str, Mode] = {}
        self._current = ""

    def start_mode(self, mode: str, config: Any = None, resource_interval: float = 1.0) -> None:
        """Begins a mode; one of this name that has ended is replaced."""
        if self._current:
            raise OutOfTurn(f"mode {self._current!r} is running", hint="Call stop_mode() before the next start_mode().")
        if mode in self.modes:
            log.warning("mode %r is run again: what it had before is replaced", mode)
        begun = Mode({} if config is None else config, resource_interval)
        begun.resources.start()
        begun.timer.start()
        self.modes[mode], self._current = begun, mode

    def stop_mode(self) -> dict[str, Any]:
        """The summary of the mode that was running, which ends."""
        mode = self._running("stop_mode")
        mode.timer.stop()
        mode.resources.stop()
        self._current = ""
        summary: dict[str, Any] = mode.facts()["summary"]
        return summary

    def start_batch(self) -> None:
        """Begins a batch."""
        self._running("start_batch").timer.start_batch()

    def end_batch(self) -> float:
        """The seconds of the batch, which ends."""
        return self._running("end_batch").timer.end_batch()

    def log_loss(self, epoch: int, batch: int, loss: Any) -> None:
        """Keeps the loss of a batch."""
        self._running("log_loss").metrics.log_loss(epoch, batch, loss)

    def log_accuracy(self, epoch: int, batch: int, accuracy: Any) -> None:
        """Keeps the accuracy of, or up to, a batch."""
        self._running("log_accuracy").metrics.log_accuracy(epoch, batch, accuracy)

    def _running(self, what: str) -> Mode:
        if not self._current:
            raise OutOfTurn(f"{what}() while no mode is running", hint='Call start_mode("baseline") first.')
        return self.modes[self._current]

    def results(self) -> dict[str, Any]:
        """All that is known so far, in the fields of the results file."""
        return {
            "experiment_name": self.experiment_name,
            "timestamp": self.timestamp,
            "datetime": datetime.datetime.fromtimestamp(self.timestamp).isoformat(),
            "modes": {name: mode.facts() for name, mode in self.modes.items()},
            "versions": _versions(),
            "machine": _machine([name for mode in self.modes.values() for name in mode.resources.gpu_names]),
        }

    def save_json(self) -> Path:
        """The results file, written; called again, it is replaced by what is known then."""
        text = json.dumps(plain(self.results()), indent=2, ensure_ascii=False, allow_nan=False)
        place = self.file(".json")
        write_atomically(place, f"{text}\n".encode(errors="backslashreplace"))
        return place

    def plot_metrics(self) -> Path | None:
        """The picture that compares the modes, written; None, with a line in the log, if matplotlib is not there."""
        from codedag.experiment import plots

        if not plots.is_possible():
            log.warning("no picture: matplotlib is not installed; `pip install 'codedag[plots]'` brings it")
            return None
        place = self.file(".png")
        write_atomically(place, plots.png(self.results()))
        return place

    def file(self, suffix: str) -> Path:
        """The place of a file of this experiment."""
        return self._file(self.timestamp, suffix)

    def _file(self, timestamp: int, suffix: str) -> Path:
        name = re.sub(r"[^\w.-]+", "_", self.experiment_name) or "experiment"
        return self.save_dir / f"{name}_{timestamp}{suffix}"

    def _free_timestamp(self, timestamp: int) -> int:
        """The first second from this one on whose files no other experiment has written."""
        while self._file(timestamp, ".json").exists() or self._file(timestamp, ".png").exists():
            timestamp += 1
        return timestamp


def plain(value: Any, around: tuple[int, ...] = ()) -> Any:
    """A value as JSON can hold it: numbers that are none become null, what JSON does not know becomes its text.

    `around` are the values that this one is in; one that is inside itself ends there.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return (int(value) if isinstance(value, int) else float(value)) if math.isfinite(value) else None
    if id(value) in around:
        return "..."
    inside = (*around, id(value))
    if isinstance(value, dict):
        return {str(key): plain(each, inside) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each, inside) for each in value]
    if _is_small_array(value):
        return plain(value.tolist() if value.shape else value.item(), inside)
    if isinstance(value, type) or not hasattr(value, "__dict__") or _has_text(value):
        return str(value)
    return {key: plain(each, inside) for key, each in vars(value).items()}


def _is_small_array(value: Any) -> bool:
    """Whether it is a number or a few numbers of numpy, torch or the like."""
    return not isinstance(value, type) and hasattr(value, "dtype") and getattr(value, "nbytes", 1 << 30) <= SMALL_NBYTES


def _has_text(value: object) -> bool:
    """Whether the value says itself what it is; a plain object of settings does not."""
    return type(value).__str__ is not object.__str__ or type(value).__repr__ is not object.__repr__


def _versions() -> dict[str, str]:
    from codedag.trace import rundir

    return rundir.loaded_versions()


def _machine(gpu_names: list[str]) -> dict[str, Any]:
    import psutil

    return {
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cpus": os.cpu_count(),
        "memory_nbytes": psutil.virtual_memory().total,
        "gpus": list(dict.fromkeys(gpu_names)),
    }
