"""Graph inputs of staged graph models: checked `edge_index` and `x` of an .npz file, or a synthetic power-law graph."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codedag.stages.model import Arrays, BadInput
from codedag.stages.npz import read_npz

if TYPE_CHECKING:
    import numpy as np

SYNTHETIC = "synthetic:"
#: The sizes of the Flickr graph of GraphSAINT: pairs are undirected, so edges are twice as many.
FLICKR_NODES, FLICKR_PAIRS, FLICKR_FEATURES = 89_250, 449_878, 500
SCALE_MIN, SCALE_MAX = 0.002, 100.0
_COMMUNITIES, _MIXED = 60, 0.55  # the share of pairs that do not care for communities
_EXPONENT, _DEGREE_MAX = 1.6, 540  # of the power law; a degree is at most this many times the mean


@dataclass(frozen=True)
class GraphInput:
    """A graph as sage7 reads it: `edge_index` int64 [2, edges] (sources, targets) and `x` float32 [nodes, features]."""

    name: str
    edge_index: Any
    x: Any

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self.x)

    @property
    def edges(self) -> int:
        """How many directed edges there are."""
        return int(self.edge_index.shape[1])

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes by their names in a model."""
        return {"nodes": self.nodes, "edges": self.edges}

    @property
    def arrays(self) -> dict[str, Any]:
        """The inputs of the model by the name of their tensor."""
        return {"x": self.x, "edge_index": self.edge_index}


def read_graph(text: str | Path, features: int | None = None) -> GraphInput:
    """The graph that `--graph` names: an .npz file, `synthetic:flickr` or `synthetic:flickr:SCALE`; raises BadInput."""
    if str(text).startswith(SYNTHETIC):
        return _synthetic(str(text), features)
    return checked_graph(str(text), _arrays_of(Path(text)), features)


def checked_graph(name: str, arrays: Mapping[str, Any], features: int | None = None) -> GraphInput:
    """The graph of these arrays; raises BadInput naming the array that does not fit, and where it came from."""
    for wanted in ("edge_index", "x"):
        if wanted not in arrays:
            known = ", ".join(arrays) or "no arrays"
            raise BadInput(f"{name}: there is no array `{wanted}` (it has {known})", hint=_HINT)
    x = _checked_x(name, arrays["x"], features)
    return GraphInput(name, checked_edges(name, arrays["edge_index"], len(x)), x)


def checked_edges(name: str, edges: Any, nodes: int) -> Any:
    """`edge_index` as contiguous int64 with ids from 0 to nodes - 1; raises BadInput naming what does not fit."""
    import numpy as np

    if edges.dtype.kind not in "iu":
        raise BadInput(f"{name}: `edge_index` is {edges.dtype}; node ids are whole numbers (int64)", hint=_HINT)
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise BadInput(f"{name}: `edge_index` has shape {edges.shape}; it is [2, edges]", hint=_HINT)
    if edges.size:
        low, high = int(edges.min()), int(edges.max())
        wrong = low if low < 0 else high
        if low < 0 or high >= nodes:
            row, column = (int(each[0]) for each in np.nonzero(edges == wrong))
            what = "is negative" if low < 0 else f"is out of range, `x` has {nodes} rows"
            raise BadInput(f"{name}: `edge_index[{row}, {column}]` is {wrong}, which {what}", hint=_HINT)
    return np.ascontiguousarray(edges, dtype=np.int64)


_HINT = "A graph has `edge_index`, int64 [2, edges], and `x`, float32 [nodes, features]."


def _checked_x(name: str, x: Any, features: int | None) -> Any:
    import numpy as np

    if x.dtype != np.float32:
        raise BadInput(f"{name}: `x` is {x.dtype}; the model reads float32", hint=_HINT)
    if x.ndim != 2:
        raise BadInput(f"{name}: `x` has shape {x.shape}; it is [nodes, features]", hint=_HINT)
    if features is not None and x.shape[1] != features:
        raise BadInput(f"{name}: `x` has {x.shape[1]} features; the model reads {features}")
    return np.ascontiguousarray(x)


