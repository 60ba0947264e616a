"""Code that was loaded without us: its functions get sites while something is traced, and their own code back after.

`Program.restore` gives functions the code of their place.  Here each function gets back the very object it had: a file
that was loaded twice has two code objects for one place.
"""

from __future__ import annotations

import ast
import importlib.machinery
import inspect
import itertools
import linecache
import os
import re
import sys
import types
import warnings
import weakref
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from codedag.instrument.codes import codes_by_place, place_of
from codedag.instrument.hook import _Loader
from codedag.instrument.nearby import functions_by_file
from codedag.instrument.program import Program
from codedag.instrument.sites import PASS

Functions = list[types.FunctionType]

_OURS = str(Path(__file__).resolve().parent.parent) + os.sep
_UNREADABLE = (OSError, SyntaxError, ValueError, RecursionError, MemoryError)
_COMPARED = (
    "co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags", "co_argcount", "co_firstlineno",
    "co_posonlyargcount", "co_kwonlyargcount", "co_qualname", "co_linetable", "co_exceptiontable",
)  # fmt: skip
#: What the compiler says about a source; the program has heard it when the source was loaded.
_HEARD: tuple[Any, ...] = (
    ("ignore", None, SyntaxWarning, None, 0),
    ("ignore", re.compile(r"invalid (\w+ )?(escape|decimal|hexadecimal|octal|binary|imaginary)"), DeprecationWarning,
     None, 0),
)  # fmt: skip


class Attachment:
    """The functions that have sites for a while, and what each of them ran before."""

    def __init__(self, program: Program, drilled: bool = False) -> None:
        self.notes: list[str] = []
        self.functions = 0
        self._program, self._drilled = program, drilled
        self._journal: list[tuple[weakref.ref[types.FunctionType], types.CodeType, types.CodeType]] = []
        self._before: dict[int, types.CodeType] = {}  # by identity: codes of two files may be equal
        self._kept: list[types.CodeType] = []  # what `_before` names must live as long as it does

    def attach(self) -> None:
        """Gives every wanted function that is loaded its code with sites."""
        found = {path: some for path, all_ in _functions_by_file().items() if (some := self._wanted(path, all_))}
        sources = {path: source for path in found if (source := self._source(path, found[path])) is not None}
        with _unheard():
            # what any file compiles by other means is known before the first function of any file is changed
            for path in list(sources):
                self._mark(path, sources)
            for path, source in sources.items():
                self._attach(path, source, found[path])

    def give_back(self) -> None:
        """Gives every function the code it had, also those that were made or loaded meanwhile."""
        program = self._program
        program.loads_with_sites = False
        for file in list(program.files.values()):
            for site in file.sites:
                site.mode = PASS
            for switch in file.switches:
                switch.on = False
            self._learn(codes_by_place(file.full), codes_by_place(file.plain))
        for reference, before, given in self._journal:
            function = reference()
            if function is not None and function.__code__ is given:
                function.__code__ = before
        for path in set(program.files) & (functions := _functions_by_file()).keys():
            for function in functions[path]:
                function.__code__ = self._before.get(id(function.__code__), function.__code__)
        _give_back_loaders(program)

    # -- which files, and what is in them

    def _wanted(self, path: str, functions: Functions) -> Functions:
        if path.startswith((_OURS, "<frozen ")) or path in self._program.files:
            return []
        if not self._drilled and "/site-packages/" in path:
            return []  # most files are such, and `wants` has to look at the disk
        name = str(functions[0].__globals__.get("__name__", ""))
        if not path.startswith("<") and self._program.wants(path, name):
            return functions
        # typed into a notebook or a shell: there is no file, at best Python remembers the lines
        typed = [function for function in functions if _is_typed(function)]
        chosen = typed and not Path(path).is_file() and self._program.selection.wants_module("__main__")
        return typed if chosen else []

    def _source(self, path: str, functions: Functions) -> bytes | None:
        try:
            if Path(path).is_file():
                return Path(path).read_bytes()
        except OSError as error:
            self.notes.append(f"{path} was left alone: it cannot be read ({error.strerror})")
            return None
        lines = linecache.getlines(path, functions[0].__globals__)
        if not lines:
            self.notes.append(f"{path} was left alone: its source cannot be read ({_some(functions)})")
        return "".join(lines).encode() if lines else None

    def _mark(self, path: str, sources: dict[str, bytes]) -> None:
        try:
            self._program._compiled.mark(ast.parse(sources[path], path))
        except _UNREADABLE as error:
            del sources[path]
            self.notes.append(f"{path} was left alone: its source is not what Python loads ({error})")

    # -- changing functions

    def _attach(self, path: str, source: bytes, functions: Functions) -> None:
        full = codes_by_place(self._program.load(path, source))
        file = self._program.files.get(path)
        if file is None:
            self.notes.append(f"{path} was left alone: {self._program.left_plain.get(path, 'it was not chosen')}")
            return
        plain, typed, changed = codes_by_place(file.plain), _typed_codes(path, source), []
        for function in functions:
            place = place_of(function.__code__)
            code, as_written = full.get(place), (plain.get(place), typed.get(place))
            if code is None or not any(each is not None and same_code(each, function.__code__) for each in as_written):
                changed.append(function)
            elif not same_code(code, function.__code__):
                self._swap(function, code)
        if changed:
            self.notes.append(f"{path}: the code of {_some(changed)} is not that of its source and was left alone")

    def _swap(self, function: types.FunctionType, code: types.CodeType) -> None:
        before = function.__code__
        function.__code__ = code
        self.functions += 1
        self._journal.append((weakref.ref(function), before, code))
        self._learn({place_of(code): code}, {place_of(code): before})
        self._learn(codes_by_place(code), codes_by_place(before))

    def _learn(self, given: dict[Any, types.CodeType | None], before: dict[Any, types.CodeType | None]) -> None:
        """Remembers what stood in place of each code that was given."""
        for place, code in given.items():
            stood = before.get(place)
            if code is not None and stood is not None and id(code) not in self._before:
                self._before[id(code)] = stood
                self._kept.append(code)


