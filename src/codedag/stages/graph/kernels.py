"""Kernels of graph stages: the seven stages of a SAGE layer with mean, alone and fused, over a cached CSR form."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from codedag.stages.graph import loops
from codedag.stages.graph.blas import one_blas_thread
from codedag.stages.model import BadInput

Range = tuple[int, int]
#: What a range of a loop touches at least: handing work to another thread costs 30 to 60 us.
RANGE_NBYTES = 1 << 20
RANGES_PER_THREAD = 8
GRAPHS_KEPT = 16
#: Rows that one thread multiplies at once: their products stay in the L2 cache, and larger chunks are not faster.
CHUNK_ROWS = 2048
ROWS_SHARED = 128  # products of more rows are shared by the threads
ROW_COST = 4  # of writing and finishing a row, in edges


class Threads:
    """Threads that share the ranges of a loop; nothing spins between two loops."""

    def __init__(self, count: int) -> None:
        self.count = max(count, 1)
        self._pool: ThreadPoolExecutor | None = None
        self._process = -1

    def over(self, ranges: Iterable[Range], run: Callable[..., Any], *arguments: Any) -> list[Any]:
        """What `run(*arguments, first, last)` gives for all ranges, in no order."""
        left = iter(ranges)
        begun = list(itertools.islice(left, 2)) if self.count > 1 else []
        if len(begun) < 2:
            return [loops.call(run, *arguments, *each) for each in itertools.chain(begun, left)]
        return self._shared(iter(list(itertools.chain(begun, left))), run, arguments)

    def _shared(self, left: Iterable[Range], run: Callable[..., Any], arguments: tuple[Any, ...]) -> list[Any]:
        def work() -> list[Any]:
            return [loops.call(run, *arguments, *each) for each in left]

        pool = self._ready()
        helpers = [pool.submit(work) for _ in range(self.count - 1)]
        try:
            mine = work()
        finally:
            wait(helpers)
        return mine + [each for helper in helpers for each in helper.result()]

    def _ready(self) -> ThreadPoolExecutor:
        if self._pool is None or self._process != os.getpid():  # the threads of a parent are not in its fork
            self._pool, self._process = ThreadPoolExecutor(self.count - 1, "codedag-kernels"), os.getpid()
        return self._pool

    def pieces(self, nbytes: int) -> int:
        """Into how many ranges a loop is cut that touches so many bytes: one for little work."""
        return max(1, min(self.count * RANGES_PER_THREAD, nbytes // RANGE_NBYTES))

    def ranges(self, rows: int, nbytes: int) -> list[Range]:
        """Equal ranges of rows that touch so many bytes."""
        return _even(0, rows, min(rows, self.pieces(nbytes)))


def _even(first: int, last: int, pieces: int) -> list[Range]:
    """So many ranges of about equal length, none if there are no rows."""
    rows = last - first
    ends = (first + rows * piece // pieces for piece in range(pieces + 1))
    return list(itertools.pairwise(ends)) if rows > 0 else []


@dataclass(frozen=True, eq=False)
class Csr:
    """Edges sorted by target: row i has `sources[indptr[i]:indptr[i + 1]]`, which were the columns `edges[...]`."""

    edge_index: Any  # a copy: what the rest was made of
    indptr: Any
    sources: Any
    edges: Any

    @property
    def nodes(self) -> int:
        """How many rows there are."""
        return len(self.indptr) - 1

    def ranges(self, threads: Threads, width: int, first: int = 0, last: int | None = None) -> list[Range]:
        """Ranges of the rows from first to last with about equal work, whatever their degrees are."""
        last = self.nodes if last is None else last
        low, high = self._work(first), self._work(last)
        pieces = threads.pieces((high - low) * width * 4)
        inner = (bisect(self._work, first, last, low + (high - low) * at / pieces) for at in range(1, pieces))
        return list(itertools.pairwise(sorted({first, last, *inner})))

    def _work(self, row: int) -> int:
        return int(self.indptr[row]) + ROW_COST * row


def bisect(function: Callable[[int], float], low: int, high: int, value: float) -> int:
    """The first place from low to high at which a growing function reaches a value."""
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if function(middle) < value else (low, middle)
    return low


def csr_of(edge_index: Any, nodes: int) -> Csr:
    """The edges sorted by target; raises BadInput naming an id that is no row of `x`."""
    for row in range(2):
        at = int(loops.call(loops.first_outside, edge_index[row], nodes))
        if at >= 0:
            raise BadInput(f"`edge_index[{row}, {at}]` is {int(edge_index[row, at])}; `x` has {nodes} rows")
    count = edge_index.shape[1]
    indptr, kept = np.zeros(nodes + 1, np.int64), edge_index.copy()
    sources, edges = np.empty(count, np.uint32), np.empty(count, np.uint32)
    loops.call(loops.counting_sort, kept[0], kept[1], indptr, sources, edges)
    return Csr(kept, indptr, sources, edges)


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """The weights of a layer, ready for products: [inputs, outputs] for the mean, for the node itself, and beside."""

    left: Any
    right: Any
    both: Any
    bias: Any

    @staticmethod
    def of(left: Any, bias: Any, right: Any) -> LayerWeights:
        """The weights from `lin_l.weight`, `lin_l.bias` and `lin_r.weight` as PyG has them: [outputs, inputs]."""
        left, right = (np.ascontiguousarray(each.T, dtype=np.float32) for each in (left, right))
        both = np.ascontiguousarray(np.concatenate([left, right], axis=1))
        return LayerWeights(left, right, both, np.ascontiguousarray(bias, dtype=np.float32))

    @property
    def inputs(self) -> int:
        """The features before the layer."""
        return int(self.left.shape[0])

    @property
    def outputs(self) -> int:
        """The features after the layer."""
        return int(self.left.shape[1])

    @property
    def transforms_first(self) -> bool:
        """Whether fewer columns have to be gathered after the products than before."""
        return self.outputs <= self.inputs


class GraphKernels:
    """The kernels with their threads, the CSR forms of the graphs they have met, and buffers that are used again."""

    def __init__(self, threads: int) -> None:
        self.threads = Threads(threads)
        self._graphs: list[Csr] = []  # the last used first
        self._buffers: dict[tuple[str, int], Any] = {}

    def csr(self, edge_index: Any, nodes: int) -> Csr:
        """The CSR form of these edges: made once, used as long as the edges are the same."""
        edge_index = np.ascontiguousarray(edge_index)
        for at, known in enumerate(self._graphs):
            if known.nodes == nodes and self._same(known.edge_index, edge_index):
                if at:
                    self._graphs.insert(0, self._graphs.pop(at))
                return known
        self._graphs = [csr_of(edge_index, nodes), *self._graphs[: GRAPHS_KEPT - 1]]
        return self._graphs[0]

    def _same(self, known: Any, edges: Any) -> bool:
        if known.shape != edges.shape:
            return False
        a, b = known.reshape(-1), edges.reshape(-1)
        begin = min(len(a), 1024)  # other edges differ early, as a rule
        if loops.call(loops.differs, a, b, 0, begin):
            return False
        return not any(self.threads.over(self.threads.ranges(len(a), 2 * a.nbytes), loops.differs, a, b))

    def buffer(self, name: str, *shape: int, local: bool = False) -> Any:
        """A float32 array of this shape, of this thread alone if asked; what it had is lost at the next such call."""
        size, key = prod(shape), (name, threading.get_ident() if local else 0)
        if key not in self._buffers or self._buffers[key].size < size:
            self._buffers[key] = np.empty(size, np.float32)
        return self._buffers[key][:size].reshape(shape)

    # -- single stages

    def gather(self, csr: Csr, x: Any, out: Any) -> None:
        """GATHER, and MESSAGE, which is the identity: out[e] = x[edge_index[0, e]]."""
        ids = csr.edge_index[0]
        self.threads.over(self.threads.ranges(len(out), out.nbytes), loops.gather_rows, x, ids, out)

    def copy(self, values: Any, out: Any) -> None:
        """MESSAGE: out = values."""
        self.threads.over(self.threads.ranges(len(out), out.nbytes), _copy_rows, values, out)

    def reduce(self, csr: Csr, messages: Any, out: Any, mean: bool = False) -> None:
        """REDUCE_SUM of messages by target; the mean if it is asked for."""
        self._sums(csr, csr.edges, messages, out, mean)

    def count(self, csr: Csr, out: Any) -> None:
        """REDUCE_COUNT: how many edges end at each node."""
        np.subtract(csr.indptr[1:], csr.indptr[:-1], out=out, casting="unsafe")

    def divide(self, total: Any, degree: Any, out: Any) -> None:
        """NORMALIZE: out = total / max(degree, 1)."""
        self.threads.over(self.threads.ranges(len(out), out.nbytes), loops.divide_rows, total, degree, out)

    def relu(self, values: Any, out: Any) -> None:
        """ACTIVATE: out = values where they are not negative, else 0."""
        self.threads.over(self.threads.ranges(len(out), out.nbytes), loops.relu_rows, values, out)

    def transform(self, mean: Any, x: Any, weights: LayerWeights, out: Any, relu: bool = False) -> None:
        """TRANSFORM: out = mean @ left + x @ right + bias, and ReLU if it is asked for."""
        with one_blas_thread():
            self.threads.over(self.chunks(0, len(out)), self._transform_chunk, mean, x, weights, out, relu)

    def _transform_chunk(
        self, mean: Any, x: Any, weights: LayerWeights, out: Any, relu: bool, first: int, last: int
    ) -> None:
        part, more = out[first:last], self.buffer("product", last - first, weights.outputs, local=True)
        np.dot(mean[first:last], weights.left, out=part)
        np.dot(x[first:last], weights.right, out=more)
        loops.call(loops.add_rows, more, weights.bias, relu, part, 0, last - first)

    def chunks(self, first: int, last: int) -> list[Range]:
        """Ranges of rows for products: even shares of at most CHUNK_ROWS."""
        count = self.threads.count
        shares = -(-(last - first) // (CHUNK_ROWS * count))
        return _even(first, last, shares * count if last - first > ROWS_SHARED else 1)

    # -- fused stages

    def aggregate(self, csr: Csr, x: Any, out: Any, mean: bool = True) -> None:
        """GATHER to NORMALIZE at once (to REDUCE_SUM without `mean`): no array of edges is made."""
        self._sums(csr, csr.sources, x, out, mean)

    def _sums(self, csr: Csr, ids: Any, values: Any, out: Any, mean: bool) -> None:
        loop = loops.mean_rows if mean else loops.sum_rows
        ranges = csr.ranges(self.threads, out.shape[1])
        self.threads.over(ranges, loop, csr.indptr, ids, _in_planes(values, 1), out, 0)

    def layer(self, csr: Csr, x: Any, weights: LayerWeights, out: Any, relu: bool = True) -> None:
        """A whole layer; `out` may be `x` itself where the products come first."""
        if weights.transforms_first:
            products = self.buffer("products", len(x), 2 * weights.outputs)
            self.transform_rows(x, weights, products, 0, len(x))
            self.finish_rows(csr, products, weights, out, 0, len(x), relu)
        else:
            self.layer_rows(csr, x, weights, out, 0, len(x), relu)

    # -- rows of shared arrays: parts of a graph without copies

    def transform_rows(self, x: Any, weights: LayerWeights, products: Any, first: int, last: int) -> None:
        """Fills rows first to last - 1 of `products` [nodes, 2 * outputs]: for the mean, then for the node itself."""
        with one_blas_thread():
            self.threads.over(self.chunks(first, last), _product_rows, x, weights.both, products)

    def finish_rows(
        self, csr: Csr, products: Any, weights: LayerWeights, out: Any, first: int, last: int, relu: bool = True
    ) -> None:
        """Rows first to last - 1 of a layer from the products of all their neighbours (see `transform_rows`)."""
        values = _in_planes(products, 2)
        ranges = csr.ranges(self.threads, weights.outputs, first, last)
        self.threads.over(ranges, loops.layer_rows, csr.indptr, csr.sources, values, weights.bias, relu, out)

    def layer_rows(
        self, csr: Csr, x: Any, weights: LayerWeights, out: Any, first: int, last: int, relu: bool = True
    ) -> None:
        """Rows first to last - 1 of a layer, aggregated before the products: needs nothing but `x` of other rows."""
        with one_blas_thread():
            self.threads.over(self.chunks(first, last), self._layer_chunk, csr, x, weights, out, relu)

    def _layer_chunk(
        self, csr: Csr, x: Any, weights: LayerWeights, out: Any, relu: bool, first: int, last: int
    ) -> None:
        mean = self.buffer("mean", last - first, weights.inputs, local=True)
        loops.call(loops.mean_rows, csr.indptr, csr.sources, _in_planes(x, 1), mean, first, first, last)
        self._transform_chunk(mean, x[first:last], weights, out[first:last], relu, 0, last - first)


def _product_rows(x: Any, weights: Any, out: Any, first: int, last: int) -> None:
    np.dot(x[first:last], weights, out=out[first:last])


def _in_planes(values: Any, planes: int) -> Any:
    """[rows, planes, width]: numba then needs no checks of the index inside a row, and makes SIMD of the loop."""
    return values.reshape(len(values), planes, values.shape[1] // planes)


def _copy_rows(values: Any, out: Any, first: int, last: int) -> None:
    np.copyto(out[first:last], values[first:last])
