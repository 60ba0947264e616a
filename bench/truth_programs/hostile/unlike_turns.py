"""Turns of very unlike length: most are short, some a hundred times longer; a list grows all the while."""

import numpy as np

grown, total = [], 0.0
for turn in range(9000):
    size = 100_000 if turn % 97 == 0 else 1000
    x = np.random.default_rng(turn).random(size)
    total += float(np.percentile(x, 90)) + float((x / 255.0).sum())
    grown.append(x[:10])
print(repr(total), len(grown), repr(float(np.concatenate(grown).sum())))
