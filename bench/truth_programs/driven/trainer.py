"""A trainer with callbacks, whose loop drives the whole program."""

import numpy as np

from driven.data import Windows


class Trainer:
    def __init__(self, steps):
        self.steps, self.data = steps, Windows()
        self.weights, self.losses = np.zeros(128, np.float32), []

    def fit(self):
        for step in range(self.steps):
            loss = self.step(self.data.batch())
            self.losses.append(loss)
            if step % 200 == 0:
                self.log(step, loss)
        print("loss", float(np.mean(self.losses or [0.0])), float(np.abs(self.weights).sum()))

    def step(self, batch):
        error = batch @ self.weights - batch[:, 0]
        self.weights -= 0.001 * (error @ batch) / len(batch)
        return float((error**2).mean())

    def log(self, step, loss):
        print(step, loss)
