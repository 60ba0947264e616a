"""SIGTERM with the default action in a hot loop: the exit code is that of the signal."""

import os
import signal
import threading

import numpy as np

print("begun", flush=True)
threading.Timer(5.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
while True:
    np.sort(np.random.default_rng(1).random(5000))
