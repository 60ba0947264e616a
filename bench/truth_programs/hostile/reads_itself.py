"""A program that looks at its own source, frames, modules and threads while it is hot."""

import inspect
import sys
import traceback

import numpy as np


def work(k):
    x = np.sort(np.random.default_rng(k).random(1000))
    if k % 12_500 == 0:
        frame = sys._getframe()
        names = [f"{each.name}:{each.lineno}" for each in traceback.extract_stack() if each.filename == __file__]
        print(k, names, sorted(frame.f_locals), frame.f_lineno, len(inspect.getsource(work)))
    return float(x[3])


print(repr(sum(work(k) for k in range(50_001))), __name__, sys.argv[1:], len(sys.argv))
print(__spec__, __file__ == sys.argv[0])
print(sys.flags.optimize, sys.dont_write_bytecode, sorted(sys.modules["__main__"].__dict__)[:8])
