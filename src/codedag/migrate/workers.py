"""Other processes of the program come up with the plan: forked, spawned, and those of a fork server.

A forked process has everything already.  The others are told through multiprocessing's own preparation data, before
they import the program.  What each of them counts comes back in a file when it ends.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import os
import shutil
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from codedag.backends.registry import Equivalence
from codedag.ir.errors import CannotWrite
from codedag.ir.files import write_atomically
from codedag.migrate.counted import Counted, summed
from codedag.migrate.guard import Failed, attempt
from codedag.migrate.modes import Mode
from codedag.migrate.wishes import Wish, Wishes

if TYPE_CHECKING:
    from codedag.migrate.migrator import Migrator


class _Left(msgspec.Struct):
    """What a process has left for the one that applied the plan: a first word when it begins, and its counts."""

    counts: dict[str, Counted] = {}
    ended: bool = False


_DECODER = msgspec.json.Decoder(_Left)


class _Here:
    """The migrators that are in force in this process, and where its children leave what they counted."""

    def __init__(self) -> None:
        self.migrators: list[Migrator] = []
        self.numbers: dict[int, str] = {}
        self.inherited: set[int] = set()  # those that another process applied: their counts belong there
        self.folder: Path | None = None
        self.prepare: Callable[[str], dict[str, Any]] | None = None
        self.next = 0
        self.listening = False


_here = _Here()


def join(migrator: Migrator) -> None:
    """From now on new processes come up with this migrator too."""
    _here.migrators.append(migrator)
    if id(migrator) not in _here.inherited:
        _here.next += 1
        _here.numbers[id(migrator)] = f"{os.getpid()}-{_here.next}"
    _listen()
    _tell_spawned()


def leave(migrator: Migrator) -> None:
    """From now on new processes come up without this migrator; what the others counted is taken in."""
    collect(migrator)
    attempt(_keep, migrator)
    _here.migrators = [one for one in _here.migrators if one is not migrator]
    _here.numbers.pop(id(migrator), None)
    _here.inherited.discard(id(migrator))
    if not _here.migrators:
        _tell_no_more()


def collect(migrator: Migrator) -> None:
    """Takes in what the processes counted that this one started."""
    number = _here.numbers.get(id(migrator))
    if _here.folder is None or number is None or id(migrator) in _here.inherited:
        return
    parts = {path.name: attempt(_read, path) for path in sorted(_here.folder.glob(f"{number}-*.json"))}
    read = [part for part in parts.values() if not isinstance(part, Failed)]
    migrator.elsewhere = summed([part.counts for part in read])
    migrator.missing = tuple(_missing(parts))


def _read(path: Path) -> _Left:
    return _DECODER.decode(path.read_bytes())


def _missing(parts: dict[str, _Left | Failed]) -> Iterator[str]:
    """What is not known of other processes, in words."""
    for name, part in parts.items():
        if isinstance(part, Failed):
            yield f"the counts of a process in {name} cannot be read: {part.reason}"
    silent = sum(isinstance(part, _Left) and not part.ended for part in parts.values())
    if silent:
        yield (
            f"{silent} of {len(parts)} processes are at work or were ended from outside: what they counted is missing, "
            "in the verdict too"
        )


def _keep(migrator: Migrator, *, ended: bool = True) -> None:
    """Leaves what this process counted, or that it has begun, for the one that applied the plan."""
    if _here.folder is None or id(migrator) not in _here.inherited:
        return
    content = msgspec.json.encode(_Left(migrator.counted(), ended=True) if ended else _Left())
    try:
        write_atomically(_here.folder / f"{_here.numbers[id(migrator)]}-{os.getpid()}.json", content, parents=False)
    except CannotWrite:  # the folder was removed: the other process has ended
        return


def _make_folder() -> Path:
    if _here.folder is None:
        _here.folder = Path(tempfile.mkdtemp(prefix="codedag-counts-"))
        atexit.register(_remove, _here.folder, os.getpid())
    return _here.folder


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


# -- forked


def _listen() -> None:
    """Hears of forks; Python cannot forget whom it tells, so it is told once."""
    if _here.listening:
        return
    _here.listening = True
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before_fork, after_in_child=_in_fork)
    util = _multiprocessing("util")
    if util is not None:
        util.register_after_fork(_here, _in_new_process)


def _before_fork() -> None:
    if _here.migrators:
        attempt(_make_folder)


def _in_fork() -> None:
    for migrator in _here.migrators:
        _here.inherited.add(id(migrator))
        attempt(migrator.begin_count)


def _in_new_process(here: object) -> None:
    """In a process that multiprocessing forked: it ends without Python's exit functions, but with its own."""
    util = _multiprocessing("util")
    if _here.migrators and util is not None:
        util.Finalize(None, _keep_last, exitpriority=100)
    for migrator in _here.migrators:
        attempt(_keep, migrator, ended=False)  # so that it is known of, however it ends


