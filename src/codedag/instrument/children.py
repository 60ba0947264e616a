"""Follower of child processes: one fork hook, one passenger in multiprocessing's preparation data, one report folder.

A follower (`follow`, `unfollow`) is told of every process that this one forks and of those that multiprocessing turns
into workers.  A process that multiprocessing spawns inherits nothing: it gets the tickets of the followers, plain data,
before it imports the program.  Programs that are started by other means are not followed.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codedag.instrument.guard import Failed, attempt
from codedag.ir.files import write_atomically

Ticket = dict[str, Any]
_Addressed = tuple[str, str, Ticket]  # module and name of the follower's class, and its ticket


class Follower:
    """Receiver of the events in the life of child processes; each event is optional."""

    __slots__ = ()

    def before_fork(self) -> None:
        """Called in the parent, before a fork."""

    def after_fork(self) -> None:
        """Called in the parent, after a fork."""

    def in_fork(self) -> None:
        """Called in the child, right after a fork."""

    def begin_worker(self) -> None:
        """Called in a process of multiprocessing when it begins; twice if a fork server started it."""

    def end_worker(self) -> None:
        """Called in a process of multiprocessing when it ends (it ends without Python's exit functions)."""

    def ticket(self, main: str | None) -> Ticket | None:
        """What a spawned process must know, as plain data; `main` is the file that it will import as the program."""
        return None

    @staticmethod
    def arrive(ticket: Ticket) -> None:
        """Called in a spawned process: makes a follower from the ticket and follows from there."""

    @staticmethod
    def stay_away(ticket: Ticket, reason: str) -> None:
        """Called in a spawned process if `arrive` failed: the process runs as it would have."""


class _State:
    """The followers of this process, and what Python was told on their behalf."""

    def __init__(self) -> None:
        self.followers: tuple[Follower, ...] = ()
        self.renewals: tuple[Callable[[], None], ...] = ()  # called in every forked process, first of all
        self.hears_forks = False
        self.hears_workers = False


_state = _State()


def follow(follower: Follower) -> None:
    """Tells this follower of child processes from now on."""
    _state.followers = (*_others(follower), follower)
    _hear_forks()
    _spawn_hook.install()


def unfollow(follower: Follower) -> None:
    """Tells this follower nothing more; with the last one, multiprocessing gets its own function back."""
    _state.followers = _others(follower)
    if not _state.followers:
        _spawn_hook.remove()


def _others(follower: Follower) -> tuple[Follower, ...]:
    return tuple(one for one in _state.followers if one is not follower)


def renew_in_fork(function: Callable[[], None]) -> None:
    """Has a function called in every forked process, before the followers: it drops what only the parent has."""
    _state.renewals = (*_state.renewals, function)
    _hear_forks()


# -- forked processes: Python cannot forget whom it tells of forks, so it tells this module once


def _hear_forks() -> None:
    if not _state.hears_forks and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_fork)
        _state.hears_forks = True


def _before_fork() -> None:
    for follower in reversed(_state.followers):
        attempt(follower.before_fork)


def _after_fork() -> None:
    for follower in _state.followers:
        attempt(follower.after_fork)


def _in_fork() -> None:
    for function in _state.renewals:
        attempt(function)
    for follower in _state.followers:
        attempt(follower.in_fork)
    if _state.followers:
        _hear_workers()


def _hear_workers() -> None:
    """Has multiprocessing tell when it has made this process, or one that it forks, one of its own."""
    util: Any = sys.modules.get("multiprocessing.util")
    if util is not None and not _state.hears_workers:
        util.register_after_fork(_state, _begin_worker)
        _state.hears_workers = True


def _begin_worker(_: object) -> None:
    """Registers the end of this worker (multiprocessing forgets earlier registrations) and tells the followers."""
    util: Any = sys.modules.get("multiprocessing.util")
    if util is not None and _state.followers:
        util.Finalize(None, _end_worker, exitpriority=100)
    for follower in _state.followers:
        attempt(follower.begin_worker)


def _end_worker() -> None:
    for follower in _state.followers:
        attempt(follower.end_worker)


# -- spawned processes


