"""Filters, transforms, segmentation and measures of a made-up picture; prints a hash of every result."""
import hashlib
import sys
import warnings

import numpy as np
from skimage import color, exposure, feature, filters, measure, morphology, restoration, segmentation, transform, util

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 1
warnings.simplefilter("ignore")


def once(number):
    rng = np.random.default_rng(number)
    x, y = np.mgrid[0:96, 0:96]
    grey = (np.sin(x / 7) + np.cos(y / 9) + rng.normal(0, 0.1, (96, 96)) + 3) / 6
    rgb = np.clip(np.stack([grey, grey.T, 1 - grey], -1), 0, 1)
    yield filters.gaussian(grey, 2)
    yield filters.sobel(grey)
    yield filters.threshold_otsu(grey)
    yield filters.median(util.img_as_ubyte(np.clip(grey, 0, 1)))
    yield filters.unsharp_mask(grey, 3)
    yield transform.resize(grey, (50, 61), anti_aliasing=True)
    yield transform.rotate(grey, 17)
    yield transform.warp(rgb, transform.AffineTransform(scale=(1.1, 0.9), translation=(3, -2)))
    yield transform.radon(grey[:40, :40], theta=[0, 30, 60], circle=False)
    yield color.rgb2lab(rgb)
    yield color.rgb2hsv(rgb)
    yield exposure.equalize_adapthist(grey)
    yield exposure.rescale_intensity(grey)
    yield feature.canny(grey, 1.5)
    yield feature.hog(grey)
    yield feature.local_binary_pattern(util.img_as_ubyte(np.clip(grey, 0, 1)), 8, 1)
    yield feature.peak_local_max(grey, min_distance=5)
    binary = grey > filters.threshold_otsu(grey)
    labels = measure.label(binary)
    yield labels
    yield [(r.label, r.area, r.centroid, r.perimeter) for r in measure.regionprops(labels)]
    yield morphology.skeletonize(binary)
    yield morphology.opening(binary, morphology.disk(2))
    yield segmentation.slic(rgb, n_segments=20, start_label=1)
    yield segmentation.watershed(filters.sobel(grey), labels)
    yield restoration.denoise_tv_chambolle(grey, weight=0.1)
    yield measure.find_contours(grey, 0.5)[0]


total = hashlib.sha256()
for number in range(ROUNDS):
    for result in once(number):
        array = isinstance(result, np.ndarray)
        total.update(f"{result.dtype}{result.shape}".encode() + result.tobytes() if array else repr(result).encode())
print(total.hexdigest())
