"""Substitutions from albumentations: loops over single pixels, which it runs in Python."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends import _pixels
from codedag.backends import albumentations_calls as samples
from codedag.backends.bytes_tables import Array
from codedag.backends.reasons import among, answer, is_number
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.ir.verdict import Verdict

ALBUMENTATIONS = "albumentations>=2.0.8,<2.1"  # copies of its loops; another release may change them
BLUR = "albumentations.augmentations.blur.functional.glass_blur"
SLIC = "albumentations.augmentations.pixel.functional.slic"
LARGEST = 1 << 24
LEAST = 16  # pixels; a loop over them takes longer than all that surrounds it


@substitutes(BLUR, into="codedag", gives=EXACT, needs=ALBUMENTATIONS, source_needs=ALBUMENTATIONS)
def glass_blur(img: Any, sigma: Any, max_delta: Any, iterations: Any, dxy: Any, mode: Any) -> Array:
    """The image blurred, its pixels exchanged one by one with neighbours, and blurred again."""
    import cv2

    mixed = cv2.GaussianBlur(np.array(img), sigmaX=sigma, ksize=(0, 0))
    size = mixed.itemsize * (mixed.shape[2] if mixed.ndim == 3 else 1)
    moves = np.ascontiguousarray(dxy, np.int64)
    _pixels.glass(mixed, *mixed.shape[:2], size, max_delta, moves, iterations, int(mixed.ndim == 3))
    result = cv2.GaussianBlur(mixed, sigmaX=sigma, ksize=(0, 0))
    return np.expand_dims(result, axis=-1) if result.ndim < img.ndim else result


@glass_blur.guard
def _(call: Any) -> Verdict:
    """Plain images of bytes or float32 with 1 to 4 channels, mode exact, moves that stay within the image."""
    plain = type(call.sigma) in (int, float) and 0.1 <= call.sigma <= 50 and among(call.mode, "exact")
    return answer(_image(call.img, "Bf") or ("" if plain else "mode fast, or an odd sigma") or _moves(call))


def _image(value: Any, codes: str) -> str:
    if type(value) is not np.ndarray or value.dtype.char not in codes or value.ndim not in (2, 3):
        return "not a plain image of such elements"
    known = value.ndim == 2 or 1 <= value.shape[2] <= 4
    return "" if known and LEAST <= value.size <= LARGEST else "empty, huge, or of more than four channels"


def _moves(call: Any) -> str:
    moves, reach = call.dxy, call.max_delta
    if type(reach) is not int or type(call.iterations) is not int or not 1 <= reach < LARGEST or call.iterations < 1:
        return "not plain numbers"
    if type(moves) is not np.ndarray or moves.dtype.kind != "i" or moves.ndim != 3 or not len(moves):
        return "moves that are not whole numbers"
    inside = moves.shape[1:] == (call.iterations, 2) and -reach <= moves.min() and moves.max() < reach
    return "" if inside else "moves out of the image"


@glass_blur.calls
def _(rng: random.Random) -> Call:
    return samples.glass(rng)


@substitutes(SLIC, into="codedag", gives=EXACT, needs=ALBUMENTATIONS, source_needs=ALBUMENTATIONS)
def slic(image: Any, n_segments: Any, compactness: Any = 10.0, max_iterations: Any = 10) -> Array:
    """The cluster of each pixel, by the same distances in the same order."""
    image = image[..., np.newaxis] if image.ndim == 2 else image
    height, width = image.shape[:2]
    values = np.ascontiguousarray(image.astype(np.float32) / np.max(image + 1e-6))
    step = int((height * width / n_segments) ** 0.5)
    columns, rows = (np.arange(step // 2, length, step) for length in (width, height))
    centres = np.stack([np.tile(columns, len(rows)), np.repeat(rows, len(columns))], axis=1)
    labels, distances = np.full((height, width), -1, np.int32), np.full((height, width), np.inf)
    sizes = (*image.shape, step, float(compactness), max_iterations)
    _pixels.clusters(values, np.ascontiguousarray(centres), labels, distances, *sizes)
    return labels


@slic.guard
def _(call: Any) -> Verdict:
    """Plain images of bytes with 1 to 4 channels, plain numbers, at least one cluster and one pixel for each."""
    numbers = type(call.n_segments) is int and type(call.max_iterations) is int and is_number(call.compactness)
    if not numbers or not 0 <= call.compactness < 1e6 or not 0 <= call.max_iterations < 1000:
        return answer("not plain numbers")
    return answer(_image(call.image, "B") or _grid(call))


def _grid(call: Any) -> str:
    height, width = call.image.shape[:2]
    if not 1 <= call.n_segments <= height * width:
        return "no cluster, or more than there are pixels"
    half = int((height * width / call.n_segments) ** 0.5) // 2
    return "" if half < min(height, width) else "clusters wider than the image"


@slic.calls
def _(rng: random.Random) -> Call:
    return samples.slic(rng)
