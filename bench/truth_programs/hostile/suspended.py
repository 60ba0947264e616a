"""The program is stopped and resumed by a child of its own while it is hot."""

import os
import signal
import subprocess
import sys

import numpy as np

CODE = """
import os, signal, time
for _ in range(4):
    time.sleep(0.4)
    os.kill({0}, signal.SIGSTOP)
    time.sleep(0.6)
    os.kill({0}, signal.SIGCONT)
"""
child = subprocess.Popen([sys.executable, "-c", CODE.format(os.getpid())])
total = 0.0
for turn in range(60_000):
    total += float(np.sort(np.random.default_rng(turn % 50).random(2000))[3] / 255.0)
print(repr(total), child.wait(), signal.getsignal(signal.SIGCONT))
