"""A cost model with slopes in plain numpy: a few small networks whose mean predicts the logarithm of speed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

NETS, HIDDEN = 4, 32
RATE, DECAY = 4e-3, 1e-4
BATCH = 256
Array = Any


def _silu(z: Array) -> tuple[Array, Array]:
    """The activation and its slope."""
    s = 1.0 / (1.0 + np.exp(-np.clip(z, -40, 40)))
    return z * s, s * (1 + z * (1 - s))


@dataclass
class Network:
    """Predicts log2(speed) of rows of features; higher is faster."""

    mean: Array
    scale: Array
    weights: list[Array] = field(default_factory=list)

    @classmethod
    def fresh(cls, rows: Array, seed: int = 0) -> Network:
        """Networks with random weights, for features like these."""
        draw, width = np.random.default_rng(seed), rows.shape[1]
        spread = rows.std(axis=0)
        made = cls(rows.mean(axis=0), np.where(spread > 1e-6, spread, 1.0))
        sizes = ((width, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1))
        for before, after in sizes:
            made.weights.append(draw.standard_normal((NETS, before, after)) / np.sqrt(before))
            made.weights.append(np.zeros((NETS, 1, after)))
        return made

    def copy(self) -> Network:
        """The same network, to be refined."""
        return Network(self.mean, self.scale, [w.copy() for w in self.weights])

    def _forward(self, rows: Array) -> tuple[Array, list[Array]]:
        x = np.clip((rows - self.mean) / self.scale, -6, 6)
        w1, b1, w2, b2, w3, b3 = self.weights
        h1, d1 = _silu(x @ w1 + b1)
        h2, d2 = _silu(h1 @ w2 + b2)
        return (h2 @ w3 + b3)[..., 0], [x, h1, d1, h2, d2]

    def score(self, rows: Array) -> Array:
        """The prediction for each row."""
        return self._forward(rows)[0].mean(axis=0)

    def each(self, rows: Array) -> Array:
        """The predictions of all networks."""
        return self._forward(rows)[0]

    def slope(self, rows: Array) -> tuple[Array, Array]:
        """The prediction for each row, and its slope along each feature."""
        told, (x, _, d1, _, d2) = self._forward(rows)
        _, _, w2, _, w3, _ = self.weights
        back = (d2 * w3[:, None, :, 0]) @ w2.transpose(0, 2, 1)
        inside = (np.abs(x) < 6) / self.scale
        return told.mean(axis=0), ((back * d1) @ self.weights[0].transpose(0, 2, 1)).mean(axis=0) * inside

    def fit(
        self, rows: Array, target: Array, steps: int, seed: int = 0, rate: float = RATE, weight: Array = None
    ) -> None:
        """Fits the networks to targets by Adam, each on batches of its own."""
        draw = np.random.default_rng(seed)
        first = [np.zeros_like(w) for w in self.weights]
        second = [np.zeros_like(w) for w in self.weights]
        size = min(BATCH, len(rows))
        for step in range(1, steps + 1):
            own = np.stack([draw.choice(len(rows), size, replace=False) for _ in range(NETS)])
            slopes = self._loss_slopes(rows[own], target[own], None if weight is None else weight[own])
            now = rate * (0.5 + 0.5 * np.cos(np.pi * step / steps)) + rate * 0.02
            for k, slope in enumerate(slopes):
                first[k] = 0.9 * first[k] + 0.1 * slope
                second[k] = 0.999 * second[k] + 0.001 * slope * slope
                move = first[k] / (1 - 0.9**step) / (np.sqrt(second[k] / (1 - 0.999**step)) + 1e-8)
                self.weights[k] = self.weights[k] - now * (move + DECAY * self.weights[k])

    def _loss_slopes(self, rows: Array, target: Array, weight: Array) -> list[Array]:
        told, (x, h1, d1, h2, d2) = self._forward(rows)
        error = np.clip(told - target, -1.5, 1.5) * 2 / rows.shape[1]  # far misses pull no more than near ones
        if weight is not None:
            error = error * weight
        _, _, w2, _, w3, _ = self.weights
        e3 = error[..., None]
        e2 = (e3 @ w3.transpose(0, 2, 1)) * d2
        e1 = (e2 @ w2.transpose(0, 2, 1)) * d1
        parts = ((x, e1), (h1, e2), (h2, e3))
        return [one for h, e in parts for one in (h.transpose(0, 2, 1) @ e, e.sum(axis=1, keepdims=True))]

    def encoded(self) -> dict[str, Any]:
        """The network as lists of numbers."""
        return {
            "mean": [round(float(v), 6) for v in self.mean], "scale": [round(float(v), 6) for v in self.scale],
            "weights": [[list(w.shape), [float(f"{v:.5g}") for v in w.ravel()]] for w in self.weights],
        }  # fmt: skip

    @classmethod
    def decoded(cls, facts: dict[str, Any]) -> Network:
        """The network of such lists."""
        weights = [np.array(values, float).reshape(shape) for shape, values in facts["weights"]]
        return cls(np.array(facts["mean"], float), np.array(facts["scale"], float), weights)
