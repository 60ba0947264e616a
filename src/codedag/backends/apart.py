"""Proofs in another process: the program hears no warning of theirs, keeps its interpreter, and survives them.

A proof runs the original and the substitute on generated calls.  In the program's own process libraries would warn on
its stderr (or note that they have warned, so that its own warning is not shown), and both would take turns with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from codedag.backends.proof import known_here, proven_here
from codedag.backends.registry import Substitution, find
from codedag.ir.verdict import No, Verdict, Yes

MOST_SECONDS = 120.0  # for one proof; the slowest takes some seconds with its imports
ENDED = "the program ended before it was proven"
_NICE = 10


class Prover:
    """Proves one substitution after the other, each in a process of its own; `end` ends the one that runs."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False

    def __call__(self, substitution: Substitution) -> Verdict:
        """Yes if the substitution keeps its promise on this machine; what is known already is not proven again."""
        known = known_here(substitution)
        if known is not None:
            return known
        if not substitution.module.startswith(f"{__package__}."):
            return proven_here(substitution)  # of a plug-in, which another process may not find
        return No(ENDED) if self._ended else self._proven(substitution)

    def end(self) -> None:
        """Ends the proof that runs, if any; there will be no more."""
        self._ended = True
        process = self._process
        if process is not None:
            process.kill()

    def _proven(self, substitution: Substitution) -> Verdict:
        command = [sys.executable, "-P", "-m", __spec__.name, substitution.source, substitution.into]
        # not in the program's directory, whose modules may be called as libraries are
        self._process = process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=os.sep
        )
        if self._ended:
            process.kill()
        try:
            said = process.communicate(timeout=MOST_SECONDS)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return No(f"its proof was not done after {MOST_SECONDS:.0f} seconds")
        finally:
            self._process = None
        return No(ENDED) if self._ended else _verdict(said, process.returncode)


def _verdict(said: bytes, code: int) -> Verdict:
    try:
        answer: Any = json.loads(said.rpartition(b"\n")[2])
        return Yes if answer["ok"] is True else No(str(answer["reason"]))
    except (ValueError, KeyError, TypeError):
        return No(f"the process that should prove it ended with exit code {code}")


def _main(source: str, into: str) -> None:
    """Proves one substitution and says the verdict in the last line of stdout."""
    os.nice(_NICE)  # the program comes first
    found = [one for one in find(source) if (one.source, one.into) == (source, into)]
    verdict = proven_here(found[0]) if found else No("it is not in the registry")
    answer = {"ok": bool(verdict), "reason": getattr(verdict, "reason", "")}
    os.write(1, b"\n" + json.dumps(answer).encode())


if __name__ == "__main__":
    _main(*sys.argv[1:])
