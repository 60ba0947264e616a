"""The recorder: sites tell it what went in and what came out; it folds instances into operations and edges.

An operation of the graph is a *template*: everything that happened at one chain of call sites with one signature.
Templates are ordered by the chain of sites along which they were reached, which is program order within one
iteration of everything; an edge against that order goes from one iteration to a later one and is `carried`.
"""

from __future__ import annotations

import os
import re
import threading
import types
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from codedag.instrument.sites import BINARY, GETITEM, INPLACE, ITERATE, SETITEM, UNARY, SiteInfo
from codedag.ir import CostRow, CostTable, Edge, Graph, Op
from codedag.trace.dataflow import (
    ARRAY,
    IGNORED,
    MAPPING,
    SCALAR,
    SEQUENCE,
    TENSOR,
    USER,
    Dataflow,
    Leaf,
    nbytes,
    signature,
)  # fmt: skip
from codedag.trace.names import Names

_CONTAINER_METHODS = frozenset({"append", "extend", "insert", "add", "update", "setdefault", "appendleft", "put"})
_NO_OBJECT = (type(None), types.ModuleType)  # what a plain function is bound to
_HOLDERS = (IGNORED, SEQUENCE, MAPPING, USER)
_DEEPEST_PATH = 64

OpKind = Literal["call", "operator", "subscript", "region", "source", "sink"]
EdgeKind = Literal["flow", "anti"]
_KINDS: dict[int, OpKind] = {
    BINARY: "operator", UNARY: "operator", INPLACE: "operator", GETITEM: "subscript", SETITEM: "subscript",
}  # fmt: skip
_MOST_SHAPES = 4  # signatures of one operation that are told apart; more are folded into one with open shapes


@dataclass(slots=True)
class Template:
    """One operation as it is being gathered."""

    number: int
    name: str
    kind: OpKind
    path: int
    site: Any
    in_sig: str
    out_sig: str = ""
    count: int = 0
    self_ns: int = 0
    total_ns: int = 0
    least_ns: int = 1 << 62
    most_ns: int = 0
    out_nbytes: int = 0

    def add(self, other: Template) -> None:
        """Takes in the counts of another template of the same operation."""
        self.count += other.count
        self.self_ns += other.self_ns
        self.total_ns += other.total_ns
        self.out_nbytes += other.out_nbytes
        self.least_ns, self.most_ns = min(self.least_ns, other.least_ns), max(self.most_ns, other.most_ns)


@dataclass(slots=True)
class _Path:
    """A chain of call sites: the parent chain and the site at its end."""

    parent: int
    site: Any
    order: tuple[tuple[int, int], ...]
    depth: int


@dataclass(slots=True)
class _Returned:
    """What user code handed back to a library call: its producers, with sizes, without the values."""

    flows: dict[int, int] = field(default_factory=dict)


