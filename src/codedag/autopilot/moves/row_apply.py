"""Calls that go through a table row by row: replaced before they are made, because many are made only once.

Each of them is a loop in itself.  They are found in the source, and their substitute is checked against the original
on some of the rows, so nothing needs to be observed first.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import partial
from sys import _getframe
from typing import TYPE_CHECKING, Any

from codedag.autopilot.applied import Applied, Refused
from codedag.instrument.program import InstrumentedFile
from codedag.instrument.rewrite import parsed
from codedag.instrument.sites import CALL, VARIANT
from codedag.ir.verdict import Code, No, Verdict
from codedag.migrate.caller import Caller
from codedag.migrate.guard import Failed, attempt
from codedag.migrate.substitute.call import Substitute, unbound
from codedag.migrate.substitute.usable import may_run
from codedag.trace.recorder import shown_path

if TYPE_CHECKING:
    from codedag.autopilot.pilot import Pilot
    from codedag.backends.registry import Substitution

NAME = "pandas.DataFrame.apply"
ROW_BY_ROW = frozenset({NAME})
MANY = 5_000  # rows from which the first call waits until the substitute is there: 50 ms and more as written


class Rows:
    """The calls of one program that go row by row."""

    def __init__(self, pilot: Pilot) -> None:
        self.pilot = pilot

    def begin(self, file: InstrumentedFile) -> None:
        """Gives the calls of a file that are written like that a variant which decides at its first call."""
        if self.pilot.observe_only:
            return
        for index in calls_by_row(file):
            if file.sites[index].mode != VARIANT:
                made = ByRow(self.pilot, file, index)
                self.pilot.program.plan(file.path, file.infos[index].owner, {index: made.variant})


class ByRow:
    """One call that goes row by row."""

    def __init__(self, pilot: Pilot, file: InstrumentedFile, index: int) -> None:
        self.pilot, self.file, self.index = pilot, file, index
        self._caller = Caller(file.infos[index])
        self._change: Substitute | None = None
        self._decided = False

    def variant(self, function: Any, /, *args: Any, **keywords: Any) -> Any:
        """What the site runs: the call as written until there is a substitute."""
        space = _getframe(1).f_globals
        if not self._decided:
            attempt(self._decide, function, args)
        if self._change is not None:
            return self._change.called(space, function, args, keywords)
        return self._caller.in_module(space)(function, args, keywords)

    def _decide(self, function: Any, args: tuple[Any, ...]) -> None:
        """Takes the substitute into use at once if that is worth the wait, else in the background."""
        function, args = unbound(function, args)
        pandas: Any = sys.modules.get("pandas")
        if pandas is None or function is not pandas.DataFrame.apply:
            return
        from codedag.backends.more_pandas_ import apply
        from codedag.backends.proof import known_here, proven_here

        self._decided = True
        if len(args[0]) >= MANY and known_here(apply) is not None:
            self._use(apply, proven_here)
        else:
            self.pilot.background.later(partial(self._use, apply, self.pilot.prove))

    def _use(self, substitution: Substitution, prove: Callable[[Substitution], Verdict]) -> None:
        info = self.file.infos[self.index]
        verdict = attempt(may_run, substitution, self.pilot.allow, prove)
        if isinstance(verdict, No | Failed):
            where = f"{shown_path(self.file.path)}:{info.line}"
            code = verdict.code if isinstance(verdict, No) else Code.OTHER
            self.pilot.refused.append(Refused(substitution.name, where, verdict.reason, code))
            return
        trial = self.pilot.planning.trial(substitution.source)
        names, variant = [substitution.source], substitution.into
        self.pilot.planning.begin(
            Applied("substitute", self.file.path, info.owner, [self.index], names, trial, variant)
        )
        self._change = Substitute(self.file.sites[self.index], substitution, trial)


def calls_by_row(file: InstrumentedFile) -> list[int]:
    """The sites of a file that are written like a call row by row."""
    if b".apply(" not in file.source:
        return []
    written = {
        (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
        for node in ast.walk(parsed(file.source, file.path))
        if isinstance(node, ast.Call) and _is_by_row(node)
    }
    return [i.index for i in file.infos if i.kind == CALL and (i.line, i.column, i.end_line, i.end_column) in written]


def _is_by_row(node: ast.Call) -> bool:
    axis = [k.value for k in node.keywords if k.arg == "axis"] + node.args[1:2]
    by_row = any(isinstance(each, ast.Constant) and each.value in (1, "columns") for each in axis)
    return by_row and isinstance(node.func, ast.Attribute) and node.func.attr == "apply"
