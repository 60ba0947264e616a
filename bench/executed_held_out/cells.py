"""Cells in pictures by skimage: smoothed, a threshold, holes closed, labelled, measured."""

import numpy as np
from scipy import ndimage
from skimage import filters, measure, morphology

DRAW = np.random.default_rng(0)
PICTURES = [ndimage.gaussian_filter(DRAW.random((200, 200)), 4) for _ in range(3)]


def prepared(picture):
    smooth = filters.gaussian(picture, sigma=1.5)
    mask = smooth > filters.threshold_otsu(smooth)
    closed = morphology.closing(mask, morphology.disk(2))
    labels = measure.label(closed)
    return [region.area for region in measure.regionprops(labels)]


def main():
    return sum(len(prepared(PICTURES[index % 3])) for index in range(30))


if __name__ == "__main__":
    main()
