"""The user's program under instrumentation: its files, their sites, and which code each function runs."""

from __future__ import annotations

import sys
import threading
import types
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codedag.instrument.cache import Cache
from codedag.instrument.codes import CodeKey, OwnCodes, codes_by_place, is_same_function, owner_of, place_of
from codedag.instrument.compiled import Compiled
from codedag.instrument.instrumented_file import DOUBLED, FULL, InstrumentedFile
from codedag.instrument.nearby import Functions, functions_by_file, functions_near, functions_of
from codedag.instrument.places import Places
from codedag.instrument.python import Plain, sources_of
from codedag.instrument.rewrite import CannotRewrite
from codedag.instrument.selection import FilterConfig
from codedag.instrument.sites import PASS, RECORD, VARIANT
from codedag.ir.sha256 import sha256
from codedag.ir.verdict import Code, No

if TYPE_CHECKING:
    from codedag.instrument.compiler_process import CompilerProcess
    from codedag.instrument.opening import Opened, Opening, Wanted

__all__ = ["InstrumentedFile", "Program", "Swap", "functions_of"]
#: Source bytes of a script above which it is loaded plain unless its doubled code is in the cache: doubling takes
#: 4 to 8 us a byte, and a program that may turn out to be short must not wait longer than 0.1 s for it.
DOUBLED_NBYTES_MAX = 20_000
_OTHER_SOURCE = "it was loaded again from another source"
_TOO_DEEP = "its expressions are nested too deeply to rewrite"
_NOT_SELECTED = "it was not selected"


@dataclass(slots=True)
class Swap:
    """One function whose code was replaced, and what it was."""

    function: types.FunctionType
    before: types.CodeType


