"""Microseconds of a chain of nine operations on a small picture: python tests/unit/migrate/overhead.py."""

from __future__ import annotations

import itertools
import timeit

import numpy as np
from fusing import fuse, plain

from codedag.migrate.fuse import native_chain
from codedag.migrate.fuse.kernel_pool import KernelPool

SOURCE = """
import numpy as np
def f(img, a, b, mean, std):
    x = img.astype(np.float32) * a + b
    x = np.clip(x, 0, 255)
    x = (x / 255. - mean) / std
    return np.ascontiguousarray(x.transpose(2, 0, 1))
"""


def main() -> None:
    img = np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8)
    mean, std = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)
    kernels = KernelPool(synchronous=True).take
    fused = fuse(SOURCE, lambda module: module.f(img, 1.1, 2.0, mean, std), kernels=kernels)
    extension, native_chain.native = native_chain.native, None
    slow = fuse(SOURCE, lambda module: module.f(img, 1.1, 2.0, mean, std), kernels=kernels)
    native_chain.native = extension
    original, count = plain(SOURCE), itertools.count()
    cases = {
        "as written": lambda: original.f(img, 1.1, 2.0, mean, std),
        "in Python": lambda: slow.f(img, 1.1, 2.0, mean, std),
        "new table": lambda: slow.f(img, 1.1 + next(count) * 1e-6, 2.0, mean, std),
        "native": lambda: fused.f(img, 1.1 + next(count) * 1e-6, 2.0, mean, std),
    }
    rounds = [{name: timeit.timeit(case, number=500) / 500 for name, case in cases.items()} for _ in range(12)]
    for name in cases:
        times = sorted(one[name] * 1e6 for one in rounds[1:])
        print(f"{name:16s} best {times[0]:6.1f} us, median {times[len(times) // 2]:6.1f} us")
    assert fused.trial.calls > 5_000, fused.trial.declined


if __name__ == "__main__":
    main()
