"""Whether what runs now will probably run again on the same data: how many loops of the program it runs inside."""

from __future__ import annotations

import ast
import sys
from typing import Any

from codedag.instrument.program import Program
from codedag.instrument.rewrite import parsed

ENOUGH = 2  # a loop over the data inside a loop over epochs


class Repeats:
    """Counts the loops around what runs, in the program's own code."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._loops: dict[str, list[tuple[int, int]]] = {}

    def expected(self) -> bool:
        """Whether the loops that are running are at least one over data and one around it."""
        count, frame = 0, sys._getframe(1)
        while frame is not None and count < ENOUGH:
            count += self._around(frame)
            frame = frame.f_back  # type: ignore[assignment]
        return count >= ENOUGH

    def _around(self, frame: Any) -> int:
        code, line = frame.f_code, frame.f_lineno
        if code.co_filename not in self.program.files or line is None:
            return 0
        loops = self._of(code.co_filename)
        return sum(code.co_firstlineno <= first <= line <= last for first, last in loops)

    def _of(self, path: str) -> list[tuple[int, int]]:
        if path not in self._loops:
            tree = parsed(self.program.files[path].source, path)
            loops = [n for n in ast.walk(tree) if isinstance(n, ast.For | ast.While | ast.AsyncFor)]
            self._loops[path] = [(loop.lineno, loop.end_lineno or loop.lineno) for loop in loops]
        return self._loops[path]
