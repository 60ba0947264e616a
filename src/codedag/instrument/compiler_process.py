"""Client of the compiler process: parsing, rewriting and analysing happen there, not under the program's own lock.

The process is started by the first request, runs only when a core is idle, and ends after ten seconds without work.
Small sources are answered here as long as there is no process: starting one takes longer than they do.
Its parent is a shell that ends at once, so that `os.wait()` of the program does not meet it (but for the millisecond in
which that shell is a child).  It is talked to through a socket and not through a pipe: a program that gives SIGPIPE its
default action would die of writing to a process that has ended.
"""

from __future__ import annotations

import marshal
import os
import shutil
import signal
import socket
import subprocess
import sys
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from codedag.instrument.cache import Cache
from codedag.instrument.children import renew_in_fork
from codedag.instrument.guard import Failed, attempt
from codedag.instrument.local_answers import LOCAL_SOURCE_NBYTES_MAX, source_nbytes
from codedag.ir import clock as time
from codedag.ir.processes import cpu_seconds_of
from codedag.ir.verdict import Code, No

#: Request kinds and the functions that answer them there, as module:function; further rooms add rows.
KINDS: dict[str, str] = {
    "rewrite": "codedag.instrument.compiler_requests:rewrite",
    "lean": "codedag.instrument.compiler_requests:lean",
    "links": "codedag.instrument.compiler_requests:links",
    "opened": "codedag.instrument.compiler_requests:opened",
    "uses": "codedag.instrument.compiler_requests:uses",
    "called": "codedag.instrument.compiler_requests:called",
    "digests": "codedag.instrument.compiler_requests:digests",
    "compiled_names": "codedag.instrument.compiler_requests:compiled_names",
}
REQUEST_SECONDS_MAX = 120.0  # of waiting for one answer: rewriting the largest file seen here (9,000 lines) takes 2 s
STARTS_WITHOUT_ANSWER_MAX = 3  # then the process is given up for this run
ATTEMPTS_MAX = 2  # of one request whose process died
LENGTH_NBYTES = 8
ONLY_IDLE = "--only-idle"  # argument of the process: it runs only where a core is idle
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
#: The shell ends at once, and another process than the program becomes the parent; a shell gives what it starts so no
#: input of its own, therefore by way of descriptor 3.
_DETACHED = 'exec 3<&0; "$@" <&3 3<&- &'


class Ticket:
    """One request and, once it is answered, its answer: a plain value or `No`."""

    __slots__ = ("__weakref__", "_attempts", "answer", "arguments", "is_answered", "kind")

    def __init__(self, kind: str, arguments: tuple[Any, ...]) -> None:
        self.kind, self.arguments = kind, arguments
        self.is_answered = False
        self.answer: Any = None
        self._attempts = 0

    def _answered(self, answer: Any) -> Ticket:
        self.answer, self.is_answered = answer, True
        return self


