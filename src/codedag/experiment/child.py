"""One run of a program in a process of its own: how it ended, what it printed, and what it took."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from codedag.ir.errors import CodedagError

# More than this of a program's output is not kept for comparison.
MOST_OUTPUT_NBYTES = 64 << 20


class ProgramFailed(CodedagError):  # noqa: N818 - reads as what happened
    """A program that has to be run and does not run, even plain."""

    slug = "program-failed"


@dataclass(frozen=True, slots=True)
class Ended:
    """A program that ran to its end: exit code, seconds by the clock and of the CPU, output, last words on stderr.

    `peak_nbytes` is the most memory that the process, or one that it waited for, had at once.
    """

    code: int
    seconds: float
    cpu_seconds: float
    output: str
    last_words: str
    peak_nbytes: int = 0


def run(command: Sequence[str], cwd: Path, environment: Mapping[str, str], timeout: float | None = None) -> Ended:
    """Runs a command to its end, children and all; CPU time is that of the process and of children it waited for."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(  # in a session of its own, so that it can be ended with all its children
            command, cwd=cwd, env=dict(environment), stdin=subprocess.DEVNULL, stdout=out, stderr=errors,
            start_new_session=True,
        )  # fmt: skip
        usage = _waited(process, timeout)
        seconds = time.perf_counter() - started
        out.seek(0)
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - 4096))
        output = out.read(MOST_OUTPUT_NBYTES).decode(errors="backslashreplace")
        words = errors.read().decode(errors="backslashreplace")
        peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return Ended(process.returncode, seconds, usage.ru_utime + usage.ru_stime, output, words, peak)


def _waited(process: subprocess.Popen[bytes], timeout: float | None) -> resource.struct_rusage:
    """What the process used, as the kernel counts it for this child alone; its exit code is known then."""
    alarm = threading.Timer(timeout or 0, _end, (process,))
    if timeout is not None:
        alarm.start()
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        _end(process)
        process.wait()
        raise
    finally:
        expired = timeout is not None and alarm.finished.is_set()
        alarm.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    if expired:
        raise ProgramFailed(
            f"the program did not end within {timeout:g} s", hint="Name more with --timeout, or give it less to do."
        )
    return usage


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
