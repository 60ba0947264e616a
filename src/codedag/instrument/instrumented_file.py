"""One instrumented source file: its plain code, its code with sites, and the site and switch objects in the latter."""

from __future__ import annotations

import types
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from codedag.instrument import sites as site_module
from codedag.instrument.cache import Cache, Entry
from codedag.instrument.code_digest import digests_by_place
from codedag.instrument.codes import CodeKey, OwnCodes, codes_by_place, owner_of
from codedag.instrument.compiled import Compiled, definitions, left_alone
from codedag.instrument.python import Plain, compiled_quietly, uncollected
from codedag.instrument.rewrite import bind, bound_anew, parsed, rewrite
from codedag.instrument.sites import SiteInfo
from codedag.instrument.table import Columns, SiteTable
from codedag.ir.sha256 import sha256

if TYPE_CHECKING:
    from codedag.instrument.compiler_process import CompilerProcess, Ticket
    from codedag.instrument.links import Link

#: Forms of rewritten code: every site stands in it, or only loops are doubled and sites stand in one of their bodies.
FULL, DOUBLED = "full", "doubled"


class SiteList(list[Any]):
    """The sites of one file, each made when it is first asked for."""

    def __init__(self, table: SiteTable) -> None:
        super().__init__([None] * len(table))
        self._table = table

    def __getitem__(self, index: Any) -> Any:
        site = super().__getitem__(index)
        if site is None:
            site = self[index] = site_module.make(self._table.info(index))
        return site

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def made(self) -> list[tuple[int, Any]]:
        """The sites that were asked for, with their numbers."""
        return [(index, site) for index, site in enumerate(super().__iter__()) if site is not None]


