"""Torch modules of the seven GraphSAGE stages, in forms that every exporter takes with sizes left open."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from codedag.stages.model import Arrays


class Gather(nn.Module):  # type: ignore[misc]
    """The features of each edge's source."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """x[source] for each edge."""
        return x.index_select(0, edge_index[0])


class Message(nn.Module):  # type: ignore[misc]
    """What is sent along an edge: in SAGE with mean aggregation, the source's features themselves."""

    def forward(self, x_j: Tensor) -> Tensor:
        """A copy of the features."""
        return x_j.clone()


class ReduceSum(nn.Module):  # type: ignore[misc]
    """The sum of the messages that arrive at each node."""

    def forward(self, messages: Tensor, edge_index: Tensor, x: Tensor) -> Tensor:
        """Sums by target; x is read for its number of rows only."""
        target = edge_index[1].unsqueeze(1).expand(-1, messages.shape[1])
        return messages.new_zeros(x.shape[0], messages.shape[1]).scatter_add(0, target, messages)


class ReduceCount(nn.Module):  # type: ignore[misc]
    """The number of messages that arrive at each node."""

    def forward(self, edge_index: Tensor, x: Tensor) -> Tensor:
        """Counts by target as floats."""
        ones = x.new_ones(edge_index.shape[1])
        return x.new_zeros(x.shape[0]).scatter_add(0, edge_index[1], ones)


class Normalize(nn.Module):  # type: ignore[misc]
    """The mean of the messages; 0 where none arrived."""

    def forward(self, aggregated: Tensor, degree: Tensor) -> Tensor:
        """Sums divided by counts."""
        return aggregated / degree.clamp(min=1).unsqueeze(-1)


class Transform(nn.Module):  # type: ignore[misc]
    """lin_l of the mean plus lin_r of the node's own features."""

    def __init__(self, weights: Arrays) -> None:
        super().__init__()
        outputs, inputs = weights["lin_l.weight"].shape
        self.lin_l, self.lin_r = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, bias=False)
        self.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})

    def forward(self, mean: Tensor, x: Tensor) -> Tensor:
        """The layer's output before its activation."""
        return self.lin_l(mean) + self.lin_r(x)


class Activate(nn.Module):  # type: ignore[misc]
    """ReLU."""

    def forward(self, transformed: Tensor) -> Tensor:
        """What is positive."""
        return torch.relu(transformed)


_STAGES: dict[str, Any] = {"GATHER": Gather, "MESSAGE": Message, "REDUCE_SUM": ReduceSum, "REDUCE_COUNT": ReduceCount,
           "NORMALIZE": Normalize, "ACTIVATE": Activate}  # fmt: skip


def sage_module(kind: str, weights: Arrays) -> Any:
    """The module of a stage."""
    return (Transform(weights) if kind == "TRANSFORM" else _STAGES[kind]()).eval().requires_grad_(False)


def linear_weights(widths: Sequence[int]) -> Arrays:
    """Weights of nn.Linear layers lin_l (with bias) and lin_r (without) of each layer in turn, from seed 0."""
    found: Arrays = {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for layer, (inputs, outputs) in enumerate(pairwise(widths)):
            here = "" if layer == 0 else f"{layer}."
            left, right = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, bias=False)
            found[f"{here}lin_l.weight"] = left.weight.detach().numpy()
            found[f"{here}lin_l.bias"] = left.bias.detach().numpy()
            found[f"{here}lin_r.weight"] = right.weight.detach().numpy()
    return found