def _keep_last() -> None:
    for migrator in _here.migrators:
        attempt(_keep, migrator)


# -- spawned


def _tell_spawned() -> None:
    spawn = _multiprocessing("spawn")
    if spawn is None or _here.prepare is not None:
        return
    original = _here.prepare = spawn.get_preparation_data

    @functools.wraps(original)
    def get_preparation_data(name: str) -> dict[str, Any]:
        data: dict[str, Any] = original(name)
        tickets = attempt(_tickets)
        if tickets and not isinstance(tickets, Failed):
            data["codedag_plan"] = _Passenger(tickets)
        return data

    spawn.get_preparation_data = get_preparation_data  # type: ignore[attr-defined]


def _tell_no_more() -> None:
    """Puts multiprocessing's function back, unless somebody else has put his own over ours: ours then does nothing."""
    spawn = _multiprocessing("spawn")
    if spawn is not None and getattr(spawn.get_preparation_data, "__wrapped__", None) is _here.prepare:
        spawn.get_preparation_data = _here.prepare  # type: ignore[attr-defined]
        _here.prepare = None


def _tickets() -> list[dict[str, Any]]:
    folder = str(_make_folder()) if _here.migrators else ""
    return [{**terms(one), "folder": folder, "number": _here.numbers[id(one)]} for one in _here.migrators]


def terms(migrator: Migrator) -> dict[str, Any]:
    """All that another process must know to come up with this migrator."""
    wanted = [[wish.function, wish.context, wish.pu, wish.variant] for wish in migrator.wishes.wanted]
    mode = migrator.mode
    return {
        "wanted": wanted,
        "mode": [mode.name, mode.first, mode.every],
        "allow": [one.value for one in migrator.allow],
        "demote": migrator.demote,
    }


class _Passenger:
    """Travels with the preparation data of a new process, and applies the plan when it arrives."""

    def __init__(self, tickets: list[dict[str, Any]]) -> None:
        self._tickets = tickets

    def __reduce__(self) -> tuple[Callable[..., None], tuple[list[dict[str, Any]]]]:
        return arrive, (self._tickets,)


def arrive(tickets: list[dict[str, Any]]) -> None:
    """Applies the plan in a new process; if that fails, the process runs as it would have."""
    for ticket in tickets:
        attempt(_arrive, ticket)
    _in_new_process(_here)


def _arrive(ticket: dict[str, Any]) -> None:
    from codedag.migrate.migrator import Migrator

    wishes = Wishes(tuple(Wish(*wish) for wish in ticket["wanted"]))
    allow = [Equivalence(one) for one in ticket["allow"]]
    migrator = Migrator(wishes, Mode(*ticket["mode"]), allow, ticket["demote"])
    _here.folder = Path(ticket["folder"])
    _here.numbers[id(migrator)] = ticket["number"]
    _here.inherited.add(id(migrator))
    migrator.passages.waits = True
    migrator.apply()


def _multiprocessing(name: str) -> types.ModuleType | None:
    try:
        return importlib.import_module(f"multiprocessing.{name}")
    except ImportError:  # a platform without processes
        return None