class Recorder:
    """Gathers operations and edges; `on_operation` is told after each one (the pilot counts there)."""

    def __init__(self, user_files: set[str], on_operation: Callable[[Template], None] | None = None) -> None:
        self._user_files = user_files
        self.flow = Dataflow(user_files)
        self.names = Names()
        self.on_operation = on_operation
        self.templates: list[Template] = []
        self._by_key: dict[tuple[int, str, str], Template] = {}
        self._paths: list[_Path] = []
        self._path_numbers: dict[tuple[int, int], int] = {}
        self._shapes: dict[tuple[int, str, str], list[Template]] = {}
        self._ranks: dict[int, dict[tuple[str, str], int]] = {}
        self._edges: dict[tuple[int, int, EdgeKind], int] = {}
        self._frozen: set[int] = set()
        self._lock = threading.RLock()

    def freeze_around(self, file: str, owner: str) -> None:
        """Ends the counting of every operation that encloses this function, which is no longer recorded.

        Their own time could no longer be told from the time of what runs inside them.
        """
        with self._lock:
            for path in self._paths:
                if path.site.info.owner == owner and path.site.info.file == file:
                    parent = path.parent
                    while parent >= 0 and parent not in self._frozen:
                        self._frozen.add(parent)
                        parent = self._paths[parent].parent

    # -- asked by the sites

    def is_user(self, of: type) -> bool:
        """Whether a class was defined in the user's own files."""
        for name in ("__init__", "__call__", "forward"):
            code = getattr(getattr(of, name, None), "__code__", None)
            if code is not None and code.co_filename in self._user_files:
                return True
        return False

    def path(self, parent: int, site: Any) -> int:
        """The number of the chain of sites `parent` + `site`."""
        if parent >= 0 and self._paths[parent].depth >= _DEEPEST_PATH:
            return parent  # deep recursion folds into itself
        key = (parent, id(site))
        number = self._path_numbers.get(key)
        if number is None:
            with self._lock:
                before = self._paths[parent] if parent >= 0 else None
                order = (*(before.order if before else ()), (self._rank(parent, site.info), site.info.index))
                number = self._path_numbers[key] = len(self._paths)
                self._paths.append(_Path(parent, site, order, before.depth + 1 if before else 1))
        return number

    def _rank(self, parent: int, info: SiteInfo) -> int:
        """When this function first ran below that chain: callbacks of one library call have no order in the source."""
        seen = self._ranks.setdefault(parent, {})
        return seen.setdefault((info.file, info.owner), len(seen))

    def note(self, value: Any, before: Any) -> _Returned:
        """What user code returned to the library call that is running: its producers so far."""
        noted = before if before is not None else _Returned()
        leaves: list[Leaf] = []
        self.flow.leaves(value, leaves)
        for leaf in leaves:
            producer = self.flow.producer(leaf)
            if producer >= 0:
                noted.flows[producer] = noted.flows.get(producer, 0) + nbytes(leaf)
        return noted

    def region(
        self,
        path: int,
        site: Any,
        function: Any,
        args: Any,
        keywords: Any,
        result: Any,
        total: int,
        own: int,
        returned: Any,
    ) -> None:
        """A call of user code ended: a region, which carries time but no flow."""
        if path in self._frozen:
            return
        with self._lock:
            template = self._template(path, self.names.of(function), "region", site, "")
            self._count(template, total, own, [])

    def operation(
        self,
        path: int,
        site: Any,
        function: Any,
        args: Any,
        keywords: Any,
        result: Any,
        total: int,
        own: int,
        returned: Any,
    ) -> None:
        """A library call, operator or subscript ended: an operation with its flow."""
        inputs, outputs = self._inputs(function, args, keywords, result), self._leaves_of(result)
        if not inputs and returned is None and all(map(self.flow.known, outputs)):  # nothing moved, or handed through
            site.calls += 1
            site.nanoseconds += total
            return
        with self._lock:
            name = self.names.of(function, iterates=site.kind == ITERATE)
            in_sig = ",".join(signature(leaf) for leaf in inputs)
            template = self._template(path, name, _KINDS.get(site.kind, "call"), site, in_sig)
            if path in self._frozen and template.count:
                for leaf in outputs:
                    self.flow.made(leaf, template.number)
                return
            self._consume(template, inputs, returned)
            self._produce(template, function, args, keywords, result, inputs, outputs, returned is not None)
            self._count(template, total, own, outputs)
        if self.on_operation is not None:
            self.on_operation(template)

    # -- flow

    def _leaves_of(self, value: Any) -> list[Leaf]:
        out: list[Leaf] = []
        self.flow.leaves(value, out)
        return out

    def _inputs(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any], result: Any) -> list[Leaf]:
        own = getattr(function, "__self__", None)
        name = getattr(function, "__name__", "")
        if name in _CONTAINER_METHODS and type(own) not in _NO_OBJECT and self.flow.kind(own) in _HOLDERS:
            return []  # putting a value into a container moves no data
        if isinstance(function, type) and self.flow.kind(result) in _HOLDERS:
            return []  # a constructor that only stores what it is given
        found: list[Leaf] = []
        if own is not None and self.flow.kind(own) != IGNORED:
            self.flow.leaves(own, found, 1)
        for value in args:
            self.flow.leaves(value, found)
        for value in keywords.values():
            self.flow.leaves(value, found)
        seen: set[int] = set()
        return [leaf for leaf in found if not (id(leaf[0]) in seen or seen.add(id(leaf[0])))]  # type: ignore[func-returns-value]

    def _consume(self, template: Template, inputs: list[Leaf], returned: Any) -> None:
        for leaf in inputs:
            producer = self.flow.producer(leaf, reader=template.number)
            if producer < 0 and leaf[1] != SCALAR:
                producer = self._source(template, leaf)
            if producer >= 0:
                self._edge(producer, template.number, "flow", nbytes(leaf))
        if returned is not None:
            for producer, size in returned.flows.items():
                self._edge(producer, template.number, "flow", size)

    def _source(self, template: Template, leaf: Leaf) -> int:
        source = self._template(
            template.path, f"source:{type(leaf[0]).__name__}", "source", template.site, signature(leaf)
        )
        self._count(source, 0, 0, [leaf])
        self.flow.made(leaf, source.number)
        self.flow.producer(leaf, reader=template.number)
        return source.number

    def _produce(
        self, template: Template, function: Any, args: Any, keywords: Any, result: Any,
        inputs: list[Leaf], outputs: list[Leaf], called_back: bool,
    ) -> None:  # fmt: skip
        taken = {id(leaf[0]) for leaf in inputs}
        for leaf in self._written(function, args, keywords, result, inputs):
            for reader in self.flow.written(leaf, template.number):
                self._edge(reader, template.number, "anti", 0)
        for leaf in outputs:
            value, kind = leaf
            if value is result and id(value) in taken:
                for reader in self.flow.written(leaf, template.number):
                    self._edge(reader, template.number, "anti", 0)
            elif (value is not result or called_back) and self.flow.known(leaf):
                continue  # handed through unchanged
            else:
                if kind == TENSOR:
                    self.flow.shares(value, inputs)
                self.flow.made(leaf, template.number)
        if type(result) is float and inputs:
            self.flow.made((result, SCALAR), template.number)

    def _written(self, function: Any, args: Any, keywords: Any, result: Any, inputs: list[Leaf]) -> list[Leaf]:
        """Arguments whose buffer this call wrote: out=, dst=, an item set, or a method that returned nothing."""
        written: list[Leaf] = []
        for name in ("out", "dst"):
            if keywords.get(name) is not None:
                self.flow.leaves(keywords[name], written, 1)
        if result is None and inputs:
            own = getattr(function, "__self__", None)
            if getattr(function, "__name__", "") == "setitem":
                target = args[1]  # a site passes value, object, index
            else:
                target = own if self.flow.kind(own) in (ARRAY, TENSOR) else args[0] if args else None
            if self.flow.kind(target) in (ARRAY, TENSOR):
                written.append((target, self.flow.kind(target)))
        return written

    # -- gathering

    def _template(self, path: int, name: str, kind: OpKind, site: Any, in_sig: str) -> Template:
        template = self._by_key.get((path, name, in_sig))
        if template is not None:
            return template
        open_sig = _open_shapes(in_sig)
        shapes = self._shapes.setdefault((path, name, open_sig), [])
        if len(shapes) >= _MOST_SHAPES and open_sig != in_sig:
            in_sig = open_sig
            template = self._by_key.get((path, name, in_sig))
        if template is None:
            template = self._by_key[path, name, in_sig] = Template(len(self.templates), name, kind, path, site, in_sig)
            self.templates.append(template)
            shapes.append(template)
        return template

    def _folded(self) -> dict[int, Template]:
        """Each template's number with the template that stands for it: the open one, where there are many shapes."""
        stands = {template.number: template for template in self.templates}
        for shapes in self._shapes.values():
            if len(shapes) > _MOST_SHAPES:
                whole = replace(shapes[-1], out_sig=_open_shapes(shapes[-1].out_sig))
                for part in shapes[:-1]:
                    whole.add(part)
                stands |= {part.number: whole for part in shapes}
        return stands

    def _count(self, template: Template, total: int, own: int, outputs: list[Leaf]) -> None:
        template.count += 1
        template.self_ns += own
        template.total_ns += total
        template.least_ns = min(template.least_ns, own)
        template.most_ns = max(template.most_ns, own)
        template.out_nbytes += sum(nbytes(leaf) for leaf in outputs)
        if not template.out_sig:
            template.out_sig = ",".join(signature(leaf) for leaf in outputs)

    def _edge(self, src: int, dst: int, kind: EdgeKind, size: int) -> None:
        key = (src, dst, kind)
        self._edges[key] = self._edges.get(key, 0) + size

    # -- the graph

    def context(self, template: Template) -> str:
        """The chain of user functions plus the operation, without library frames."""
        owners: list[str] = []
        number = template.path
        while number >= 0:
            path = self._paths[number]
            owner = path.site.info.owner
            if owner and (not owners or owners[-1] != owner):
                owners.append(owner)
            number = path.parent
        return "/".join([*reversed(owners), template.name])

    def costs(self) -> CostTable:
        """What each operation cost as written: the sum over its calls, between its fastest and its slowest call."""
        rows = []
        for t in self._distinct(self._folded()):
            if t.kind not in ("region", "source"):
                low, high = t.least_ns * t.count / 1e9, t.most_ns * t.count / 1e9
                rows.append(
                    CostRow(
                        op=t.number,
                        pu="cpu",
                        variant="original",
                        seconds=t.self_ns / 1e9,
                        low=low,
                        high=high,
                        status="ok",
                    )
                )
        return CostTable(pus=["cpu"], rows=rows)

    def graph(self) -> Graph:
        """The graph so far: operations in program order, edges that respect it, and the carried rest."""
        with self._lock:
            stands = self._folded()
            templates = self._distinct(stands)
            rank = {t.number: self._order(t) for t in templates}
            sizes: Counter[tuple[int, int, EdgeKind]] = Counter()
            for (src, dst, kind), size in self._edges.items():
                sizes[stands[src].number, stands[dst].number, kind] += size
            flows = [Edge(s, d, kind, size) for (s, d, kind), size in sizes.items() if rank[s] < rank[d]]
            carried = {(s, d) for s, d, _ in sizes if rank[s] >= rank[d]}
            return Graph.build([self._op(t) for t in templates], flows, sorted(carried))

    def _distinct(self, stands: dict[int, Template]) -> list[Template]:
        return list({id(t): t for t in stands.values()}.values())

    def _order(self, template: Template) -> tuple[Any, ...]:
        # An operation comes after everything that ran inside it, a source before its first reader.
        last = (-1 if template.kind == "source" else 1 << 60, template.number)
        return (*self._paths[template.path].order, last)

    def _op(self, t: Template) -> Op:
        info: SiteInfo = t.site.info
        return Op(
            id=t.number, name=t.name, kind=t.kind, file=shown_path(info.file), line=info.line, col=info.column,
            context=self.context(t), count=t.count, self_seconds=t.self_ns / 1e9, total_seconds=t.total_ns / 1e9,
            out_nbytes=t.out_nbytes, in_sig=t.in_sig, out_sig=t.out_sig, site=info.index,
        )  # fmt: skip


def _open_shapes(text: str) -> str:
    """A signature without its extents: `uint8[*,*,*]` for `uint8[224,224,3]`."""
    return re.sub(r"\d+(?=[,\]])", "*", text)


def shown_path(path: str) -> str:
    """The path as files of a run write it: relative to the working directory if below it, else absolute."""
    full = os.path.abspath(path)
    here = os.getcwd()
    return os.path.relpath(full, here) if full.startswith(here + os.sep) else full
