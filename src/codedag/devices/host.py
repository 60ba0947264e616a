"""The processor that this process runs on, without looking further."""

from __future__ import annotations

import os

from codedag.ir import Machine, Pu


def this_machine() -> Machine:
    """The machine that this process runs on: its CPU, as the program uses it."""
    return Machine(pus=[Pu(name="cpu", resource="host", memory_nbytes=host_memory(), launch_seconds=0.0)])


def host_memory() -> int:
    """The memory of this machine in bytes."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        import psutil  # where the system does not say; importing it takes longer than all the rest

        return int(psutil.virtual_memory().total)
