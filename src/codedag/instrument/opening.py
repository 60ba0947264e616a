"""Sites for single functions of loaded modules, put in while the program runs: checked, swapped, journalled, undone.

A function is opened by giving it code with sites that was rewritten from its source, if what it runs now is what its
source compiles to.  Frames that are running keep their code; the next call runs the new one.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from codedag.instrument import compiler_requests
from codedag.instrument.cache import Entry
from codedag.instrument.code_digest import code_digest
from codedag.instrument.codes import CodeKey, codes_by_place, is_same_function, owner_of, place_of
from codedag.instrument.compiled import Compiled
from codedag.instrument.guard import Failed, attempt
from codedag.instrument.instrumented_file import FULL, InstrumentedFile, fits
from codedag.instrument.nearby import Functions, functions_by_file, functions_near
from codedag.instrument.places import (
    OPENED_MODULES,
    PROTECTED_PACKAGES,
    is_installed,
    is_of_autograph,
    is_standard_library,
)
from codedag.instrument.python import sources_of, was_edited
from codedag.ir.sha256 import sha256
from codedag.ir.verdict import Code, No

if TYPE_CHECKING:
    from codedag.instrument.compiler_process import CompilerProcess, Ticket
    from codedag.instrument.program import Program

Places = dict[CodeKey, list[types.FunctionType]]  # live functions by where they were defined
Wanted = Iterable[tuple[str, Collection[str]]]  # source files and the functions (by qualified name) to open in them


class Opened(msgspec.Struct, frozen=True):
    """One function that has sites now: how many live functions got the code, and the numbers of its own sites."""

    path: str
    owner: str
    functions: int
    sites: tuple[int, ...]


class Opening:
    """The functions of one program that were opened, and the way back: which code each piece of ours stands for."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._originals: dict[int, tuple[types.CodeType, types.CodeType]] = {}  # ours and the original, by id of ours
        self._ours: dict[tuple[str, CodeKey, int], types.CodeType] = {}  # by place and id of the original
        self._tickets: dict[tuple[Any, ...], Ticket] = {}
        self._read: dict[str, Compiled] = {}  # what other compilers read, by package ("": the user's own files)
        self._searched: set[str] = set()  # sources in which that was looked for
        self._searching: tuple[Any, ...] = ()  # the request for those in which it is being looked for

    def open(self, wanted: Wanted, compiler: CompilerProcess | None, mode: int) -> dict[tuple[str, str], Opened | No]:
        """Opens functions; for each of them what was done, or why nothing was."""
        modules = _modules_by_path()
        results: dict[tuple[str, str], Opened | No] = {}
        ready: list[tuple[InstrumentedFile, set[str], Compiled]] = []
        for path, owners in wanted:
            refusal = _protected(path, modules)
            compiled = self._compiled_for(path, modules, compiler) if refusal is None else refusal
            file = compiled if isinstance(compiled, No) else self._file(path, compiled, compiler)
            if isinstance(file, No) or isinstance(compiled, No):
                results |= {(path, owner): file for owner in owners if isinstance(file, No)}
            else:
                ready.append((file, set(owners), compiled))
        live = _Live()
        for file, owners, compiled in ready:
            places = {owner: self._places(file, owner, compiled, live) for owner in sorted(owners)}
            for owner, found in places.items():
                done = found if isinstance(found, No) else self._opened(file, owner, found, live, mode)
                results[file.path, owner] = done
        return results

    # -- the rewritten file

    def _file(self, path: str, compiled: Compiled, compiler: CompilerProcess | None) -> InstrumentedFile | No:
        known = self._program.files.get(path)
        if known is not None and (known.form == FULL or known.opened_from is not None):
            return known
        try:
            source = Path(path).read_bytes() if known is None else known.source
        except OSError as error:
            return No(f"the source cannot be read: {error}", Code.NO_SOURCE)
        if known is not None:  # the numbers of its sites are given
            compiled = Compiled(set(known.entry.read_before), known.entry.modules_before)
        entry = self._entry(path, source, compiled, compiler)
        if isinstance(entry, No):
            return entry
        return self._taken(path, source, known, entry)

    def _taken(self, path: str, source: bytes, known: InstrumentedFile | None, entry: Entry) -> InstrumentedFile | No:
        if known is None:
            known = self._program.files[path] = InstrumentedFile(path, source, main=False, entry=entry)
        elif not known.take_full(entry):
            return No("the file was rewritten otherwise when it was loaded", Code.CANNOT_REWRITE)
        return known

    def _entry(self, path: str, source: bytes, compiled: Compiled, compiler: CompilerProcess | None) -> Entry | No:
        number = sha256(source).hexdigest()
        entry = self._program.cache.load(path, number, FULL)
        if entry is not None and fits(entry, compiled):
            return entry
        answer = self._answer(("rewrite", path, number, tuple(sorted(compiled.names)), compiled.modules), compiler)
        if isinstance(answer, No):
            return answer if answer.code is not Code.FAILED else No(answer.reason, Code.CANNOT_REWRITE)
        return Entry(*answer)

    def _compiled_for(self, path: str, modules: Mapping[str, str], compiler: CompilerProcess | None) -> Compiled | No:
        """What other compilers read of this file's package, and of whatever the user's own files have compiled."""
        if modules.get(path) in OPENED_MODULES:
            return Compiled()  # nobody compiles these
        packages = {"", _package_of(path, modules)}
        while self._searching or (new := self._unsearched(packages, modules)):
            self._searching = self._searching or ("compiled_names", tuple(sorted(new)))
            answer = self._answer(self._searching, compiler)
            if isinstance(answer, No):
                return answer
            self._searched.update(self._searching[1])
            self._searching = ()
            for each, names, whole in answer:
                self._read.setdefault(_package_of(each, modules), Compiled()).learn(names, whole)
        found = Compiled()
        for package in packages & self._read.keys():
            found.learn(self._read[package].names, self._read[package].modules)
        return found

    def _unsearched(self, packages: Collection[str], modules: Mapping[str, str]) -> list[str]:
        """The loaded sources of these packages in which nobody has looked for other compilers; all others can wait."""
        new = modules.keys() - self._searched
        return [path for path in new if _package_of(path, modules) in packages and not is_closed(path, modules)]

    def _answer(self, request: tuple[Any, ...], compiler: CompilerProcess | None) -> Any:
        """The answer of the compiler process, No(NOT_READY) until it is there; without one the work is done here."""
        if compiler is None:
            kind, *arguments = request
            done = attempt(getattr(compiler_requests, kind), *arguments)
            return No(done.reason, Code.FAILED) if isinstance(done, Failed) else done
        if request not in self._tickets:
            self._tickets[request] = compiler.ask(*request)
        if not self._tickets[request].is_answered:
            return No("the compiler process was asked", Code.NOT_READY)
        return self._tickets.pop(request).answer

    # -- one function

    def _places(self, file: InstrumentedFile, owner: str, compiled: Compiled, live: _Live) -> Places | No:
        """The live functions of one name by where they were defined, if all of them may be opened."""
        if owner in file.entry.left or not compiled.names.isdisjoint(owner.split(".")):
            return No("another compiler (numba, torch.compile, ...) reads this function", Code.OTHER_COMPILER)
        if not file.table.indexes_of(owner):
            is_there = any(owner_of(place[0]) == owner for place in file.entry.digests)
            reason = No("nothing in the function can carry a site", Code.NO_SITES)
            return reason if is_there else No("the source defines no such function", Code.NO_FUNCTION)
        found: dict[CodeKey, list[types.FunctionType]] = {}
        for place in file.places_of(owner):
            found[place] = live.at(file.path, place)
            for function in found[place]:
                refusal = self._refusal(file, place, function.__code__)
                if refusal is not None:
                    return refusal
        if not any(found.values()) and not any("<locals>" in place[0] for place in found):
            return No("no live function runs the code of this definition", Code.NO_FUNCTION)
        return found

    def _refusal(self, file: InstrumentedFile, place: CodeKey, code: types.CodeType) -> No | None:
        if id(code) in self._originals or file.own.hold(code):
            return None
        wanted = file.entry.digests[place]
        if wanted is None:
            return No("two functions share the place of this definition", Code.CODE_DIFFERS)
        if code_digest(code) != wanted:
            return _why_different(file)
        if _is_compiled_by_torch(code):
            return No("torch.compile has compiled this function", Code.OTHER_COMPILER)
        return None

    def _opened(
        self,
        file: InstrumentedFile,
        owner: str,
        places: Places,
        live: _Live,
        mode: int,
    ) -> Opened | No:
        if not file.is_lazy:
            self._program.wake([(file.path, owner, -1)])
        elif file.form != FULL:
            file.fill_loops_of(owner)
        count = 0
        for place, functions in places.items():
            for function in functions:
                count += self._swap(file, place, function)
            if "<locals>" in place[0] and file.is_lazy:
                count += self._open_makers(file, place, live)
        if not count:
            return No("no live function runs the code of this definition", Code.NO_FUNCTION)
        numbers = tuple(file.table.indexes_of(owner))
        self._program.set_modes(file, numbers, mode)
        return Opened(file.path, owner, count, numbers)

    def _swap(self, file: InstrumentedFile, place: CodeKey, function: types.FunctionType) -> bool:
        before = function.__code__
        if id(before) in self._originals or not file.is_lazy:  # it has sites already
            return True
        code = self._ours.get((file.path, place, id(before))) or file.code_at(place)
        if code is None or not is_same_function(code, before):
            return False
        self._journal(file.path, code, before)
        function.__code__ = code
        return True

    def _open_makers(self, file: InstrumentedFile, place: CodeKey, live: _Live) -> int:
        """Gives functions that make the opened one again, each time they run, its code as a constant."""
        made = 0
        for function in live.of(file.path):
            before = function.__code__
            if id(before) in self._originals or place == place_of(before):
                made += place in codes_by_place(before)  # its inner functions have sites already
                continue
            changed = self._with_inner(file, before, place)
            if changed is not None:
                self._journal(file.path, changed, before)
                function.__code__ = changed
                made += 1
        return made

    def _with_inner(self, file: InstrumentedFile, code: types.CodeType, place: CodeKey) -> types.CodeType | None:
        """The same code with the opened one in place of the one it makes; None if it makes no such."""
        constants, is_changed = list(code.co_consts), False
        for at, each in enumerate(constants):
            if not isinstance(each, types.CodeType):
                continue
            inner = self._inner(file, each, place)
            if inner is not None:
                constants[at], is_changed = inner, True
        return code.replace(co_consts=tuple(constants)) if is_changed else None

    def _inner(self, file: InstrumentedFile, code: types.CodeType, place: CodeKey) -> types.CodeType | None:
        if place_of(code) != place:
            return self._with_inner(file, code, place)
        if self._refusal(file, place, code) is not None:
            return None
        return self._ours.get((file.path, place, id(code))) or file.code_at(place)

    def _journal(self, path: str, ours: types.CodeType, original: types.CodeType) -> None:
        """Notes what our code and all code inside of it stands for."""
        if id(ours) in self._originals or ours is original:
            return
        self._originals[id(ours)] = (ours, original)
        self._ours[path, place_of(original), id(original)] = ours
        inner = codes_by_place(original)
        for place, each in codes_by_place(ours).items():
            before = inner.get(place)
            if each is not None and before is not None and each is not before:
                self._originals[id(each)] = (each, before)
                self._ours.setdefault((path, place, id(before)), each)

    # -- the way back

    def follow(self, path: str, function: types.FunctionType, before: types.CodeType) -> None:
        """Notes what the new code of an opened function stands for, which now has fewer or other sites."""
        original, code = self.original_of(before), function.__code__
        if original is None:
            return
        if self.original_of(code) not in (None, original):  # two functions of one place: each goes back to its own
            code = function.__code__ = code.replace()
        self._journal(path, code, original)

    def restore(self, functions: Functions) -> int:
        """Gives every function whose code is ours the code object that it had; the number of functions."""
        changed = 0
        for path in {path for path, _, _ in self._ours}:
            for function in functions.get(path, ()):
                known = self._originals.get(id(function.__code__))
                if known is not None:
                    function.__code__ = known[1]
                    changed += 1
        return changed

    def original_of(self, code: types.CodeType) -> types.CodeType | None:
        """The code object that stood where ours is; None if this is none of ours."""
        known = self._originals.get(id(code))
        return None if known is None else known[1]


