"""The user's program under instrumentation: its files, their sites, and which code each function runs."""

from __future__ import annotations

import ast
import gc
import hashlib
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from codedag.instrument import sites as site_module
from codedag.instrument.compiled import Compiled
from codedag.instrument.links import Link, links
from codedag.instrument.numbering import number
from codedag.instrument.rewrite import CannotRewrite, bind, rewrite
from codedag.instrument.sites import PASS, RECORD, VARIANT, SiteInfo, make

CodeKey = tuple[str, int, tuple[int, int]]


class InstrumentedFile:
    """One source file: its plain code, its code with sites, and the objects that stand in the latter."""

    def __init__(self, path: str, source: bytes, *, main: bool, compiled: Compiled | None = None) -> None:
        self.path, self.source, self.main = path, source, main
        self.sha256 = hashlib.sha256(source).hexdigest()
        # the user's own SyntaxError or warning comes from here
        self.plain = compile(source, path, "exec", dont_inherit=True)
        compiled = compiled or Compiled()
        rewritten = rewrite(ast.parse(source, path), path, compiled=compiled)
        self._compiled = compiled.copy()  # what other files add later must not change the numbers of sites
        self.infos: list[SiteInfo] = rewritten.sites
        self.sites: list[Any] = [make(info) for info in rewritten.sites]
        self.switches: list[Any] = [site_module.native.Switch() for _ in range(rewritten.loops)]
        self.full = self._bound(rewritten.code)

    def _bound(self, code: types.CodeType) -> types.CodeType:
        return bind(code, self.sites.__getitem__, self.switches.__getitem__)

    def only(self, keep: Collection[int]) -> types.CodeType:
        """The code with only these sites in it: what a planned function runs."""
        tree = ast.parse(self.source, self.path)
        return self._bound(rewrite(tree, self.path, keep=keep, compiled=self._compiled.copy()).code)

    @cached_property
    def links(self) -> list[Link]:
        """The single-use links between sites that the source proves."""
        tree = ast.parse(self.source, self.path)
        number(tree, self.path, self._compiled.copy())
        return links(tree, main=self.main)

    def owners(self) -> set[str]:
        """The functions (by qualified name; "" is the module) that have sites."""
        return {info.owner for info in self.infos}

    def sites_of(self, owner: str) -> list[Any]:
        """The sites that stand directly in one function."""
        return [self.sites[info.index] for info in self.infos if info.owner == owner]


def codes_by_place(code: types.CodeType) -> dict[CodeKey, types.CodeType | None]:
    """Nested code objects by where they were defined; None where two share a place and cannot be told apart."""
    found: dict[CodeKey, types.CodeType | None] = {}
    waiting = [code]
    while waiting:
        for constant in waiting.pop().co_consts:
            if isinstance(constant, types.CodeType):
                key = place_of(constant)
                found[key] = None if key in found and found[key] != constant else constant
                waiting.append(constant)
    return found


def place_of(code: types.CodeType) -> CodeKey:
    """Where a code object was defined: qualified name, line and, for those without a name of their own, first column.

    The first column is the leftmost place of any instruction: rewriting keeps places, not the order of instructions.
    """
    first = (0, 0)
    if code.co_name.startswith("<"):
        places = [
            (p[0], p[2]) for p in code.co_positions() if p[0] is not None and p[2] is not None and p[2:] != (0, 0)
        ]
        first = min(places, default=first)
    return code.co_qualname, code.co_firstlineno, first


@dataclass(slots=True)
class Swap:
    """One function whose code was replaced, and what it was."""

    function: types.FunctionType
    before: types.CodeType


