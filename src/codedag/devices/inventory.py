"""The inventory of processing units: what this machine really has."""

from __future__ import annotations

from codedag.ir import Machine, Pu


def this_machine() -> Machine:
    """The machine that this process runs on: so far its CPU, as the program uses it."""
    import psutil

    return Machine(
        pus=[Pu(name="cpu", resource="host", memory_nbytes=psutil.virtual_memory().total, launch_seconds=0.0)]
    )