class CompilerProcess:
    """Requests to one child process; nothing here blocks, and no failure of the process reaches the program."""

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        seconds_max: float = REQUEST_SECONDS_MAX,
        *,
        only_idle: bool = True,  # it runs only where a core is idle; else as any other process
        may_start: Callable[[], bool] = lambda: True,  # asked by each `poll` until it says yes
        is_local: bool = False,  # small sources are parsed in this process until another is started
    ) -> None:
        # as the program's at its start
        self._environment = _with_whole_paths(os.environ if environment is None else environment)
        self._seconds_max, self._only_idle, self._may_start = seconds_max, only_idle, may_start
        self._is_local = is_local
        self._deferred: list[Ticket] = []  # until the process may be started
        self._socket: socket.socket | None = None
        self._is_greeted = False  # the process has said its number
        self._pid = 0
        self._cpu_seconds = 0.0  # of processes that have ended
        self._pid_handle = -1  # a descriptor of the process, where the system has such: a number may be used again
        self._open: deque[Ticket] = deque()  # sent and not answered, in this order
        self._to_send = bytearray()
        self._received = bytearray()
        self._finished: list[Ticket] = []
        self._until = 0.0  # when the answer to the first request must be there
        self._starts = 0  # since the last answer
        self._given_up: No | None = None
        self._cache = Cache()
        _living.add(self)

    def ask(self, kind: str, *arguments: Any) -> Ticket:
        """Asks for an answer, which a later `poll` takes in; arguments are values that `marshal` knows."""
        ticket = Ticket(kind, arguments)
        if kind not in KINDS:
            self._finish(ticket, No(f"no request is called {kind!r}", Code.FAILED))
        elif (known := self._cache.load_answer(kind, arguments)) is not None:
            self._finish(ticket, _answer_of(known))
        elif self._is_local and self._socket is None and source_nbytes(arguments[0]) <= LOCAL_SOURCE_NBYTES_MAX:
            self._finish(ticket, _answered_here(kind, arguments))
        elif self._socket is None and self._given_up is None and not self._may_start():
            self._deferred.append(ticket)
        else:
            self._send(ticket)
        return ticket

    def poll(self) -> list[Ticket]:
        """The tickets that were answered since the last time; takes in what is there and does not wait."""
        if self._deferred and (self._given_up is not None or self._may_start()):
            deferred, self._deferred = self._deferred, []
            for ticket in deferred:
                self._send(ticket)
        if self._socket is not None:
            self._flush()
        if self._socket is not None:
            self._receive()
        if self._open and time.monotonic() > self._until:
            self._abandon(No(f"the compiler process gave no answer in {self._seconds_max:g} s", Code.HUNG))
        finished, self._finished = self._finished, []
        return finished

    def cpu_seconds(self) -> float:
        """CPU seconds of the process and of those before it, as far as the system says."""
        return self._cpu_seconds + (cpu_seconds_of(self._pid) if self._pid else 0.0)

    def is_busy(self) -> bool:
        """Whether answers are to come, or to be taken."""
        return bool(self._open or self._finished or self._deferred)

    def is_running(self) -> bool:
        """Whether there is a process, as far as is known without asking it."""
        return self._socket is not None

    def descriptor(self) -> int:
        """What to wait for in `select` when an answer is wanted; -1 without a process."""
        return -1 if self._socket is None else self._socket.fileno()

    def close(self) -> None:
        """Ends the process; what was asked is answered with No, and so is every later request."""
        self._given_up = No("the program ended before the compiler process answered", Code.ENDED)
        self._abandon(self._given_up)
        self.poll()

    def forget(self) -> None:
        """In a process that was just forked: the compiler process is its parent's, and a new one may be started."""
        self._drop(kill=False)
        self._open.clear()
        self._finished.clear()
        self._starts = 0

    # -- sending

    def _send(self, ticket: Ticket) -> None:
        if self._socket is None and self._given_up is None:
            self._start()
        if self._given_up is not None or self._socket is None:
            unstartable = No("the compiler process cannot be started", Code.UNSTARTABLE)
            self._finish(ticket, unstartable if self._given_up is None else self._given_up)
            return
        try:
            message = marshal.dumps((KINDS[ticket.kind], ticket.arguments))
        except ValueError as error:
            self._finish(ticket, No(f"a request that cannot be sent: {error}", Code.FAILED))
            return
        if not self._open:
            self._until = time.monotonic() + self._seconds_max
        self._open.append(ticket)
        self._to_send += len(message).to_bytes(LENGTH_NBYTES, "little") + message
        self._flush()

    def _flush(self) -> None:
        try:
            while self._to_send and self._socket is not None:
                del self._to_send[: self._socket.send(self._to_send, _NO_SIGNAL)]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._to_send.clear()  # it has ended: `_receive` meets the end after the answers that it gave before

    # -- receiving

    def _receive(self) -> None:
        while self._socket is not None:
            try:
                part = self._socket.recv(1 << 16)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                part = b""
            if not part:
                self._ended()
                return
            self._received += part
            self._take()

    def _take(self) -> None:
        """Takes the whole answers out of what was received."""
        while len(self._received) >= LENGTH_NBYTES:
            end = LENGTH_NBYTES + int.from_bytes(self._received[:LENGTH_NBYTES], "little")
            if len(self._received) < end:
                return
            body = bytes(self._received[LENGTH_NBYTES:end])
            del self._received[:end]
            if not self._is_greeted:
                self._is_greeted, self._pid = True, marshal.loads(body)
                self._pid_handle = _handle_of(self._pid, self._socket)
            elif self._open:
                self._answer(body)

    def _answer(self, body: bytes) -> None:
        self._starts = 0
        self._until = time.monotonic() + self._seconds_max
        self._finish(self._open.popleft(), _answer_of(body))

    def _ended(self) -> None:
        """The process has ended: what it did not answer is asked again, since it may have ended for lack of work."""
        self._drop(kill=False)
        waiting, self._open = self._open, deque()
        if waiting:
            waiting[0]._attempts += 1
        for ticket in waiting:
            if ticket._attempts >= ATTEMPTS_MAX:
                self._finish(ticket, No("the compiler process ended before it answered", Code.DIED))
            else:
                self._send(ticket)

    def _finish(self, ticket: Ticket, answer: Any) -> None:
        self._finished.append(ticket._answered(answer))

    def _abandon(self, reason: No) -> None:
        self._drop(kill=True)
        waiting, self._open = self._open, deque()
        for ticket in waiting:
            self._finish(ticket, reason)

    # -- the process

    def _start(self) -> None:
        self._starts += 1
        if self._starts > STARTS_WITHOUT_ANSWER_MAX:
            self._given_up = No("the compiler process ended several times without an answer", Code.UNSTARTABLE)
            return
        try:
            self._socket, self._is_greeted = _started(self._environment, self._only_idle), False
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self._given_up = No(f"the compiler process cannot be started: {error}", Code.UNSTARTABLE)

    def _drop(self, *, kill: bool) -> None:
        self._cpu_seconds, self._pid = self.cpu_seconds(), 0
        if self._pid_handle >= 0:
            if kill:
                _kill(self._pid_handle)
            os.close(self._pid_handle)
        if self._socket is not None:
            self._socket.close()
        self._socket, self._pid_handle = None, -1
        self._to_send.clear()
        self._received.clear()


