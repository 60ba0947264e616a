"""os._exit in a hot loop: what was printed without a flush is lost, and the exit code is 7."""

import os

import numpy as np

print("begun", flush=True)
print("lost", end="")
total = 0.0
for turn in range(100_000):
    total += float(np.sort(np.random.default_rng(turn).random(2000))[3])
    if turn == 45_000:
        os.write(1, f"{total!r}\n".encode())
        os._exit(7)
