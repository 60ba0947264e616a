"""The budget of what is kept in memory so that it need not be computed again."""

from __future__ import annotations

from codedag.devices import cgroup
from codedag.migrate.memo.disk_store import Disk
from codedag.migrate.memo.shared_store import Common, common


class Memory:
    """What may be kept in all, and how much is."""

    def __init__(self, most_nbytes: int | None = None, disk: Disk | None = None) -> None:
        self.most_nbytes, self.nbytes, self.peak_nbytes = most_nbytes, 0, 0
        self.disk = disk  # takes what memory does not
        self.paused = False  # nothing is kept and nothing recalled
        self.common: Common | None = None  # what workers keep for each other
        self.in_worker = False  # whether this process keeps there, and nothing for itself alone

    def takes(self, nbytes: int) -> bool:
        """Whether there is room for so much; then it is taken."""
        if self.most_nbytes is None:
            self.most_nbytes = budget()
        if self.nbytes + nbytes > self.most_nbytes:
            return False
        self.nbytes += nbytes
        self.peak_nbytes = max(self.peak_nbytes, self.nbytes)
        return True

    def share(self) -> None:
        """Sets half of what is left aside for workers, once; the system gives it when they use it."""
        if self.common is None:
            most = budget() if self.most_nbytes is None else self.most_nbytes
            self.common = common((most - self.nbytes) // 2)
            if self.common is not None:
                self.most_nbytes = most - (most - self.nbytes) // 2

    def is_open(self) -> bool:
        """Whether prefixes may be kept and recalled now."""
        return not self.paused or (self.in_worker and self.common is not None)


def budget() -> int:
    """The bytes that may be kept unless somebody says otherwise: a quarter of what is free."""
    return max(0, min(free_nbytes())) // 4


def free_nbytes() -> list[int]:
    """What is free by each thing that sets a limit: the machine, the container, and the process itself."""
    import psutil

    group = cgroup.find()
    limit = group.memory_limit() if group is not None else None
    found = [int(psutil.virtual_memory().available)]
    if group is not None and limit is not None:
        found.append(limit - group.memory_nbytes())
    used = psutil.Process().memory_info()
    for name, nbytes in (("RLIMIT_AS", used.vms), ("RLIMIT_DATA", used.vms), ("RLIMIT_RSS", used.rss)):
        most = _limit(name)
        found += [] if most is None else [most - nbytes]
    return found


def _limit(name: str) -> int | None:
    """What a process may have, as the system calls it; None if as much as there is."""
    try:
        import resource
    except ImportError:  # not a system with limits
        return None
    most = resource.getrlimit(getattr(resource, name))[0] if hasattr(resource, name) else resource.RLIM_INFINITY
    return None if most == resource.RLIM_INFINITY else most