class _Live:
    """Live functions by file and place: those that names hold, and after one walk over all objects the others."""

    def __init__(self) -> None:
        self._all: Functions | None = None
        self._near: dict[str, dict[CodeKey, list[types.FunctionType]]] = {}

    def at(self, path: str, place: CodeKey) -> list[types.FunctionType]:
        """The functions of one place; all objects are looked at only for one that no module or class holds."""
        if "<locals>" not in place[0] and self._all is None:
            if path not in self._near:
                self._near[path] = _by_place(functions_near(path))
            if self._near[path].get(place):
                return self._near[path][place]
        return _by_place(self.of(path)).get(place, [])

    def of(self, path: str) -> list[types.FunctionType]:
        """All live functions of a file."""
        if self._all is None:
            self._all = functions_by_file()
        return self._all.get(path, [])


def _by_place(functions: Iterable[types.FunctionType]) -> dict[CodeKey, list[types.FunctionType]]:
    found: dict[CodeKey, list[types.FunctionType]] = {}
    for function in functions:
        found.setdefault(place_of(function.__code__), []).append(function)
    return found


def _modules_by_path() -> dict[str, str]:
    """The loaded modules that came from source: their names by path."""
    return {path: name for name, path in _loaded_sources()}


def _loaded_sources() -> Iterator[tuple[str, str]]:
    yield from sources_of(list(sys.modules.items()))
    main = getattr(sys.modules.get("__main__"), "__dict__", {}).get("__file__")
    if isinstance(main, str):
        yield "__main__", main


