"""Proofs in another process: the program hears no warning of theirs, keeps its interpreter, and survives them.

A proof runs the original and the substitute on generated calls.  In the program's own process libraries would warn on
its stderr (or note that they have warned, so that its own warning is not shown), and both would take turns with it.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections import deque
from collections.abc import Iterable
from io import FileIO
from typing import Any

from codedag.backends.proof import known_here, proven_here
from codedag.backends.registry import Substitution, find
from codedag.ir import clock as time
from codedag.ir.processes import cpu_seconds_of
from codedag.ir.verdict import Code, No, Verdict, Yes

MOST_SECONDS = 120.0  # for one proof; the slowest takes some seconds with its imports
IDLE_SECONDS = 5.0  # after which the other process ends: the libraries that it has loaded take memory
ENDED = "the program ended before it was proven"
# Seconds of the processor after which the program comes first.  Libraries whose threads spin (OpenBLAS does for 0.1 s
# after each product) leave nothing to a process that comes last, and a proof that is never done is begun by each run.
_FREE, _NICE = 3.0, 10
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}  # the same threads would spin here


class Prover:
    """Proves one substitution after the other in one other process, which loads libraries once; `end` ends it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False
        self._open: Substitution | None = None  # what was begun and is not answered yet
        self._until = 0.0  # when it is given up
        self._asked: deque[str] = deque()  # what was asked and is not answered yet, in this order
        self._half = b""  # an answer that has not come to its end
        self._said: dict[str, Verdict] = {}  # where nothing can be kept, this remembers
        self._cpu_seconds: dict[int, float] = {}  # by number of each other process that there was

    def __call__(self, substitution: Substitution) -> Verdict:
        """Yes if the substitution keeps its promise on this machine; what is known already is not proven again."""
        known = self.known(substitution)
        return self._proven(substitution) if known is None else known

    def known(self, substitution: Substitution) -> Verdict | None:
        """The verdict if it needs no proof; None if it does."""
        self._hear()
        said = self._said.get(substitution.name)
        return said if said is not None else known_here(substitution)

    def is_running(self) -> bool:
        """Whether the other process is there, with what it has loaded."""
        return self._process is not None and self._process.poll() is None

    def cpu_seconds(self) -> float:
        """CPU seconds of all the other processes so far, as far as the system says."""
        if self._process is not None and self._process.returncode is None:
            pid = self._process.pid
            self._cpu_seconds[pid] = cpu_seconds_of(pid) or self._cpu_seconds.get(pid, 0.0)
        return sum(self._cpu_seconds.values())

    def is_asked(self) -> bool:
        """Whether there are answers to come."""
        self._hear()
        return bool(self._asked)

    def ahead(self, questions: Iterable[tuple[str, str]]) -> None:
        """Asks for substitutions (source and library) that nobody waits for yet."""
        for question in questions:
            if not self._ended:
                self._ask(*question)

    def begin(self, substitution: Substitution) -> bool:
        """Asks without waiting for the answer; False if nobody can be asked so."""
        if self._ended or self._open is not None or not self._is_asked_for(substitution):
            return False
        self._open, self._until = substitution, time.monotonic() + MOST_SECONDS
        return True

    def has_answered(self) -> bool:
        """Whether the answer to what was begun is there, or none will come; what was said is known from then on."""
        if self._open is None or self._process is None:
            return True
        if time.monotonic() > self._until:
            self._process.kill()
        self._hear()
        if self._open.name in self._asked:
            return False
        self._open = None
        return True

    def _is_asked_for(self, substitution: Substitution) -> bool:
        """Whether the answer for a substitution will come; it is asked for if nobody has."""
        if not _is_ours(substitution):
            return False
        return substitution.name in self._asked or self._ask(substitution.source, substitution.into)

    def _proven(self, substitution: Substitution) -> Verdict:
        if not _is_ours(substitution):
            return proven_here(substitution)  # of a plug-in, which another process may not find
        for _ in range(2):  # the process may have ended just before it was asked
            if not self._ended and self._is_asked_for(substitution):
                self._wait_for(substitution.name)
            if substitution.name in self._said:
                return self._said[substitution.name]
        return No(ENDED, Code.ENDED) if self._ended else _verdict(b"", self._process)

    def _wait_for(self, name: str) -> None:
        until = time.monotonic() + MOST_SECONDS
        while name in self._asked and self._process is not None and self._process.stdout is not None:
            if not select.select([self._process.stdout.fileno()], [], [], max(until - time.monotonic(), 0))[0]:
                self._process.kill()
                self._process.wait()
            self._hear()

    def _hear(self) -> None:
        """Takes in the answers that are there; if the other process has ended, no more will come."""
        while self._asked and self._process is not None and self._process.stdout is not None:
            pipe = self._process.stdout.fileno()
            if not select.select([pipe], [], [], 0)[0]:
                return
            part = os.read(pipe, 1 << 16)
            if not part:
                self._process.kill()
                self._process.wait()
                self._asked.clear()
            *answers, self._half = (self._half + part).split(b"\n")
            for answer in answers:
                self._said[self._asked.popleft()] = _verdict(answer, self._process)

    def end(self) -> None:
        """Ends the proof that runs, if any; there will be no more.  Whoever waits for it hears at once."""
        self._ended = True
        process = self._process  # the thread that asks may let it rest meanwhile
        if process is not None:
            process.kill()

    def rest(self) -> None:
        """Ends the other process, which nobody asks now: a program that waits for any child must not meet it."""
        self.cpu_seconds()
        process, self._process = self._process, None
        self._forget_questions()
        if process is not None:
            _close(process)

    def close(self) -> None:
        """Gives everything back once nobody waits for a proof any more."""
        self.end()
        self.rest()

    def forget(self) -> None:
        """In a process that was just forked: the other process is its parent's."""
        if self._process is not None:
            self._process.returncode = 0  # not waited for by this one
            _close(self._process)
            self._process = None
        self._forget_questions()

    def _forget_questions(self) -> None:
        self._open, self._half = None, b""
        self._asked.clear()

    def _ask(self, source: str, into: str) -> bool:
        """Whether the other process, which is started if there is none, was asked."""
        if self._process is not None and self._process.poll() is not None:
            _close(self._process)
            self._process = None
        if self._process is None:
            self._process, self._half = _start(), b""
            self._asked.clear()
        if self._ended:
            self._process.kill()
        question = json.dumps([source, into]).encode() + b"\n"
        try:
            self._process.stdin.write(question)  # type: ignore[union-attr]
            self._process.stdin.flush()  # type: ignore[union-attr]
        except OSError:
            return False
        self._asked.append(f"{source} -> {into}")
        return True


