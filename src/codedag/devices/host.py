"""The processor that this process runs on, without looking further."""

from __future__ import annotations

import os

from codedag.ir import Machine, Pu


def this_machine() -> Machine:
    """The machine that this process runs on: its CPU, as the program uses it."""
    model = processor()
    return Machine(
        pus=[
            Pu(
                name="cpu", resource="host", memory_nbytes=host_memory(), launch_seconds=0.0, threads=host_threads(),
                capability=[model] if model else [],
            )
        ]
    )  # fmt: skip


def processor() -> str:
    """What the processor calls itself, where the system says."""
    try:
        with open("/proc/cpuinfo", errors="replace") as lines:  # noqa: PTH123 - the first lines are enough
            return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    except OSError:
        return ""


def host_threads() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux has it
        return os.cpu_count() or 1


def host_memory() -> int:
    """The memory of this machine in bytes."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        import psutil  # where the system does not say; importing it takes longer than all the rest

        return int(psutil.virtual_memory().total)
