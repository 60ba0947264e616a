"""sage7: GraphSAGE with mean aggregation and ReLU as the seven stages of the guide, one layer or a stack of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codedag.stages.model import Arrays, BadInput, Source, StagedModel

if TYPE_CHECKING:
    from codedag.stages.torch_models.torch_programs import Part

FEATURES, HIDDEN = 500, 256
KINDS = ("GATHER", "MESSAGE", "REDUCE_SUM", "REDUCE_COUNT", "NORMALIZE", "TRANSFORM", "ACTIVATE")
WEIGHTS = ("lin_l.weight", "lin_l.bias", "lin_r.weight")
#: The sizes of the example that the stages are exported with; no size of it is kept.
EXAMPLE_NODES, EXAMPLE_EDGES = 7, 19


def sage7(
    layers: int | Sequence[int] = 1,
    features: int = FEATURES,
    hidden: int = HIDDEN,
    weights: str | Path | Mapping[str, Any] | None = None,
) -> StagedModel:
    """GraphSAGE in seven stages a layer, equal to PyG's SAGEConv (mean) and ReLU.

    `layers` is how many layers of `hidden` features there are, or a list of their features. Weights have PyG's names
    (`lin_l.weight`, `lin_l.bias`, `lin_r.weight`; `1.lin_l.weight` ... for the second layer) and come from a dict or
    an .npz file; else they are those of torch's nn.Linear layers in this order after torch.manual_seed(0).
    """
    from codedag.stages.torch_models.from_torch import from_modules
    from codedag.stages.torch_models.torch_layers import sage_module

    given = _given(weights)
    widths = _widths(layers, features, hidden, given)
    arrays = given or drawn(widths)
    parts = [
        part
        for layer in range(len(widths) - 1)
        for part in _layer(layer, len(widths) - 1, _layer_weights(arrays, layer, widths), sage_module)
    ]
    name = "sage7" if len(widths) == 2 else f"sage7x{len(widths) - 1}"
    source = Source("sage7", weights=str(weights) if isinstance(weights, str | Path) else "")
    return from_modules(parts, _example(widths[0]), dynamic=DYNAMIC, name=name, source=source)


DYNAMIC = {"x": {0: "nodes"}, "edge_index": {1: "edges"}}


def _layer(layer: int, layers: int, weights: Arrays, sage_module: Any) -> list[Part]:
    from codedag.stages.torch_models.torch_programs import Part

    here = "" if layer == 0 else f"{layer}."
    x = "x" if layer == 0 else f"out.{layer - 1}"
    out = "out" if layer == layers - 1 else f"out.{layer}"
    edges, x_j, messages = "edge_index", f"{here}x_j", f"{here}messages"
    aggregated, degree, mean, transformed = (
        f"{here}{each}" for each in ("aggregated", "degree", "mean", "transformed")
    )
    wiring = (
        ((x, edges), x_j), ((x_j,), messages), ((messages, edges, x), aggregated), ((edges, x), degree),
        ((aggregated, degree), mean), ((mean, x), transformed), ((transformed,), out),
    )  # fmt: skip
    return [
        Part(f"{here}{kind}", sage_module(kind, weights), inputs, (output,), kind, here)
        for kind, (inputs, output) in zip(KINDS, wiring, strict=True)
    ]


def _given(weights: str | Path | Mapping[str, Any] | None) -> Arrays:
    """The weights as they were given, by name; nothing if they were not."""
    if weights is None or weights == "":
        return {}
    if isinstance(weights, Mapping):
        return {name: _plain(value) for name, value in weights.items()}
    from codedag.stages.npz import read_npz

    return read_npz(Path(weights))


def _plain(value: Any) -> Any:
    import numpy as np

    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def _widths(layers: int | Sequence[int], features: int, hidden: int, given: Arrays) -> list[int]:
    """The features before and after each layer; those of the weights where they are given."""
    if given:
        return _widths_of(given)
    widths = [hidden] * layers if isinstance(layers, int) else list(layers)
    if not widths or any(width < 1 for width in (features, *widths)):
        raise BadInput("sage7 needs at least one layer, and layers of at least one feature")
    return [features, *widths]


def _widths_of(given: Arrays) -> list[int]:
    count = 1
    while f"{count}.lin_l.weight" in given:
        count += 1
    widths: list[int] = []
    for layer in range(count):
        here = "" if layer == 0 else f"{layer}."
        missing = [f"{here}{name}" for name in WEIGHTS if f"{here}{name}" not in given]
        if missing:
            raise BadInput(f"the weights have no array `{missing[0]}`", hint=f"They have {', '.join(given)}.")
        outputs, inputs = _matrix(given, f"{here}lin_l.weight")
        widths = widths or [inputs]
        if inputs != widths[-1]:
            raise BadInput(f"`{here}lin_l.weight` reads {inputs} features; the layer before it gives {widths[-1]}")
        widths.append(outputs)
    return widths


def _matrix(given: Arrays, name: str) -> tuple[int, int]:
    if given[name].ndim != 2:
        raise BadInput(f"`{name}` has shape {given[name].shape}; it must be a matrix [outputs, inputs]")
    rows, columns = given[name].shape
    return int(rows), int(columns)


def _layer_weights(arrays: Arrays, layer: int, widths: Sequence[int]) -> Arrays:
    """The float32 weights of one layer, checked."""
    import numpy as np

    here = "" if layer == 0 else f"{layer}."
    shape = (widths[layer + 1], widths[layer])
    found: Arrays = {}
    for name, wanted in zip(WEIGHTS, (shape, shape[:1], shape), strict=True):
        array = arrays[f"{here}{name}"]
        if array.shape != wanted or array.dtype.kind != "f":
            raise BadInput(f"`{here}{name}` is {array.dtype} {array.shape}; it must be float32 {wanted}")
        found[name] = np.array(array, dtype=np.float32)
    return found


def drawn(widths: Sequence[int]) -> Arrays:
    """Weights from seed 0: those of nn.Linear lin_l, lin_r of each layer in turn."""
    from codedag.stages.torch_models.torch_layers import linear_weights

    return linear_weights(widths)


def _example(features: int) -> Arrays:
    """A small graph whose sizes are all different."""
    import numpy as np

    random = np.random.default_rng(0)
    x = random.standard_normal((EXAMPLE_NODES, features), dtype=np.float32)
    return {"x": x, "edge_index": random.integers(0, EXAMPLE_NODES, (2, EXAMPLE_EDGES))}
