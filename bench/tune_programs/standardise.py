"""Images with mean 0 and deviation 1, each by its own pixels, before they go to a network."""

import hashlib

import numpy as np

SIZE, IMAGES = 192, 12000


def standardise(image):
    image = image.astype(np.float32) / 255.0
    return (image - image.mean()) / (image.std() + 1e-7)


def main():
    draw = np.random.default_rng(2)
    images = [draw.integers(0, 256, (SIZE, SIZE, 3), np.uint8) for _ in range(40)]
    seen = hashlib.sha256()
    for number in range(IMAGES):
        ready = standardise(images[number % 40])
        seen.update(ready[number % SIZE].tobytes())
    print(seen.hexdigest())


main()
