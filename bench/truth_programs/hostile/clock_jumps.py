"""The program replaces time.time, time.perf_counter and time.sleep by clocks of its own that jump back."""

import time

import numpy as np

state = [1e9]


def clock():
    state[0] += -50.0 if int(state[0]) % 7 == 0 else 13.0
    return state[0]


time.time = time.perf_counter = time.monotonic = clock
time.sleep = lambda seconds: state.__setitem__(0, state[0] + seconds)
total = 0.0
for turn in range(60_000):
    total += float(np.sort(np.random.default_rng(turn % 9).random(2000))[3])
    if turn % 15_000 == 0:
        time.sleep(5)
print(repr(total), state)