def _functions_by_file() -> dict[str, Functions]:
    """Every live function, by the file its code came from: one look at the heap for all files."""
    found: defaultdict[str, Functions] = defaultdict(list)
    for function in itertools.chain.from_iterable(functions_by_file().values()):
        # the bodies of modules and classes that are running are functions too, for Python itself
        if function.__code__.co_flags & inspect.CO_OPTIMIZED:
            found[function.__code__.co_filename].append(function)
    return found


def _is_typed(function: types.FunctionType) -> bool:
    """Whether a function was typed into the main module, rather than made by a library such as dataclasses."""
    main = sys.modules.get("__main__")
    name, code = function.__name__, function.__code__
    special = name.startswith("__") and name.endswith("__")  # such as __getitem__; those that are made have no lines
    generated = (special and not linecache.getlines(code.co_filename)) or "__create_fn__" in function.__qualname__
    return main is not None and function.__globals__ is main.__dict__ and not generated


def _typed_codes(path: str, source: bytes) -> dict[Any, types.CodeType | None]:
    """The codes of what was typed, as a notebook compiles it: each statement alone.

    Python compiles calls on names that the same source imports in another way.
    """
    if Path(path).is_file():
        return {}
    found: dict[Any, types.CodeType | None] = {}
    for statement in ast.parse(source, path).body:
        alone = ast.Module([statement], [])
        found |= codes_by_place(compile(alone, path, "exec", dont_inherit=True))
    return found


def same_code(a: types.CodeType, b: types.CodeType) -> bool:
    """Whether two code objects do the same at the same lines; `==` also asks what the interpreter made of them."""
    if any(getattr(a, name) != getattr(b, name) for name in _COMPARED) or len(a.co_consts) != len(b.co_consts):
        return False
    return all(_same_constant(x, y) for x, y in zip(a.co_consts, b.co_consts, strict=True))


def _same_constant(x: Any, y: Any) -> bool:
    if isinstance(x, types.CodeType) and isinstance(y, types.CodeType):
        return same_code(x, y)
    if type(x) is not type(y):
        return False
    if isinstance(x, tuple):
        return len(x) == len(y) and all(_same_constant(p, q) for p, q in zip(x, y, strict=True))
    if isinstance(x, frozenset):
        return sorted(map(repr, x)) == sorted(map(repr, y))
    return repr(x) == repr(y) if isinstance(x, float | complex) else bool(x == y)


def _some(functions: Functions) -> str:
    names = sorted({function.__qualname__ for function in functions})
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


@contextmanager
def _unheard() -> Iterator[None]:
    # catch_warnings() would make every warning that the program has already shown appear again
    filters: Any = warnings.filters
    filters[:0] = _HEARD
    try:
        yield
    finally:
        for one in _HEARD:
            if one in filters:
                filters.remove(one)


def _give_back_loaders(program: Program) -> None:
    """Modules that were loaded meanwhile keep no loader of ours."""
    for module in list(sys.modules.values()):
        loader = getattr(getattr(module, "__spec__", None), "loader", None)
        if type(loader) is _Loader and loader._program is program:
            plain = importlib.machinery.SourceFileLoader(loader.name, loader.path)
            module.__spec__.loader = module.__loader__ = plain  # type: ignore[union-attr]
