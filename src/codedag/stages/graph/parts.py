"""METIS parts of a graph, renumbered: a part is a range of rows of one shared array, its halo indices into that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from codedag.stages.model import BadInput


@dataclass(frozen=True, slots=True)
class PartSize:
    """How large a part is: nodes that it owns, edges that end at them, and foreign nodes that these edges read."""

    nodes: int
    edges: int
    halo: int

    @property
    def rows(self) -> int:
        """The rows that a runtime needs which has the part as a graph of its own."""
        return self.nodes + self.halo


@dataclass(frozen=True, eq=False)
class LocalGraph:
    """A part as a graph of its own: its `edge_index` counts in `rows` of the shared array, owned ones first."""

    rows: Any
    owned: int
    edge_index: Any


@dataclass(frozen=True, eq=False)
class Parts:
    """A graph cut into parts: part p owns the rows `starts[p]` to `starts[p + 1] - 1` of the renumbered arrays."""

    membership: Any  # the part of each node, by its original number
    order: Any  # the original number of each row
    position: Any  # the row of each original number
    starts: tuple[int, ...]
    edge_index: Any  # renumbered, in the order of the original
    edge_order: Any  # the edges, one part after the other
    edge_starts: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def sizes(self) -> tuple[PartSize, ...]:
        """The sizes of all parts, empty ones included."""
        owned, edges = (tuple(b - a for a, b in pairwise(each)) for each in (self.starts, self.edge_starts))
        return tuple(PartSize(n, e, len(self.halo(p))) for p, (n, e) in enumerate(zip(owned, edges, strict=True)))

    @property
    def cut_edges(self) -> int:
        """The edges between two parts."""
        source, target = self.membership[self.order[self.edge_index]]
        return int((source != target).sum())

    def rows(self, part: int) -> slice:
        """The rows of the renumbered arrays that a part owns."""
        return slice(self.starts[part], self.starts[part + 1])

    def edges(self, part: int) -> Any:
        """The edges that end in a part, int64 [2, edges], in rows of the renumbered arrays."""
        return self.edge_index[:, self.edge_order[self.edge_starts[part] : self.edge_starts[part + 1]]]

    def halo(self, part: int) -> Any:
        """The rows that a part reads and does not own, ascending."""
        return self._halos[part]

    @cached_property
    def _halos(self) -> tuple[Any, ...]:
        return tuple(self._halo(part) for part in range(len(self)))

    def _halo(self, part: int) -> Any:
        import numpy as np

        read = np.zeros(len(self.order), bool)
        read[self.edges(part)[0]] = True
        read[self.rows(part)] = False
        return np.flatnonzero(read)

    def local(self, part: int) -> LocalGraph:
        """The part for a runtime that takes whole graphs: its rows (to be copied), and edges that count in them."""
        import numpy as np

        own, halo = self.rows(part), self.halo(part)
        rows = np.concatenate([np.arange(own.start, own.stop), halo])
        place = np.empty(len(self.order), np.int64)
        place[rows] = np.arange(len(rows))
        return LocalGraph(rows, own.stop - own.start, place[self.edges(part)])

    def arranged(self, values: Any, out: Any = None) -> Any:
        """Values of nodes in the order of the parts."""
        import numpy as np

        return np.take(values, self.order, axis=0, out=out, mode="clip")

    def restored(self, values: Any, out: Any = None) -> Any:
        """Values of rows in the original order of the nodes."""
        import numpy as np

        return np.take(values, self.position, axis=0, out=out, mode="clip")


def parts_of(edge_index: Any, nodes: int, count: int, ratios: Sequence[float] = ()) -> Parts:
    """The graph in `count` parts with few edges between them, of equal nodes or in these ratios; parts may be empty."""
    import numpy as np

    if count < 1:
        raise BadInput(f"a graph cannot be cut into {count} parts", hint="Ask for one part or more.")
    membership = _membership(edge_index, nodes, count, ratios)
    order = _by_part(membership, count)
    position = np.empty(nodes, np.int64)
    position[order] = np.arange(nodes)
    target = membership[edge_index[1]]
    starts, edge_starts = (_starts(each, count) for each in (membership, target))
    return Parts(membership, order, position, starts, position[edge_index], _by_part(target, count), edge_starts)


def _by_part(part: Any, count: int) -> Any:
    """Positions sorted by part, else as they were; numpy sorts short numbers by radix."""
    import numpy as np

    return np.argsort(part.astype(np.min_scalar_type(count)), kind="stable")


def _starts(part: Any, count: int) -> tuple[int, ...]:
    import numpy as np

    return (0, *np.cumsum(np.bincount(part, minlength=count)).tolist())


def _membership(edge_index: Any, nodes: int, count: int, ratios: Sequence[float]) -> Any:
    """The part of each node; without edges between nodes or with few nodes there is nothing to ask METIS."""
    import numpy as np

    if count == 1:
        return np.zeros(nodes, np.int64)
    indptr, neighbours = _undirected(edge_index, nodes)
    if count >= nodes or not len(neighbours):
        ends = np.cumsum(ratios or [1 / min(count, max(nodes, 1))] * count)
        return np.searchsorted(ends[:-1], (np.arange(nodes) + 0.5) / max(nodes, 1))
    return np.asarray(_metis(indptr, neighbours, count, list(ratios) or None), np.int64)


def _undirected(edge_index: Any, nodes: int) -> tuple[Any, Any]:
    """The neighbours of each node in CSR form, both ways, each once and without itself, as METIS wants them."""
    import numpy as np

    apart = edge_index[:, edge_index[0] != edge_index[1]]
    keys = np.sort(np.concatenate([apart[0] * nodes + apart[1], apart[1] * nodes + apart[0]]))
    keys = keys[np.diff(keys, prepend=-1) > 0]
    indptr = np.zeros(nodes + 1, np.int32)
    np.cumsum(np.bincount(keys // max(nodes, 1), minlength=nodes), out=indptr[1:])
    return indptr, (keys % max(nodes, 1)).astype(np.int32)


def _metis(indptr: Any, neighbours: Any, count: int, ratios: list[float] | None) -> Any:
    try:
        import pymetis
    except ImportError:
        from codedag.ir.errors import MissingPackage

        raise MissingPackage(
            "graphs are cut into parts by METIS, and pymetis is not installed", hint="pip install 'codedag[stages]'"
        ) from None
    if hasattr(pymetis, "CSRAdjacency"):
        return pymetis.part_graph(count, pymetis.CSRAdjacency(indptr, neighbours), tpwgts=ratios)[1]
    return pymetis.part_graph(count, xadj=indptr, adjncy=neighbours, tpwgts=ratios)[1]
