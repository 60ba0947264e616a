"""One trace of this process: what was seen, as text and as a run directory."""

from __future__ import annotations

import datetime
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from codedag.ir import CannotWrite, CostTable, Graph
from codedag.trace.live import Live, Recorded

if TYPE_CHECKING:
    from codedag.trace.rundir import Keeper


class Run:
    """What a trace saw; while it is being recorded, what it has seen so far."""

    def __init__(self, live: Live) -> None:
        self.started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.status = "running"
        self._live = live

    def __repr__(self) -> str:
        return f"<Run, {self.status}: {self.graph!r}>"

    @property
    def recorded(self) -> Recorded:
        """The graph, its costs, and what the graph itself does not hold."""
        return self._live.recorded()

    @property
    def graph(self) -> Graph:
        """The operations and their edges, with what is known of their effects."""
        from codedag.backends.known_graph import with_effects

        return with_effects(self.recorded.graph)

    @property
    def costs(self) -> CostTable:
        """What each operation cost as written."""
        return self.recorded.costs

    @property
    def notes(self) -> list[str]:
        """What was not seen, and why."""
        return list(self._live.notes)

    def hottest(self, most: int = 20) -> str:
        """The table of the operations that took most time themselves."""
        from codedag.view.text import hottest

        return "\n".join(hottest(self.graph, most))

    def _repr_html_(self) -> str:
        """What a notebook shows: the picture of the graph, and what was not seen."""
        import html

        from codedag.view.svg import drawing

        notes = "".join(f"<p>note: {html.escape(note)}</p>" for note in self.notes)
        if not len(self.graph):
            return f"<p>{html.escape(repr(self))}: no operation on data was seen.</p>{notes}"
        return f'<div style="overflow:auto;max-height:40em">{drawing(self.graph).svg}</div>{notes}'

    def save(self, path: str | os.PathLike[str]) -> Path:
        """The run directory, written: `codedag.load` and `codedag view` open it."""
        from codedag.instrument.launch import Target
        from codedag.trace.rundir import Keeper

        target = Target(sys.argv[0] if sys.argv and sys.argv[0] else "python", tuple(sys.argv[1:]))
        keeper = Keeper("trace", target, os.fspath(path), started=self.started)
        keeper.begin()
        keeper.notes += self.notes
        keeper.keep(self.graph, self.costs)
        self._copy_samples(keeper)
        keeper.end(self.status, 0 if self.status == "ok" else 1)
        if keeper.broken:
            raise CannotWrite(keeper.broken, hint="Name another directory.")
        return keeper.path

    def _copy_samples(self, keeper: Keeper) -> None:
        """Copies the inputs that were kept, for `codedag profile`; a run without them is whole all the same."""
        from codedag.trace.spool import FOLDER, forget

        forget(keeper.path / FOLDER)
        if self._live.samples is None:
            return
        try:
            (keeper.path / FOLDER).mkdir(0o700)
            shutil.copytree(self._live.samples, keeper.path / FOLDER, dirs_exist_ok=True)
        except (OSError, shutil.Error) as error:
            keeper.notes.append(f"inputs were not kept for `codedag profile`: {error}")
