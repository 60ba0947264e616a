"""The program's own functions and methods are replaced, their code and defaults changed, in mid-run."""

import types

import numpy as np


class Model:
    scale = 2.0

    def step(self, x):
        return float(np.abs(x).mean() * self.scale)


def prepare(x, shift=1.0):
    return (x - x.mean()) / (x.std() + shift)


def other(x, shift=1.0):
    return x * shift


model, total, data = Model(), [], np.random.default_rng(0).random((50, 400))
for k in range(240_000):
    if k == 60_000:
        prepare.__defaults__ = (3.0,)
    if k == 108_000:
        prepare.__code__ = other.__code__
    if k == 144_000:
        Model.step = lambda self, x: float(x.max())
    if k == 180_000:
        model.step = types.MethodType(lambda self, x: float(x.min()) * self.scale, model)
    if k == 210_000:
        Model.scale = 5.0
    total.append(model.step(prepare(data[k % 50])))
print([repr(sum(total[a : a + 30_000])) for a in range(0, 240_000, 30_000)])
