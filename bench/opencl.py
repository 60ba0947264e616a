"""Functions of cv2 by OpenCL beside OpenCV's own code: the greatest difference, and processor-to-processor times.

OPENCV_OPENCL_DEVICE=:CPU: python bench/opencl.py
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np

from codedag.devices.opencl import usable

ROUNDS, PICTURES = 15, 24
TURN = cv2.getRotationMatrix2D((320, 240), 17, 1.1)
BENT = np.array([[1, 0.02, 3], [0.01, 1, 2], [1e-4, 1e-4, 1]])
WINDOW = np.ones((5, 5), np.uint8)
CASES: dict[str, Callable[[Any], Any]] = {
    "resize, linear": lambda one: cv2.resize(one, (224, 224)),
    "resize, area": lambda one: cv2.resize(one, (224, 224), interpolation=cv2.INTER_AREA),
    "resize, nearest (not offered)": lambda one: cv2.resize(one, (224, 224), interpolation=cv2.INTER_NEAREST),
    "GaussianBlur": lambda one: cv2.GaussianBlur(one, (5, 5), 1.5),
    "pyrDown": cv2.pyrDown,
    "warpAffine": lambda one: cv2.warpAffine(one, TURN, (640, 480)),
    "warpPerspective": lambda one: cv2.warpPerspective(one, BENT, (640, 480)),
    "cvtColor, grey": lambda one: cv2.cvtColor(one, cv2.COLOR_BGR2GRAY),
    "flip": lambda one: cv2.flip(one, 1),
    "medianBlur": lambda one: cv2.medianBlur(one, 3),
    "erode": lambda one: cv2.erode(one, WINDOW),
    "dilate": lambda one: cv2.dilate(one, WINDOW),
    "Canny (not offered)": lambda one: cv2.Canny(one, 50, 150),
}


def seconds(function: Callable[[], Any]) -> float:
    """The seconds of one call."""
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


def row(name: str, function: Callable[[Any], Any], pictures: list[Any]) -> str:
    """A line of the table: greatest difference, share of elements that differ, original time over the device's."""
    pairs = [(function(one).astype(int), function(cv2.UMat(one)).get().astype(int)) for one in pictures]
    most = max(int(np.abs(left - right).max()) for left, right in pairs)
    share = statistics.mean(float((left != right).mean()) for left, right in pairs)
    one = pictures[0]
    ratios = [seconds(lambda: function(one)) / seconds(lambda: function(cv2.UMat(one)).get()) for _ in range(ROUNDS)]
    return f"| {name} | {most} | {100 * share:.2g} % | {statistics.median(ratios):.2f} |"


def main() -> None:
    """Prints the table."""
    here = usable()
    if not here:
        sys.exit(str(here))
    draw = np.random.default_rng(0)
    noise = [draw.integers(0, 256, (480, 640, 3), np.uint8) for _ in range(PICTURES)]
    pictures = [cv2.GaussianBlur(one, (9, 9), 3) for one in noise]
    print(f"OpenCV {cv2.__version__}, {cv2.ocl.Device.getDefault().version()}")
    print("| function | greatest difference | elements that differ | original time over OpenCL's |\n|---|---|---|---|")
    for name, function in CASES.items():
        print(row(name, function, pictures))


if __name__ == "__main__":
    main()
