"""A chain of generators over numpy arrays; the loop pulls batches from the last one."""

import hashlib
import sys

import numpy as np


def samples(count, rng):
    for _ in range(count):
        yield rng.normal(0, 1, (64, 256))


def scaled(source):
    for each in source:
        yield (each - each.mean(axis=1, keepdims=True)) / (each.std(axis=1, keepdims=True) + 1e-6)


def windows(source, size=32):
    for each in source:
        view = np.lib.stride_tricks.sliding_window_view(each, size, axis=1)[:, ::8]
        yield np.sort(view, axis=-1).mean(-1), np.clip(each, -2, 2)


def batches(source, count=4):
    held = []
    for each in source:
        held.append(each)
        if len(held) == count:
            yield np.concatenate([a for a, _ in held]), np.concatenate([b for _, b in held])
            held = []


digest = hashlib.sha256()
for means, clipped in batches(windows(scaled(samples(4 * int(sys.argv[1]), np.random.default_rng(9))))):
    digest.update(means.tobytes() + clipped[:, ::16].tobytes())
print("batches", digest.hexdigest())
