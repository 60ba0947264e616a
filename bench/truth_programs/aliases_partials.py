"""Library functions behind aliases, partials, tables of functions, decorators and a method that is bound once."""

import functools
import hashlib
import operator
import sys

import cv2
import numpy as np
from cv2 import resize as shrink

small = functools.partial(shrink, dsize=(96, 96), interpolation=cv2.INTER_AREA)
blur = functools.partial(cv2.GaussianBlur, ksize=(5, 5), sigmaX=1.0)
STEPS = {"small": small, "blur": blur, "norm": lambda image: np.divide(image, 255.0, dtype=np.float32)}


def counted(function):
    @functools.wraps(function)
    def inner(*args, **options):
        inner.calls += 1
        return function(*args, **options)

    inner.calls = 0
    return inner


@counted
def pipeline(image, names=("small", "blur", "norm")):
    return functools.reduce(lambda value, name: STEPS[name](value), names, image)


update = (digest := hashlib.sha256()).update
images = [np.random.default_rng(i).integers(0, 256, (180, 180, 3)).astype(np.uint8) for i in range(16)]
pick = operator.itemgetter(slice(None, None, 8))
for turn in range(int(sys.argv[1])):
    for image in images:
        update(pick(pipeline(np.roll(image, turn, 0))).tobytes())
print(pipeline.calls, digest.hexdigest())
