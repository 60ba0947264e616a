"""The gatherer: sites tell it what went in and what came out; it folds instances into templates and edges.

This is the plain-Python twin of _gather.c, and the place to read the rules: the two must gather the same graph
(tests/integration/test_gather.py).  `recorder.py` turns what was gathered into a graph.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from codedag.instrument.sites import BINARY, GETITEM, INPLACE, ITERATE, SETITEM, UNARY
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
    Leaves,
    nbytes,
    open_shapes,
    signature,
)  # fmt: skip
from codedag.trace.names import Names, bound_to, name_of

CONTAINER_METHODS = frozenset({"append", "extend", "insert", "add", "update", "setdefault", "appendleft", "put"})
_NO_OBJECT = (type(None), types.ModuleType)  # what a plain function is bound to
_HOLDERS = (IGNORED, SEQUENCE, MAPPING, USER)
_DEEPEST_PATH = 64
MOST_SHAPES = 4  # signatures of one operation that are told apart; more are folded into one with open shapes
TOLD_FROM = 6  # `on_operation` hears of the first execution of a template, and of every one from this one on

OpKind = Literal["call", "operator", "subscript", "region", "source", "sink"]
EdgeKind = Literal["flow", "anti"]
_KINDS: dict[int, OpKind] = {
    BINARY: "operator", UNARY: "operator", INPLACE: "operator", GETITEM: "subscript", SETITEM: "subscript",
}  # fmt: skip


@dataclass(slots=True)
class Template:
    """One operation as it is being gathered: everything at one chain of call sites with one signature."""

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
    peak_nbytes: int = 0  # the most that one call allocated while it ran; of a memory pass

    def add(self, other: Template) -> None:
        """Takes in the counts of another template of the same operation."""
        self.count += other.count
        self.self_ns += other.self_ns
        self.total_ns += other.total_ns
        self.out_nbytes += other.out_nbytes
        self.peak_nbytes = max(self.peak_nbytes, other.peak_nbytes)
        self.least_ns, self.most_ns = min(self.least_ns, other.least_ns), max(self.most_ns, other.most_ns)


@dataclass(slots=True)
class _Path:
    """A chain of call sites: the parent chain and the site at its end."""

    parent: int
    site: Any
    depth: int


@dataclass(slots=True)
class _Returned:
    """What user code handed back to a library call: its producers, with sizes, without the values.

    Tokens stand for batches that another process made.
    """

    flows: dict[int, int] = field(default_factory=dict)
    tokens: list[int] = field(default_factory=list)


class Gatherer:
    """Gathers templates and edges; `on_operation` is told of some executions (the pilot counts there)."""

    api: Any = None  # C sites call the methods below; the twin in C offers them functions instead

    def __init__(
        self, user_files: set[str], names: Names, on_operation: Callable[[Template], None] | None = None
    ) -> None:
        self.flow = Dataflow(user_files)
        self._names = names
        self._on_operation = on_operation
        self._templates: list[Template] = []
        self._by_key: dict[tuple[int, str, str], Template] = {}
        self._paths: list[_Path] = []
        self._path_numbers: dict[tuple[int, int], int] = {}
        self._shapes: dict[tuple[int, str, str], int] = {}
        self._edges: dict[tuple[int, int, EdgeKind], int] = {}
        self._frozen: set[int] = set()
        self._arrivals: list[tuple[int, int]] = []
        self._peak = 0
        self._lock = threading.RLock()

    # -- what was gathered

    def templates(self) -> list[Template]:
        """The templates so far; their number is their place in the list."""
        return list(self._templates)

    def paths(self) -> list[tuple[int, Any]]:
        """Parent and site of each chain of sites so far, in the order in which they were first taken."""
        return [(path.parent, path.site) for path in list(self._paths)]

    def edges(self) -> list[tuple[int, int, EdgeKind, int]]:
        """Producer, consumer, kind and bytes of each edge so far."""
        return [(src, dst, kind, size) for (src, dst, kind), size in list(self._edges.items())]

    # -- asked and told by the sites

    def path(self, parent: int, site: Any) -> int:
        """The number of the chain of sites `parent` + `site`."""
        if parent >= 0 and self._paths[parent].depth >= _DEEPEST_PATH:
            return parent  # deep recursion folds into itself
        key = (parent, id(site))
        number = self._path_numbers.get(key)
        if number is None:
            with self._lock:
                number = self._path_numbers[key] = len(self._paths)
                self._paths.append(_Path(parent, site, self._paths[parent].depth + 1 if parent >= 0 else 1))
        return number

    def freeze(self, path: int) -> None:
        """Ends the counting of the operations at this chain; what they make is still followed."""
        self._frozen.add(path)

    def note(self, value: Any, before: Any) -> _Returned:
        """What user code returned to the library call that is running: its producers so far."""
        noted: _Returned = before if before is not None else _Returned()
        for leaf in self._leaves_of(value):
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
            template = self._template(path, self._names.of(function), "region", site, "")
            self._count(template, total, own, [])
            template.peak_nbytes, self._peak = max(template.peak_nbytes, self._peak), 0

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
        failed: bool = False,
    ) -> None:
        """A library call, operator or subscript ended: an operation with its flow.

        One that raised has consumed its inputs, and has made and written nothing that the program could rely on.
        """
        inputs, outputs = self._inputs(function, args, keywords, result), self._leaves_of(result)
        if not inputs and returned is None and all(map(self.flow.known, outputs)):  # nothing moved, or handed through
            site.calls += 1
            site.nanoseconds += total
            return
        with self._lock:
            name = self._names.of(function, iterates=site.kind == ITERATE)
            in_sig = ",".join(signature(leaf) for leaf in inputs)
            template = self._template(path, name, _KINDS.get(site.kind, "call"), site, in_sig)
            if path in self._frozen and template.count:
                for leaf in outputs:
                    self.flow.made(leaf, template.number)
                return
            self._consume(template, inputs, returned)
            if not failed:
                self._produce(template, function, args, keywords, result, inputs, outputs, returned is not None)
            self._count(template, total, own, outputs)
            template.peak_nbytes, self._peak = max(template.peak_nbytes, self._peak), 0
            count = template.count
        if self._on_operation is not None and (count == 1 or count >= TOLD_FROM):
            self._on_operation(template)

    # -- flow

    def _leaves_of(self, value: Any) -> list[Leaf]:
        out = Leaves()
        self.flow.leaves(value, out)
        return out

    def _inputs(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any], result: Any) -> list[Leaf]:
        own = bound_to(function)
        kind = self.flow.kind(own)
        if type(own) not in _NO_OBJECT and kind in _HOLDERS and name_of(function) in CONTAINER_METHODS:
            return []  # putting a value into a container moves no data
        if isinstance(function, type) and self.flow.kind(result) in _HOLDERS:
            return []  # a constructor that only stores what it is given
        found = Leaves()
        if own is not None and kind != IGNORED:
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
            self._arrivals += [(token, template.number) for token in returned.tokens]

    def _source(self, template: Template, leaf: Leaf) -> int:
        name = f"source:{type(leaf[0]).__name__}"
        source = self._template(template.path, name, "source", template.site, signature(leaf))
        self._count(source, 0, 0, [leaf])
        self.flow.made(leaf, source.number)
        self.flow.producer(leaf, reader=template.number)
        return source.number

    def _produce(
        self, template: Template, function: Any, args: Any, keywords: Any, result: Any,
        inputs: list[Leaf], outputs: list[Leaf], called_back: bool,
    ) -> None:  # fmt: skip
        taken = {id(leaf[0]) for leaf in inputs}
        for leaf in self._written(template.site, function, args, keywords, result, inputs):
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

    def _written(
        self, site: Any, function: Any, args: Any, keywords: Any, result: Any, inputs: list[Leaf]
    ) -> list[Leaf]:
        """Arguments whose buffer this call wrote: out=, dst=, an item set, or a method that returned nothing."""
        written = Leaves()
        for name in ("out", "dst"):
            if keywords.get(name) is not None:
                self.flow.leaves(keywords[name], written, 1)
        if result is None and inputs:
            own = bound_to(function)
            if site.kind == SETITEM:
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
        open_sig = open_shapes(in_sig)
        group = (path, name, open_sig)
        shapes = self._shapes.get(group, 0)
        if shapes >= MOST_SHAPES and open_sig != in_sig:
            in_sig = open_sig
            template = self._by_key.get((path, name, in_sig))
        if template is None:
            template = self._by_key[path, name, in_sig] = Template(len(self._templates), name, kind, path, site, in_sig)
            self._templates.append(template)
            self._shapes[group] = shapes + 1
        return template

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

    # -- other processes

    def arrive(self, token: int, before: Any) -> _Returned:
        """What was noted so far, and a batch that another process made."""
        noted = self.note(None, before)
        noted.tokens.append(token)
        return noted

    def arrivals(self) -> list[tuple[int, int]]:
        """Token and consumer of each batch that another process made."""
        return list(self._arrivals)

    def peak(self, nbytes: int) -> None:
        """In a memory pass, before `operation` or `region`: the most bytes that were allocated while it ran."""
        self._peak = nbytes

    def flows(self, value: Any) -> dict[int, int]:
        """Bytes by producer of the data in a value."""
        return self.note(value, None).flows

    def rebase(self) -> tuple[int, int]:
        """Counts from 0 again, in a forked child; how many chains and templates are the parent's."""
        for t in self._templates:
            t.count = t.self_ns = t.total_ns = t.out_nbytes = t.most_ns = t.peak_nbytes = 0
            t.least_ns = 1 << 62
        self._edges, self._arrivals = {}, []
        return len(self._paths), len(self._templates)


def _choose() -> tuple[Any, str]:
    try:
        from codedag.trace import _gather
    except ImportError as error:
        return Gatherer, f"the C extension is not there ({error}); it is built where the package finds a C compiler"
    return _gather.Gatherer, ""


#: The gatherer that recorders use here, and why it is not the one in C ("" if it is).
chosen, why_python = _choose()
