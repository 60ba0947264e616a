"""Passes over the graph that find work which could be saved, and the graph without it.

The graph says what was pure and what flowed where; the source (`Written`) says what is read and what is written alike.
Nothing is claimed that only one of them shows: arguments that are no data are not in the graph, and a value that was
not seen to be used may be used where no site stands.  What they find is advice: nobody removes anything.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from codedag.ir import Edge, Graph, Op
from codedag.ir.fields import EdgeKind
from codedag.ir.findings import Finding, Written

Places = Mapping[tuple[str, int], Written]  # by file and number of the site
MOST_KEPT = 1 << 28  # bytes of a result that is worth keeping for the next time
SPREAD = 1 << 20  # more arguments than any call has
_PLAIN = re.compile(r"(?:u?int|float|complex|bool|bytes|str)\d*(?:\[[\d*,]*\])?")
_NUMBER = re.compile(r"(?:u?int|float|complex|bool)\d*")
_ELEMENTWISE = frozenset(f"operator.{name}" for name in ("add", "sub", "mul", "truediv"))
_TAUGHT = frozenset({"backward", "grad"})  # values of such programs may be kept for the way back


class Looked:
    """A graph beside its source: who is at which site, and what its operations do."""

    def __init__(self, graph: Graph, places: Places) -> None:
        self.graph, self.places = graph, places
        self.ops: dict[int, Op] = {}
        self.at: dict[tuple[str, int], list[Op]] = defaultdict(list)
        for op in graph.ops:
            self.ops[op.id] = op
            self.at[op.file, op.site].append(op)
        self.later = {src for src, _ in graph.carried}
        self._earlier: dict[int, set[int]] = defaultdict(set)
        for src, dst in graph.carried:
            self._earlier[dst].add(src)

    def written(self, op: Op) -> Written | None:
        """What the source proves about an operation, if it was looked at."""
        return self.places.get((op.file, op.site))

    def is_pure(self, op: Op) -> bool:
        """Whether an operation is known to do nothing but to give the same for the same."""
        fact = self.written(op)
        if op.kind not in ("call", "operator", "subscript") or _PLAIN.sub("", op.in_sig).strip(", "):
            return False  # code of the program may run inside it
        if op.kind == "call" and not op.in_sig and (fact is None or fact.fixed is None):
            return False
        return op.effects == "pure" or (fact is not None and _writes_nothing(op.effects, fact))

    def are_pure(self, file: str, sites: Iterable[int]) -> bool:
        """Whether all that was seen at these sites is pure; a site where nothing was seen may do anything."""
        return all(self.at.get((file, site)) and all(map(self.is_pure, self.at[file, site])) for site in sites)

    def given(self, op: Op, stands: Mapping[int, int]) -> tuple[list[tuple[int, EdgeKind, int]], set[int]]:
        """Where an operation's operands come from, in this iteration and in earlier ones."""
        now = sorted((stands.get(e.src, e.src), e.kind, e.nbytes) for e in self.graph.edges_to(op.id))
        return now, {stands.get(src, src) for src in self._earlier[op.id]}

    def may_be_written(self, op: Op) -> bool:
        """Whether anything that what it gives was handed to could have written into it, or into a view of it."""
        waiting, seen = [op.id], {op.id}
        while waiting:
            at = waiting.pop()
            if at in self.later:
                return True  # a later iteration has it
            for reader in (self.ops[id_] for id_ in self.graph.successors(at) if id_ not in seen):
                seen.add(reader.id)
                if reader.name != "print" and not self.is_pure(reader):
                    return True
                if not _is_fresh(reader):
                    waiting.append(reader.id)
        return False


def _is_fresh(op: Op) -> bool:
    """Whether what an operation gives shares no memory with its operands."""
    return op.kind == "operator" or op.name == "print" or bool(_NUMBER.fullmatch(op.out_sig))


