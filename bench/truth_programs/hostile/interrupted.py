"""A child of this program gets SIGINT in its hot loop: KeyboardInterrupt, cleaned up, exit code 130."""

import os
import signal
import sys
import threading


def work(n):
    total = 0
    for k in range(n):
        total = (total * 31 + k) % 1000003
    return total


threading.Timer(5.0, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    while True:
        work(20_000)
except KeyboardInterrupt:
    print("interrupted")
    sys.exit(130)
