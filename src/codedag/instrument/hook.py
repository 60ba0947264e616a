"""The import hook: modules of the user's own, and of packages the user named, are loaded through the rewriter."""

from __future__ import annotations

import importlib.machinery
import sys
import types
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from codedag.instrument.program import Program
from codedag.instrument.python import Plain


class _Loader(importlib.machinery.SourceFileLoader):
    """A source loader whose code comes from the rewriter; everything else is Python's own."""

    def __init__(self, fullname: str, path: str, program: Program, *, doubled_only: bool = False) -> None:
        super().__init__(fullname, path)
        self._program, self._doubled_only = program, doubled_only
        self._code: types.CodeType | None = None

    def prepare(self) -> bool:
        """Finds the module's code with its sites; says whether that is possible."""
        try:
            source = self.get_data(self.path)
            plain = Plain(self.path, source, partial(super().get_code, self.name))
            self._code = self._program.load(
                self.path, source, main=self.name == "__main__", plain=plain, doubled_only=self._doubled_only
            )
        except (OSError, SyntaxError, ValueError, MemoryError, RecursionError) as error:
            self._program.left_plain[self.path] = f"{type(error).__name__}: {error}"
            return False
        return True

    def get_code(self, fullname: str) -> types.CodeType | None:
        """The code of the module, with sites."""
        return self._code


class Finder:
    """Finds what Python's path finder finds, and gives the source files that are observed our loader."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of an observed module, or None to let the other finders answer."""
        if not self._program.where.may_hold(name, path):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or type(spec.loader) is not importlib.machinery.SourceFileLoader or not spec.origin:
            self._say_why(name, spec)
            return None
        if not self._program.wants(spec.origin, name):
            return None
        loader = _Loader(name, spec.origin, self._program)
        if not loader.prepare():
            return None  # Python's own loader reports it, without a frame of ours in the traceback
        spec.loader = loader
        return spec

    def _say_why(self, name: str, spec: importlib.machinery.ModuleSpec | None) -> None:
        if spec is not None and spec.origin and self._program.where.drills(name):
            self._program.left_plain[spec.origin] = "it has no Python source"


class NamedFinder(Finder):
    """Gives the files that an earlier run named code of ours; everything else is loaded by Python itself."""

    def __init__(self, program: Program, only: Collection[str], *, doubled_only: bool) -> None:
        super().__init__(program)
        self._only, self._doubled_only = frozenset(only), doubled_only
        self._names = frozenset(name for path in only for name in _names_of(path))

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a named module, or None to let the other finders answer."""
        if name.rpartition(".")[2] not in self._names:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if (
            spec is None
            or type(spec.loader) is not importlib.machinery.SourceFileLoader
            or spec.origin not in self._only
        ):
            return None
        loader = _Loader(name, spec.origin, self._program, doubled_only=self._doubled_only)
        if not loader.prepare():
            return None
        spec.loader = loader
        return spec


def _names_of(path: str) -> list[str]:
    """What a module from this file can be called, by the last part of its name."""
    parts = Path(path).with_suffix("").parts
    return list(parts[-2:] if parts[-1] in ("__init__", "__main__") else parts[-1:])


@contextmanager
def importing(program: Program, only: Collection[str] | None = None, *, doubled_only: bool = True) -> Iterator[None]:
    """Imports of observed modules go through the rewriter inside this context; named packages that are loaded too.

    With `only`, just these files do, and get doubled loops without sites or, if not `doubled_only`, what the program
    prepares for them; without such files no import is looked at.
    """
    if only is not None and not only:
        yield
        return
    finder = Finder(program) if only is None else NamedFinder(program, only, doubled_only=doubled_only)
    sys.meta_path.insert(0, finder)
    try:
        if only is None:
            program.attach_loaded()
        yield
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
