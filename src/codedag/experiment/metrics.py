"""Losses and accuracies, as the program reports them."""

from __future__ import annotations

import math
from typing import Any

from codedag.ir.errors import CodedagError


class NotANumber(CodedagError):  # noqa: N818 - reads as what happened
    """A loss or an accuracy that is not one number."""

    slug = "not-a-number"


class MetricsLogger:
    """Keeps `(epoch, batch, value)` of losses and accuracies in the order in which they were logged."""

    def __init__(self) -> None:
        self.losses: list[tuple[int, int, float]] = []
        self.accuracies: list[tuple[int, int, float]] = []

    def log_loss(self, epoch: int, batch: int, loss: Any) -> None:
        """Keeps a loss: a number, or an array or a tensor that holds one."""
        self.losses.append((int(epoch), int(batch), _number("loss", loss)))

    def log_accuracy(self, epoch: int, batch: int, accuracy: Any) -> None:
        """Keeps an accuracy: a number, or an array or a tensor that holds one."""
        self.accuracies.append((int(epoch), int(batch), _number("accuracy", accuracy)))

    def summary(self) -> dict[str, dict[str, float] | None]:
        """The first, the last and the extreme values, of those that are numbers; None where nothing was logged."""
        return {"loss": self._loss(), "accuracy": self._accuracy()}

    def _loss(self) -> dict[str, float] | None:
        if not self.losses:
            return None
        least, most = _extremes([value for _, _, value in self.losses])
        return {"initial": self.losses[0][2], "final": self.losses[-1][2], "min": least, "max": most}

    def _accuracy(self) -> dict[str, float] | None:
        if not self.accuracies:
            return None
        _, most = _extremes([value for _, _, value in self.accuracies])
        return {"initial": self.accuracies[0][2], "final": self.accuracies[-1][2], "best": most}


def _extremes(values: list[float]) -> tuple[float, float]:
    """The least and the most; comparisons with NaN say nothing, so it counts only if there is nothing else."""
    known = [value for value in values if not math.isnan(value)] or values
    return min(known), max(known)


def _number(what: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: a tensor with more than one element
        kind = type(value).__name__
        raise NotANumber(
            f"the {what} is a {kind} and not one number: {error}", hint=f"Log {what}.item(), or its mean."
        ) from error
