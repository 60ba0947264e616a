"""Columns of rows: one array or one list of shared strings per field, so that a million rows stay small."""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from codedag.ir.errors import BadGraph


def ints() -> array[int]:
    """An empty column of 64-bit whole numbers."""
    return array("q")


def floats() -> array[float]:
    """An empty column of 64-bit floats."""
    return array("d")


class Texts(dict[str, str]):
    """The one shared copy of each text; what UTF-8 cannot hold (odd file names) is escaped on entry."""

    def __missing__(self, text: str) -> str:
        if not isinstance(text, str):
            raise TypeError(f"expected text, got {type(text).__name__}")
        return self.setdefault(text, writable(text))


def writable(text: str) -> str:
    """The text with lone surrogates spelled out, because no JSON file can hold them."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


@dataclass(slots=True)
class OpColumns:
    """The ops of a graph by field, in the order of `Op`; read them, never change them."""

    id: array[int] = field(default_factory=ints)
    name: list[str] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    file: list[str] = field(default_factory=list)
    line: array[int] = field(default_factory=ints)
    context: list[str] = field(default_factory=list)
    count: array[int] = field(default_factory=ints)
    self_seconds: array[float] = field(default_factory=floats)
    total_seconds: array[float] = field(default_factory=floats)
    out_nbytes: array[int] = field(default_factory=ints)
    parent: array[int] = field(default_factory=ints)
    in_sig: list[str] = field(default_factory=list)
    out_sig: list[str] = field(default_factory=list)
    effects: list[str] = field(default_factory=list)
    site: array[int] = field(default_factory=ints)
    col: array[int] = field(default_factory=ints)
    peak_nbytes: array[int] = field(default_factory=ints)


@dataclass(slots=True)
class EdgeColumns:
    """The edges of a graph by field, in the order of `Edge`; src and dst are op ids."""

    src: array[int] = field(default_factory=ints)
    dst: array[int] = field(default_factory=ints)
    kind: list[str] = field(default_factory=list)
    nbytes: array[int] = field(default_factory=ints)


@dataclass(slots=True)
class CarriedColumns:
    """The dependences from one iteration to a later one; src and dst are op ids."""

    src: array[int] = field(default_factory=ints)
    dst: array[int] = field(default_factory=ints)


Columns = OpColumns | EdgeColumns | CarriedColumns


_GETTERS: dict[type[Columns], list[tuple[str, attrgetter[Any]]]] = {
    kind: [(one.name, attrgetter(one.name)) for one in dataclasses.fields(kind)]
    for kind in (OpColumns, EdgeColumns, CarriedColumns)
}


def listed(columns: Columns) -> list[Any]:
    """The columns themselves, in field order."""
    return [get(columns) for _, get in _GETTERS[type(columns)]]


def extend(columns: Columns, rows: Sequence[object], texts: Texts) -> None:
    """Appends rows (anything with the fields as attributes), column by column: one pass in C per field."""
    for name, get in _GETTERS[type(columns)]:
        column = get(columns)
        values: Iterator[Any] = map(get, rows)
        try:
            column.extend(map(texts.__getitem__, values) if isinstance(column, list) else values)
        except (TypeError, OverflowError, AttributeError) as error:
            raise BadGraph(
                f"a row has no usable `{name}`: {error}",
                hint="Numbers must fit 64 bits and texts must be str; see docs/files.md.",
            ) from error
