"""The program sets the switch interval, the recursion limit and gc thresholds, and looks at them afterwards."""

import gc
import sys

import numpy as np

print(sys.getswitchinterval(), sys.getrecursionlimit(), gc.get_threshold())
sys.setswitchinterval(0.02)
sys.setrecursionlimit(2345)
gc.set_threshold(333, 4, 5)
total = 0.0
for turn in range(45_000):
    total += float(np.sort(np.random.default_rng(turn).random(2000))[3])
print(round(sys.getswitchinterval(), 6), sys.getrecursionlimit(), gc.get_threshold(), repr(total))


def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)


try:
    print(deep(3000))
except RecursionError as error:
    print(type(error).__name__)
print(deep(2300))
