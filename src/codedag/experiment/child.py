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
from typing import IO

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


# A process begins with the peak of the one that it was forked from, and keeps it when it becomes another program. So a
# small one stands between, which also reads the clock: that of the program alone.
_STARTER = """
import os, sys, time
report = int(sys.argv[1])
os.set_inheritable(report, False)
begun = time.perf_counter()
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
status, usage = os.wait4(child, 0)[1:]
seconds = time.perf_counter() - begun
words = (os.waitstatus_to_exitcode(status), seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
os.write(report, " ".join(map(repr, words)).encode())
"""


def run(command: Sequence[str], cwd: Path, environment: Mapping[str, str], timeout: float | None = None) -> Ended:
    """Runs a command to its end, children and all; CPU time is that of the process and of children it waited for."""
    to_read, report = os.pipe()
    starter = [sys.executable, "-I", "-S", "-c", _STARTER, str(report), *command]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors, os.fdopen(to_read) as told:
        started = time.perf_counter()
        try:
            process = subprocess.Popen(  # in a session of its own, so that it can be ended with all its children
                starter, cwd=cwd, env=dict(environment), stdin=subprocess.DEVNULL, stdout=out, stderr=errors,
                start_new_session=True, pass_fds=(report,),
            )  # fmt: skip
        finally:
            os.close(report)
        usage = _waited(process, timeout)
        spent = _Spent.of(told.read()) or _Spent(
            process.returncode, time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss
        )
        return Ended(spent.code, spent.seconds, spent.cpu_seconds, *_said(out, errors), spent.peak_nbytes)


@dataclass(frozen=True, slots=True)
class _Spent:
    """What a process took, as the kernel counts it; a program that ends its whole session leaves no word of its own."""

    code: int
    seconds: float
    cpu_seconds: float
    maxrss: int

    @classmethod
    def of(cls, words: str) -> _Spent | None:
        parts = words.split()
        return cls(int(parts[0]), float(parts[1]), float(parts[2]), int(parts[3])) if len(parts) == 4 else None

    @property
    def peak_nbytes(self) -> int:
        return self.maxrss * (1 if sys.platform == "darwin" else 1024)


def _said(out: IO[bytes], errors: IO[bytes]) -> tuple[str, str]:
    """What was printed, and the last words on stderr."""
    out.seek(0)
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - 4096))
    kept, words = out.read(MOST_OUTPUT_NBYTES), errors.read()
    return kept.decode(errors="backslashreplace"), words.decode(errors="backslashreplace")


def _waited(process: subprocess.Popen[bytes], timeout: float | None) -> resource.struct_rusage:
    """What the process used, as the kernel counts it for this child alone; its exit code is known then."""
    expired = threading.Event()
    alarm = threading.Timer(timeout or 0, _expire, (process, expired))
    if timeout is not None:
        alarm.start()
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        _end(process)
        process.wait()
        raise
    finally:
        alarm.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    if expired.is_set():
        raise ProgramFailed(
            f"the program did not end within {timeout:g} s", hint="Name more with --timeout, or give it less to do."
        )
    return usage


def _expire(process: subprocess.Popen[bytes], expired: threading.Event) -> None:
    expired.set()  # before its end, which may be seen before this thread goes on
    _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
