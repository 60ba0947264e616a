"""Scans filtered with scipy.ndimage: the same twelve scans, every turn one of them with a threshold of its own."""

import hashlib
import sys

import numpy as np
from scipy import ndimage

SCANS = [np.random.default_rng(seed).integers(0, 256, (256, 256)).astype(np.uint8) for seed in range(12)]


def lungs(scan, threshold):
    smooth = ndimage.gaussian_filter(scan.astype(np.float32), 2.0)
    median = ndimage.median_filter(scan, size=5)
    mask = ndimage.binary_opening(smooth > threshold, iterations=2)
    labels, count = ndimage.label(mask)
    sizes = ndimage.sum(mask, labels, range(1, count + 1)) if count else np.zeros(1)
    edges = ndimage.sobel(median.astype(np.float32), axis=0)
    return float(np.max(sizes)), float(edges.std()), count


digest = hashlib.sha256()
for turn in range(int(sys.argv[1])):
    digest.update(repr(lungs(SCANS[turn % len(SCANS)], 120 + turn % 17)).encode())
print("scans", digest.hexdigest())
