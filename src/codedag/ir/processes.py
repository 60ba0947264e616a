"""CPU time of other processes."""

from __future__ import annotations

import os


def cpu_seconds_of(pid: int) -> float:
    """CPU seconds that a process has taken; 0 where the system does not say."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            user, system = file.read().rpartition(b")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return 0.0