class Program:
    """All instrumented files, and the journal of what was changed in them."""

    def __init__(self, roots: Iterable[Path]) -> None:
        self.roots = [str(root.resolve()) for root in roots]
        self.files: dict[str, InstrumentedFile] = {}
        self.names: set[str] = set()
        self.left_plain: dict[str, str] = {}
        self.loads_with_sites = True
        # a plan that is applied as files are loaded
        self.prepare: Callable[[InstrumentedFile], set[int]] | None = None
        self._planned: dict[str, dict[str, set[int]]] = {}
        self._settled: dict[str, set[str]] = {}
        self._retired: dict[str, set[int]] = {}
        self._before: dict[str, dict[CodeKey, types.CodeType | None]] = {}  # of modules that were loaded without us
        self._compiled = Compiled()
        self._lock = threading.RLock()

    def terms(self) -> dict[str, Any]:
        """What another process needs to make the same of the same files."""
        return {"roots": self.roots}

    @classmethod
    def of_terms(cls, terms: dict[str, Any]) -> Program:
        """A program on the same terms, in another process."""
        return cls([Path(root) for root in terms["roots"]])

    # -- loading

    def wants(self, path: str) -> bool:
        """Whether a source file is the user's own: below a root, and not installed."""
        full = str(Path(path).resolve())
        return any(full.startswith(root + "/") for root in self.roots) and not _is_installed(full)

    def load(self, path: str, source: bytes, *, main: bool = False) -> types.CodeType:
        """The code to execute for a source file: with sites, or plain with the reason noted."""
        if not self.loads_with_sites:
            return compile(source, path, "exec", dont_inherit=True)
        try:
            file = InstrumentedFile(path, source, main=main, compiled=self._compiled)
        except (RecursionError, CannotRewrite) as error:
            too_deep = isinstance(error, RecursionError)
            self.left_plain[path] = "its expressions are nested too deeply to rewrite" if too_deep else str(error)
            return compile(source, path, "exec", dont_inherit=True)
        with self._lock:
            self.files[path] = file
            self.names.add(path)
            if self.prepare is not None:
                return self._prepared(file, self.prepare(file))
            self._observe(file)
        return file.full

    def attach(self, path: str, source: bytes) -> list[Swap]:
        """Gives the functions of a module that is already loaded their code with sites; `restore` gives it back."""
        full = codes_by_place(self.load(path, source))
        with self._lock:
            swapped = _swap(path, full)
            before = self._before.setdefault(path, {})
            for swap in swapped:
                before.setdefault(place_of(swap.before), swap.before)
                for place, code in codes_by_place(swap.before).items():
                    before.setdefault(place, code)
            return swapped

    def _prepared(self, file: InstrumentedFile, keep: set[int]) -> types.CodeType:
        return file.only(keep) if keep else file.plain

    def _observe(self, file: InstrumentedFile) -> None:
        for site in file.sites:
            site.mode = RECORD
        for switch in file.switches:
            switch.on = True

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

    def plan(self, path: str, owner: str, variants: dict[int, Any]) -> None:
        """Gives sites of one function their variants (None takes a variant away)."""
        with self._lock:
            kept = self._planned.setdefault(path, {}).setdefault(owner, set())
            for index, variant in variants.items():
                site = self.files[path].sites[index]
                site.variant = variant
                site.mode = VARIANT if variant is not None else PASS
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
        pairs = zip(file.infos, file.sites, strict=True)
        busy = {loop for i, site in pairs if site.mode != PASS and i.index not in retired for loop in i.loops}
        for loop, switch in enumerate(file.switches):
            switch.on = loop in busy

    def install(self, path: str, owners: Collection[str] | None = None) -> list[Swap]:
        """Gives settled functions their lean code: plain, or with only their planned sites."""
        with self._lock:
            file = self.files[path]
            chosen = self._settled.get(path, set()) if owners is None else set(owners)
            keep = {index for owner in chosen for index in self._planned.get(path, {}).get(owner, ())}
            lean = codes_by_place(file.only(keep) if keep else file.plain)
            return _swap(path, {key: code for key, code in lean.items() if _owner_of(key[0]) in chosen})

    def restore(self) -> int:
        """Puts the plain code back everywhere and takes every variant away; the number of functions changed."""
        with self._lock:
            changed = 0
            for path, file in self.files.items():
                for site in file.sites:
                    site.mode, site.variant = PASS, None
                for switch in file.switches:
                    switch.on = False
                changed += len(_swap(path, codes_by_place(file.plain) | self._before.get(path, {})))
            self.loads_with_sites = False
            return changed


def _owner_of(qualname: str) -> str:
    return qualname.replace(".<locals>", "")


def _swap(path: str, codes: dict[CodeKey, types.CodeType | None]) -> list[Swap]:
    swapped = []
    for function in functions_of(path):
        before = function.__code__
        code = codes.get(place_of(before))
        if code is not None and code is not before and code.co_freevars == before.co_freevars:
            function.__code__ = code
            swapped.append(Swap(function, before))
    return swapped


def functions_of(path: str) -> list[types.FunctionType]:
    """Every live function whose code came from this file."""
    return [o for o in gc.get_objects() if type(o) is types.FunctionType and o.__code__.co_filename == path]


def _is_installed(path: str) -> bool:
    here = str(Path(__file__).resolve().parent.parent)
    places = {sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    if path.startswith(here + "/") or any(path.startswith(place + "/") for place in places):
        return True
    if sys.prefix != sys.base_prefix and path.startswith(str(Path(sys.prefix).resolve()) + "/"):
        return True
    return "/site-packages/" in path or "/dist-packages/" in path
