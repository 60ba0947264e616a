"""The other side of a measuring process: it is asked with a time limit, and a crash or a hang becomes a reason."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

# Waiting threads that spin take the cores away from the other PUs' processes, which are measured in turn.
_PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0", "GOMP_SPINCOUNT": "0"}
# Memory that was given back is kept for the next call, as in a program that has run for a while: after the first large
# array is freed, glibc does so by itself. In a fresh process a call would pay for pages that no call of a program pays.
WARM = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}
LOADING_SECONDS = 120.0  # for the library of the PU: a first import of torch from a cold disk takes 20


class Ended(Exception):  # noqa: N818 - reads as what happened
    """The measuring process is gone: it crashed, or it was ended because it gave no answer."""


class PuProcess:
    """One measuring process, started when first asked and again after it ended."""

    def __init__(self, pu: str, directory: Path | None = None) -> None:
        self.pu = pu
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._words: IO[bytes] | None = None
        self.starts = 0

    def ask(self, request: dict[str, Any], most_seconds: float) -> dict[str, Any]:
        """The answer; raises Ended with the reason if there is none."""
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except OSError:
            raise Ended(self._end("it is gone")) from None
        line = self._line(process, most_seconds)
        try:
            answer = json.loads(line)
        except ValueError:
            raise Ended(self._end("it gave no sensible answer")) from None
        return answer if isinstance(answer, dict) else {}

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._end("")

    def _start(self) -> subprocess.Popen[bytes]:
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self.starts += 1
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "codedag.profile.worker", self.pu],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            env={**_PASSIVE, **WARM, **os.environ},
            cwd=self._directory,
            start_new_session=True,  # Ctrl-C is for the command, which then ends this process
        )
        self._line(self._process, LOADING_SECONDS)
        return self._process

    def _line(self, process: subprocess.Popen[bytes], most_seconds: float) -> bytes:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(most_seconds):
                raise Ended(self._end(f"it gave no answer in {most_seconds:.0f} seconds and was ended"))
        line = process.stdout.readline()
        if not line:
            raise Ended(self._end(""))
        return line

    def _end(self, why: str) -> str:
        """Why the process ended, once it has; it is killed if it goes on."""
        process, self._process = self._process, None
        assert process is not None
        if why:
            process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue
        try:
            code = process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        said = self._last_words()
        return f"the process of {self.pu} ended: {why or _how(code, said)}"

    def _last_words(self) -> str:
        """The last line that the process wrote to stderr."""
        assert self._words is not None
        with self._words as words:
            words.seek(0)
            return words.read()[-4_096:].decode(errors="replace").strip().rpartition("\n")[2].strip()[:200]


def _how(code: int, said: str) -> str:
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    return f"{how} ({said})" if said else how
