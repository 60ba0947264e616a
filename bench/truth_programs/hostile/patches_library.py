"""Library functions that are replaced in mid-run, by another function and by a counter, and put back."""

import numpy as np
from scipy import ndimage

calls = []
original, usual = ndimage.gaussian_filter, np.sort


def counted(*args, **options):
    calls.append(args[1])
    return original(*args, **options) + 1


def step(k):
    image = np.random.default_rng(k % 5).random((48, 48))
    return float(ndimage.gaussian_filter(image, 1.5)[3, 3]) + float(np.sort(image, axis=None)[9])


total = []
for k in range(18_000):
    if k == 7500:
        ndimage.gaussian_filter = counted
        np.sort = lambda array, axis=-1: usual(array, axis=axis)[::-1]
    if k == 12_000:
        ndimage.gaussian_filter, np.sort = original, usual
    total.append(step(k))
print(len(calls), repr(sum(total[:7500])), repr(sum(total[7500:12_000])), repr(sum(total[12_000:])))