def _protected(path: str, modules: Mapping[str, str]) -> No | None:
    """Why no function of a file is opened; None if they may be."""
    name = modules.get(path)
    if name is None:
        return No("no loaded module has this source file", Code.NO_SOURCE)
    if name.partition(".")[0] in PROTECTED_PACKAGES and name not in OPENED_MODULES:
        return No(f"{name} is a module that CodeDAG leaves alone", Code.PROTECTED)
    if is_of_autograph(path):
        return No("TensorFlow's AutoGraph has written this file", Code.OTHER_COMPILER)
    if is_standard_library(path):
        return No(f"{name} belongs to Python's standard library, which CodeDAG itself runs on", Code.PROTECTED)
    return None


def is_closed(path: str, modules: Mapping[str, str]) -> bool:
    """Whether no function of a file is ever opened."""
    return _protected(path, modules) is not None


def _package_of(path: str, modules: Mapping[str, str]) -> str:
    return modules.get(path, "").partition(".")[0] if is_installed(path) else ""


def _why_different(file: InstrumentedFile) -> No:
    if was_edited(file.path):
        return No("the source was edited after the module was loaded", Code.FILE_CHANGED)
    return No("the function does not run what its source compiles to", Code.CODE_DIFFERS)


def _is_compiled_by_torch(code: types.CodeType) -> bool:
    """Whether Dynamo has compiled this code object."""
    dynamo: Any = sys.modules.get("torch._C._dynamo.eval_frame")
    entries = getattr(dynamo, "_debug_get_cache_entry_list", None)
    found = attempt(entries, code) if entries is not None else []
    return not isinstance(found, Failed) and bool(found)
