"""The old way to wait for threads: until only the main thread is left in threading.enumerate()."""

import threading
import time

import numpy as np

found = []


def work(seed):
    found.append(repr(sum(float(np.sort(np.random.default_rng(k).random(999))[3]) for k in range(seed, seed + 40_000))))


for seed in range(2):
    threading.Thread(target=work, args=(seed,)).start()
deadline = time.monotonic() + 30
while threading.active_count() > 1 and time.monotonic() < deadline:
    time.sleep(0.01)
print(sorted(found), time.monotonic() < deadline, threading.enumerate() == [threading.main_thread()])
