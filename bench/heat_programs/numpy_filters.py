"""Array filters with numpy: long calls that give up the lock, and short ones that do not."""

import sys
import time

import numpy as np


def smooth(picture):
    return sum(np.roll(picture, shift, axis) for shift in (-1, 1) for axis in (0, 1)) / 4


def equalise(picture):
    values, counts = np.unique(picture.round(2), return_counts=True)
    return np.interp(picture, values, counts.cumsum() / counts.sum())


def spectrum(picture):
    return np.abs(np.fft.fft2(picture))


def process(picture):
    return spectrum(equalise(smooth(picture))).mean()


def main(seconds):
    rng = np.random.default_rng(0)
    pictures = [rng.random((128, 128)) for _ in range(16)]
    until = time.process_time() + seconds
    total = 0.0
    while time.process_time() < until:
        for picture in pictures:
            total += process(picture)
    return total


if __name__ == "__main__":
    main(float(sys.argv[1]))
