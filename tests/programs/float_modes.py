"""A chain on bytes in threads that flush small numbers to zero and in one that does not, as TensorFlow's threads do."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

SMALL, LARGE = np.array([1e-310, 1e-309, 1e-3]), np.array([1e300, 1e300, 1e3])
IMAGES = np.random.default_rng(1).integers(0, 256, (8, 120, 160, 3), dtype=np.uint8)


def prepare(image):
    image = image * SMALL
    image = image * LARGE
    return (image - 0.25).astype(np.float32)


def main():
    digest = hashlib.sha256()
    with ThreadPoolExecutor(1, initializer=lambda: torch.set_flush_denormal(True)) as flushing:
        for turn in range(30):
            for image in IMAGES:
                digest.update(flushing.submit(prepare, image).result().tobytes())
                if turn % 3 == 0:
                    digest.update(prepare(image).tobytes())
    print(digest.hexdigest())


if __name__ == "__main__":
    main()
