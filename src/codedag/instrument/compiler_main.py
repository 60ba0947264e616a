"""Main loop of the compiler process: reads requests from its standard input and writes each answer back there."""

from __future__ import annotations

import importlib
import marshal
import os
import select
import signal
import sys
from operator import attrgetter
from typing import Any

from codedag.instrument.cache import Cache
from codedag.instrument.compiler_process import LENGTH_NBYTES, ONLY_IDLE
from codedag.instrument.guard import Failed, attempt

IDLE_SECONDS_MAX = 10.0
REQUEST_CPU_SECONDS_MAX = 60.0  # a request that takes more ends the process: the default action of SIGPROF
_cache = Cache()
_CONNECTION = 0  # standard input is a socket: requests come in, answers go out


def main() -> None:
    """Answers requests until there are no more, or none comes for long."""
    if ONLY_IDLE in sys.argv:
        _come_last()
    _write(marshal.dumps(os.getpid()))
    while (message := _read()) is not None:
        target, arguments = marshal.loads(message)
        signal.setitimer(signal.ITIMER_PROF, REQUEST_CPU_SECONDS_MAX)
        answer = attempt(answered, target, arguments)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _write(marshal.dumps((False, answer.reason)) if isinstance(answer, Failed) else answer)


def _come_last() -> None:
    """Runs this process only when a core is idle."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (AttributeError, OSError):
        os.nice(19)


def answered(target: str, arguments: tuple[Any, ...]) -> bytes:
    """The answer to one request as it is sent, which is kept on disk as well."""
    module, _, name = target.partition(":")
    if not module.startswith("codedag."):
        raise ValueError(f"no request of CodeDAG's: {target}")
    answer = marshal.dumps((True, attrgetter(name)(importlib.import_module(module))(*arguments)))
    _cache.store_answer(name, arguments, answer)
    return answer


def _read() -> bytes | None:
    """The next message, or None after the last one."""
    length = _read_exactly(LENGTH_NBYTES)
    return None if length is None else _read_exactly(int.from_bytes(length, "little"))


def _read_exactly(nbytes: int) -> bytes | None:
    found = bytearray()
    while len(found) < nbytes:
        if not select.select([_CONNECTION], [], [], IDLE_SECONDS_MAX)[0]:
            return None
        part = os.read(_CONNECTION, nbytes - len(found))
        if not part:
            return None
        found += part
    return bytes(found)


def _write(message: bytes) -> None:
    data = memoryview(len(message).to_bytes(LENGTH_NBYTES, "little") + message)
    while data:
        data = data[os.write(_CONNECTION, data) :]


if __name__ == "__main__":
    main()
