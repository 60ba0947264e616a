"""Events sorted, grouped and looked up by numpy's searches."""

import numpy as np

DRAW = np.random.default_rng(0)
EVENTS = [(DRAW.integers(0, 5000, 80_000), DRAW.random(80_000)) for _ in range(3)]


def prepared(users, times):
    order = np.argsort(users, kind="stable")
    users, times = users[order], times[order]
    names, first, counts = np.unique(users, return_index=True, return_counts=True)
    sums = np.add.reduceat(times, first)
    near = np.searchsorted(np.cumsum(sums), np.linspace(0, sums.sum(), 500))
    return np.take(counts, np.clip(near, 0, len(names) - 1))


def main():
    return sum(int(prepared(*EVENTS[index % 3])[3]) for index in range(15))


if __name__ == "__main__":
    main()
