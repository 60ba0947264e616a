"""What a legal graph is: `check` says nothing or names the culprit."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import inf

from codedag.ir.adjacency import NOWHERE, kahn, one_cycle
from codedag.ir.errors import BadGraph
from codedag.ir.fields import EDGE_KINDS, OP_KINDS
from codedag.ir.graph import Graph, path_of

HINT = "See docs/files.md for the rules of a graph; trace again to get a legal one."


def check(graph: Graph) -> None:
    """Nothing if the graph is legal; otherwise raises BadGraph naming the op or edge that is not."""
    for rule in RULES:
        rule(graph)


def _ids(graph: Graph) -> None:
    index = graph.index
    for row, id_ in enumerate(graph.op_columns.id):
        if id_ < 0:
            raise BadGraph(f"ops[{row}].id: {id_} is below 0", hint=HINT)
        if index.row(id_) != row:
            raise BadGraph(f"ops[{row}].id: {id_} is also the id of {graph.op(id_).label}", hint=HINT)


def _kinds(graph: Graph) -> None:
    _known("ops", graph.op_columns.kind, OP_KINDS)
    _known("edges", graph.edge_columns.kind, EDGE_KINDS)


def _known(table: str, kinds: list[str], known: frozenset[str]) -> None:
    for kind in set(kinds) - known:
        at = kinds.index(kind)
        raise BadGraph(f"{table}[{at}].kind: `{kind}` is none of {', '.join(sorted(known))}", hint=HINT)


def _numbers(graph: Graph) -> None:
    ops = graph.op_columns
    _at_least("ops", "count", ops.count, 1)
    _at_least("ops", "line", ops.line, 0)
    _at_least("ops", "self_seconds", ops.self_seconds, 0)
    _at_least("ops", "total_seconds", ops.total_seconds, 0)
    _at_least("ops", "out_nbytes", ops.out_nbytes, 0)
    _at_least("ops", "site", ops.site, -1)
    _at_least("ops", "col", ops.col, -1)
    _at_least("edges", "nbytes", graph.edge_columns.nbytes, 0)


def _at_least(table: str, field: str, column: Sequence[float], least: int) -> None:
    for row, value in enumerate(column):
        if not least <= value < inf:  # also catches NaN, which no comparison accepts
            raise BadGraph(f"{table}[{row}].{field}: {value} is not a finite number >= {least}", hint=HINT)


def _ends(graph: Graph) -> None:
    sources, targets = graph.edge_rows()
    for at, (source, target) in enumerate(zip(sources, targets, strict=True)):
        if source == target:
            raise BadGraph(
                f"edges[{at}]: {graph.ops[source].label} depends on itself",
                hint="A dependence on an earlier iteration belongs in `carried`.",
            )
    for end in ("src", "dst"):
        _all_known(graph, f"carried[{{}}].{end}", getattr(graph.carried_columns, end))


def _all_known(graph: Graph, place: str, ids: Sequence[int]) -> None:
    index = graph.index
    for at, id_ in enumerate(ids):
        if index.row(id_) == NOWHERE:
            raise BadGraph(f"{place.format(at)}: there is no op {id_}", hint=HINT)


def _parents(graph: Graph) -> None:
    """Parents are ops of this graph and no op encloses itself, so that walking outwards ends."""
    index, children, parents = graph.index, array("q"), array("q")
    for row, id_ in enumerate(graph.op_columns.parent):
        if id_ != NOWHERE:
            if index.row(id_) == NOWHERE:
                raise BadGraph(f"ops[{row}].parent: there is no op {id_}", hint=HINT)
            children.append(row)
            parents.append(index.row(id_))
    order = kahn(len(graph), parents, children) if children else graph.op_columns.id
    if len(order) < len(graph):
        rows = one_cycle(len(graph), parents, children, order)
        raise BadGraph(f"parents form a cycle: {path_of(graph, rows)}", hint=HINT)


def _acyclic(graph: Graph) -> None:
    graph.topological_rows()


RULES = (_ids, _kinds, _numbers, _ends, _parents, _acyclic)
