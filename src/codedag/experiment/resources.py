"""How busy the machine is while a program runs: CPU, memory and GPUs, read now and then by a thread."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from codedag.devices import cgroup
from codedag.experiment import gpus
from codedag.experiment.timing import OutOfTurn
from codedag.instrument.guard import Failed, attempt

Series = list[tuple[float, float]]

# A share of CPU time over less than this says little: clocks of the kernel tick every 10 ms.
SHORTEST_SECONDS = 0.05


class Meter(Protocol):
    """What is asked how much CPU time was used so far, of how many CPUs, and how much memory is in use."""

    source: str
    cpus: float

    def cpu_seconds(self) -> float:
        """The CPU time used so far."""

    def memory_percent(self) -> float:
        """The share of the memory that is in use."""


class HostMeter:
    """The whole machine, as its kernel counts."""

    source = "host"

    def __init__(self) -> None:
        self.cpus = float(os.cpu_count() or 1)

    def cpu_seconds(self) -> float:
        """The time that all CPUs were busy."""
        import psutil

        times = psutil.cpu_times()
        idle = times.idle + getattr(times, "iowait", 0.0)
        guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # counted in user and nice already
        return float(sum(times) - idle - guests)

    def memory_percent(self) -> float:
        """The share of the machine's memory that is in use."""
        import psutil

        return float(psutil.virtual_memory().percent)


class CgroupMeter:
    """A container: what its control group uses of what it may use."""

    def __init__(self, group: cgroup.Cgroup) -> None:
        import psutil

        self._group = group
        self.source = f"cgroup v{group.version}"
        mine = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
        self.cpus = min(mine, group.cpu_limit() or mine)
        self._most = min(int(psutil.virtual_memory().total), group.memory_limit() or 1 << 62)

    def cpu_seconds(self) -> float:
        """The CPU time of the group."""
        return self._group.cpu_seconds()

    def memory_percent(self) -> float:
        """The share of what the group may use."""
        return 100.0 * self._group.memory_nbytes() / self._most


def meter(proc: Path = Path("/proc"), mounted: Path = Path("/sys/fs/cgroup"), root: Path = Path("/")) -> Meter:
    """What to read here: the control group inside a container or where it has limits, else the whole machine."""
    group = cgroup.find(proc, mounted)
    if group is None:
        return HostMeter()
    has_limits = group.cpu_limit() is not None or group.memory_limit() is not None
    return CgroupMeter(group) if has_limits or cgroup.in_container(root) else HostMeter()


class ResourceMonitor:
    """Samples CPU, memory and every GPU each `interval` seconds in a thread of its own, from `start` to `stop`."""

    def __init__(
        self,
        interval: float = 1.0,
        *,
        meter: Callable[[], Meter] = meter,
        devices: Callable[[], Sequence[gpus.Gpu]] = gpus.find,
    ) -> None:
        if not interval > 0:
            raise OutOfTurn(f"an interval of {interval} s is not possible", hint="Name a time above 0, such as 1.0.")
        self.interval = interval
        self.cpu_usage: Series = []
        self.memory_usage: Series = []
        self.gpu_usage: dict[int, Series] = {}
        self.gpu_memory: dict[int, Series] = {}
        self.gpu_names: list[str] = []
        self.notes: list[str] = []
        self.source = ""
        self._make_meter, self._find_devices = meter, devices
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()

    def start(self) -> None:
        """Begins to sample; a sample stands for the time since the one before."""
        if self._thread is not None:
            raise OutOfTurn("resources are already being monitored", hint="Call stop() before the next start().")
        self._ending = threading.Event()
        self._meter, self._devices = self._make_meter(), list(self._find_devices())
        self.source, self.gpu_names = self._meter.source, [device.name for device in self._devices]
        self._before = (time.perf_counter(), self._meter.cpu_seconds())
        self._thread = threading.Thread(target=self._watch, name="codedag-resources", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends sampling; the time since the last sample is a sample too."""
        if self._thread is None:
            raise OutOfTurn("resources are not being monitored", hint="Call start() first.")
        self._ending.set()
        self._thread.join()
        self._thread = None
        if not self.cpu_usage or time.perf_counter() - self._before[0] >= SHORTEST_SECONDS:
            self._try_sample()

    def usage(self) -> dict[str, object]:
        """All series by name, as the results file has them."""
        return {
            "cpu_usage": self.cpu_usage,
            "memory_usage": self.memory_usage,
            "gpu_usage": {str(number): series for number, series in self.gpu_usage.items()},
            "gpu_memory": {str(number): series for number, series in self.gpu_memory.items()},
        }

    def _watch(self) -> None:
        while not self._ending.wait(self.interval):
            if not self._try_sample():
                return

    def _try_sample(self) -> bool:
        """Whether a sample was taken; if the machine does not say, that is noted, once, and sampling ends."""
        done = attempt(self._sample)
        if isinstance(done, Failed):
            self.notes.append(f"resources were not sampled any more: {done.reason}")
        return not isinstance(done, Failed)

    def _sample(self) -> None:
        now, stamp, used = time.perf_counter(), time.time(), self._meter.cpu_seconds()
        passed = now - self._before[0]
        percent = 100.0 * (used - self._before[1]) / (passed * self._meter.cpus) if passed > 0 else 0.0
        self._before = (now, used)
        self.cpu_usage.append((stamp, min(100.0, max(0.0, percent))))
        self.memory_usage.append((stamp, self._meter.memory_percent()))
        for number, device in enumerate(self._devices):
            self._sample_device(number, device, stamp)

    def _sample_device(self, number: int, device: gpus.Gpu, stamp: float) -> None:
        reading = device.read()
        self.gpu_usage.setdefault(number, []).append((stamp, reading.percent))
        self.gpu_memory.setdefault(number, []).append((stamp, reading.used_mb))
