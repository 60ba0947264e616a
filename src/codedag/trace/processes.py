"""Other processes of the program: each keeps records of its own in a file, and the parent joins them at the end.

A forked process goes on recording where its parent stood.  A spawned one is told through multiprocessing's own
preparation data, before it imports the program.  Programs that are started by other means are not observed.
"""

from __future__ import annotations

import functools
import importlib
import os
import runpy
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codedag.instrument import sites as site_module
from codedag.instrument.hook import Finder
from codedag.instrument.program import Program
from codedag.ir import CodedagError
from codedag.ir import clock as time
from codedag.trace.dataloader import Batches
from codedag.trace.gathered import Gathered
from codedag.trace.idle import Idle
from codedag.trace.recorder import Recorder
from codedag.trace.records import Records, join, read
from codedag.trace.spool import Spool

SOON, LATER = 20_000_000, 200_000_000  # nanoseconds between two writes: of a worker, of the program
SHARE = {SOON: 20, LATER: 50}  # writing may take one part in so many of the time


@dataclass(slots=True)
class Family:
    """The processes of one program; this object lives in each of them."""

    program: Program
    recorder: Recorder
    folder: Path
    max_depth: int = 0
    records: Records = None  # type: ignore[assignment]
    batches: Batches = None  # type: ignore[assignment]
    idle: Idle = None  # type: ignore[assignment]
    failure: str = ""
    wait: int = LATER
    _prepare: Callable[[str], dict[str, Any]] | None = None
    began: int = 0
    _due: int = 0
    _lookout: _Lookout = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self._lookout = _Lookout(self.look)
        self.records = self.records or Records(process=os.getpid())
        self.idle = Idle(self.program, self.recorder)
        self.batches = Batches(self.recorder.gatherer, self._made_batch)

    # -- the life of recording in this process

    def start(self) -> None:
        """Begins to record, here and in the processes that this one will start."""
        global _here
        _here = self
        self.began = time.perf_counter_ns()
        self.records.log.sample()
        _listen_to_forks()
        self._tell_spawned()
        self.look()
        sys.meta_path.insert(0, self._lookout)
        site_module.native.start(self.recorder, self.program.names, self.max_depth)
        site_module.native.keep_by(self.keep, SOON)  # the first time soon, whatever becomes of the program
        site_module.native.idle_by(self.idle)

    def look(self) -> None:
        """Watches torch's DataLoader once it is loaded, and in a worker what makes the batches."""
        self.batches.watch_program()
        if self.records.parent:
            self.batches.watch_worker()

    def stop(self) -> None:
        """Ends recording in this process and puts everything back."""
        global _here
        site_module.native.stop()
        site_module.native.keep_by(None, 0)
        site_module.native.idle_by(None)
        self.idle.end()
        self.batches.restore()
        if self._lookout in sys.meta_path:
            sys.meta_path.remove(self._lookout)
        if self._prepare is not None:
            sys.modules["multiprocessing.spawn"].get_preparation_data = self._prepare  # type: ignore[attr-defined]
            self._prepare = None
        _here = None

    def _made_batch(self) -> None:
        """A worker may wait for long, or be killed, after any batch: what it made is written if that costs little."""
        if time.perf_counter_ns() >= self._due:
            site_module.native.keep_by(self.keep, self.keep())

    def keep(self) -> int:
        """Writes what was recorded so far; the nanoseconds after which to do so again."""
        begun = time.perf_counter_ns()
        self.records.log.sample()
        self.idle.look_again()
        try:
            self._fill()
            if self.records.templates or self.records.parent:
                self.records.write(self.folder / f"{self.records.process}.json")
        except CodedagError as error:  # a full disk must not end the recording
            self.failure = error.message
        ended = time.perf_counter_ns()
        self._due = ended + SHARE[self.wait] * (ended - begun)
        return max(self.wait, self._due - ended)

    def keep_last(self) -> None:
        """Writes what was recorded in a process that comes to its end."""
        self.records.ended = True
        self.keep()

    def _fill(self, last: bool = False) -> None:
        self.records.fill(self.recorder.gathered())
        self.records.made, self.records.taken = self.batches.made, self.batches.taken()
        if self.records.parent or last:  # the program's own are asked for at its end
            self.records.log.fill(self.recorder.gatherer.events())

    def joined(self) -> tuple[Gathered, list[str]]:
        """What all processes recorded, and what is missing."""
        others, notes = read(self.folder)
        others = [r for r in others if r.process != self.records.process]
        self._fill(last=True)
        self.records.log.process = self.records.process
        if not others and not self.records.taken:
            own = self.recorder.gathered()
            own.logs.append(self.records.log)
            return own, notes
        joined = join([self.records, *others])
        cut = sum(not r.ended for r in others)
        if cut:
            notes.append(
                f"{cut} of {len(others)} processes were still at work or were ended from outside (a pool that is left "
                "ends its workers): what they did last may be missing"
            )
        if joined.unlinked:
            notes.append(
                f"{joined.unlinked} of {joined.linked + joined.unlinked} batches are not linked to the worker that "
                "made them: its last records are missing (it was killed, or still at work when the program ended)"
            )
        return joined.gathered, notes

    # -- forked

    def in_fork(self) -> None:
        """Goes on in a process that was just forked."""
        known_paths, known_templates = self.recorder.gatherer.rebase()
        self.records = Records(
            process=os.getpid(),
            parent=self.records.process,
            known_paths=known_paths,
            known_templates=known_templates,
        )
        self.batches.in_child()
        self.wait = SOON
        site_module.native.keep_by(self.keep, SOON)

    def begin_worker(self) -> None:
        """Watches what a worker makes, and writes what it recorded when it ends.

        A process of multiprocessing ends without Python's exit functions, but with multiprocessing's own.
        """
        self.look()
        util = _multiprocessing("util")
        if util is not None:
            util.Finalize(None, self.keep_last, exitpriority=100)
        self.keep()  # so that the parent knows of this process, however it ends

    # -- spawned

    def _tell_spawned(self) -> None:
        spawn = _multiprocessing("spawn")
        if spawn is None or self._prepare is not None:
            return
        original = self._prepare = spawn.get_preparation_data

        @functools.wraps(original)
        def get_preparation_data(name: str) -> dict[str, Any]:
            data: dict[str, Any] = original(name)
            if _here is not None:
                data["codedag"] = _Passenger(_here.ticket(data.get("init_main_from_path")))
            return data

        spawn.get_preparation_data = get_preparation_data  # type: ignore[attr-defined]

    def ticket(self, main: str | None) -> dict[str, Any]:
        """What a spawned process must know to record as part of this family."""
        return {
            "program": self.program.terms(), "main": main, "folder": str(self.folder), "max_depth": self.max_depth,
            "parent": self.records.process, "root": site_module.native.path(),
            "samples": str(self.recorder.spool.folder) if self.recorder.spool else "",
        }  # fmt: skip


