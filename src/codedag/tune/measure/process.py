"""The parent's side of the measuring process: asks it with a time limit, and starts it again after a crash."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from codedag.ir.verdict import No
from codedag.tune.measure import protocol

SECONDS = 60.0  # for one request; a candidate has a limit of its own
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class MeasuringProcess:
    """Another process in which generated code runs."""

    def __init__(self, one_thread: bool = True) -> None:
        self.environment = {**os.environ, "CODEDAG_DISABLE": "1", **(ONE_THREAD if one_thread else {})}
        self.child: subprocess.Popen[bytes] | None = None
        self.buffer = b""

    def _started(self) -> subprocess.Popen[bytes] | No:
        if self.child is not None and self.child.poll() is None:
            return self.child
        if not sys.executable:
            return No("there is no interpreter to measure in")
        roots = json.dumps([str(Path(__file__).parents[3]), str(Path(np.__file__).parents[1])])
        self.buffer = b""
        try:
            self.child = subprocess.Popen(
                (sys.executable, "-I", "-c", protocol.start_of("codedag.tune.measure.worker"), roots),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                start_new_session=True, env=self.environment,
            )  # fmt: skip
        except OSError as error:
            return No(f"the measuring process cannot be started: {error}")
        return self.child

    def ask(self, request: dict[str, Any], seconds: float = SECONDS) -> dict[str, Any] | No:
        """The answer to a request, or how the process failed to give one."""
        child = self._started()
        if isinstance(child, No):
            return child
        assert child.stdin is not None
        try:
            child.stdin.write(protocol.encoded(request))
            child.stdin.flush()
        except OSError:
            return self._ended(child)
        line = self._line(child, time.monotonic() + seconds)
        if isinstance(line, No):
            return line
        try:
            return protocol.decoded(line)
        except ValueError:
            self.close()
            return No("the measuring process gave no answer that can be read")

    def _line(self, child: subprocess.Popen[bytes], until: float) -> bytes | No:
        assert child.stdout is not None
        handle = child.stdout.fileno()
        while b"\n" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([handle], [], [], left)[0]:
                self.close()
                return No("it did not end in time")
            more = os.read(handle, 1 << 16)
            if not more:
                return self._ended(child)
            self.buffer += more
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line

    def _ended(self, child: subprocess.Popen[bytes]) -> No:
        code = child.wait()
        self.close()
        if code < 0:
            try:
                return No(f"it crashed ({signal.Signals(-code).name})")
            except ValueError:
                return No(f"it crashed (signal {-code})")
        return No(f"the measuring process ended with exit code {code}")

    def close(self) -> None:
        """Ends the process."""
        child, self.child, self.buffer = self.child, None, b""
        if child is None:
            return
        if child.poll() is None:
            child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    continue

    def __enter__(self) -> MeasuringProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
