"""The user's program under instrumentation: its files, their sites, and which code each function runs."""

from __future__ import annotations

import sys
import threading
import types
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import astuple, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codedag.instrument import sites as site_module
from codedag.instrument.cache import Cache, Entry
from codedag.instrument.codes import CodeKey, OwnCodes, codes_by_place, place_of
from codedag.instrument.compiled import Compiled, definitions
from codedag.instrument.nearby import Functions, functions_by_file, functions_near, functions_of
from codedag.instrument.places import Places
from codedag.instrument.python import Plain, sources_of, uncollected, warns
from codedag.instrument.rewrite import CannotRewrite, bind, parsed, rewrite
from codedag.instrument.selection import FilterConfig
from codedag.instrument.sites import PASS, RECORD, VARIANT, SiteInfo
from codedag.instrument.table import Columns, SiteTable
from codedag.ir.sha256 import sha256

if TYPE_CHECKING:
    from codedag.instrument.links import Link

_TOO_DEEP = "its expressions are nested too deeply to rewrite"
_NOT_SELECTED = "it was not selected"


class InstrumentedFile:
    """One source file: its plain code, its code with sites, and the objects that stand in the latter."""

    def __init__(
        self,
        path: str,
        source: bytes,
        *,
        main: bool,
        compiled: Compiled | None = None,
        cache: Cache | None = None,
        plain: Plain | None = None,
    ) -> None:
        self.path, self.source, self.main = path, source, main
        self.sha256 = sha256(source).hexdigest()
        self._plain = plain or Plain(path, source)
        entry = self._entry(compiled or Compiled(), cache, plain)
        with uncollected():
            self._take(entry)

    def _take(self, entry: Entry) -> None:
        # what other files add later must not change the numbers of sites
        self._compiled = Compiled(set(entry.read_after), entry.modules_after)
        self.table = SiteTable(self.path, Columns(*entry.columns))
        self.sites: list[Any] = self.table.make_sites()
        self.switches: list[Any] = [site_module.native.Switch() for _ in range(entry.loops)]
        self.own = OwnCodes()
        self.full = self._bound(entry.code)

    def _entry(self, compiled: Compiled, cache: Cache | None, plain: Plain | None) -> Entry:
        entry = cache.load(self.path, self.sha256) if cache else None
        if plain is None:  # a script: Python compiles it every time, and the user's own SyntaxError comes from here
            self.plain = compile(self.source, self.path, "exec", dont_inherit=True)
        elif plain.ask and (entry is None or entry.warns):
            self.plain = plain.now()
        if entry is None or not _fits(entry, compiled):
            entry = _rewritten(self.path, self.source, compiled)
            if cache:
                cache.store(self.path, self.sha256, entry)
        compiled.learn(entry.read_after, entry.modules_after)
        return entry

    def _bound(self, code: types.CodeType) -> types.CodeType:
        return self.own.add(bind(code, self.sites, self.switches))

    @cached_property
    def plain(self) -> types.CodeType:
        """The code as Python itself compiles it."""
        return self._plain.later()

    @property
    def infos(self) -> list[SiteInfo]:
        """The facts about the sites, in the order of their numbers."""
        return self.table.infos

    def only(self, keep: Collection[int]) -> types.CodeType:
        """The code with only these sites in it: what a planned function runs."""
        tree = parsed(self.source, self.path)
        return self._bound(rewrite(tree, self.path, keep=keep, compiled=self._compiled.copy()).code)

    @cached_property
    def links(self) -> list[Link]:
        """The single-use links between sites that the source proves."""
        from codedag.instrument.links import links  # what is only planned with is loaded by the first plan
        from codedag.instrument.numbering import number

        tree = parsed(self.source, self.path)
        number(tree, self.path, self._compiled.copy())
        return links(tree, main=self.main)

    @cached_property
    def opened(self) -> list[Link]:
        """The links from what a `with` statement opens to the one thing that is done with it."""
        from codedag.instrument.links import opened
        from codedag.instrument.numbering import number

        tree = parsed(self.source, self.path)
        number(tree, self.path, self._compiled.copy())
        return opened(tree, main=self.main)

    @cached_property
    def defined(self) -> frozenset[str]:
        """The functions (by qualified name) that have code of their own, which can be replaced; the module has none."""
        return frozenset(owner_of(place[0]) for place in codes_by_place(self.full))

    def owners(self) -> set[str]:
        """The functions (by qualified name; "" is the module) that have sites."""
        return self.table.owners()

    def sites_of(self, owner: str) -> list[Any]:
        """The sites that stand directly in one function."""
        return [self.sites[index] for index in self.table.indexes_of(owner)]

    def sites_in(self, owner: str, loop: int) -> list[Any]:
        """The sites that stand directly in one function, or only those in one of its loops (-1: all)."""
        loops = self.table.loops_at
        return [self.sites[i] for i in self.table.indexes_of(owner) if loop < 0 or loop in loops[i]]


def _fits(entry: Entry, compiled: Compiled) -> bool:
    """Whether what other files say about definitions of this one is what it was when the entry was made."""
    return entry.read_before == compiled.names & entry.defined and entry.modules_before == compiled.modules


