"""The effects column of a graph: what is known of an operation by its name and the kinds of values that it was given.

An operation stands for many calls, whose arguments are gone.  So an effect that depends on them is said with its
condition, and moves ask about each call themselves.
"""

from __future__ import annotations

import re
from dataclasses import replace

from codedag.backends.known import Effect, knowledge
from codedag.backends.known_table import Row
from codedag.ir.graph import Graph, Op

UNKNOWN = "unknown"
_PLAIN = re.compile(r"(?:u?int|float|complex|bool|bytes|str)\d*(?:\[[\d*,]*\])?")
_INPLACE = frozenset(
    f"operator.{name}"
    for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor")
)
#: Of these, rows that look at the arguments may decline whatever they are given (`next`, `id`, `default_rng()`).
_BY_ARGUMENTS = ("builtins.", "random.", "numpy.random.", "copy.")
_WORDS = {
    Effect.PURE: "pure",
    Effect.READS: "reads a file that an argument names",
    Effect.DRAWS: "draws from a generator",
    Effect.CLOCK: "reads state of the process",
}


def with_effects(graph: Graph) -> Graph:
    """The graph with its effects column filled from what is known; what was filled before stays."""
    known = _by_name(set(graph.op_columns.name))
    effects = [op.effects if op.effects != UNKNOWN else _effect(op, known) for op in graph.ops]
    return Graph(replace(graph.op_columns, effects=effects), graph.edge_columns, graph.carried_columns)


def _by_name(wanted: set[str]) -> dict[str, Row]:
    table = knowledge()
    methods = [row for rows in tuple(table.methods.values()) for _, row in tuple(rows.values())]
    found = {row.name: row for row in methods if row.name in wanted}
    functions = [pair for pair in list(table.functions.values()) if pair[1].name in wanted]
    return found | {row.name: table.complete(function, row) for function, row in functions}


def _effect(op: Op, known: dict[str, Row]) -> str:
    if op.kind in ("operator", "subscript"):
        return _operator(op)
    row = known.get(op.name)
    if op.kind != "call" or row is None or (row.declines is not None and row.name.startswith(_BY_ARGUMENTS)):
        return UNKNOWN
    if row.into_self:
        return "writes its object" if row.effect is Effect.PURE else f"{_WORDS[row.effect]}, writes its object"
    says = _WORDS.get(row.effect, UNKNOWN)
    if row.effect is Effect.PURE and not row.deterministic:
        return f"{says}, not the same each time"
    named = [place for place in row.outs or () if isinstance(place, str)]
    at = [f"argument {place + 1}" for place in row.outs or () if isinstance(place, int)]
    return f"{says}, writes {' or '.join(named + at)} if given" if named or at else says


def _operator(op: Op) -> str:
    """Operators are known where every operand is a number, a text or an array of such."""
    kinds = _PLAIN.findall(op.in_sig)
    if not kinds or _PLAIN.sub("", op.in_sig).strip(", "):
        return UNKNOWN
    if op.name == "operator.setitem" or (op.name in _INPLACE and "[" in kinds[0]):
        return "writes its first operand"
    return "pure"
