"""Rows of features through a small network with layer norm, in numpy."""

import hashlib

import numpy as np

ROWS, FEATURES, BATCHES = 256, 768, 8000


def layer_norm(x, gain, shift):
    mean = x.mean(axis=-1, keepdims=True)
    var = x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5) * gain + shift


def main():
    draw = np.random.default_rng(0)
    gain = draw.normal(1, 0.1, FEATURES).astype(np.float32)
    shift = draw.normal(0, 0.1, FEATURES).astype(np.float32)
    tokens = draw.standard_normal((ROWS * 8, FEATURES), np.float32)
    seen = hashlib.sha256()
    for batch in range(BATCHES):
        first = batch % 7 * ROWS
        normed = layer_norm(tokens[first : first + ROWS], gain, shift)
        pooled = normed[:: batch % 5 + 1].max(axis=0)
        seen.update(pooled.tobytes())
    print(seen.hexdigest())


main()
