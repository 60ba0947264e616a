"""The chains of calls along which a plan's values may stay on their device: found in the program's files, counted."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING

from codedag.backends.registry import find
from codedag.instrument.nearby import functions_by_file
from codedag.instrument.program import InstrumentedFile, Program
from codedag.migrate.patches.call_counts import CallCounts, summed
from codedag.migrate.placement.device_chain import DeviceChain, chains
from codedag.trace.attach import Attachment, Functions

if TYPE_CHECKING:
    from codedag.migrate.placement.migrator import Migrator


class DeviceChains:
    """All chains of one plan."""

    def __init__(self, migrator: Migrator) -> None:
        self.migrator = migrator
        self.every: list[DeviceChain] = []
        self.attaches = True  # whether code that is loaded already is given these chains
        self.waits = False  # whether that is for the first call on a device: the program is not loaded yet
        self._attached: _Attached | None = None

    def names(self) -> set[str]:
        """The last names of the functions whose results can stay on the unit that the plan names for them."""
        from codedag.backends.registry import runs_on

        requests = [request for request in self.migrator.requests.wanted if request.pu != "cpu"]
        placed = [w for w in requests if any(one.stays and runs_on(one, w.pu) for one in find(w.function))]
        return {request.function.rpartition(".")[2] for request in placed}

    def prepare(self, program: Program, file: InstrumentedFile) -> set[int]:
        """Gives the sites of a file's chains their variants; the sites that its code needs."""
        needed: set[int] = set()
        names = self.names()
        for chain in chains(file, names) if names else ():
            passage = DeviceChain(chain, self.migrator)
            variants = passage.variants()
            program.plan(file.path, chain[0].site.info.owner, variants)
            self.every.append(passage)
            needed |= variants.keys()
        return needed

    def counted(self) -> dict[str, CallCounts]:
        """What became of the calls of all chains, by function."""
        return summed([passage.counted() for passage in self.every])

    # -- code that was loaded without us

    def attach(self) -> None:
        """Gives the program's functions that are loaded code with these chains; a running one at its next call."""
        names = self.names()
        if not names or not self.attaches or self.waits or self._attached is not None:
            return
        main = getattr(sys.modules.get("__main__"), "__file__", None)
        program = Program([Path.cwd(), *([Path(main).resolve().parent] if main else [])])
        program.prepare = lambda file: self.prepare(program, file)
        self._attached = _Attached(program, names)
        self._attached.attach()

    def first_call(self) -> None:
        """Does that now, in a process that came up with the plan before it had the program."""
        if self.waits:
            self.waits = False
            self.attach()

    def give_back(self) -> None:
        """Gives every function the code that it had."""
        self.waits = False
        if self._attached is not None:
            self._attached.give_back()
            self._attached = None


class _Attached(Attachment):
    """Functions with sites for their chains only."""

    def __init__(self, program: Program, names: set[str]) -> None:
        super().__init__(program)
        self._names = [f"{name}(".encode() for name in names]

    def _source(self, path: str, functions: Functions) -> bytes | None:
        """The source of a file, if it calls two of the functions or one of them twice."""
        source = super()._source(path, functions)
        return source if source is not None and sum(map(source.count, self._names)) > 1 else None

    def give_back(self) -> None:
        """Gives every function the code that it had; a call under way in a running frame ends as it began.

        The sites keep their variants: a value that is on its way to one of them is not seen by anybody else.
        """
        self._program.loads_with_sites = False
        for reference, before, given in self._journal:
            function = reference()
            if function is not None and function.__code__ is given:
                function.__code__ = before
        for path in set(self._program.files) & (functions := functions_by_file()).keys():
            for function in functions[path]:
                self._put_back(function)

    def _put_back(self, function: types.FunctionType) -> None:
        function.__code__ = self._before.get(id(function.__code__), function.__code__)
