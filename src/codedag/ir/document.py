"""The files that are one object (all but graph.json): read whole, written whole, always readable again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import isfinite
from typing import Any, BinaryIO

import msgspec

from codedag.ir.columns import writable
from codedag.ir.costs import CostTable
from codedag.ir.events import Events
from codedag.ir.machine import Machine
from codedag.ir.plan import Plan
from codedag.ir.reject import INCOMPLETE, NOT_OURS, Unreadable, check_header, decode, joined
from codedag.ir.report import Report
from codedag.ir.run import RunInfo

Document = RunInfo | CostTable | Machine | Plan | Report | Events

DOCUMENTS: dict[str, type[Document]] = {
    "run": RunInfo,
    "costs": CostTable,
    "machine": Machine,
    "plan": Plan,
    "report": Report,
    "events": Events,
}

# Below this a file is indented for people; above it nobody reads it and the spaces would only cost.
INDENTED_NBYTES = 1 << 20


class _Header(msgspec.Struct, frozen=True):
    """The two fields that every file has; read first, because they say how to read the rest."""

    format: msgspec.Raw
    version: msgspec.Raw


_HEADER = msgspec.json.Decoder(_Header)
_ENCODER = msgspec.json.Encoder()


def read_document(source: BinaryIO, kind: str) -> Document:
    """The object that the file holds; raises Unreadable naming the field."""
    raw = source.read()
    start = raw[:64].lstrip(b" \t\r\n")[:8] or raw.strip()[:8]
    if not start:
        raise Unreadable("is empty", hint=INCOMPLETE)
    if not start.startswith(b"{"):
        raise Unreadable(f"is not a JSON object (it starts with {start!r})", hint=NOT_OURS)
    header = decode(raw, _HEADER)
    check_header(kind, "format", bytes(header.format))
    check_header(kind, "version", bytes(header.version))
    return decode(raw, _decoder(kind))


@cache
def _decoder(kind: str) -> msgspec.json.Decoder[Document]:
    return msgspec.json.Decoder(DOCUMENTS[kind])


def document_bytes(document: Document) -> bytes:
    """The file of this object; raises Unreadable naming a field that would not read back as it is."""
    raw = _encode(document)
    if decode(raw, _decoder(document.format.removeprefix("codedag/"))) != document:
        _refuse_non_finite(document)
    read_by_people = len(raw) <= INDENTED_NBYTES and not isinstance(document, Events)
    return msgspec.json.format(raw, indent=2) if read_by_people else raw


def _encode(document: Document) -> bytes:
    try:
        return _ENCODER.encode(document)
    except UnicodeEncodeError:
        # A file name or argument that is not UTF-8 must not cost the user the file: it is written escaped.
        return _ENCODER.encode(_all_writable(msgspec.to_builtins(document)))
    except (TypeError, OverflowError) as error:
        raise Unreadable(str(error)) from error


def _all_writable(value: Any) -> Any:
    if isinstance(value, str):
        return writable(value)
    if isinstance(value, list):
        return [_all_writable(part) for part in value]
    if isinstance(value, dict):
        return {_all_writable(key): _all_writable(part) for key, part in value.items()}
    return value


def _refuse_non_finite(document: Document) -> None:
    """Raises if a NaN or infinity became `null`: an optional field would then silently say "unknown"."""
    for field, value in _numbers(document, ""):
        if not isfinite(value):
            raise Unreadable(f"{value} is not a number that JSON allows", field=joined("", field))


def _numbers(value: Any, field: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, float):
        yield field, value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _numbers(getattr(value, name), f"{field}.{name}")
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield from _numbers(part, f"{field}[{at}]")
