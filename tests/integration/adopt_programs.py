"""Programs of twenty kinds whose changes are adopted as patches: each prints a digest of all that it computed."""

from __future__ import annotations

HEAD = """
import hashlib
import random

import cv2
import numpy as np
from PIL import Image
from scipy import ndimage
{more}
random.seed(3)
rng = np.random.default_rng(3)
digest = hashlib.sha256()
{setup}

{body}

for turn in range({turns}):
    digest.update({use})
print(digest.hexdigest(), random.random())
"""
GREY = "grey = [rng.integers(0, 256, (220, 240), dtype=np.uint8) for _ in range(6)]"
COLOUR = "colour = [rng.integers(0, 256, (200, 220, 3), dtype=np.uint8) for _ in range(6)]"
FILES = (
    "import pathlib\nfor n in range(5):\n"
    "    cv2.imwrite(f'p{n}.png', cv2.resize(rng.integers(0, 256, (30, 40, 3), dtype=np.uint8), (400, 300)))\n"
    "files = [f'p{n}.png' for n in range(5)]"
)
OF_GREY = "f(grey[turn % 6]).tobytes()"
OF_COLOUR = "f(colour[turn % 6]).tobytes()"
OF_FILE = "f(files[turn % 5]).tobytes()"


def program(body: str, setup: str = COLOUR, use: str = OF_COLOUR, turns: int = 120, more: str = "") -> str:
    """The text of a program that calls f in a loop."""
    return HEAD.format(more=more, setup=setup, body=body, turns=turns, use=use)


PROGRAMS = {
    "table in a return": program("def f(a):\n    return (a.astype(np.float32) / 255.0 - 0.45) / 0.22\n"),
    "table over statements": program(
        "def f(a):\n    x = a.astype(np.float32) / 255.0\n    x = x - np.array([0.4, 0.5, 0.6], dtype=np.float32)\n"
        "    x = x / np.array([0.2, 0.3, 0.4], dtype=np.float32)\n    return x\n"
    ),
    "table with a draw": program(
        "def f(a):\n    x = a.astype(np.float32) * random.uniform(0.8, 1.2) + random.uniform(-9, 9)\n"
        "    x = np.clip(x, 0, 255)\n    x = (x / 255.0 - 0.5) / 0.25\n    return np.ascontiguousarray(x.transpose(2, 0, 1))\n"
    ),
    "table of grey": program("def f(a):\n    b = a.astype(np.float32) / 255.0\n    return b * b - 0.5\n", GREY, OF_GREY),
    "table with comments": program(
        "def f(a):\n    # to floats\n    x = a.astype(np.float64) / 255.0  # scaled\n\n    # centred\n    x = (x - 0.5) * 2.0\n"
        "    return x\n"
    ),
    "table and a shape": program(
        "def f(a):\n    h, w = a.shape[:2]\n    x = a.astype(np.float32) / 255.0\n    y = (x - 0.5) / 0.5\n"
        "    return y[: h // 2, : w // 2].copy()\n"
    ),
    "method of a class": program(
        "class Steps:\n    def __init__(self):\n        self.mean = 0.4\n\n    def run(self, a):\n"
        "        x = a.astype(np.float32) / 255.0\n        x = (x - self.mean) / 0.3\n        return x\n\n\nsteps = Steps()\n\n\n"
        "def f(a):\n    return steps.run(a)\n"
    ),
    "module constants": program(
        "MEAN = np.array([0.1, 0.2, 0.3])\nSTD = np.array([0.4, 0.5, 0.6])\n\n\ndef f(a):\n"
        "    return (a.astype(np.float64) / 255.0 - MEAN) / STD\n"
    ),
    "median": program("def f(a):\n    return ndimage.median_filter(a, size=5)\n", GREY, OF_GREY, 60),
    "median of grey in a class": program(
        "class Clean:\n    def __call__(self, a):\n        b = ndimage.median_filter(a, size=3)\n        return b\n\n\nf = Clean()\n",
        GREY, OF_GREY, 80,
    ),
    "minimum": program("def f(a):\n    return ndimage.minimum_filter(a, size=5)\n", GREY, OF_GREY, 60),
    "maximum": program("def f(a):\n    return ndimage.maximum_filter(a, 7)\n", GREY, OF_GREY, 60),
    "grey erosion": program("def f(a):\n    return ndimage.grey_erosion(a, size=(5, 5))\n", GREY, OF_GREY, 60),
    "gaussian": program("def f(a):\n    return ndimage.gaussian_filter(a.astype(np.float32), 2.0)\n", GREY, OF_GREY, 60),
    "uniform": program("def f(a):\n    return ndimage.uniform_filter(a.astype(np.float64), 9)\n", GREY, OF_GREY, 60),
    "read and resize by PIL": program(
        "def f(path):\n    img = Image.open(path).convert('RGB')\n    img = img.resize((160, 120), Image.BILINEAR)\n"
        "    return np.asarray(img)[::-1]\n", FILES, OF_FILE, 80,
    ),
    "read by cv2": program(
        "def f(path):\n    a = cv2.imread(path)\n    a = cv2.cvtColor(a, cv2.COLOR_BGR2RGB)\n    a = cv2.resize(a, (128, 96))\n"
        "    return a + np.uint8(random.randrange(3))\n", FILES, OF_FILE, 80,
    ),
    "read, then a table": program(
        "def f(path):\n    a = cv2.imread(path)\n    a = cv2.resize(a, (224, 224))\n    x = a.astype(np.float32) / 255.0\n"
        "    x = (x - 0.5) / 0.25\n    return x * random.random()\n", FILES, OF_FILE, 80,
    ),
    "median, then a table": program(
        "def f(a):\n    a = ndimage.median_filter(a, size=3)\n    return (a.astype(np.float32) / 255.0 - 0.45) / 0.22\n",
        GREY, OF_GREY, 80,
    ),
    "rotate by PIL": program(
        "def f(a):\n    img = Image.fromarray(a)\n    img = img.resize((180, 150), Image.BICUBIC)\n"
        "    return np.asarray(img.transpose(Image.FLIP_LEFT_RIGHT))\n",
    ),
}  # fmt: skip
