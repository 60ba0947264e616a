"""Pictures in another colour space: every pixel by a matrix of 3 x 3."""

import hashlib

import numpy as np

HEIGHT, WIDTH, PICTURES = 360, 480, 12000
TO_XYZ = np.array([[0.4124, 0.2126, 0.0193], [0.3576, 0.7152, 0.1192], [0.1805, 0.0722, 0.9505]], np.float32)


def to_xyz(picture):
    return picture @ TO_XYZ


def main():
    draw = np.random.default_rng(4)
    pictures = [draw.random((HEIGHT, WIDTH, 3), np.float32) for _ in range(8)]
    seen = hashlib.sha256()
    for number in range(PICTURES):
        xyz = to_xyz(pictures[number % 8])
        seen.update(xyz[number % HEIGHT].tobytes())
    print(seen.hexdigest())


main()
