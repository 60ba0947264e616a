"""The recorder: what the gatherer saw, as a graph with costs and context keys.

An operation of the graph is a *template*: everything that happened at one chain of call sites with one signature.
Templates are ordered by the chain of sites along which they were reached, which is program order within one
iteration of everything; an edge against that order goes from one iteration to a later one and is `carried`.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from codedag.instrument.sites import SiteInfo
from codedag.ir import CostRow, CostTable, Edge, Graph, Op
from codedag.trace import gather
from codedag.trace.dataflow import open_shapes
from codedag.trace.gather import MOST_SHAPES, EdgeKind, Template
from codedag.trace.names import Names

__all__ = ["Recorder", "Template", "shown_path"]

Order = tuple[tuple[int, int], ...]


class Recorder:
    """Gathers operations and edges and makes a graph of them; `gatherer` is the one in C where it was built."""

    def __init__(
        self,
        user_files: set[str],
        on_operation: Callable[[Template], None] | None = None,
        gatherer: Callable[..., Any] | None = None,
    ) -> None:
        self._user_files = user_files
        self._gatherer: Any = (gatherer or gather.chosen)(user_files, Names(), on_operation)

    # -- asked and told by the sites

    @property
    def _c_api(self) -> Any:
        """Functions that C sites call instead of the methods below, unless a subclass has its own methods."""
        own = all(getattr(type(self), name) is getattr(Recorder, name) for name in _TOLD)
        return self._gatherer.api if own else None

    def is_user(self, of: type) -> bool:
        """Whether a class was defined in the user's own files."""
        for name in ("__init__", "__call__", "forward"):
            code = getattr(getattr(of, name, None), "__code__", None)
            if code is not None and code.co_filename in self._user_files:
                return True
        return False

    def path(self, parent: int, site: Any) -> int:
        """The number of the chain of sites `parent` + `site`."""
        return self._gatherer.path(parent, site)  # type: ignore[no-any-return]

    def note(self, value: Any, before: Any) -> Any:
        """What user code returned to the library call that is running: its producers so far."""
        return self._gatherer.note(value, before)

    def carries(self, number: float) -> bool:
        """Whether a number came out of an operation on data."""
        return self._gatherer.carries(number)  # type: ignore[no-any-return]

    def region(self, *told: Any) -> None:
        """A call of user code ended."""
        self._gatherer.region(*told)

    def operation(self, *told: Any) -> None:
        """A library call, operator or subscript ended, with a result or (the last of `told`) with an exception."""
        self._gatherer.operation(*told)

    def freeze_around(self, file: str, owner: str) -> None:
        """Ends the counting of every operation that encloses this function, which is no longer recorded.

        Their own time could no longer be told from the time of what runs inside them.
        """
        paths = self._gatherer.paths()
        frozen: set[int] = set()
        for parent, site in paths:
            if site.info.owner == owner and site.info.file == file:
                while parent >= 0 and parent not in frozen:
                    frozen.add(parent)
                    self._gatherer.freeze(parent)
                    parent = paths[parent][0]

    # -- the graph

    @property
    def templates(self) -> list[Template]:
        """The operations as they were gathered so far; their number is their place in the list."""
        return self._gatherer.templates()  # type: ignore[no-any-return]

    def context(self, template: Template) -> str:
        """The chain of user functions plus the operation, without library frames."""
        return _context(self._gatherer.paths(), template)

    def costs(self) -> CostTable:
        """What each operation cost as written: the sum over its calls, between its fastest and its slowest call."""
        rows = []
        for t in _distinct(_folded(self.templates)):
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
        edges = self._gatherer.edges()  # first: what is asked for later holds all that edges refer to
        stands = _folded(self.templates)
        paths = self._gatherer.paths()
        orders = _orders(paths)
        templates = _distinct(stands)
        rank = {t.number: _order(orders, t) for t in templates}
        sizes: Counter[tuple[int, int, EdgeKind]] = Counter()
        for src, dst, kind, size in edges:
            sizes[stands[src].number, stands[dst].number, kind] += size
        flows = [Edge(s, d, kind, size) for (s, d, kind), size in sizes.items() if rank[s] < rank[d]]
        carried = {(s, d) for s, d, _ in sizes if rank[s] >= rank[d]}
        return Graph.build([_op(paths, t) for t in templates], flows, sorted(carried))


#: What a site asks and tells.
_TOLD = ("path", "note", "region", "operation")


def _folded(templates: list[Template]) -> dict[int, Template]:
    """Each template's number with the template that stands for it: the open one, where there are many shapes."""
    stands = {template.number: _copy(template) for template in templates}
    groups: defaultdict[tuple[int, str, str], list[Template]] = defaultdict(list)
    for template in stands.values():
        groups[template.path, template.name, open_shapes(template.in_sig)].append(template)
    for shapes in groups.values():
        if len(shapes) > MOST_SHAPES:
            whole = shapes[-1]
            whole.out_sig = open_shapes(whole.out_sig)
            for part in shapes[:-1]:
                whole.add(part)
                stands[part.number] = whole
    return stands


def _copy(t: Template) -> Template:
    return Template(
        t.number, t.name, t.kind, t.path, t.site, t.in_sig, t.out_sig, t.count, t.self_ns, t.total_ns, t.least_ns,
        t.most_ns, t.out_nbytes,
    )  # fmt: skip


def _distinct(stands: dict[int, Template]) -> list[Template]:
    return list({id(t): t for t in stands.values()}.values())


def _orders(paths: list[tuple[int, Any]]) -> list[Order]:
    """The place of each chain in program order.

    The sites of one function are in the order of the source; functions below one chain are in the order in which they
    first ran there, since callbacks of one library call have no order in the source.
    """
    orders: list[Order] = []
    ranks: dict[int, dict[tuple[str, str], int]] = {}
    for parent, site in paths:
        seen = ranks.setdefault(parent, {})
        rank = seen.setdefault((site.info.file, site.info.owner), len(seen))
        orders.append((*(orders[parent] if parent >= 0 else ()), (rank, site.info.index)))
    return orders


def _order(orders: list[Order], template: Template) -> tuple[Any, ...]:
    # An operation comes after everything that ran inside it, a source before its first reader.
    last = (-1 if template.kind == "source" else 1 << 60, template.number)
    return (*orders[template.path], last)


def _context(paths: list[tuple[int, Any]], template: Template) -> str:
    owners: list[str] = []
    number = template.path
    while number >= 0:
        number, site = paths[number]
        owner = site.info.owner
        if owner and (not owners or owners[-1] != owner):
            owners.append(owner)
    return "/".join([*reversed(owners), template.name])


def _op(paths: list[tuple[int, Any]], t: Template) -> Op:
    info: SiteInfo = t.site.info
    return Op(
        id=t.number, name=t.name, kind=t.kind, file=shown_path(info.file), line=info.line, col=info.column,
        context=_context(paths, t), count=t.count, self_seconds=t.self_ns / 1e9, total_seconds=t.total_ns / 1e9,
        out_nbytes=t.out_nbytes, in_sig=t.in_sig, out_sig=t.out_sig, site=info.index,
    )  # fmt: skip


def shown_path(path: str) -> str:
    """The path as files of a run write it: relative to the working directory if below it, else absolute."""
    full = path if path.startswith(os.sep) else os.path.abspath(path)
    return os.path.relpath(full, _HERE) if _HERE and full.startswith(_HERE + os.sep) else full


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


_HERE = _here()  # where we were started: the program may go elsewhere