def _arrays_of(path: Path) -> Arrays:
    """The arrays of a file; raises BadInput for one that is no archive, before numpy guesses what else it may be."""
    try:
        with path.open("rb") as stream:
            whole = zipfile.is_zipfile(stream)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}", hint="Or name `synthetic:flickr`.") from None
    if not whole:
        raise BadInput(f"{path} is no .npz file, or it is truncated", hint=_HINT)
    return read_npz(path)


def _synthetic(text: str, features: int | None) -> GraphInput:
    kind, _, scale = text.removeprefix(SYNTHETIC).partition(":")
    if kind != "flickr":
        raise BadInput(f"there is no graph `{text}`", hint="There are `synthetic:flickr` and `synthetic:flickr:0.1`.")
    try:
        return synthetic_flickr(float(scale) if scale else 1.0, features or FLICKR_FEATURES)
    except ValueError:
        raise BadInput(f"`{scale}` in `{text}` is no scale", hint="Such as `synthetic:flickr:0.1`.") from None


def synthetic_flickr(scale: float = 1.0, features: int = FLICKR_FEATURES, seed: int = 0) -> GraphInput:
    """A power-law graph of mixed communities with the sizes of Flickr times `scale`; equal seeds give equal graphs."""
    import numpy as np

    if not SCALE_MIN <= scale <= SCALE_MAX:
        raise BadInput(f"the scale {scale:g} of `synthetic:flickr` is not in {SCALE_MIN:g} to {SCALE_MAX:g}")
    nodes, pairs = round(FLICKR_NODES * scale), round(FLICKR_PAIRS * scale)
    random = np.random.default_rng(seed)
    low, high = _distinct_pairs(random, nodes, pairs)
    edges = np.stack([np.concatenate([low, high]), np.concatenate([high, low])])
    x = random.standard_normal((nodes, features), dtype=np.float32)
    name = f"{SYNTHETIC}flickr" if scale == 1 else f"{SYNTHETIC}flickr:{scale:g}"
    return GraphInput(name, edges, x)


def _distinct_pairs(random: np.random.Generator, nodes: int, pairs: int) -> tuple[Any, Any]:
    """Exactly `pairs` different undirected pairs without self loops, in random order."""
    import numpy as np

    draw = _PairSampler(random, nodes)
    keys = np.empty(0, np.int64)
    while len(keys) < pairs:
        keys = np.unique(np.concatenate([keys, draw(pairs // 2 if len(keys) else pairs + pairs // 3)]))
    keys = random.permutation(keys)[:pairs]
    return keys // nodes, keys % nodes


class _PairSampler:
    """Draws pairs whose ends have power-law weights and of which a part stays inside one community."""

    def __init__(self, random: np.random.Generator, nodes: int) -> None:
        import numpy as np

        self._random, self._nodes = random, nodes
        weights = random.pareto(_EXPONENT, nodes) + 1
        weights = np.minimum(weights, weights.mean() * _DEGREE_MAX)
        self._community = random.integers(0, _COMMUNITIES, nodes)
        self._order = np.argsort(self._community, kind="stable")  # nodes, one community after the other
        self._all = np.cumsum(weights)
        self._grouped = np.concatenate([[0.0], np.cumsum(weights[self._order])])
        self._starts = np.searchsorted(self._community[self._order], np.arange(_COMMUNITIES + 1))

    def __call__(self, count: int) -> Any:
        import numpy as np

        source, target = self._anywhere(count), self._anywhere(count)
        local = self._random.random(count) >= _MIXED
        target = np.where(local, self._near(source), target)
        apart = source != target
        low, high = np.minimum(source, target)[apart], np.maximum(source, target)[apart]
        return low * self._nodes + high

    def _anywhere(self, count: int) -> Any:
        import numpy as np

        found = np.searchsorted(self._all, self._random.random(count) * self._all[-1])
        return np.minimum(found, self._nodes - 1)

    def _near(self, source: Any) -> Any:
        """Nodes of the communities of `source`."""
        import numpy as np

        group = self._community[source]
        low, high = self._grouped[self._starts[group]], self._grouped[self._starts[group + 1]]
        at = np.searchsorted(self._grouped, low + (high - low) * self._random.random(len(source))) - 1
        return self._order[np.clip(at, 0, self._nodes - 1)]
