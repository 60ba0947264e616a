"""Simulated training step of a pipeline: GPipe and 1F1B schedules of micro-batches over blocks, with their bubbles.

Forward seconds are those of the plan.  Backward seconds are an assumption: twice the forward ones.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

GPIPE, ONE_F_ONE_B = "gpipe", "1f1b"
SCHEDULES = (GPIPE, ONE_F_ONE_B)
#: A backward pass computes two gradients where the forward pass computed one product: an assumption, not a measurement.
BACKWARD_BY_FORWARD = 2.0


@dataclass(frozen=True, slots=True)
class Pass:
    """The forward or backward pass of one micro-batch through one block."""

    block: int
    batch: int
    forward: bool
    start: float = 0.0
    end: float = 0.0


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """One simulated step: its seconds, the share in which PUs of the pipeline stand still, and what must be kept."""

    schedule: str
    microbatches: int
    seconds: float
    bubble: float
    kept: tuple[int, ...]  # micro-batches whose activations each block holds at once
    passes: tuple[Pass, ...]


def training_step(
    schedule: str, times: Sequence[float], microbatches: int, turns: Sequence[frozenset[Hashable]] = (),
    backward: float = BACKWARD_BY_FORWARD,
) -> TrainingStep:  # fmt: skip
    """The step of a pipeline whose blocks take these forward seconds for one micro-batch."""
    blocks = len(times)
    orders = [_order(schedule, block, blocks, microbatches) for block in range(blocks)]
    own = turns or [frozenset({block}) for block in range(blocks)]
    passes = _timed(orders, times, backward, own)
    seconds = max((one.end for one in passes), default=0.0)
    busy = sum(one.end - one.start for one in passes)
    bubble = 1 - busy / (seconds * blocks) if seconds else 0.0
    return TrainingStep(schedule, microbatches, seconds, bubble, tuple(map(_kept, orders)), tuple(passes))


def _order(schedule: str, block: int, blocks: int, microbatches: int) -> list[Pass]:
    """The passes of one block in their order."""
    ahead = microbatches if schedule == GPIPE else min(blocks - block, microbatches)
    forward = [Pass(block, batch, True) for batch in range(microbatches)]
    backward = [Pass(block, batch, False) for batch in range(microbatches)]
    made = forward[:ahead]
    for at in range(microbatches):
        made.append(backward[at])
        made += forward[ahead + at : ahead + at + 1]
    return made


def _kept(order: Sequence[Pass]) -> int:
    most = now = 0
    for one in order:
        now += 1 if one.forward else -1
        most = max(most, now)
    return most


def _timed(
    orders: Sequence[list[Pass]], times: Sequence[float], backward: float, turns: Sequence[frozenset[Hashable]]
) -> list[Pass]:
    """Every pass with its times: the one that can start first goes first, of several that of the last block."""
    ends: dict[tuple[int, int, bool], float] = {}
    free: dict[Hashable, float] = {}
    next_of, made = [0] * len(orders), list[Pass]()
    while len(made) < sum(map(len, orders)):
        able = [
            (start, -block) for block, at in enumerate(next_of)
            if at < len(orders[block]) and (start := _start(orders[block][at], len(orders), ends)) is not None
        ]  # fmt: skip
        start, block = min((max([start, *(free.get(turn, 0.0) for turn in turns[-at])]), at) for start, at in able)
        one = orders[-block][next_of[-block]]
        end = start + times[-block] * (1.0 if one.forward else backward)
        made.append(Pass(one.block, one.batch, one.forward, start, end))
        ends[one.block, one.batch, one.forward] = end
        free.update(dict.fromkeys(turns[-block], end))
        next_of[-block] += 1
    return made


def _start(one: Pass, blocks: int, ends: dict[tuple[int, int, bool], float]) -> float | None:
    """When the inputs of a pass are there; None if what it waits for has no time yet."""
    if one.forward:
        return ends.get((one.block - 1, one.batch, True)) if one.block else 0.0
    own = ends.get((one.block, one.batch, True))
    later = ends.get((one.block + 1, one.batch, False)) if one.block < blocks - 1 else 0.0
    return None if own is None or later is None else max(own, later)
