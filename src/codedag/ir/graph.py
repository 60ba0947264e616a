"""The graph that everything passes through: operations over values, stored as columns, seen as rows."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, starmap
from typing import Any, Generic, NamedTuple, TypeVar, overload

import msgspec

from codedag.ir.adjacency import NOWHERE, Adjacency, RowIndex, kahn, one_cycle
from codedag.ir.columns import CarriedColumns, EdgeColumns, OpColumns, Texts, extend, listed
from codedag.ir.errors import BadGraph
from codedag.ir.fields import Count, EdgeKind, Index, Line, NBytes, OpId, OpKind, Seconds

# Rows are turned into columns in batches, so that rows of a large graph never exist all at once.
BATCH = 10_000


class Op(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One operation of the program at one place of its source; seconds and nbytes are sums over `count`."""

    id: OpId
    name: str
    kind: OpKind
    file: str
    line: Line
    context: str
    count: Count
    self_seconds: Seconds
    total_seconds: Seconds
    out_nbytes: NBytes
    parent: Index = -1
    in_sig: str = ""
    out_sig: str = ""
    effects: str = "unknown"
    site: Index = -1
    col: Index = -1
    peak_nbytes: NBytes = 0

    @property
    def where(self) -> str:
        """The place in the user's source, as `file:line`."""
        return f"{self.file}:{self.line}"

    @property
    def label(self) -> str:
        """The operation as messages name it."""
        return f"op {self.id} {self.name} ({self.where})"


class Edge(msgspec.Struct, frozen=True, gc=False):
    """A dependence inside one iteration: `flow` carries a value of `nbytes`, `anti` is order only."""

    src: OpId
    dst: OpId
    kind: EdgeKind
    nbytes: NBytes


class Carried(NamedTuple):
    """A dependence from one iteration to a later one."""

    src: int
    dst: int


Row = TypeVar("Row", covariant=True)


class Rows(Sequence[Row], Generic[Row]):
    """A sequence of rows, each made when it is asked for."""

    __slots__ = ("_columns", "_make")

    def __init__(self, make: Callable[..., Row], columns: list[Any]) -> None:
        self._make = make
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns[0])

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> Rows[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | Rows[Row]:
        picked = [column[index] for column in self._columns]
        return Rows(self._make, picked) if isinstance(index, slice) else self._make(*picked)

    def __iter__(self) -> Iterator[Row]:
        return starmap(self._make, zip(*self._columns, strict=True))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Rows):
            return self._columns == other._columns
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} rows>"


