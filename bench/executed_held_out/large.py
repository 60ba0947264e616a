"""Arrays far larger than any cache: a field smoothed along both ways, and its histogram."""

import numpy as np

FIELD = np.random.default_rng(0).random((2000, 2000))


def prepared(field):
    across = (field[:, 2:] + field[:, :-2]) * 0.5
    down = (across[2:] + across[:-2]) * 0.5
    counts, _ = np.histogram(down, bins=64, range=(0.0, 1.0))
    return counts


def main():
    return sum(int(prepared(FIELD)[10]) for _ in range(6))


if __name__ == "__main__":
    main()
