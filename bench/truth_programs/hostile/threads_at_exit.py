"""Threads that still work when the main thread ends, a daemon, and functions registered for the end."""

import atexit
import threading
import time

import numpy as np

atexit.register(lambda: print("at exit", threading.active_count() >= 1))


def work(seed):
    total = 0.0
    for k in range(30_000):
        total += float(np.median(np.random.default_rng(seed * k).random(301)))
    print(f"{seed} {total!r}\n", end="")


def daemon():
    while True:
        np.sort(np.random.default_rng(1).random(999))
        time.sleep(0.0001)


threading.Thread(target=daemon, daemon=True).start()
first = threading.Thread(target=work, args=(1,))
first.start()
first.join()
threading.Thread(target=work, args=(2,)).start()
print("main ends")
