"""What was gathered, apart from where and how: chains of sites, templates and edges, and the graph they make.

An operation of the graph is a *template*: everything that happened at one chain of call sites with one signature.
Templates are ordered by the chain of sites along which they were reached, which is program order within one
iteration of everything; an edge against that order goes from one iteration to a later one and is `carried`.
A call that encloses the producers of its inputs (the `__next__` of a DataLoader) stands at its end, after them.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

from codedag.instrument.sites import SiteInfo
from codedag.instrument.table import info_of
from codedag.ir import CostRow, CostTable, Edge, Events, Graph, Op
from codedag.trace.dataflow import open_shapes
from codedag.trace.events import Log, events_of
from codedag.trace.gather import MOST_SHAPES
from codedag.trace.templates import EdgeKind, Template

Order = tuple[tuple[int, int], ...]
Paths = list[tuple[int, SiteInfo]]  # parent and site of each chain, in the order in which they were first taken


@dataclass(slots=True)
class Gathered:
    """Everything that one process or several recorded; the number of a template is its place in the list."""

    paths: Paths = field(default_factory=list)
    templates: list[Template] = field(default_factory=list)
    edges: list[tuple[int, int, EdgeKind, int]] = field(default_factory=list)
    logs: list[Log] = field(default_factory=list)  # single calls, by process

    @classmethod
    def of(cls, gatherer: Any) -> Gathered:
        """What a gatherer holds now."""
        edges = gatherer.edges()  # first: what is asked for later holds all that edges refer to
        templates = [_copy(t) for t in gatherer.templates()]
        return cls([(parent, info_of(site)) for parent, site in gatherer.paths()], templates, edges)

    def graph(self) -> Graph:
        """The graph: operations in program order, edges that respect it, and the carried rest."""
        stands = _folded(self.templates)
        orders = _orders(self.paths)
        templates = _distinct(stands)
        rank = {t.number: _order(orders, t) for t in templates}
        sizes: Counter[tuple[int, int, EdgeKind]] = Counter()
        for src, dst, kind, size in self.edges:
            sizes[stands[src].number, stands[dst].number, kind] += size
        flows = [Edge(s, d, kind, size) for (s, d, kind), size in sizes.items() if rank[s] < rank[d]]
        carried = {(s, d) for s, d, _ in sizes if rank[s] >= rank[d]}
        parents = _parents(self.paths, templates)
        return Graph.build([_op(self.paths, t, parents) for t in templates], flows, sorted(carried))

    def events(self, began: int, ended: int, marks: dict[str, int] | None = None) -> Events:
        """Single calls and memory over time; times are nanoseconds of the monotonic clock."""
        stands = {number: template.number for number, template in _folded(self.templates).items()}
        seen = sum(template.count for template in self.templates if template.kind != "source")
        return events_of(self.logs, stands, seen, began, ended, marks)

    def costs(self) -> CostTable:
        """What each operation cost as written: the sum over its calls, between its fastest and its slowest call."""
        worked = [t for t in _distinct(_folded(self.templates)) if t.kind not in ("region", "source")]
        return CostTable(pus=["cpu"], rows=[_cost(t) for t in worked])


def _cost(t: Template) -> CostRow:
    low, high = _seconds(t.least_ns * t.count), _seconds(t.most_ns * t.count)
    return CostRow(
        op=t.number, pu="cpu", variant="original", seconds=_seconds(t.self_ns), low=low, high=high, status="ok",
        scratch_nbytes=t.peak_nbytes,
    )  # fmt: skip


def _seconds(nanoseconds: float) -> float:
    """Never negative: what rests inside a call is estimated, and may seem to have taken longer than the call itself."""
    return max(nanoseconds, 0) / 1e9


def _folded(templates: list[Template]) -> dict[int, Template]:
    """Each template's number with the template that stands for it: the open one, where there are many shapes."""
    stands = {template.number: replace(template) for template in templates}
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


def _copy(t: Any) -> Template:
    """A template as plain data: the one of the gatherer in C is a view."""
    return Template(
        t.number, t.name, t.kind, t.path, info_of(t.site), t.in_sig, t.out_sig, t.count, t.self_ns, t.total_ns,
        t.least_ns, t.most_ns, t.out_nbytes, t.peak_nbytes,
    )  # fmt: skip


def _distinct(stands: dict[int, Template]) -> list[Template]:
    return list({id(t): t for t in stands.values()}.values())


def _orders(paths: Paths) -> list[Order]:
    """The place of each chain in program order.

    The sites of one function are in the order of the source; functions below one chain are in the order in which they
    first ran there, since callbacks of one library call have no order in the source.
    """
    orders: list[Order] = []
    ranks: dict[int, dict[tuple[str, str], int]] = {}
    for parent, site in paths:
        seen = ranks.setdefault(parent, {})
        rank = seen.setdefault((site.file, site.owner), len(seen))
        orders.append((*(orders[parent] if parent >= 0 else ()), (rank, site.index)))
    return orders


def _order(orders: list[Order], template: Template) -> tuple[Any, ...]:
    # An operation comes after everything that ran inside it, a source before its first reader.
    last = (-1 if template.kind == "source" else 1 << 60, template.number)
    return (*orders[template.path], last)


def context_of(paths: Paths, template: Template) -> str:
    """The chain of user functions plus the operation, without library frames."""
    owners: list[str] = []
    number = template.path
    while number >= 0:
        number, site = paths[number]
        if site.owner and (not owners or owners[-1] != site.owner):
            owners.append(site.owner)
    return "/".join([*reversed(owners), template.name])


def _parents(paths: Paths, templates: list[Template]) -> dict[int, int]:
    """For each chain of sites the operation or region at its end, the most frequent where shapes tell several apart."""
    found: dict[int, Template] = {}
    for template in templates:
        before = found.get(template.path)
        if template.kind != "source" and (before is None or before.count < template.count):
            found[template.path] = template
    return {path: template.number for path, template in found.items()}


def _around(paths: Paths, path: int, parents: dict[int, int]) -> int:
    """The nearest operation or region around a chain of sites; calls that moved no data are neither."""
    above = paths[path][0]
    while above >= 0 and above not in parents:
        above = paths[above][0]
    return parents.get(above, -1)


def _op(paths: Paths, t: Template, parents: dict[int, int]) -> Op:
    info: SiteInfo = t.site
    return Op(
        id=t.number, name=t.name, kind=t.kind, file=shown_path(info.file), line=info.line, col=info.column,
        context=context_of(paths, t), count=t.count, self_seconds=_seconds(t.self_ns),
        total_seconds=_seconds(t.total_ns), out_nbytes=t.out_nbytes, in_sig=t.in_sig, out_sig=t.out_sig,
        site=info.index, peak_nbytes=t.peak_nbytes, parent=_around(paths, t.path, parents),
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
