"""Every tensor of a stack of SAGE layers (mean, ReLU), in float64, straight from the definition."""

import itertools

import numpy as np

KINDS = ("GATHER", "MESSAGE", "REDUCE_SUM", "REDUCE_COUNT", "NORMALIZE", "TRANSFORM", "ACTIVATE")


def weights_of(widths, seed=0):
    """Weights by PyG's names, small enough that sums stay near 1."""
    random, arrays = np.random.default_rng(seed), {}
    for layer, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        here = "" if layer == 0 else f"{layer}."
        scale = 1 / np.sqrt(max(inputs, 1))
        arrays[f"{here}lin_l.weight"] = (random.standard_normal((outputs, inputs)) * scale).astype(np.float32)
        arrays[f"{here}lin_l.bias"] = random.standard_normal(outputs).astype(np.float32)
        arrays[f"{here}lin_r.weight"] = (random.standard_normal((outputs, inputs)) * scale).astype(np.float32)
    return arrays


def tensors_of(x, edge_index, weights):
    """All tensors by name, as sage7 names them."""
    layers = sum(name.endswith("lin_l.bias") for name in weights)
    found = {"x": x, "edge_index": edge_index}
    for layer in range(layers):
        found |= _layer(found["x" if layer == 0 else f"out.{layer - 1}"], edge_index, weights, layer, layers)
    return found


def _layer(x, edge_index, weights, layer, layers):
    here = "" if layer == 0 else f"{layer}."
    values = x.astype(np.float64)
    x_j = values[edge_index[0]]
    aggregated = np.zeros_like(values)
    np.add.at(aggregated, edge_index[1], x_j)
    degree = np.bincount(edge_index[1], minlength=len(x)).astype(np.float64)
    mean = aggregated / np.maximum(degree, 1)[:, None]
    transformed = mean @ weights[f"{here}lin_l.weight"].T.astype(np.float64) + weights[f"{here}lin_l.bias"]
    transformed = transformed + values @ weights[f"{here}lin_r.weight"].T.astype(np.float64)
    out = np.where(transformed < 0, 0, transformed)
    named = {
        "x_j": x_j, "messages": x_j, "aggregated": aggregated, "degree": degree, "mean": mean,
        "transformed": transformed,
    }  # fmt: skip
    last = "out" if layer == layers - 1 else f"out.{layer}"
    return {f"{here}{name}": array for name, array in named.items()} | {last: out}


def stages_of(layers):
    """(kind, inputs, output) of every stage of a stack."""
    stages = []
    for layer in range(layers):
        here = "" if layer == 0 else f"{layer}."
        x = "x" if layer == 0 else f"out.{layer - 1}"
        out = "out" if layer == layers - 1 else f"out.{layer}"
        wiring = (
            ((x, "edge_index"), f"{here}x_j"), ((f"{here}x_j",), f"{here}messages"),
            ((f"{here}messages", "edge_index", x), f"{here}aggregated"), (("edge_index", x), f"{here}degree"),
            ((f"{here}aggregated", f"{here}degree"), f"{here}mean"), ((f"{here}mean", x), f"{here}transformed"),
            ((f"{here}transformed",), out),
        )  # fmt: skip
        stages += [(kind, *wires) for kind, wires in zip(KINDS, wiring, strict=True)]
    return stages


def close(actual, expected):
    """Whether float32 results are those of float64: NaN at the same places, else 1e-5 of the largest value."""
    expected = np.asarray(expected)
    assert actual.shape == expected.shape
    assert np.array_equal(np.isnan(actual), np.isnan(expected))
    if expected.size and not np.isnan(expected).all():
        largest = max(np.nanmax(np.abs(expected)), 1e-3)
        assert np.nanmax(np.abs(actual - expected)) <= 1e-5 * largest
    return True