def _writes_nothing(effects: str, fact: Written) -> bool:
    """Whether an operation that writes arguments if they are given was given none of them."""
    if not (effects.startswith("pure, writes ") and effects.endswith(" if given")):
        return False
    places = effects.removeprefix("pure, writes ").removesuffix(" if given").split(" or ")
    at = [int(place.removeprefix("argument ")) for place in places if place.startswith("argument ")]
    return not set(places) & set(fact.keywords) and fact.positional < min(at, default=SPREAD)


Pass = Callable[[Looked, Collection[int]], list[Finding]]


def unused(looked: Looked, taken: Collection[int] = ()) -> list[Finding]:
    """The pure operations whose results nothing reads, and those that only such operations read."""
    found: dict[int, Finding] = {}
    for op in sorted(looked.ops.values(), key=lambda one: -one.site):  # readers come before what they read
        fact = looked.written(op)
        if fact is None or op.id in taken or op.id in looked.later or not looked.is_pure(op):
            continue
        readers = looked.graph.successors(op.id)
        dropped = fact.unused and not readers
        if dropped or (fact.passes_on >= 0 and readers and all(_is_dropped(looked, op, r, found) for r in readers)):
            found[op.id] = Finding("unused", op.id, -1, op.self_seconds, op.out_nbytes)
    return list(found.values())


def _is_dropped(looked: Looked, op: Op, reader: int, found: Mapping[int, Finding]) -> bool:
    fact, other = looked.written(op), looked.ops[reader]
    return reader in found and fact is not None and (other.file, other.site) == (op.file, fact.passes_on)


def twice(looked: Looked, taken: Collection[int] = ()) -> list[Finding]:
    """The pure operations that compute what one before them has computed from the same operands."""
    stands: dict[int, int] = {}
    found = []
    for op in sorted(looked.ops.values(), key=lambda one: one.site):  # operands come before their readers
        fact = looked.written(op)
        if fact is None or not 0 <= fact.again < op.site or op.id in taken or not looked.is_pure(op):
            continue
        for before in looked.at[op.file, fact.again]:
            if before.id not in taken and _is_same(looked, before, op, fact.again, stands):
                stands[op.id] = stands.get(before.id, before.id)
                found.append(Finding("twice", op.id, stands[op.id], op.self_seconds, op.out_nbytes))
                break
    return found


def _is_same(looked: Looked, before: Op, op: Op, again: int, stands: Mapping[int, int]) -> bool:
    alike = ("name", "kind", "in_sig", "out_sig", "count", "parent", "context")
    if any(getattr(before, name) != getattr(op, name) for name in alike) or not looked.is_pure(before):
        return False
    if not looked.are_pure(op.file, range(again + 1, op.site)):
        return False
    if looked.given(before, stands) != looked.given(op, stands):
        return False
    return not looked.may_be_written(before) and not looked.may_be_written(op)


def constant(looked: Looked, taken: Collection[int] = ()) -> list[Finding]:
    """The pure operations that are made of literals alone and ran more than once: once would do."""
    fixed: set[int] = set()
    found = []
    for op in sorted(looked.ops.values(), key=lambda one: one.site):
        fact = looked.written(op)
        if fact is None or fact.fixed is None or not looked.is_pure(op):
            continue
        parts = {one.id for site in fact.fixed for one in looked.at.get((op.file, site), ())}
        whole = all(looked.at.get((op.file, site)) for site in fact.fixed) and parts <= fixed
        if not whole or not set(looked.graph.predecessors(op.id)) <= parts:
            continue
        fixed.add(op.id)
        small = op.out_nbytes <= MOST_KEPT * op.count
        if op.count > 1 and small and op.id not in taken and not looked.may_be_written(op):
            found.append(Finding("constant", op.id, -1, op.self_seconds * (op.count - 1) / op.count, op.out_nbytes))
    return found


