"""graph.json, read and written piece by piece: a million ops never exist as a million objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from typing import Any, BinaryIO, Literal

import msgspec

from codedag.ir.fields import OpId
from codedag.ir.graph import BATCH, Edge, Graph, GraphBuilder, Op
from codedag.ir.reject import Unreadable, check_header, decode
from codedag.ir.stream import JsonStream


class CarriedRow(msgspec.Struct, frozen=True, gc=False):
    """A dependence from one iteration to a later one, as graph.json spells it."""

    src: OpId
    dst: OpId


class GraphFile(msgspec.Struct, frozen=True, kw_only=True):
    """graph.json: the ops of a program, the edges of one iteration, and what iterations carry over."""

    format: Literal["codedag/graph"] = "codedag/graph"
    version: Literal[1] = 1
    ops: list[Op]
    edges: list[Edge]
    carried: list[CarriedRow] = msgspec.field(default_factory=list)


_OPS = msgspec.json.Decoder(list[Op])
_EDGES = msgspec.json.Decoder(list[Edge])
_CARRIED = msgspec.json.Decoder(list[CarriedRow])
_ENCODER = msgspec.json.Encoder()


def read_graph(source: BinaryIO) -> Graph:
    """The graph in the file, its fields valid, not yet checked; raises Unreadable naming the field."""
    builder, stream, seen = GraphBuilder(), JsonStream(source), set[str]()
    tables: dict[str, tuple[msgspec.json.Decoder[Any], Callable[[Any], None]]] = {
        "ops": (_OPS, builder.add_ops),
        "edges": (_EDGES, builder.add_edges),
        "carried": (_CARRIED, builder.add_carried),
    }
    for key in stream.fields():
        if key in seen and key in tables:  # the second table would be appended to the first
            raise Unreadable("appears twice", field=key)
        seen.add(key)
        if key in tables:
            _read_table(stream, key, *tables[key])
        else:
            check_header("graph", key, stream.value())
    _need(("format", "version", "ops", "edges"), seen)
    return builder.graph()


def _need(keys: tuple[str, ...], seen: set[str]) -> None:
    for key in keys:
        if key not in seen:
            raise Unreadable("is missing", field=key)


def _read_table(stream: JsonStream, key: str, decoder: msgspec.json.Decoder[Any], add: Callable[[Any], None]) -> None:
    done = 0
    try:
        for batch in stream.batches():
            rows = _decode_rows(batch, decoder, key, done)
            add(rows)
            done += len(rows)
    except Unreadable as error:
        error.field = error.field or f"{key}[{done}]"
        raise


def _decode_rows(batch: bytes, decoder: msgspec.json.Decoder[Any], key: str, done: int) -> list[Any]:
    try:
        rows: list[Any] = decoder.decode(b"[%b]" % batch)
    except (ValueError, RecursionError):
        _find_fault(batch, decoder, key, done)
        raise  # pragma: no cover - a batch whose items are all sound is sound
    return rows


def _find_fault(batch: bytes, decoder: msgspec.json.Decoder[Any], key: str, done: int) -> None:
    """Raises Unreadable naming the first bad item, by reading the batch again item by item."""
    row = msgspec.json.Decoder(decoder.type.__args__[0])
    for at, item in enumerate(JsonStream(BytesIO(b"[%b]" % batch)).items()):
        decode(item, row, f"{key}[{done + at}]")


def graph_bytes(graph: Graph) -> Iterator[bytes]:
    """The file in pieces, one row per line; raises Unreadable naming a field that no reader accepts."""
    yield b'{"format":"codedag/graph","version":1,\n"ops":['
    yield from _table_bytes("ops", graph.ops, _OPS)
    yield b'],\n"edges":['
    yield from _table_bytes("edges", graph.edges, _EDGES)
    yield b'],\n"carried":['
    yield from _table_bytes("carried", [CarriedRow(*pair) for pair in graph.carried], _CARRIED)
    yield b"]}"


def _table_bytes(key: str, rows: Sequence[Any], decoder: msgspec.json.Decoder[Any]) -> Iterator[bytes]:
    for start in range(0, len(rows), BATCH):
        batch = b",\n".join(map(_ENCODER.encode, rows[start : start + BATCH]))
        _decode_rows(batch, decoder, key, start)  # what we could not read again is never written
        yield (b",\n" if start else b"\n") + batch