class Graph:
    """Operations, the edges between them and the dependences that iterations carry; never changed after."""

    __slots__ = (
        "_arriving",
        "_edge_rows",
        "_index",
        "_leaving",
        "_order",
        "carried_columns",
        "edge_columns",
        "op_columns",
    )

    def __init__(self, ops: OpColumns, edges: EdgeColumns, carried: CarriedColumns) -> None:
        self.op_columns = ops
        self.edge_columns = edges
        self.carried_columns = carried
        self._index: RowIndex | None = None
        self._edge_rows: tuple[array[int], array[int]] | None = None
        self._leaving: Adjacency | None = None
        self._arriving: Adjacency | None = None
        self._order: array[int] | None = None

    @classmethod
    def build(cls, ops: Iterable[Op], edges: Iterable[Edge] = (), carried: Iterable[tuple[int, int]] = ()) -> Graph:
        """The graph of these rows, in this order; `check` says whether it is legal."""
        builder = GraphBuilder()
        for batch in _batches(ops):
            builder.add_ops(batch)
        for some in _batches(edges):
            builder.add_edges(some)
        builder.add_carried([Carried(*pair) for pair in carried])
        return builder.graph()

    def __len__(self) -> int:
        return len(self.op_columns.id)

    def __bool__(self) -> bool:
        """True, also for a graph without ops: `if graph` asks whether there is a graph."""
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        mine = (self.op_columns, self.edge_columns, self.carried_columns)
        return mine == (other.op_columns, other.edge_columns, other.carried_columns)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Graph of {len(self)} ops, {len(self.edges)} edges, {len(self.carried)} carried>"

    @property
    def ops(self) -> Rows[Op]:
        """The ops in file order."""
        return Rows(Op, listed(self.op_columns))

    @property
    def edges(self) -> Rows[Edge]:
        """The edges in file order."""
        return Rows(Edge, listed(self.edge_columns))

    @property
    def carried(self) -> Rows[Carried]:
        """The carried dependences in file order, as (src, dst) pairs."""
        return Rows(Carried, listed(self.carried_columns))

    @property
    def index(self) -> RowIndex:
        """The map from op ids to rows of the columns."""
        if self._index is None:
            self._index = RowIndex(self.op_columns.id)
        return self._index

    def row(self, id_: int) -> int:
        """The row of this op in the columns; raises BadGraph if there is none."""
        row = self.index.row(id_)
        if row == NOWHERE:
            hint = "Ids are those of graph.json; name@file:line, as `codedag view RUN` shows them, is understood too."
            raise BadGraph(f"there is no op {id_} in this graph", hint=hint)
        return row

    def op(self, id_: int) -> Op:
        """The op with this id; raises BadGraph if there is none."""
        return self.ops[self.row(id_)]

    def edge_rows(self) -> tuple[array[int], array[int]]:
        """The rows (not ids) of the sources and targets of all edges; raises BadGraph on an unknown id."""
        if self._edge_rows is None:
            sources, targets = self.index.rows(self.edge_columns.src), self.index.rows(self.edge_columns.dst)
            _refuse_unknown("edges", "src", sources, self.edge_columns.src)
            _refuse_unknown("edges", "dst", targets, self.edge_columns.dst)
            self._edge_rows = sources, targets
        return self._edge_rows

    def edges_from(self, id_: int) -> list[Edge]:
        """The edges that leave this op, in file order."""
        if self._leaving is None:
            self._leaving = Adjacency(len(self), self.edge_rows()[0])
        edges = self.edges
        return [edges[at] for at in self._leaving.at(self.row(id_))]

    def edges_to(self, id_: int) -> list[Edge]:
        """The edges that arrive at this op, in file order."""
        if self._arriving is None:
            self._arriving = Adjacency(len(self), self.edge_rows()[1])
        edges = self.edges
        return [edges[at] for at in self._arriving.at(self.row(id_))]

    def successors(self, id_: int) -> tuple[int, ...]:
        """The ids of the ops that depend on this one, each once."""
        return tuple(dict.fromkeys(edge.dst for edge in self.edges_from(id_)))

    def predecessors(self, id_: int) -> tuple[int, ...]:
        """The ids of the ops that this one depends on, each once."""
        return tuple(dict.fromkeys(edge.src for edge in self.edges_to(id_)))

    def topological_rows(self) -> array[int]:
        """The rows of the ops in an order that respects all edges; raises BadGraph naming a cycle."""
        if self._order is None:
            order = kahn(len(self), *self.edge_rows())
            if len(order) < len(self):
                raise self._cycle(order)
            self._order = order
        return self._order

    def topological(self) -> array[int]:
        """The ids of the ops in an order that respects all edges; raises BadGraph naming a cycle."""
        ids = self.op_columns.id
        return array("q", [ids[row] for row in self.topological_rows()])

    def _cycle(self, order: array[int]) -> BadGraph:
        rows = one_cycle(len(self), *self.edge_rows(), order)
        return BadGraph(
            f"the edges form a cycle: {path_of(self, rows)}",
            hint="Dependences on a later iteration belong in `carried`, not in `edges`.",
        )


class GraphBuilder:
    """Collects rows into columns, batch by batch, and makes the graph of them."""

    def __init__(self) -> None:
        self.ops, self.edges, self.carried = OpColumns(), EdgeColumns(), CarriedColumns()
        self._texts = Texts()

    def add_ops(self, ops: Sequence[Op]) -> None:
        """Appends ops."""
        extend(self.ops, ops, self._texts)

    def add_edges(self, edges: Sequence[Edge]) -> None:
        """Appends edges."""
        extend(self.edges, edges, self._texts)

    def add_carried(self, carried: Sequence[object]) -> None:
        """Appends carried dependences (anything with src and dst)."""
        extend(self.carried, carried, self._texts)

    def graph(self) -> Graph:
        """The graph of all rows so far; the builder must not be used after it."""
        return Graph(self.ops, self.edges, self.carried)


def path_of(graph: Graph, rows: Sequence[int], most: int = 8) -> str:
    """A closed path as words, cut in the middle if it is long."""
    ops = graph.ops
    labels = [ops[row].label for row in rows[:most]]
    if len(rows) > most:
        labels.append(f"... {len(rows) - most} more")
    return " -> ".join([*labels, ops[rows[0]].label])


Some = TypeVar("Some")


def _batches(rows: Iterable[Some]) -> Iterator[list[Some]]:
    rest = iter(rows)
    while batch := list(islice(rest, BATCH)):
        yield batch


def _refuse_unknown(table: str, end: str, rows: array[int], ids: array[int]) -> None:
    if NOWHERE in rows:
        at = rows.index(NOWHERE)
        raise BadGraph(
            f"{table}[{at}].{end}: there is no op {ids[at]}",
            hint="Every edge must join two ops of the same graph; trace again to get a whole graph.",
        )