def in_place(looked: Looked, taken: Collection[int] = ()) -> list[Finding]:
    """The operators that could write over their first operand, which is a fresh array that nothing else reads."""
    if any(op.name.rpartition(".")[2] in _TAUGHT for op in looked.ops.values()):
        return []
    found = []
    for op in looked.ops.values():
        fact = looked.written(op)
        if fact is None or fact.feeds < 0 or op.kind != "operator" or not looked.is_pure(op) or op.id in looked.later:
            continue
        readers = [looked.ops[id_] for id_ in looked.graph.successors(op.id)]
        if len(readers) == 1 and (readers[0].file, readers[0].site) == (op.file, fact.feeds) and _fits(op, readers[0]):
            found.append(Finding("in place", readers[0].id, op.id, 0.0, readers[0].out_nbytes))
    return [one for one in found if one.op not in taken and one.other not in taken]


def _fits(op: Op, reader: Op) -> bool:
    same = op.out_sig == reader.out_sig and op.count == reader.count and "[" in op.out_sig and "]," not in op.out_sig
    return same and "*" not in op.out_sig and reader.effects == "pure" and reader.name in _ELEMENTWISE


#: In this order: what is unused is nobody's first computation, and no operation is found twice.
PASSES: tuple[Pass, ...] = (unused, twice, constant, in_place)


def findings(graph: Graph, places: Places, passes: Sequence[Pass] = PASSES) -> list[Finding]:
    """What the passes find, the most seconds first; each operation at most once."""
    found: dict[int, Finding] = {}
    if not places:
        return []
    looked = Looked(graph, places)
    for one in passes:
        found |= {each.op: each for each in one(looked, found)}
    return sorted(found.values(), key=lambda each: (-each.seconds, -each.nbytes, each.op))


def without(graph: Graph, found: Iterable[Finding]) -> Graph:
    """The graph as it would be: unused and repeated operations gone, constants computed once."""
    gone = {each.op: each.other for each in found if each.kind in ("unused", "twice")}
    once = {each.op for each in found if each.kind == "constant"}
    ops = [_once(op) if op.id in once else op for op in graph.ops if op.id not in gone]
    sizes: dict[tuple[int, int, str], Edge] = {}
    for edge in graph.edges:
        src = gone.get(edge.src, edge.src)
        if edge.dst not in gone and src >= 0:
            before = sizes.get((src, edge.dst, edge.kind))
            nbytes = edge.nbytes + (before.nbytes if before is not None else 0)
            sizes[src, edge.dst, edge.kind] = Edge(src, edge.dst, edge.kind, nbytes)
    carried = [(src, dst) for src, dst in graph.carried if src not in gone and dst not in gone]
    return Graph.build(ops, sizes.values(), carried)


def _once(op: Op) -> Op:
    share = 1 / op.count
    return msgspec.structs.replace(
        op, count=1, self_seconds=op.self_seconds * share, total_seconds=op.total_seconds * share,
        out_nbytes=op.out_nbytes // op.count,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Critical:
    """The longest chain of dependences within an iteration, and the seconds of everything; sums over all iterations."""

    ops: list[int]
    seconds: float
    total_seconds: float


def critical_path(graph: Graph) -> Critical:
    """The chain of operations that takes longest one after the other: more units cannot make an iteration shorter."""
    own, kinds, ids = graph.op_columns.self_seconds, graph.op_columns.kind, graph.op_columns.id
    cost = [0.0 if kind == "region" else seconds for kind, seconds in zip(kinds, own, strict=True)]
    sources, targets = graph.edge_rows()
    before: dict[int, list[int]] = defaultdict(list)
    for src, dst in zip(sources, targets, strict=True):
        before[dst].append(src)
    end, through = [0.0] * len(cost), [-1] * len(cost)
    for row in graph.topological_rows():
        through[row] = max(before[row], key=lambda one: end[one], default=-1)
        end[row] = cost[row] + (end[through[row]] if through[row] >= 0 else 0.0)
    row, path = max(range(len(end)), key=lambda one: end[one], default=-1), []
    longest = end[row] if row >= 0 else 0.0
    while row >= 0:
        path.append(ids[row])
        row = through[row]
    return Critical(path[::-1], longest, sum(cost))
