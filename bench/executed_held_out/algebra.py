"""Linear algebra of many middling matrices: products, a solution, singular values."""

import numpy as np

DRAW = np.random.default_rng(0)
POINTS = [DRAW.standard_normal((400, 60)) for _ in range(4)]
TARGETS = DRAW.standard_normal((400, 3))


def prepared(points):
    centred = points - points.mean(axis=0)
    spread = np.einsum("ij,ik->jk", centred, centred) / len(points)
    weights = np.linalg.solve(spread + np.eye(60) * 0.1, centred.T @ TARGETS)
    values = np.linalg.svd(centred, compute_uv=False)
    return np.hstack([centred @ weights, np.outer(np.ones(400), values[:5])])


def main():
    return sum(float(prepared(POINTS[index % 4])[0, 0]) for index in range(60))


if __name__ == "__main__":
    main()