class Program:
    """All instrumented files, and the journal of what was changed in them."""

    def __init__(self, roots: Iterable[Path], drill: Iterable[str] = (), selection: FilterConfig | None = None) -> None:
        self.where = Places([str(root.resolve()) for root in roots], drill)
        self.selection = selection or FilterConfig()
        self.files: dict[str, InstrumentedFile] = {}
        self.names: set[str] = set()
        self.left_plain: dict[str, str] = {}
        self.loads_with_sites = True
        # a plan that is applied as files are loaded
        self.prepare: Callable[[InstrumentedFile], set[int]] | None = None
        # changes that are made as files are loaded, while the rest of them is observed
        self.begin: Callable[[InstrumentedFile], None] | None = None
        self._planned: dict[str, dict[str, set[int]]] = {}
        self._settled: dict[str, set[str]] = {}
        self._retired: dict[str, set[int]] = {}
        self._left_over: dict[str, dict[CodeKey, types.CodeType | None]] = {}  # for functions that were not looked for
        self._before: dict[str, dict[CodeKey, types.CodeType | None]] = {}  # of modules that were loaded without us
        self._compiled = Compiled()
        self.cache = Cache()
        self._opening: Opening | None = None
        self._lock = threading.RLock()

    def terms(self) -> dict[str, Any]:
        """What another process needs to make the same of the same files."""
        return {"roots": self.where.roots, "drill": self.where.drill, "selection": astuple(self.selection)}

    @classmethod
    def of_terms(cls, terms: dict[str, Any]) -> Program:
        """A program on the same terms, in another process."""
        return cls([Path(root) for root in terms["roots"]], terms["drill"], FilterConfig(*terms["selection"]))

    # -- loading

    def wants(self, path: str, name: str = "") -> bool:
        """Whether a source file is observed: it is the user's own or of a named package, and the user selected it."""
        if not self.loads_with_sites or not self.where.hold(path, name):
            return False
        chosen = not name or self.selection.wants_module(name)
        if not chosen:
            self.left_plain[path] = _NOT_SELECTED
        return chosen

    def load(
        self, path: str, source: bytes, *, main: bool = False, plain: Plain | None = None, doubled_only: bool = False
    ) -> types.CodeType:
        """The code to execute for a source file: with sites, or plain with the reason noted.

        `plain` knows what Python's import does with it; without it the source is compiled, as Python does a script.
        With `doubled_only` loops can be switched while they run, but no site is made until `fill` or `open` asks.
        """
        why = _NOT_SELECTED if main and not self.selection.wants_module("__main__") else ""
        if doubled_only and not why:
            why = self._too_long_to_double(path, source)
        if path in self.files and self.files[path].source != source:
            why = _OTHER_SOURCE  # code of the one must never reach functions of the other
        if not self.loads_with_sites or why:
            return self._left(path, source, plain, why)
        try:
            file = InstrumentedFile(
                path, source, main=main, compiled=self._compiled, cache=self.cache, plain=plain,
                form=DOUBLED if doubled_only else FULL,
            )  # fmt: skip
        except (RecursionError, CannotRewrite) as error:
            too_deep = isinstance(error, RecursionError)
            return self._left(path, source, plain, _TOO_DEEP if too_deep else str(error))
        with self._lock:
            if path in self.files:  # it is loaded once more: functions of the first time may still be there
                file.own.take_in(self.files[path].own)
            self.files[path] = file
            self.names.add(path)
            if doubled_only:
                return file.full
            if self.prepare is not None:
                return self._prepared(file, self.prepare(file))
            self._observe(file)
            if self.begin is not None:
                self.begin(file)
        return file.full

    def _too_long_to_double(self, path: str, source: bytes) -> str:
        if len(source) <= DOUBLED_NBYTES_MAX or self.cache.load(path, sha256(source).hexdigest(), DOUBLED):
            return ""
        return "doubling its loops would take long, and no earlier run has done it"

    def fresh_lock(self) -> None:
        """After a fork: another thread may have held the lock."""
        self._lock = threading.RLock()

    def _left(self, path: str, source: bytes, plain: Plain | None, why: str) -> types.CodeType:
        if why:
            self.left_plain[path] = why
        return plain.now() if plain else compile(source, path, "exec", dont_inherit=True)

    def attach(
        self, path: str, source: bytes, plain: Plain | None = None, functions: Functions | None = None
    ) -> list[Swap]:
        """Gives the functions of a module that is already loaded their code with sites; `restore` gives it back."""
        full = codes_by_place(self.load(path, source, plain=plain))
        with self._lock:
            swapped = _swap(path, full, functions)
            before = self._before.setdefault(path, {})
            for swap in swapped:
                self.files[path].own.add(swap.before)
                before.setdefault(place_of(swap.before), swap.before)
                for place, code in codes_by_place(swap.before).items():
                    before.setdefault(place, code)
            return swapped

    def attach_loaded(self) -> list[Swap]:
        """Gives the functions of named packages that are already loaded their code with sites."""
        loaded = [(name, m) for name, m in list(sys.modules.items()) if self.where.drills(name)]
        functions = functions_by_file() if loaded else {}
        swapped = []
        for name, path in sources_of(loaded):
            if path not in self.files and self.wants(path, name):
                try:
                    source = Path(path).read_bytes()
                    swapped += self.attach(path, source, Plain(path, source), functions)
                except (OSError, SyntaxError, ValueError) as error:
                    self.left_plain[path] = f"{type(error).__name__}: {error}"
        return swapped

    def _prepared(self, file: InstrumentedFile, keep: set[int]) -> types.CodeType:
        return file.only(keep) if keep else file.plain

    def _observe(self, file: InstrumentedFile) -> None:
        if self.selection.all_functions:
            for site in file.sites:
                site.mode = RECORD
            for switch in file.switches:
                switch.on = True
            return
        for owner in filter(self.selection.wants_function, file.owners()):
            for site in file.sites_of(owner):
                site.mode = RECORD
        self._set_switches(file)

    # -- opening: sites for single functions and loops of what is loaded

    @property
    def opening(self) -> Opening:
        """The functions that were opened while the program runs."""
        if self._opening is None:
            from codedag.instrument.opening import Opening

            self._opening = Opening(self)
        return self._opening

    def open(
        self, wanted: Wanted, compiler: CompilerProcess | None = None, mode: int = RECORD
    ) -> dict[tuple[str, str], Opened | No]:
        """Gives functions (file, qualified names) of loaded modules code with sites; others of the files stay plain.

        With a compiler process nothing is parsed here: the answer is No(NOT_READY) until it has answered; ask again.
        """
        with self._lock:
            return self.opening.open(wanted, compiler, mode)

    def fill(self, path: str, loop: int, mode: int = RECORD) -> list[int] | No:
        """Makes the sites of one loop of doubled code, which may be running, and switches it on; their numbers."""
        with self._lock:
            file = self.files.get(path)
            if file is None or file.form != DOUBLED:
                return No("the file was not loaded with doubled loops", Code.NO_SOURCE)
            if not 0 <= loop < len(file.entry.loop_lines) or not file.entry.loop_lines[loop][2]:
                return No("the body of this loop cannot be doubled", Code.NO_SITES)
            numbers = file.fill(loop)
            self.set_modes(file, numbers, mode)
            return numbers or No("nothing in the loop can carry a site", Code.NO_SITES)

    def set_modes(self, file: InstrumentedFile, numbers: Iterable[int], mode: int) -> None:
        """Sets the mode of sites that have no variant, and the switches of the loops around them."""
        with self._lock:
            for index in numbers:
                if file.sites[index].mode != VARIANT:
                    file.sites[index].mode = mode
            self._set_switches(file)

    def site(self, path: str, index: int) -> Any:
        """The site with this number in a file."""
        return self.files[path].sites[index]

    # -- settling: a function that was observed long enough gets the code it will run from now on

    def settle(self, path: str, owner: str) -> None:
        """Ends the observation of one function: its sites pass through until `install` gives it new code."""
        with self._lock:
            self._settled.setdefault(path, set()).add(owner)
            for site in self.files[path].sites_of(owner):
                if site.mode == RECORD:
                    site.mode = PASS
            self._set_switches(self.files[path])

    def rest(self, parts: Collection[tuple[str, str, int]]) -> None:
        """Ends observing functions (-1), or single loops of them: their sites pass through."""
        self._set_modes(parts, PASS)

    def lighten(self, parts: Collection[tuple[str, str, int]]) -> None:
        """Gives functions that rest and have no change their plain code; finding them takes some milliseconds."""
        self._swap_parts(parts, PASS)

    def wake(
        self, parts: Collection[tuple[str, str, int]], light: Collection[tuple[str, str, int]] | None = None
    ) -> None:
        """Observes functions and loops again that were put to rest; those of `light` run plain code (None: any may)."""
        self._set_modes(parts, RECORD)
        self._swap_parts(parts if light is None else light, RECORD)

    def _set_modes(self, parts: Collection[tuple[str, str, int]], mode: int) -> None:
        with self._lock:
            for path, owner, loop in parts:
                for site in self.files[path].sites_in(owner, loop):
                    if site.mode != VARIANT:
                        site.mode = mode
            for path in {path for path, _, _ in parts}:
                self._set_switches(self.files[path])

    def _swap_parts(self, parts: Collection[tuple[str, str, int]], mode: int) -> None:
        with self._lock:
            whole: defaultdict[str, set[str]] = defaultdict(set)
            for path, owner, loop in parts:
                if loop < 0 and not (mode == PASS and self._planned.get(path, {}).get(owner)):
                    whole[path].add(owner)
            live = functions_by_file() if whole else {}
            for path, owners in whole.items():
                file = self.files[path]
                codes = _codes_of(file.own.add(file.plain) if mode == PASS else file.full, owners)
                for place in codes:
                    self._left_over.get(path, {}).pop(place, None)
                self._follow(file, _swap(path, codes, live, file.own))

    def plan(self, path: str, owner: str, variants: dict[int, Any]) -> None:
        """Gives sites of one function their variants (None takes a variant away)."""
        with self._lock:
            kept = self._planned.setdefault(path, {}).setdefault(owner, set())
            for index, variant in variants.items():
                site = self.files[path].sites[index]
                site.variant = variant
                site.mode = VARIANT if variant is not None else PASS
                self._retired.get(path, set()).discard(index)
                (kept.add if variant is not None else kept.discard)(index)
            self._set_switches(self.files[path])

    def retire(self, path: str, owner: str, indexes: Iterable[int]) -> None:
        """Takes variants out of use: functions get lean code without them, loops leave them at their next turn.

        The sites keep them, so that a call that is under way in a running frame ends as it began.
        """
        with self._lock:
            self._planned.get(path, {}).get(owner, set()).difference_update(indexes)
            self._retired.setdefault(path, set()).update(indexes)
            self._set_switches(self.files[path])
            self.install(path, [owner])

    def _set_switches(self, file: InstrumentedFile) -> None:
        """A loop runs its body with sites while one of them is recorded or has a variant that is in use."""
        retired = self._retired.get(file.path, ())
        busy: set[int] = set()
        loops_at = file.table.loops_at
        for index, site in file.made_sites():
            if loops_at[index] and site.mode != PASS and index not in retired:
                busy.update(loops_at[index])
        for loop, switch in enumerate(file.switches):
            switch.on = loop in busy and (file.form == FULL or loop in file.filled)

    def install(self, path: str, owners: Collection[str] | None = None, *, near: bool = False) -> list[Swap]:
        """Gives settled functions their lean code: plain, or with only their planned sites.

        With `near`, functions that only values hold keep the code with all sites, which does the same, until `reach`.
        """
        file = self.files[path]
        if owners is not None and file.defined.isdisjoint(owners):
            return []  # what runs at the top of a module is never called again
        while True:
            chosen, keep = self._chosen(path, owners)
            # takes long in a large file, unless it was asked for ahead: nobody may wait for it
            code = file.only(keep) if keep or file.is_lazy else file.own.add(file.plain)
            with self._lock:
                if self._chosen(path, owners) == (chosen, keep):
                    codes, left = _codes_of(code, chosen), self._left_over.setdefault(path, {})
                    for place in codes:
                        left.pop(place, None)
                    if near:
                        left.update(codes)
                    live = {path: functions_near(path)} if near else None
                    return self._follow(file, _swap(path, codes, live, file.own))

    def lean_sites(self, path: str, owners: Collection[str]) -> set[int]:
        """The sites that stay in the lean code of these functions."""
        return self._chosen(path, owners)[1]

    def reach(self) -> int:
        """Gives functions that only values hold the code that others of their file got; how many were found."""
        with self._lock:
            waiting, self._left_over = {path: codes for path, codes in self._left_over.items() if codes}, {}
            functions = functions_by_file() if waiting else {}
            files = [(self.files[path], codes) for path, codes in waiting.items()]
            return sum(len(self._follow(f, _swap(f.path, codes, functions, f.own))) for f, codes in files)

    def _follow(self, file: InstrumentedFile, swaps: list[Swap]) -> list[Swap]:
        if file.is_lazy:
            for swap in swaps:
                self.opening.follow(path=file.path, function=swap.function, before=swap.before)
        return swaps

    def has_left_over(self) -> bool:
        """Whether functions that only values hold may have other code than the rest of their file."""
        return any(self._left_over.values())

    def _chosen(self, path: str, owners: Collection[str] | None) -> tuple[set[str], set[int]]:
        """The functions that get lean code, and the sites that stay in it."""
        with self._lock:
            settled, planned = self._settled.get(path, set()), self._planned.get(path, {})
            chosen = set(settled if owners is None else owners)
            # functions make those inside of them once more, each time that they run
            chosen |= {outer for outer in settled if outer and any(each.startswith(f"{outer}.") for each in chosen)}
            inner = tuple(f"{owner}." for owner in chosen if owner)
            kept = [indexes for owner, indexes in planned.items() if owner in chosen or owner.startswith(inner)]
            return chosen, {index for indexes in kept for index in indexes}

    def original_of(self, code: types.CodeType) -> types.CodeType | None:
        """The code object that the program wrote, where one of ours is; None for any other."""
        opened = self._opening.original_of(code) if self._opening is not None else None
        file = self.files.get(code.co_filename)
        if file is None or (file.is_lazy and file.form != DOUBLED):
            return opened
        plain = codes_by_place(file.own.add(file.plain)).get(place_of(code))
        is_other = plain is not None and plain is not code and is_same_function(plain, code)
        return plain if is_other else opened

    def restore(self) -> int:
        """Puts the plain code back everywhere and takes every variant away; the number of functions changed."""
        with self._lock:
            changed = 0
            self._left_over.clear()
            functions = functions_by_file()
            for path, file in self.files.items():
                for _, site in file.made_sites():
                    site.mode, site.variant = PASS, None
                for switch in file.switches:
                    switch.on = False
                if functions.get(path) and not file.is_lazy:
                    plain = codes_by_place(file.own.add(file.plain)) | self._before.get(path, {})
                    changed += len(_swap(path, plain, functions, file.own))
            self.loads_with_sites = False
            return changed + (self._opening.restore(functions) if self._opening is not None else 0)


def _codes_of(code: types.CodeType, owners: Collection[str]) -> dict[CodeKey, types.CodeType | None]:
    """The code objects of these functions inside the code of a module."""
    return {key: each for key, each in codes_by_place(code).items() if owner_of(key[0]) in owners}


def _swap(
    path: str, codes: dict[CodeKey, types.CodeType | None], functions: Functions | None, own: OwnCodes | None = None
) -> list[Swap]:
    """Gives functions other code of the same place; with `own`, not to one that the program has given other code."""
    swapped = []
    for function in functions_of(path) if functions is None else functions.get(path, ()):
        before = function.__code__
        code = codes.get(place_of(before))
        fits = code is not None and code is not before and is_same_function(code, before)
        if code is not None and fits and (own is None or own.hold(before)):
            function.__code__ = code
            swapped.append(Swap(function, before))
    return swapped
