"""Functions and loops that only juggle numbers: they get their plain code back, there is nothing in them to see.

Who has shown all of it without data is let go at once: the sites tell of themselves.  A branch not yet taken may move
data; for those the pilot waits until it looks around.  A function gets its plain code when there is time for that:
finding the functions of a program takes some milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from codedag.autopilot.applied import Function
from codedag.instrument.guard import attempt
from codedag.instrument.program import InstrumentedFile
from codedag.instrument.sites import ITERATE, RECORD, RETURN
from codedag.instrument.table import info_of
from codedag.ir import clock as time

if TYPE_CHECKING:
    from codedag.autopilot.pilot import Pilot

SHOWN = 2_000  # executions without data, all of it shown, after which a function or a loop is left alone
SCALAR = 5_000  # executions without data after which a function is, whatever it has not shown yet
SHARE = 30  # giving functions their plain code may take this part of the time
REACH = 2.0  # seconds between looks at all objects for functions that only values hold

Part = tuple[str, str, int]  # file, qualified name, and the number of a loop or -1 for the whole function


class IdleCode:
    """Looks for functions and loops that move no data, in the pilot's thread."""

    def __init__(self, pilot: Pilot) -> None:
        self.pilot = pilot
        self._moved: set[Part] = set()  # that moved data
        self._known = 0  # operations that `_moved` knows of
        self._grown: dict[Function, int] = {}
        self._light: set[Function] = set()  # whose sites pass, and whose plain code is to come
        self._install_at = 0.0
        self._asked = False
        self._reach_at = time.perf_counter() + REACH

    def told(self, site: Any, function: Any) -> None:
        """This site was executed many times without data; called in the program's thread."""
        if site.calls >= SHOWN and not self._asked:
            self._asked = True
            self.pilot.soon(self._look_soon)

    def forget(self) -> None:
        """Begins anew in a process that was just forked: nobody there has been asked."""
        self._asked = False

    def look(self) -> None:
        """Lets go what has become idle since the last look."""
        self._let_go_shown()
        self._let_go_idle()
        self._install()
        self._reach()

    def _look_soon(self) -> None:
        self._asked = False
        attempt(self._let_go_shown)
        if time.perf_counter() >= self._install_at:
            attempt(self._install)

    # -- what has shown all of it

    def _let_go_shown(self) -> None:
        self._learn()
        for path, file in list(self.pilot.program.files.items()):
            for site in file.sites:
                if site.mode == RECORD and site.calls >= SHOWN:
                    self._look_at(path, file, site)

    def _look_at(self, path: str, file: InstrumentedFile, site: Any) -> None:
        """Lets go the function of a site, or the outermost loop of it that has shown everything."""
        info = info_of(site)
        for part in ((path, info.owner, -1), *((path, info.owner, loop) for loop in info.loops)):
            if part not in self._moved and has_shown(file, part):
                self._let_go(part)
                return

    def _let_go(self, part: Part) -> None:
        path, owner, loop = part
        if loop >= 0:
            self.pilot.program.rest([part])
        else:
            self.pilot.program.settle(path, owner)
            self._light.add((path, owner))

    def _learn(self) -> None:
        """Takes note of what has moved data since the last time."""
        new = self.pilot.recorder.gatherer.templates(self._known)
        self._known += len(new)
        for template in new:
            info = info_of(template.site)
            self._moved.update((info.file, info.owner, loop) for loop in (-1, *info.loops))

    # -- what has not moved data for a while

    def _let_go_idle(self) -> None:
        for path, file in list(self.pilot.program.files.items()):
            for owner in _busy(file):
                if not self._moves_data(path, owner):
                    self.pilot.program.settle(path, owner)
                    self._light.add((path, owner))

    def _moves_data(self, path: str, owner: str) -> bool:
        """Whether a function has moved data since this was last asked."""
        every = list(self.pilot.recorder.templates)
        own = [t for t in every if t.site.info.owner == owner and t.site.info.file == path]
        before, now = self._grown.get((path, owner), -1), sum(t.count for t in own)
        self._grown[path, owner] = now
        return now != before and bool(own)

    def _install(self) -> None:
        """Gives functions their plain code."""
        if not self._light:
            return
        light, self._light, began = self._light, set(), time.perf_counter()
        self.pilot.barren |= light
        for path in {path for path, _ in light}:
            self.pilot.planning.install(path, [owner for each, owner in light if each == path], near=True)
        ended = time.perf_counter()
        self._install_at = ended + SHARE * (ended - began)

    def _reach(self) -> None:
        """Now and then gives lean code to functions that only values hold; in a worker that would copy its memory."""
        now, program = time.perf_counter(), self.pilot.program
        if now >= self._reach_at and program.has_left_over() and not self.pilot.team.crew.is_worker:
            program.reach()
            ended = time.perf_counter()
            self._reach_at = ended + max(REACH, SHARE * (ended - now))


def has_shown(file: InstrumentedFile, part: Part) -> bool:
    """Whether everything in a function or a loop was executed; what never says that it was does not count."""
    return all(site.calls for site in file.sites_in(*part[1:]) if site.kind not in (RETURN, ITERATE))


def _busy(file: InstrumentedFile) -> Iterator[str]:
    """The functions of a file that were executed many times while they were observed."""
    most: dict[str, int] = {}
    for info, site in zip(file.infos, file.sites, strict=True):
        if site.mode == RECORD:
            most[info.owner] = max(most.get(info.owner, 0), site.calls)
    return (owner for owner, calls in most.items() if calls > SCALAR)
