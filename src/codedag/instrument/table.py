"""The facts about the sites of one file as columns: cheap to keep, to read again and to make sites of.

A package has tens of thousands of sites and a run looks at few of them, so a site made from a table carries a number
that finds its facts when somebody asks.
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Iterable
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from msgspec.structs import astuple

from codedag.instrument import sites as site_module
from codedag.instrument.sites import GETITEM, SETITEM, SiteInfo

try:
    from codedag.instrument import _bind
except ImportError:  # no C compiler where it was installed
    _bind = None  # type: ignore[assignment]

_SUBSCRIPTS = {GETITEM: operator.getitem, SETITEM: operator.setitem}


class Columns(NamedTuple):
    """Plain values that Python can write to a file; `_of` columns hold, for each site, a place in the next one."""

    what_of: bytes
    whats: tuple[tuple[int, str, bool], ...]  # kind, operator and whether its result is returned
    owner_of: bytes
    owners: tuple[str, ...]
    loops_of: bytes
    loops: tuple[tuple[int, ...], ...]
    places: bytes  # four numbers for each site


class SiteTable:
    """The facts about all sites of one file, in the order of their numbers."""

    def __init__(self, file: str, columns: Columns) -> None:
        self.file, self.columns = file, columns

    @classmethod
    def of(cls, file: str, infos: list[SiteInfo]) -> SiteTable:
        """The table of these sites."""
        whats, what_of = _numbered((info.kind, info.operator, info.returns) for info in infos)
        owners, owner_of = _numbered(info.owner for info in infos)
        loops, loops_of = _numbered(info.loops for info in infos)
        places = chain.from_iterable((i.line, i.column, i.end_line, i.end_column) for i in infos)
        packed = _packed(owner_of), owners, _packed(loops_of), loops, _packed(places)
        return cls(file, Columns(bytes(what_of), whats, *packed))

    def __len__(self) -> int:
        return len(self.columns.what_of)

    @cached_property
    def infos(self) -> list[SiteInfo]:
        """The facts, one object for each site."""
        c = self.columns
        places = _unpacked(c.places)
        found = zip(
            c.what_of, _unpacked(c.owner_of), _unpacked(c.loops_of),
            places[::4], places[1::4], places[2::4], places[3::4], strict=True,
        )  # fmt: skip
        return [
            SiteInfo(index, *c.whats[what][:2], self.file, *place, c.owners[w], c.loops[n], c.whats[what][2])  # type: ignore[call-arg]
            for index, (what, w, n, *place) in enumerate(found)
        ]

    def info(self, number: int) -> SiteInfo:
        """The facts about one site."""
        if "infos" in self.__dict__:
            return self.infos[number]
        known = self._asked.get(number)
        if known is None:
            c, (places, owner_of) = self.columns, self._numbers
            kind, name, returns = c.whats[c.what_of[number]]
            place: Any = places[4 * number : 4 * number + 4]
            owner, loops = c.owners[owner_of[number]], self.loops_at[number]
            known = SiteInfo(number, kind, name, self.file, *place, owner, loops, returns)  # type: ignore[call-arg]
            self._asked[number] = known
        return known

    @cached_property
    def _asked(self) -> dict[int, SiteInfo]:
        return {}

    @cached_property
    def _numbers(self) -> tuple[array[int], array[int]]:
        return _unpacked(self.columns.places), _unpacked(self.columns.owner_of)

    @cached_property
    def loops_at(self) -> list[tuple[int, ...]]:
        """The loops around each site, the outermost first."""
        return [self.columns.loops[number] for number in _unpacked(self.columns.loops_of)]

    @cached_property
    def _by_owner(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {owner: [] for owner in self.columns.owners}
        for index, number in enumerate(_unpacked(self.columns.owner_of)):
            found[self.columns.owners[number]].append(index)
        return found

    def owners(self) -> set[str]:
        """The functions that have sites."""
        return set(self.columns.owners)

    def indexes_of(self, owner: str) -> list[int]:
        """The numbers of the sites that stand directly in one function."""
        return self._by_owner.get(owner, [])

    def make_sites(self) -> list[Any]:
        """A new site, in mode PASS, for every row."""
        what_of, whats = self.columns[:2]
        kinds, returns = [kind for kind, _, _ in whats], [returns for _, _, returns in whats]
        functions = [getattr(operator, name) if name else _SUBSCRIPTS.get(kind) for kind, name, _ in whats]
        make = sites_in_python if _bind is None else _bind.sites
        return make(site_module.native.Site, self, what_of, kinds, functions, returns)


class Facts:
    """The facts about one site, found in its table when asked."""

    __slots__ = ("_number", "_table")

    def __init__(self, table: SiteTable, number: int) -> None:
        self._table, self._number = table, number

    @property
    def _row(self) -> SiteInfo:
        return self._table.info(self._number)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._row, name)

    def __eq__(self, other: object) -> bool:
        return self._row == (other._row if isinstance(other, Facts) else other)

    def __hash__(self) -> int:
        return hash(self._row)

    def __repr__(self) -> str:
        return repr(self._row)

    def __reduce__(self) -> tuple[Any, ...]:
        return SiteInfo, astuple(self._row)


def info_of(site: Any) -> SiteInfo:
    """The facts about a site, as an object of their own."""
    info = site.info
    return info if type(info) is SiteInfo else info._row  # facts found in a table say that they are a SiteInfo, too


def sites_in_python(
    site: Any, table: SiteTable, what_of: bytes, kinds: list[int], functions: list[Any], returns: list[bool]
) -> list[Any]:
    """What `_bind.sites` makes, where that was not built."""
    return [
        site(kinds[what], Facts(table, number), functions[what], returns[what]) for number, what in enumerate(what_of)
    ]


def _numbered(values: Iterable[Any]) -> tuple[tuple[Any, ...], list[int]]:
    numbers: dict[Any, int] = {}
    found = [numbers.setdefault(value, len(numbers)) for value in values]
    return tuple(numbers), found


def _packed(numbers: Iterable[int]) -> bytes:
    return array("I", numbers).tobytes()


def _unpacked(data: bytes) -> array[int]:
    numbers = array("I")
    numbers.frombytes(data)
    return numbers