def _is_ours(substitution: Substitution) -> bool:
    return substitution.module.startswith(f"{__package__}.")


def _start() -> subprocess.Popen[bytes]:
    # not in the program's directory, whose modules may be called as libraries are
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "codedag.backends.apart"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=os.sep,
        env={**_ONE_THREAD, **os.environ},
    )  # fmt: skip


def _close(process: subprocess.Popen[bytes]) -> None:
    """Closes the pipes, without a word of Python's about what is left open, and waits for the end."""
    for pipe in (process.stdin, process.stdout):
        try:
            if pipe is not None:
                pipe.close()
        except OSError:  # what was still to be written has nowhere to go
            continue
    process.wait()


def _verdict(said: bytes, process: subprocess.Popen[bytes] | None) -> Verdict:
    try:
        answer: Any = json.loads(said.splitlines()[-1])
        return Yes if answer["ok"] is True else No(str(answer["reason"]))
    except (ValueError, KeyError, TypeError, IndexError):
        code = None if process is None else process.poll()
        return No(f"the process that should prove it gave no answer (exit code {code})")


def _main() -> None:
    """Answers each question on stdin by a verdict on stdout, until there are no more or none comes for long."""
    last = False
    answers = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no answer
    questions = FileIO(0, closefd=False)  # unbuffered: what is read ahead would not be seen by `select`
    while select.select([questions], [], [], IDLE_SECONDS)[0] and (line := questions.readline()):
        if not last and time.process_time() > _FREE:
            last = os.nice(_NICE) > 0
        source, into = json.loads(line)
        found = [one for one in find(source) if (one.source, one.into) == (source, into)]
        verdict = proven_here(found[0]) if found else No("it is not in the registry")
        answer = {"ok": bool(verdict), "reason": getattr(verdict, "reason", "")}
        os.write(answers, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    _main()
