"""An interval timer and SIGUSR1 interrupt the loop; the handlers look at the interrupted frame."""

import os
import signal
import threading

import numpy as np

seen, names = [], set()


def on_alarm(number, frame):
    seen.append(number)
    while frame is not None:
        names.add(frame.f_code.co_name)
        frame = frame.f_back


def work(k):
    return float(np.sort(np.random.default_rng(k).random(3000))[7])


def loop():
    return sum(work(k) for k in range(50_000))


signal.signal(signal.SIGALRM, on_alarm)
signal.signal(signal.SIGUSR1, on_alarm)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
os.kill(os.getpid(), signal.SIGUSR1)
print(repr(loop()))
signal.setitimer(signal.ITIMER_REAL, 0)
known = {"<module>", "loop", "<genexpr>", "work", "on_alarm"}
print(len(seen) > 10, signal.SIGUSR1 in seen, sorted(name for name in names if name in known))
print(signal.getsignal(signal.SIGALRM) is on_alarm, threading.current_thread() is threading.main_thread())
print(signal.getsignal(signal.SIGPROF), signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT).__name__)