def _answered_here(kind: str, arguments: tuple[Any, ...]) -> Any:
    """The answer that the process would give, which is kept on disk as one of its answers is."""
    from codedag.instrument.compiler_main import answered  # with all that parses: only where something is parsed

    answer = attempt(answered, KINDS[kind], arguments)
    return No(answer.reason, Code.FAILED) if isinstance(answer, Failed) else _answer_of(answer)


def _answer_of(body: bytes) -> Any:
    try:
        is_good, value = marshal.loads(body)
    except (ValueError, EOFError, TypeError):
        return No("an answer that cannot be read", Code.FAILED)
    return value if is_good else No(str(value), Code.FAILED)


def _started(environment: Mapping[str, str], only_idle: bool) -> socket.socket:
    """Our end of the connection with a new process."""
    ours, its = socket.socketpair()
    try:
        with its:
            command = [sys.executable, *_flags(), "-P", "-m", "codedag.instrument.compiler_main"]
            command += [ONLY_IDLE] if only_idle else []
            shell = shutil.which("sh", path=os.defpath)
            if shell is not None:
                command = [shell, "-c", _DETACHED, "sh", *command]
            # not in the program's directory, whose modules may be called as libraries are
            process = subprocess.Popen(
                command, stdin=its.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=os.sep,
                env=dict(environment), start_new_session=True,
            )  # fmt: skip
        if shell is not None:
            process.wait()  # a millisecond: the shell has only to fork
        ours.setblocking(False)
    except BaseException:
        ours.close()
        raise
    return ours


def _with_whole_paths(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment for a process in another folder: module paths that are relative to this one are made whole."""
    found = dict(environment)
    if found.get("PYTHONPATH"):
        found["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, found["PYTHONPATH"].split(os.pathsep)))
    return found


def _flags() -> list[str]:
    """The flags of this interpreter that decide what code looks like and where modules are found."""
    flags = ["-O"] * sys.flags.optimize
    flags += [name for name, is_set in (("-E", sys.flags.ignore_environment), ("-s", sys.flags.no_user_site)) if is_set]
    return flags + (["-X", "no_debug_ranges"] if "no_debug_ranges" in sys._xoptions else [])


def _handle_of(pid: int, connection: socket.socket | None) -> int:
    """A descriptor of the process at the other end, to end it by; -1 where there is no such thing."""
    if connection is None or not hasattr(os, "pidfd_open"):
        return -1
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return -1
    if _is_at_end(connection):  # it may have ended before, and its number be another's
        os.close(handle)
        return -1
    return handle


def _is_at_end(connection: socket.socket) -> bool:
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return False
    except OSError:
        return True


def _kill(handle: int) -> None:
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)  # type: ignore[attr-defined, unused-ignore]
    except OSError:
        return


_living: weakref.WeakSet[CompilerProcess] = weakref.WeakSet()


def _forget_all() -> None:
    for each in list(_living):
        each.forget()


renew_in_fork(_forget_all)
