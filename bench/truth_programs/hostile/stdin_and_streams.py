"""Standard streams are replaced and closed; warnings and logging write in the hot loop."""

import contextlib
import io
import logging
import sys
import warnings

import numpy as np

logging.basicConfig(format="%(levelname)s %(filename)s:%(lineno)d %(message)s")
held = io.StringIO()
with contextlib.redirect_stdout(held):
    total = 0.0
    for turn in range(45_000):
        x = np.random.default_rng(turn).random(2000)
        total += float(np.sort(x)[3])
        if turn % 15_000 == 0:
            print("turn", turn)
            logging.warning("turn %d", turn)
            warnings.warn(f"turn {turn}", stacklevel=1)
            np.divide(x, 0.0 * x)
print(held.getvalue(), repr(total), sys.stdin.read() == "")
sys.stderr.close()
