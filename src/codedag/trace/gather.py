"""The gatherer: sites tell it what went in and what came out; it folds instances into templates and edges.

This is the plain-Python twin of _gather.c, and the place to read the rules: the two must gather the same graph
(tests/integration/test_gather.py).  `recorder.py` turns what was gathered into a graph.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable
from typing import Any

from codedag.instrument.sites import BINARY, CALL, GETITEM, INPLACE, ITERATE, SETITEM, UNARY
from codedag.trace import calls, habits
from codedag.trace.calls import Call
from codedag.trace.dataflow import (
    ARRAY,
    IGNORED,
    LIBRARY,
    SCALAR,
    TENSOR,
    USER,
    Dataflow,
    Leaf,
    Leaves,
    nbytes,
    open_shapes,
    signature,
)  # fmt: skip
from codedag.trace.events import Call as SingleCall
from codedag.trace.events import Calls
from codedag.trace.names import Names
from codedag.trace.templates import Chain, EdgeKind, OpKind, Returned, Template
from codedag.trace.training import Training, read_by

_SEQUENCE_ITERATOR = type(iter(type("", (), {"__getitem__": None})()))  # of what has items and no iterator, as arrays
_MOST_PENDING = 1_024  # calls that libraries make later and whose results are not yet seen
_DEEPEST_PATH = 64
MOST_PATHS = 1 << 17  # chains of sites that are told apart
MOST_SHAPES = 4  # signatures of one operation that are told apart; more are folded into one with open shapes
TOLD_FROM = 6  # `on_operation` hears of the first execution of a template, and of every one from this one on

_HANDED_OUT = -2

_KINDS: dict[int, OpKind] = {
    BINARY: "operator", UNARY: "operator", INPLACE: "operator", GETITEM: "subscript", SETITEM: "subscript",
}  # fmt: skip


class Gatherer:
    """Gathers templates and edges; `on_operation` is told of some executions (the pilot counts there)."""

    api: Any = None  # C sites call the methods below; the twin in C offers them functions instead
    taker: Any = None  # told of the first execution of each template, with what went into it

    def __init__(
        self, user_files: set[str], names: Names, on_operation: Callable[[Template], None] | None = None
    ) -> None:
        self.flow = Dataflow(user_files)
        self._names = names
        self._on_operation = on_operation
        self._templates: list[Template] = []
        self._by_key: dict[tuple[int, str, str], Template] = {}
        self._paths: list[Chain] = []
        self._path_numbers: dict[tuple[int, int], int] = {}
        self._first_paths: dict[int, int] = {}
        self._shapes: dict[tuple[int, str, str], int] = {}
        self._edges: dict[tuple[int, int, EdgeKind], int] = {}
        self._frozen: set[int] = set()
        self._arrivals: list[tuple[int, int]] = []
        self._peak = 0
        self._calls = Calls()
        self._pending: dict[int, tuple[Callable[[Any], bool], int]] = {}  # id of what gives the results -> operation
        self._files = calls.Files()
        self._training = Training()
        self._has_stepped = False
        self._backward = (-1, -1, -1)  # operation, when and thread of the last one
        self._user_files = user_files
        self._lock = threading.RLock()

    # -- what was gathered

    def templates(self, first: int = 0, /) -> list[Template]:
        """The templates so far, from this number on; their number is their place in the list of all."""
        return self._templates[first:]

    def paths(self) -> list[tuple[int, Any]]:
        """Parent and site of each chain of sites so far, in the order in which they were first taken."""
        return [(path.parent, path.site) for path in list(self._paths)]

    def edges(self) -> list[tuple[int, int, EdgeKind, int]]:
        """Producer, consumer, kind and bytes of each edge so far."""
        return [(src, dst, kind, size) for (src, dst, kind), size in list(self._edges.items())]

    def events(self) -> tuple[int, list[SingleCall]]:
        """The bar for long calls, and operation, thread, end, nanoseconds and bytes of single calls."""
        return self._calls.all()

    # -- asked and told by the sites

    def path(self, parent: int, site: Any) -> int:
        """The number of the chain of sites `parent` + `site`."""
        if parent >= 0 and self._paths[parent].depth >= _DEEPEST_PATH:
            return parent  # deep recursion folds into itself
        key = (parent, id(site))
        number = self._path_numbers.get(key)
        if number is None:
            number = self._folded_path(parent, site)
        if number is None:
            with self._lock:
                self._first_paths.setdefault(id(site), len(self._paths))
                number = self._path_numbers[key] = len(self._paths)
                self._paths.append(Chain(parent, site, self._paths[parent].depth + 1 if parent >= 0 else 1))
        return number

    def _folded_path(self, parent: int, site: Any) -> int | None:
        """The chain that stands for a new one, if one does.

        Recursion folds into itself: a site that is in the chain already ends it there.  Where there are very many
        chains, any chain that ends at the site stands for a new one.
        """
        while parent >= 0:
            if self._paths[parent].site is site:
                return parent
            parent = self._paths[parent].parent
        return self._first_paths.get(id(site)) if len(self._paths) >= MOST_PATHS else None

    def freeze(self, path: int) -> None:
        """Ends the counting of the operations at this chain; what they make is still followed."""
        self._frozen.add(path)

    def note(self, value: Any, before: Any) -> Returned | None:
        """What user code returned to the library call that is running: its producers so far; None if no data."""
        leaves = self._leaves_of(value)
        if not leaves:
            return before  # type: ignore[no-any-return]
        noted: Returned = before if before is not None else Returned()
        for leaf in leaves:
            producer = self.flow.producer(leaf)
            if producer >= 0:
                noted.flows[producer] = noted.flows.get(producer, 0) + nbytes(leaf)
        return noted

    def carries(self, number: float) -> bool:
        """Whether a number came out of an operation on data, so that arithmetic with it is one too."""
        return self.flow.known((number, SCALAR))

    def region(
        self, path: int, site: Any, function: Any, args: Any, keywords: Any, result: Any, total: int, own: int,
        returned: Any,
    ) -> None:  # fmt: skip
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
    ) -> bool:
        """Whether a library call, operator or subscript that ended moved data: then it is an operation with its flow.

        One that raised has consumed its inputs, and has made and written nothing that the program could rely on.
        """
        call = calls.seen(site, function, args, keywords, result)
        if not failed and call.habits & habits.CALLS and self._is_called_later(path, call, total, own):
            return True
        given, held = self._inputs(call)
        trained = [] if failed else self._trained(call, given)
        outputs = self._leaves_of(result)
        later = -1 if failed else self._later(call, outputs)
        if later == _HANDED_OUT or self._moves_nothing(call, given, held, outputs, returned):
            site.calls += 1
            site.nanoseconds += total
            return False
        inputs = calls.distinct(held + given)
        written = [] if failed else trained + calls.written_by(self.flow, call, inputs, held)
        if not failed and not written and self._passes_on(path, call, inputs, outputs, returned):
            return self._drove(path, call, total, own, returned)
        with self._lock:
            files = [] if failed else calls.files_in(call)
            template = self._template_of(path, call, inputs, bool(written or files) or failed)
            self._move_through(files, template, bool(inputs))
            if call.habits & habits.WORKS and not failed:
                self._backward = (template.number, self.flow.now(), threading.get_ident())
            if path in self._frozen and template.count:
                for leaf in outputs:
                    self.flow.made(leaf, template.number)
                return True
            if later >= 0:
                self._edge(later, template.number, "flow", 0)
            self._consume(template, inputs, returned)
            if self._has_stepped and call.site.kind == CALL and call.own is None:
                self._read_parameters(template, call.function)
            if not failed:
                self._produce(template, call, inputs, outputs, written, returned is not None)
            self._count(template, total, own, outputs)
            template.peak_nbytes, self._peak = max(template.peak_nbytes, self._peak), 0
            count = template.count
        if self.taker is not None and count == 1 and not failed:
            self.taker(template, site.kind, call.function, call.args, call.keywords)
        if self._on_operation is not None and (count == 1 or count >= TOLD_FROM):
            self._on_operation(template)
        return True

    def _template_of(self, path: int, call: Call, inputs: list[Leaf], wrote: bool) -> Template:
        name = self._names.of(call.function, iterates=call.site.kind == ITERATE)
        in_sig = ",".join(signature(leaf) for leaf in inputs)
        silent = call.site.kind == CALL and call.result is None and not call.habits & habits.WORKS
        kind: OpKind = "sink" if silent and inputs and not wrote else _KINDS.get(call.site.kind, "call")
        return self._template(path, name, kind, call.site, in_sig)

    # -- calls that move nothing, or only what others made

    def _moves_nothing(
        self, call: Call, inputs: list[Leaf], held: list[Leaf], outputs: list[Leaf], returned: Any
    ) -> bool:
        """Whether no data went in and none that is new came out."""
        if inputs or returned is not None:
            return False
        if held and (outputs or call.result is None):
            return False
        return all(map(self.flow.known, outputs)) or (call.site.kind == ITERATE and self._are_parts(call, outputs))

    def _are_parts(self, call: Call, outputs: list[Leaf]) -> bool:
        """Whether a loop took these from an array that is known: rows are views of it, single numbers its elements."""
        sequence = call.function.__reduce__()[1][0] if type(call.function) is _SEQUENCE_ITERATOR else None
        kind = self.flow.kind(sequence)
        producer = self.flow.producer((sequence, kind)) if kind == ARRAY else -1
        for leaf in outputs:  # a row of a view comes from what made the view, not from what made its memory
            if producer >= 0 and (leaf[1] == SCALAR or self.flow.shares_memory(leaf, (sequence, kind))):
                self.flow.made(leaf, producer)
            elif self.flow.producer(leaf) < 0:
                return False
        return True

    def _passes_on(self, path: int, call: Call, inputs: list[Leaf], outputs: list[Leaf], returned: Any) -> bool:
        """Whether all that came out was there before: inside of what went in, or made by what this call has run."""
        given = {id(value) for value in (call.own, *call.args, *call.keywords.values())}
        if not outputs or id(call.result) in given:
            return False
        if returned is None and _KINDS.get(call.site.kind) == "operator":
            return False
        taken = {id(leaf[0]) for leaf in inputs}
        for leaf in outputs:
            if not self.flow.known(leaf):
                return False
            if returned is None and id(leaf[0]) not in taken and not self._is_below(path, self.flow.maker(leaf)):
                return False
        return True

    def _is_below(self, path: int, operation: int) -> bool:
        """Whether an operation ran inside the one at this path."""
        below = self._paths[self._templates[operation].path].parent
        while below > path:
            below = self._paths[below].parent
        return below == path

    def _drove(self, path: int, call: Call, total: int, own: int, returned: Any) -> bool:
        if returned is None:
            call.site.calls += 1
            call.site.nanoseconds += total
        else:  # a library call that did nothing but run user code
            self.region(path, call.site, call.function, (), {}, None, total, own, None)
        return returned is not None

    def _is_called_later(self, path: int, call: Call, total: int, own: int) -> bool:
        """Whether a library function (`map`, `submit`) is to call another one on data: that one is the operation."""
        self._pending.pop(id(call.result), None)
        function = calls.unfolded(call.args[0]) if call.args else None
        if not self._is_library_function(function) or self.flow.kind(call.result) not in (IGNORED, LIBRARY):
            return False
        found = Leaves()
        for value in call.args[1:]:
            self.flow.leaves(value, found)
        if not found:
            return False
        with self._lock:
            inputs = calls.distinct(found)
            name, in_sig = self._names.of(function), ",".join(signature(leaf) for leaf in inputs)
            template = self._template(path, name, "call", call.site, in_sig)
            self._consume(template, inputs, None)
            self._count(template, total, own, [])
            if len(self._pending) >= _MOST_PENDING:
                self._pending.clear()
            self._pending[id(call.result)] = (calls.same_as(call.result), template.number)
        return True

    def _is_library_function(self, function: Any) -> bool:
        if isinstance(function, types.MethodType):
            function = function.__func__
        if isinstance(function, types.FunctionType):
            return function.__code__.co_filename not in self._user_files
        return callable(function) and not isinstance(function, type) and self.flow.kind(function) != USER

    def _later(self, call: Call, outputs: list[Leaf]) -> int:
        """The operation behind the results of a later call that this call has asked for; -1 if there is none.

        What only hands them out (`list`, `next`, `Future.result`) is no operation itself.
        """
        if not self._pending:
            return -1
        asked = call.function if call.site.kind == ITERATE else call.own
        for value in (asked, *call.args):
            reference, number = self._pending.get(id(value), (None, -1))
            if reference is None or not reference(value):
                continue
            if value is not asked and call.function is not next and self.flow.kind(call.result) not in calls.HOLDERS:
                return number
            new = [leaf for leaf in outputs if not self.flow.known(leaf)]
            for leaf in new:
                self.flow.made(leaf, number)
                self._templates[number].out_nbytes += nbytes(leaf)
            return _HANDED_OUT if new else -1
        return -1

    def _move_through(self, files: list[Any], template: Template, gives: bool) -> None:
        """A file in memory holds the data that it was given along with; given alone, what it holds is read."""
        for file in files:
            if gives:
                self._files.wrote(file, template.number)
            elif (writer := self._files.writer(file)) >= 0:
                self._edge(writer, template.number, "flow", 0)

    # -- flow

    def _leaves_of(self, value: Any) -> list[Leaf]:
        out = Leaves()
        self.flow.leaves(value, out)
        return out

    def _inputs(self, call: Call) -> tuple[list[Leaf], list[Leaf]]:
        """The data that a call was given, and that which the object holds of which it is a method."""
        given, held = Leaves(), Leaves()
        if calls.only_stores(self.flow, call):
            return given, held
        kind = self.flow.kind(call.function if call.site.kind == ITERATE else call.own)
        if call.site.kind == ITERATE:
            if kind == LIBRARY:
                self.flow.held(call.function, held, 2)
        elif kind == LIBRARY:
            self.flow.held(call.own, held)
        elif kind != IGNORED:
            self.flow.leaves(call.own, given, 1)
        for value in (*call.args, *call.keywords.values()):
            self.flow.leaves(value, given)
        return given, calls.distinct(held)

    def _trained(self, call: Call, given: list[Leaf]) -> list[Leaf]:
        """What a step of an optimiser or a clipping writes; the gradients that it reads are added to what was given."""
        if not call.habits & (habits.STEPS | habits.CLIPS):
            return []
        gradients, written = self._training.moved(call.own, call.args, call.habits)
        number, when, thread = self._backward
        if gradients and call.habits & habits.CLIPS:
            given.clear()  # of the parameters only the gradients are read
        for gradient in gradients:
            if number >= 0 and thread == threading.get_ident():
                self.flow.renewed((gradient, TENSOR), number, when)
            given.append((gradient, TENSOR))
        self._has_stepped |= bool(written) and bool(call.habits & habits.STEPS)
        return [(tensor, TENSOR) for tensor in written]

    def _read_parameters(self, template: Template, module: Any) -> None:
        """A call of a torch module reads its parameters; that is of interest once an optimiser has written some."""
        if self.flow.kind(module) in (LIBRARY, USER):
            for tensor in read_by(module):
                producer = self.flow.producer((tensor, TENSOR))
                if producer >= 0:
                    self._edge(producer, template.number, "flow", nbytes((tensor, TENSOR)))

    def _consume(self, template: Template, inputs: list[Leaf], returned: Any) -> None:
        for leaf in inputs:
            producer = self.flow.producer(leaf, reader=template.number)
            if producer < 0:
                producer = self.flow.unpacked(leaf) if leaf[1] == SCALAR else self._source(template, leaf)
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
        self, template: Template, call: Call, inputs: list[Leaf], outputs: list[Leaf], written: list[Leaf],
        called_back: bool,
    ) -> None:  # fmt: skip
        taken = {id(leaf[0]) for leaf in inputs}
        for leaf in written:
            for reader in self.flow.written(leaf, template.number):
                self._edge(reader, template.number, "anti", 0)
        for leaf in outputs:
            value, kind = leaf
            if value is call.result and id(value) in taken:
                for reader in self.flow.written(leaf, template.number):
                    self._edge(reader, template.number, "anti", 0)
            elif (value is not call.result or called_back) and self.flow.known(leaf):
                continue  # handed through unchanged
            else:
                if kind == TENSOR:
                    self.flow.shares(value, inputs)
                self.flow.made(leaf, template.number)
        if type(call.result) is float and inputs and all(call.result is not value for value in call.args):
            self.flow.made((call.result, SCALAR), template.number)  # one that was given is known, or is a constant

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
        made = sum(nbytes(leaf) for leaf in outputs)
        template.out_nbytes += made
        self._calls.told(template.number, template.count, total, made)
        if not template.out_sig:
            template.out_sig = ",".join(signature(leaf) for leaf in outputs)

    def _edge(self, src: int, dst: int, kind: EdgeKind, size: int) -> None:
        key = (src, dst, kind)
        self._edges[key] = self._edges.get(key, 0) + size

    # -- other processes

    def arrive(self, token: int, before: Any) -> Returned:
        """What was noted so far, and a batch that another process made."""
        noted: Returned = before if before is not None else Returned()
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
        noted = self.note(value, None)
        return noted.flows if noted else {}

    def rebase(self) -> tuple[int, int]:
        """Counts from 0 again, in a forked child; how many chains and templates are the parent's."""
        for t in self._templates:
            t.count = t.self_ns = t.total_ns = t.out_nbytes = t.most_ns = t.peak_nbytes = 0
            t.least_ns = 1 << 62
        self._edges, self._arrivals, self._calls = {}, [], Calls()
        return len(self._paths), len(self._templates)


def _choose() -> tuple[Any, str]:
    try:
        from codedag.trace import _gather
    except ImportError as error:
        return Gatherer, f"its C extension could not be loaded: {error}"
    return _gather.Gatherer, ""


#: The gatherer that recorders use here, and why it is not the one in C ("" if it is).
chosen, why_python = _choose()
