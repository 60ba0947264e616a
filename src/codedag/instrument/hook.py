"""The import hook: modules of the user's own are loaded through the rewriter."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from codedag.instrument.program import Program


class _Loader(importlib.machinery.SourceFileLoader):
    """A source loader whose code comes from the rewriter; everything else is Python's own."""

    def __init__(self, fullname: str, path: str, program: Program) -> None:
        super().__init__(fullname, path)
        self._program = program
        self._code: types.CodeType | None = None

    def prepare(self) -> bool:
        """Compiles the module with its sites; says whether that is possible."""
        try:
            source = self.get_data(self.path)
            self._code = self._program.load(self.path, source, main=self.name == "__main__")
        except (OSError, SyntaxError, ValueError, MemoryError, RecursionError):
            return False
        return True

    def get_code(self, fullname: str) -> types.CodeType | None:
        """The code of the module, with sites."""
        return self._code


class Finder(importlib.abc.MetaPathFinder):
    """Finds what Python's path finder finds, and gives the user's own source files our loader."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a user module, or None to let the other finders answer."""
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or type(spec.loader) is not importlib.machinery.SourceFileLoader or not spec.origin:
            return None
        if not self._program.wants(spec.origin):
            return None
        loader = _Loader(name, spec.origin, self._program)
        if not loader.prepare():
            return None  # Python's own loader reports it, without a frame of ours in the traceback
        spec.loader = loader
        return spec


@contextmanager
def importing(program: Program) -> Iterator[None]:
    """Imports of the user's own modules go through the rewriter inside this context."""
    finder = Finder(program)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