def _rewritten(path: str, source: bytes, compiled: Compiled) -> Entry:
    tree = parsed(source, path)
    defined = definitions(tree)
    before, modules = frozenset(compiled.names & defined), compiled.modules
    own = Compiled(set(before), modules)
    rewritten = rewrite(tree, path, compiled=own)
    columns = tuple(SiteTable.of(path, rewritten.sites).columns)
    return Entry(
        rewritten.code, columns, rewritten.loops, defined, before, modules, frozenset(own.names), own.modules,
        warns(path, source),
    )  # fmt: skip


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
        self._cache = Cache()
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

    def load(self, path: str, source: bytes, *, main: bool = False, plain: Plain | None = None) -> types.CodeType:
        """The code to execute for a source file: with sites, or plain with the reason noted.

        `plain` knows what Python's import does with it; without it the source is compiled, as Python does a script.
        """
        why = _NOT_SELECTED if main and not self.selection.wants_module("__main__") else ""
        if not self.loads_with_sites or why:
            return self._left(path, source, plain, why)
        try:
            file = InstrumentedFile(path, source, main=main, compiled=self._compiled, cache=self._cache, plain=plain)
        except (RecursionError, CannotRewrite) as error:
            too_deep = isinstance(error, RecursionError)
            return self._left(path, source, plain, _TOO_DEEP if too_deep else str(error))
        with self._lock:
            if path in self.files:  # it is loaded once more: functions of the first time may still be there
                file.own.take_in(self.files[path].own)
            self.files[path] = file
            self.names.add(path)
            if self.prepare is not None:
                return self._prepared(file, self.prepare(file))
            self._observe(file)
            if self.begin is not None:
                self.begin(file)
        return file.full

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
        """Gives functions that rest their plain code; finding them takes some milliseconds."""
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
                if loop < 0:
                    whole[path].add(owner)
            live = functions_by_file() if whole else {}
            for path, owners in whole.items():
                file = self.files[path]
                codes = _codes_of(file.own.add(file.plain) if mode == PASS else file.full, owners)
                for place in codes:
                    self._left_over.get(path, {}).pop(place, None)
                _swap(path, codes, live, file.own)

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
        for index, loops in enumerate(file.table.loops_at):
            if loops and file.sites[index].mode != PASS and index not in retired:
                busy.update(loops)
        for loop, switch in enumerate(file.switches):
            switch.on = loop in busy

    def install(self, path: str, owners: Collection[str] | None = None, *, near: bool = False) -> list[Swap]:
        """Gives settled functions their lean code: plain, or with only their planned sites.

        With `near`, functions that only values hold keep the code with all sites, which does the same, until `reach`.
        """
        file = self.files[path]
        if owners is not None and file.defined.isdisjoint(owners):
            return []  # what runs at the top of a module is never called again
        while True:
            chosen, keep = self._chosen(path, owners)
            code = (
                file.only(keep) if keep else file.own.add(file.plain)
            )  # takes long in a large file: nobody may wait for it
            with self._lock:
                if self._chosen(path, owners) == (chosen, keep):
                    codes, left = _codes_of(code, chosen), self._left_over.setdefault(path, {})
                    for place in codes:
                        left.pop(place, None)
                    if near:
                        left.update(codes)
                    return _swap(path, codes, {path: functions_near(path)} if near else None, file.own)

    def reach(self) -> int:
        """Gives functions that only values hold the code that others of their file got; how many were found."""
        with self._lock:
            waiting, self._left_over = {path: codes for path, codes in self._left_over.items() if codes}, {}
            functions = functions_by_file() if waiting else {}
            return sum(len(_swap(path, each, functions, self.files[path].own)) for path, each in waiting.items())

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

    def restore(self) -> int:
        """Puts the plain code back everywhere and takes every variant away; the number of functions changed."""
        with self._lock:
            changed = 0
            self._left_over.clear()
            functions = functions_by_file()
            for path, file in self.files.items():
                for site in file.sites:
                    site.mode, site.variant = PASS, None
                for switch in file.switches:
                    switch.on = False
                if functions.get(path):
                    plain = codes_by_place(file.own.add(file.plain)) | self._before.get(path, {})
                    changed += len(_swap(path, plain, functions, file.own))
            self.loads_with_sites = False
            return changed


def owner_of(qualname: str) -> str:
    """A qualified name as sites give it: without the marks of nested functions."""
    return qualname.replace(".<locals>", "")


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
        fits = code is not None and code is not before and _is_same_function(code, before)
        if code is not None and fits and (own is None or own.hold(before)):
            function.__code__ = code
            swapped.append(Swap(function, before))
    return swapped


def _is_same_function(code: types.CodeType, before: types.CodeType) -> bool:
    """Whether two codes of one place are of one function: ours that stand for a line of the user's are of none."""
    count = before.co_argcount + before.co_kwonlyargcount
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return code.co_freevars == before.co_freevars and names == before.co_varnames[:count]