class _SpawnHook:
    """Import hook that finds nothing; it wraps `get_preparation_data` as soon as a process could be spawned."""

    _CALLERS = (
        "multiprocessing.popen_spawn_posix", "multiprocessing.popen_spawn_win32", "multiprocessing.popen_forkserver",
        "multiprocessing.forkserver",
    )  # fmt: skip

    def __init__(self) -> None:
        self._original: Callable[[str], dict[str, Any]] | None = None

    def install(self) -> None:
        """Begins to watch imports, and wraps at once if multiprocessing can spawn already."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        if any(name in sys.modules for name in ("multiprocessing.spawn", *self._CALLERS)):
            attempt(self._wrap)

    def remove(self) -> None:
        """Puts multiprocessing's function back; if somebody wrapped ours, ours stays and adds nothing."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spawn: Any = sys.modules.get("multiprocessing.spawn")
        if self._original is not None and getattr(spawn.get_preparation_data, "__wrapped__", None) is self._original:
            spawn.get_preparation_data, self._original = self._original, None

    def find_spec(self, name: str, path: Any, target: types.ModuleType | None = None) -> None:
        """None: others find modules."""
        if name in self._CALLERS:
            attempt(self._wrap)

    def _wrap(self) -> None:
        if self._original is not None:
            return
        spawn: Any = importlib.import_module("multiprocessing.spawn")
        original = self._original = spawn.get_preparation_data

        @functools.wraps(original)
        def get_preparation_data(name: str) -> dict[str, Any]:
            data: dict[str, Any] = original(name)
            tickets = _tickets(data.get("init_main_from_path"))
            return {**data, "codedag": _Passenger(tickets)} if tickets else data

        spawn.get_preparation_data = get_preparation_data


_spawn_hook = _SpawnHook()


def _tickets(main: str | None) -> list[_Addressed]:
    made = [(type(one), attempt(one.ticket, main)) for one in _state.followers]
    return [
        (kind.__module__, kind.__qualname__, ticket)
        for kind, ticket in made
        if ticket is not None and not isinstance(ticket, Failed)
    ]


class _Passenger:
    """Entry of the preparation data that calls `arrive` when the new process unpickles it."""

    def __init__(self, tickets: list[_Addressed]) -> None:
        self._tickets = tickets

    def __reduce__(self) -> tuple[Callable[..., None], tuple[list[_Addressed]]]:
        return arrive, (self._tickets,)


def arrive(tickets: list[_Addressed]) -> None:
    """Makes the followers of a spawned process."""
    for module, name, ticket in tickets:
        attempt(_arrive, module, name, ticket)
    _begin_worker(None)
    _hear_workers()  # a process of a fork server forgets at its start what was registered so far


def _arrive(module: str, name: str, ticket: Ticket) -> None:
    follower: type[Follower] = getattr(importlib.import_module(module), name)
    before = _state.followers
    begun = attempt(follower.arrive, ticket)
    if isinstance(begun, Failed):
        _state.followers = before
        follower.stay_away(ticket, begun.reason)


# -- reports


@dataclass(slots=True)
class ReportFolder:
    """A folder with one file per process, each replaced as a whole; the parent reads those that are new."""

    path: Path | None  # None: processes keep to themselves
    failure: str = ""
    _read: dict[str, int] = field(default_factory=dict)

    @classmethod
    def temporary(cls, prefix: str) -> ReportFolder:
        """A new folder that is removed when this process ends."""
        import atexit
        import tempfile

        path = Path(tempfile.mkdtemp(prefix=prefix))
        atexit.register(_remove, path, os.getpid())
        return cls(path)

    def prepare(self) -> None:
        """Makes the folder, empty."""
        if self.path is None:
            return
        try:
            if self.path.exists():  # of an earlier run
                _remove(self.path, os.getpid())
            self.path.mkdir(parents=True)
        except OSError as error:
            self.path, self.failure = None, f"workers could not report: {error.strerror or error}"

    def write(self, name: str, content: bytes) -> None:
        """Replaces one report; raises CannotWrite, also if the folder is gone (its process has ended)."""
        if self.path is not None:
            write_atomically(self.path / f"{name}.json", content, parents=False)

    def changed(self) -> list[Path]:
        """The reports that were written since the last call."""
        changed = []
        for path in self.paths():
            try:
                written = os.stat(path).st_mtime_ns  # noqa: PTH116
            except OSError:  # gone meanwhile: the others are read
                continue
            if self._read.get(path.name) != written:
                self._read[path.name] = written
                changed.append(path)
        return changed

    def paths(self, prefix: str = "") -> list[Path]:
        """The reports whose names begin so."""
        if self.path is None:
            return []
        try:
            with os.scandir(self.path) as entries:
                names = sorted(e.name for e in entries if e.name.startswith(prefix) and e.name.endswith(".json"))
        except OSError:  # no process has written yet
            return []
        return [self.path / name for name in names if not name.startswith(".")]


def _remove(path: Path, process: int) -> None:
    if os.getpid() == process:
        import shutil

        shutil.rmtree(path, ignore_errors=True)
