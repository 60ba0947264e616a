"""A process that does not outlive the one that asks it, even if it hangs in a call of a library."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

LOOK_SECONDS = 1.0


def end_with_parent() -> None:
    """Ends this process when its parent is gone: by the kernel where it can, else by a thread that looks."""
    if sys.platform == "linux" and _by_kernel():
        return
    threading.Thread(target=_look, args=(os.getppid(),), daemon=True).start()


def without_telemetry() -> None:
    """Keeps OpenVINO from reporting its use in this process of ours: it forks a child for that, which may hang."""
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type] # importing it fails, as if not installed


def _by_kernel() -> bool:
    import ctypes

    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    return prctl is not None and prctl(1, int(signal.SIGKILL)) == 0  # PR_SET_PDEATHSIG


def _look(parent: int) -> None:
    import psutil

    while psutil.pid_exists(parent):
        time.sleep(LOOK_SECONDS)
    os._exit(1)