class InstrumentedFile:
    """One source file: its plain code, its code with sites, and the objects that stand in the latter.

    With an `entry` nothing is parsed or compiled here, and sites are made when they are asked for.
    """

    def __init__(
        self,
        path: str,
        source: bytes,
        *,
        main: bool,
        compiled: Compiled | None = None,
        cache: Cache | None = None,
        plain: Plain | None = None,
        form: str = FULL,
        entry: Entry | None = None,
    ) -> None:
        self.path, self.source, self.main, self.form = path, source, main, form
        self.sha256 = sha256(source).hexdigest()
        self.filled: set[int] = set()  # the loops of doubled code that have their sites
        self.opened_from: Entry | None = None  # of a file with doubled loops: its code with all sites
        self._plain = plain or Plain(path, source)
        self._answers: dict[tuple[Any, ...], Ticket] = {}
        is_lazy = entry is not None or form == DOUBLED
        entry = entry or self._entry(compiled or Compiled(), cache, plain)
        with uncollected():
            self._take(entry, is_lazy)

    def _take(self, entry: Entry, is_lazy: bool) -> None:
        # what other files add later must not change the numbers of sites
        self.entry = entry
        self._compiled = Compiled(set(entry.read_after), entry.modules_after)
        self.table = SiteTable(self.path, Columns(*entry.columns))
        self.sites: list[Any] = SiteList(self.table) if is_lazy else self.table.make_sites()
        self.switches: list[Any] = [site_module.native.Switch() for _ in range(entry.loops)]
        self.own = OwnCodes()
        if not is_lazy or self.form == DOUBLED:
            self.full  # noqa: B018 - code that is run is bound at once

    def _entry(self, compiled: Compiled, cache: Cache | None, plain: Plain | None) -> Entry:
        entry = cache.load(self.path, self.sha256, self.form) if cache else None
        if entry is not None and not fits(entry, compiled):
            entry = None
        if plain is None:  # a script: Python compiles it every time, and the user's own SyntaxError comes from here
            if self.form == FULL or entry is None or entry.warns:
                self.plain = compile(self.source, self.path, "exec", dont_inherit=True)
        elif plain.ask and (entry is None or entry.warns):
            self.plain = plain.now()
        if entry is None:
            entry = rewritten(self.path, self.source, compiled, self.form)
            if cache:
                cache.store(self.path, self.sha256, self.form, entry)
        compiled.learn(entry.read_after, entry.modules_after)
        return entry

    @cached_property
    def full(self) -> types.CodeType:
        """The code of this form, bound: with all sites, or with switches and the sites that were filled in."""
        if self.form == DOUBLED and not can_fill_running_code():
            return self._bound(self.entry.code, list(self.sites))
        if self.form == DOUBLED:
            return self._bound(self.entry.code)
        if self.is_lazy:  # functions that are opened are made from the entry, whose code therefore stays as it is
            return self.own.add(bound_anew(self.entry.code, self.sites, self.switches))
        return self._bound(self.entry.code)

    @property
    def is_lazy(self) -> bool:
        """Whether functions run what they ran before, or doubled loops, but for those that were opened."""
        return isinstance(self.sites, SiteList)

    def _bound(self, code: types.CodeType, sites: list[Any] | None = None) -> types.CodeType:
        return self.own.add(bind(code, self.sites if sites is None else sites, self.switches))

    def made_sites(self) -> list[tuple[int, Any]]:
        """The sites that exist, with their numbers."""
        return self.sites.made() if isinstance(self.sites, SiteList) else list(enumerate(self.sites))

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
        ticket = self._answers.get(self._lean_request(keep))
        if ticket is not None and isinstance(ticket.answer, types.CodeType):
            return self.own.add(bound_anew(ticket.answer, self.sites, self.switches))
        tree = parsed(self.source, self.path)
        code = rewrite(tree, self.path, keep=keep, compiled=self._compiled.copy()).code
        return self.own.add(bound_anew(code, self.sites, self.switches)) if self.is_lazy else self._bound(code)

    @cached_property
    def links(self) -> list[Link]:
        """The single-use links between sites that the source proves."""
        return self._links("links")

    @cached_property
    def uses(self) -> dict[int, tuple[int, ...]]:
        """The sites that take the value of each site, where the source proves that nothing else reads it."""
        return dict(self._rows("uses"))

    @cached_property
    def called(self) -> dict[int, str]:
        """The last name of what each call calls, by number of its site."""
        from codedag.instrument.sites import CALL

        names = {place: name for *place_, name in self._rows("called") for place in [tuple(place_)]}
        places = ((i.index, (i.line, i.column, i.end_line, i.end_column)) for i in self.infos if i.kind == CALL)
        return {index: names[place] for index, place in places if place in names}

    @cached_property
    def opened(self) -> list[Link]:
        """The links from what a `with` statement opens to the one thing that is done with it."""
        return self._links("opened")

    def _links(self, kind: str) -> list[Link]:
        from codedag.instrument.links import Link

        return [Link(*row) for row in self._rows(kind)]

    def _rows(self, kind: str) -> tuple[Any, ...]:
        """What the compiler process has answered to a request, else what it would have."""
        from codedag.instrument import compiler_requests  # what is only planned with is loaded by the first plan

        ticket = self._answers.get(self._links_request(kind))
        rows = ticket.answer if ticket is not None else None
        if not isinstance(rows, tuple):
            rows = compiler_requests.links_in(self.source, self.path, self._compiled.copy(), self.main, kind)
        return rows

    # -- answers of the compiler process

    def ask_ahead(self, compiler: CompilerProcess, keep: Collection[int] | None = None) -> bool:
        """Whether `links`, `opened`, `uses`, `called` and (with `keep`) `only(keep)` need no more work here, else asks.

        An answer that is No counts as there: the work is done here, then, by who asks for the result.
        """
        wanted = [self._links_request(kind) for kind in ("links", "opened", "uses", "called")]
        wanted += [self._lean_request(keep)] if keep is not None else []
        for request in wanted:
            if request not in self._answers:
                self._answers[request] = compiler.ask(*request)
        return all(self._answers[request].is_answered for request in wanted)

    def _links_request(self, kind: str) -> tuple[Any, ...]:
        return kind, self.path, self.sha256, *self._names, self.main

    def _lean_request(self, keep: Collection[int]) -> tuple[Any, ...]:
        return "lean", self.path, self.sha256, *self._names, tuple(sorted(keep))

    @property
    def _names(self) -> tuple[tuple[str, ...], bool]:
        return tuple(sorted(self._compiled.names)), self._compiled.modules

    @cached_property
    def defined(self) -> frozenset[str]:
        """The functions (by qualified name) that have code of their own, which can be replaced; the module has none."""
        return frozenset(owner_of(place[0]) for place in self.entry.digests)

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

    # -- sites for parts of the file

    def code_at(self, place: CodeKey) -> types.CodeType | None:
        """New code with sites for the function of one place; None if there is none or two share the place."""
        template = self._templates.get(place)
        return None if template is None else self.own.add(bound_anew(template, self.sites, self.switches))

    @cached_property
    def _templates(self) -> dict[CodeKey, types.CodeType | None]:
        entry = self.entry if self.form == FULL else self.opened_from
        return {} if entry is None else codes_by_place(entry.code)

    def take_full(self, entry: Entry) -> bool:
        """Takes the code with all sites, from which functions of a file with doubled loops are opened."""
        if entry.columns != self.entry.columns:
            return False
        self.opened_from = entry
        return True

    def fill_loops_of(self, owner: str) -> None:
        """Fills all loops of a function and of those inside of it: a frame that runs may come to any of them."""
        inner = f"{owner}."
        owners = [each for each in self.owners() if each == owner or each.startswith(inner)]
        indexes = [index for each in owners for index in self.table.indexes_of(each)]
        for loop in {self.table.loops_at[index][0] for index in indexes if self.table.loops_at[index]}:
            self.fill(loop)

    def places_of(self, owner: str) -> list[CodeKey]:
        """Where functions of this qualified name are defined."""
        return [place for place in self.entry.digests if owner_of(place[0]) == owner]

    def loop_at(self, line: int) -> int:
        """The number of the innermost loop around a line; -1 if there is none."""
        around = [(first, n) for n, (first, last, _) in enumerate(self.entry.loop_lines) if first <= line <= last]
        return max(around, default=(0, -1))[1]

    def fill(self, loop: int) -> list[int]:
        """Makes the sites of one loop of doubled code and puts them in, also where that runs; gives their numbers."""
        numbers = [index for index, loops in enumerate(self.table.loops_at) if loop in loops]
        for index in numbers:
            self.sites[index]
        if can_fill_running_code():
            bind(self.full, self.sites, self.switches)
        inner = {each for index in numbers for each in _from(self.table.loops_at[index], loop)}
        self.filled |= inner
        return numbers