class _Lookout:
    """Finds nothing, but is asked at every import."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look

    def find_spec(self, name: str, path: Any, target: types.ModuleType | None = None) -> None:
        """None: others find modules."""
        self._look()


class _Passenger:
    """Travels with the preparation data of a spawned process, and begins to record when it arrives."""

    def __init__(self, ticket: dict[str, Any]) -> None:
        self._ticket = ticket

    def __reduce__(self) -> tuple[Callable[..., None], tuple[dict[str, Any]]]:
        return arrive, (self._ticket,)


def arrive(ticket: dict[str, Any]) -> None:
    """Begins to record in a spawned process; if that fails, the process runs as it would have."""
    try:
        program = Program.of_terms(ticket["program"])
        records = Records(process=os.getpid(), parent=ticket["parent"], root=ticket["root"])
        recorder = Recorder(program.names)
        if ticket["samples"]:
            recorder.keep_samples(Spool(Path(ticket["samples"])))
        family = Family(program, recorder, Path(ticket["folder"]), ticket["max_depth"], records, wait=SOON)
        sys.meta_path.insert(0, Finder(program))
        if ticket["main"]:
            rewrite_main(program, ticket["main"])
        family.start()
        family.begin_worker()
    except Exception as error:  # noqa: BLE001 - a worker without records is better than no worker
        site_module.native.stop()
        _say_why(ticket, f"{type(error).__name__}: {error}")


def _say_why(ticket: dict[str, Any], failure: str) -> None:
    """Leaves word for the parent that this process could not be recorded."""
    try:
        process = os.getpid()
        Records(process=process, failure=failure).write(Path(ticket["folder"]) / f"{process}.json")
    except CodedagError:
        return  # the parent's own records cannot be written either, and it says so


def rewrite_main(program: Program, main: str) -> None:
    """Makes multiprocessing load the program's main file with sites."""
    original = runpy._get_code_from_file  # type: ignore[attr-defined]

    def get_code_from_file(*names: str) -> Any:
        runpy._get_code_from_file = original  # type: ignore[attr-defined]
        found = original(*names)
        if os.path.abspath(names[-1]) != os.path.abspath(main):
            return found
        code = program.load(main, Path(main).read_bytes(), main=True)
        return (code, names[-1]) if isinstance(found, tuple) else code

    runpy._get_code_from_file = get_code_from_file  # type: ignore[attr-defined]


# -- forks: Python cannot forget whom it tells of them, so it tells this module once

_here: Family | None = None
_listening = False


def _listen_to_forks() -> None:
    global _listening
    if not _listening:
        os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
        util = _multiprocessing("util")
        if util is not None:
            util.register_after_fork(_anchor, _in_new_process)
        _listening = True


def _before_fork() -> None:
    if _here is not None:
        site_module.native.path()  # so that the chain that is running has a number that both will know


def _after_fork() -> None:
    if _here is not None and site_module.native.is_recording():
        _here.in_fork()


def _in_new_process(anchor: object) -> None:
    """In a process that multiprocessing forked."""
    if _here is not None and _here.records.parent:
        _here.begin_worker()


class _Anchor:
    """Something that lives as long as this module: multiprocessing wants an object."""


_anchor = _Anchor()


def _multiprocessing(name: str) -> types.ModuleType | None:
    try:
        return importlib.import_module(f"multiprocessing.{name}")
    except ImportError:  # a platform without processes
        return None
