"""Thousands of calls on short vectors: what calls themselves cost."""

import numpy as np

VECTORS = list(np.random.default_rng(0).standard_normal((200, 16)))
SHIFT = np.full(16, 0.5)


def prepared(vector):
    moved = np.add(vector, SHIFT)
    scaled = np.multiply(moved, 2.0)
    return np.maximum(scaled, 0.0).sum() / np.sqrt(np.dot(vector, vector))


def main():
    return sum(float(prepared(vector)) for _ in range(20) for vector in VECTORS)


if __name__ == "__main__":
    main()
