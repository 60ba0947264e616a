"""A program that replaces itself by another one in mid-run, and that by a third."""

import os
import sys

import numpy as np

level = int(sys.argv[1]) if len(sys.argv) > 1 else 0
total = 0.0
for turn in range(12_000):
    total += float(np.sort(np.random.default_rng(turn + level).random(2000))[3])
print(level, repr(total), flush=True)
if level < 2:
    os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), str(level + 1)])
