"""The facts about the sites of one file as columns: cheap to keep, to read again and to make sites of.

A package has tens of thousands of sites and a run looks at few of them, so a site made from a table carries a number
that finds its facts when somebody asks.
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import astuple
from functools import cached_property
from itertools import chain
from typing import Any

from codedag.instrument import sites as site_module
from codedag.instrument.sites import GETITEM, SETITEM, SiteInfo

_SHIFT = 32
_tables: list[SiteTable] = []
#: What `SiteTable.row` gives: plain values that Python can write to a file.
Columns = tuple[bytes, bytes, tuple[str, ...], bytes, bytes, tuple[str, ...], bytes, tuple[tuple[int, ...], ...]]


class SiteTable:
    """The facts about all sites of one file, in the order of their numbers."""

    def __init__(self, file: str, columns: Columns) -> None:
        self.file, self.columns = file, columns

    @classmethod
    def of(cls, file: str, infos: list[SiteInfo]) -> SiteTable:
        """The table of these sites."""
        kinds = bytes(info.kind for info in infos)
        operators, operator_of = _numbered(info.operator for info in infos)
        owners, owner_of = _numbered(info.owner for info in infos)
        loops, loops_of = _numbered(info.loops for info in infos)
        places = array("I", chain.from_iterable((i.line, i.column, i.end_line, i.end_column) for i in infos))
        columns = (kinds, bytes(operator_of), operators, places.tobytes(), _packed(owner_of), owners, _packed(loops_of))
        return cls(file, (*columns, loops))

    def __len__(self) -> int:
        return len(self.columns[0])

    @cached_property
    def infos(self) -> list[SiteInfo]:
        """The facts, one object for each site."""
        kinds, operator_of, operators, packed, owner_of, owners, loops_of, loops = self.columns
        places = _unpacked(packed)
        found = zip(
            kinds, operator_of, _unpacked(owner_of), _unpacked(loops_of),
            places[::4], places[1::4], places[2::4], places[3::4], strict=True,
        )  # fmt: skip
        return [
            SiteInfo(index, kind, operators[o], self.file, line, column, end_line, end_column, owners[w], loops[n])
            for index, (kind, o, w, n, line, column, end_line, end_column) in enumerate(found)
        ]

    def owners(self) -> set[str]:
        """The functions that have sites."""
        return set(self.columns[5])

    def indexes_of(self, owner: str) -> list[int]:
        """The numbers of the sites that stand directly in one function."""
        owner_of, owners = self.columns[4:6]
        if owner not in owners:
            return []
        wanted = owners.index(owner)
        return [index for index, number in enumerate(_unpacked(owner_of)) if number == wanted]

    def make_sites(self) -> list[Any]:
        """A new site, in mode PASS, for every row."""
        number = len(_tables) << _SHIFT
        _tables.append(self)
        native = site_module.native
        infos = map(Facts, range(number, number + len(self)))
        return list(map(native.Site, self.columns[0], infos, self._functions()))

    def _functions(self) -> Iterator[Any]:
        kinds, operator_of, operators = self.columns[:3]
        known = [getattr(operator, name) if name else None for name in operators]
        by_kind = {GETITEM: operator.getitem, SETITEM: operator.setitem}
        return (known[o] or by_kind.get(kind) for kind, o in zip(kinds, operator_of, strict=True))


class Facts(int):
    """The number of a site over all tables; it answers whatever the site's `SiteInfo` would."""

    __slots__ = ()

    @property
    def _row(self) -> SiteInfo:
        return _tables[self >> _SHIFT].infos[self & ((1 << _SHIFT) - 1)]

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


def _numbered(values: Iterable[Any]) -> tuple[tuple[Any, ...], list[int]]:
    numbers: dict[Any, int] = {}
    found = [numbers.setdefault(value, len(numbers)) for value in values]
    return tuple(numbers), found


def _packed(numbers: list[int]) -> bytes:
    return array("I", numbers).tobytes()


def _unpacked(data: bytes) -> array[int]:
    numbers = array("I")
    numbers.frombytes(data)
    return numbers
