"""What a container may use and does use: control groups, version 1 and version 2."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

# v1 writes "no limit" as the largest multiple of the page size below 2**63.
_NO_LIMIT = 1 << 60


@dataclass(frozen=True, slots=True)
class Cgroup:
    """The control group of this process: where its CPU and memory files are, and which version they have."""

    version: int
    cpu: Path
    memory: Path

    def cpu_seconds(self) -> float:
        """The CPU time that the group has used so far."""
        if self.version == 1:
            return int(_text(self.cpu / "cpuacct.usage")) / 1e9
        return _field(self.cpu / "cpu.stat", "usage_usec") / 1e6

    def cpu_limit(self) -> float | None:
        """How many CPUs the group may use at once; None if there is no limit."""
        try:
            quota, period = self._quota()
        except (OSError, ValueError):
            return None
        return quota / period if quota > 0 and period > 0 else None

    def _quota(self) -> tuple[int, int]:
        if self.version == 1:
            return int(_text(self.cpu / "cpu.cfs_quota_us")), int(_text(self.cpu / "cpu.cfs_period_us"))
        quota, period = _text(self.cpu / "cpu.max").split()
        return (-1 if quota == "max" else int(quota)), int(period)

    def memory_nbytes(self) -> int:
        """The memory that the group uses, without file pages that can be dropped at once (as `docker stats` counts)."""
        used = int(_text(self.memory / ("memory.usage_in_bytes" if self.version == 1 else "memory.current")))
        stat = "total_inactive_file" if self.version == 1 else "inactive_file"
        return max(0, used - _field(self.memory / "memory.stat", stat))

    def memory_limit(self) -> int | None:
        """The memory that the group may use; None if there is no limit."""
        name = "memory.limit_in_bytes" if self.version == 1 else "memory.max"
        try:
            text = _text(self.memory / name)
            return None if text == "max" or int(text) >= _NO_LIMIT else int(text)
        except (OSError, ValueError):
            return None


def find(proc: Path = Path("/proc"), mounted: Path = Path("/sys/fs/cgroup")) -> Cgroup | None:
    """The group of this process, if its CPU and memory can be read; None where there are no such files."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return None
    paths = {name: path for _, names, path in (line.split(":", 2) for line in lines) for name in names.split(",")}
    for found in (_second(paths, mounted), _first(paths, mounted)):
        if found is not None and _readable(found):
            return found
    return None


def _second(paths: dict[str, str], mounted: Path) -> Cgroup | None:
    if "" not in paths or not (mounted / "cgroup.controllers").exists():
        return None
    place = _below(mounted, paths[""], "cpu.stat")
    return Cgroup(2, place, _below(mounted, paths[""], "memory.current"))


def _first(paths: dict[str, str], mounted: Path) -> Cgroup | None:
    if "cpuacct" not in paths or "memory" not in paths:
        return None
    names = ("cpuacct", "cpu,cpuacct", "cpuacct,cpu")
    cpu = next((mounted / name for name in names if (mounted / name).is_dir()), mounted / "cpuacct")
    memory = mounted / "memory"
    return Cgroup(1, _below(cpu, paths["cpuacct"], "cpuacct.usage"), _below(memory, paths["memory"], "memory.stat"))


def _below(mounted: Path, path: str, name: str) -> Path:
    """The group's directory; in a container its own group is mounted at the top, under the host's path or not."""
    inside = mounted / path.lstrip("/")
    return inside if (inside / name).exists() else mounted


def _readable(group: Cgroup) -> bool:
    try:
        group.cpu_seconds(), group.memory_nbytes()
    except (OSError, ValueError):
        return False
    return True


def in_container(root: Path = Path("/")) -> bool:
    """Whether this process runs in a container, as container engines mark it."""
    marks = (root / ".dockerenv", root / "run" / ".containerenv")
    return any(mark.exists() for mark in marks) or "KUBERNETES_SERVICE_HOST" in os.environ


def _text(path: Path) -> str:
    return path.read_text().strip()


def _field(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0
