"""A numpy-only pipeline: a class, a helper function, a loop in main() and one at module level; prints a digest."""

import hashlib
import random
import sys

import numpy as np

MEAN = np.array([0.485, 0.456, 0.406])
STD = np.array([0.229, 0.224, 0.225])


class Pictures:
    def __init__(self, count):
        self.rng = np.random.default_rng(3)
        self.pictures = [self.rng.integers(0, 256, (300, 400, 3), dtype=np.uint8) for _ in range(count)]

    def load(self, index):
        picture = self.pictures[index % len(self.pictures)]
        if random.random() < 0.5:
            picture = picture[:, ::-1]
        return picture

    def normalise(self, picture):
        scaled = picture.astype(np.float32) * random.uniform(0.8, 1.2) + random.uniform(-9, 9)
        scaled = np.clip(scaled, 0, 255)
        scaled /= 255.0
        scaled -= MEAN.astype(np.float32)
        scaled = scaled / STD
        return np.ascontiguousarray(scaled.transpose(2, 0, 1), dtype=np.float32)


def main(count):
    random.seed(5)
    pictures = Pictures(8)
    digest = hashlib.sha256()
    for index in range(count):
        picture = pictures.normalise(pictures.load(index))
        digest.update(picture.tobytes())
        digest.update(str((picture.dtype, picture.strides, picture.flags.owndata)).encode())
    print("digest", digest.hexdigest())
    print("next draw", random.random())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
