"""The other side of a measuring process: it is asked with a time limit, and a crash or a hang becomes a reason."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
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

    def __init__(
        self,
        pu: str,
        directory: Path | None = None,
        module: str = "codedag.profile.worker",
        arguments: Sequence[str] = (),
    ) -> None:
        self.pu = pu
        self._directory = directory
        self._command = [sys.executable, "-P", "-m", module, pu, *arguments]
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._is_ready = False
        self._words: IO[bytes] | None = None
        self.starts = 0

    def ask(self, request: dict[str, Any], most_seconds: float, payload: bytes = b"") -> dict[str, Any]:
        """The answer; raises Ended with the reason if there is none. The payload is sent as it is behind the line."""
        self.send(request, payload)
        return self.receive(most_seconds)

    def send(self, request: dict[str, Any], payload: bytes = b"") -> None:
        """Asks without waiting for the answer."""
        process = self.start()
        assert process.stdin is not None
        told = {**request, "payload_nbytes": len(payload)} if payload else request
        try:
            process.stdin.write(json.dumps(told).encode() + b"\n" + payload)
            process.stdin.flush()
        except OSError:
            raise Ended(self._end("it is gone")) from None

    def receive(self, most_seconds: float) -> dict[str, Any]:
        """The answer to what was sent."""
        line = self._line(most_seconds)
        try:
            answer = json.loads(line)
        except ValueError:
            raise Ended(self._end("it gave no sensible answer")) from None
        return answer if isinstance(answer, dict) else {}

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._end("")

    def start(self) -> subprocess.Popen[bytes]:
        """The process, launched if it is not there, once it is ready to be asked."""
        process = self.launch()
        if not self._is_ready:
            self._line(LOADING_SECONDS)
            self._is_ready = True
        return process

    def launch(self) -> subprocess.Popen[bytes]:
        """The process, which may still be loading its libraries."""
        if self._process is not None:
            return self._process
        self._is_ready = False
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self.starts += 1
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            env={**_PASSIVE, **WARM, **os.environ},
            cwd=self._directory,
            start_new_session=True,  # Ctrl-C is for the command, which then ends this process
        )
        self._answers = queue.SimpleQueue()
        reader = (self._process.stdout, self._answers)
        threading.Thread(target=_read_lines, args=reader, daemon=True).start()
        return self._process

    def _line(self, most_seconds: float) -> bytes:
        # A thread reads: on Windows nothing else can wait for a pipe with a time limit.
        try:
            line = self._answers.get(timeout=most_seconds)
        except queue.Empty:
            raise Ended(self._end(f"it gave no answer in {most_seconds:.0f} seconds and was ended")) from None
        if not line:
            raise Ended(self._end(""))
        return line

    def _end(self, why: str) -> str:
        """Why the process ended, once it has; it is killed if it goes on."""
        process, self._process = self._process, None
        assert process is not None
        if why:
            process.kill()
        if process.stdin is not None:
            try:
                process.stdin.close()
            except OSError:
                pass
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


def _read_lines(pipe: IO[bytes], answers: queue.SimpleQueue[bytes]) -> None:
    """Hands on what the process writes, line by line; an empty line at its end."""
    with pipe:
        for line in pipe:
            answers.put(line)
    answers.put(b"")


def _how(code: int, said: str) -> str:
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    return f"{how} ({said})" if said else how