def _from(loops: Iterable[int], loop: int) -> list[int]:
    """A loop and those inside of it, of the loops around a site."""
    found = list(loops)
    return found[found.index(loop) :]


def can_fill_running_code() -> bool:
    """Whether code that is already running can be given sites: the interpreter reads constants through their tuple."""
    from codedag.instrument import rewrite as rewrite_module

    return rewrite_module._fill is not None


def fits(entry: Entry, compiled: Compiled) -> bool:
    """Whether what other files say about definitions of this one is what it was when the entry was made."""
    return entry.read_before == compiled.names & entry.defined and entry.modules_before == compiled.modules


def rewritten(path: str, source: bytes, compiled: Compiled, form: str = FULL) -> Entry:
    """The rewritten file in one of its forms."""
    tree = parsed(source, path)
    defined = definitions(tree)
    before, modules = frozenset(compiled.names & defined), compiled.modules
    own = Compiled(set(before), modules)
    made = rewrite(tree, path, compiled=own, doubled=form == DOUBLED)
    columns = tuple(SiteTable.of(path, made.sites).columns)
    plain, warns = compiled_quietly(path, source)
    return Entry(
        made.code, columns, made.loops, defined, before, modules, frozenset(own.names), own.modules,
        warns, digests_by_place(plain), left_alone(tree), made.loop_lines,
    )  # fmt: skip
