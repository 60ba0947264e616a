"""An exception that nobody handles, out of a hot nested call: traceback, notes and exit code are the same."""

import numpy as np


def inner(k):
    x = np.random.default_rng(k).random(2000)
    if k == 45_000:
        error = ValueError(f"bad item {k}")
        error.add_note("a note")
        raise error
    return float(np.sort(x)[3])


def outer(total):
    for k in range(90_000):
        try:
            total += inner(k)
        except ValueError as error:
            raise RuntimeError("outer") from error
    return total


print(outer(0.0))
