"""Other processes of the program: each keeps records of its own in a file, and the parent joins them at the end.

A forked process goes on recording where its parent stood; a spawned one begins before it imports the program.
"""

from __future__ import annotations

import os
import runpy
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codedag.instrument import sites as site_module
from codedag.instrument.children import Follower, follow, unfollow
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
class Family(Follower):
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
        self.began = time.perf_counter_ns()
        self.records.log.sample()
        self.look()
        sys.meta_path.insert(0, self._lookout)
        site_module.native.start(self.recorder, self.program.names, self.max_depth)
        site_module.native.keep_by(self.keep, SOON)  # the first time soon, whatever becomes of the program
        site_module.native.idle_by(self.idle)
        follow(self)

    def look(self) -> None:
        """Watches torch's DataLoader once it is loaded, and in a worker what makes the batches."""
        self.batches.watch_program()
        if self.records.parent:
            self.batches.watch_worker()

    def stop(self) -> None:
        """Ends recording in this process and puts everything back."""
        site_module.native.stop()
        site_module.native.keep_by(None, 0)
        site_module.native.idle_by(None)
        self.idle.end()
        self.batches.restore()
        if self._lookout in sys.meta_path:
            sys.meta_path.remove(self._lookout)
        unfollow(self)

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

    def before_fork(self) -> None:
        """Gives the chain of sites that is running a number that both processes will know."""
        site_module.native.path()

    def in_fork(self) -> None:
        """Goes on in a process that was just forked."""
        if not site_module.native.is_recording():
            return
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
        """Watches what a worker makes."""
        if self.records.parent:
            self.look()
            self.keep()  # so that the parent knows of this process, however it ends

    def end_worker(self) -> None:
        """Writes what a worker recorded."""
        if self.records.parent:
            self.keep_last()

    # -- spawned

    def ticket(self, main: str | None) -> dict[str, Any]:
        """What a spawned process must know to record as part of this family."""
        return {
            "program": self.program.terms(), "main": main, "folder": str(self.folder), "max_depth": self.max_depth,
            "parent": self.records.process, "root": site_module.native.path(),
            "samples": str(self.recorder.spool.folder) if self.recorder.spool else "",
        }  # fmt: skip

    @staticmethod
    def arrive(ticket: dict[str, Any]) -> None:
        """Begins to record in a spawned process."""
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

    @staticmethod
    def stay_away(ticket: dict[str, Any], reason: str) -> None:
        """Leaves word for the parent that a spawned process could not be recorded."""
        site_module.native.stop()
        process = os.getpid()
        Records(process=process, failure=reason).write(Path(ticket["folder"]) / f"{process}.json")


class _Lookout:
    """Finds nothing, but is asked at every import."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look

    def find_spec(self, name: str, path: Any, target: types.ModuleType | None = None) -> None:
        """None: others find modules."""
        self._look()


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
