"""Synthetic reports for tests of the page and the terminal: every figure is drawn at random, none was measured."""

from __future__ import annotations

import random

from codedag.ir import (
    Block,
    Change,
    Claim,
    Declined,
    Heat,
    HotFunction,
    HotLine,
    HotTurn,
    Mark,
    Proof,
    Report,
    Speed,
)

#: Seconds of a batch as written, and what the changes divide them by, in each kind of run.
PERIOD = 0.033
GAINS = {"faster": 1.8, "slower": 0.96, "same": 1.0, "unknown": 1.3, "start_lost": 1.05, "unchanged": 1.0}
FUNCTIONS = (
    ("main", "train.py", 70, "", 0.4, 21.0),
    ("Photos.__getitem__", "train.py", 31, "", 0.9, 16.2),
    ("Compose.__call__", "/lib/albumentations/core/composition.py", 480, "albumentations", 0.5, 9.7),
    ("Normalize.apply", "/lib/albumentations/pixel/transforms.py", 812, "albumentations", 5.1, 5.6),
    ("imread", "/lib/cv2/__init__.py", 0, "cv2", 4.3, 4.3),
    ("RandomCrop.apply", "/lib/albumentations/crops/transforms.py", 211, "albumentations", 1.9, 2.2),
    ("default_collate", "/lib/torch/utils/data/_utils/collate.py", 142, "torch", 1.8, 2.0),
    ("jitter", "train.py", 52, "", 1.2, 1.3),
)  # fmt: skip
LINES = ((72, 16.4), (36, 9.9), (33, 4.4), (75, 2.1), (54, 1.1))


def synthetic(kind: str, seed: int = 0) -> Report:
    """A report of a run of this kind, one of GAINS; with the same seed always the same."""
    rng = random.Random(f"{kind}/{seed}")
    changes = [] if kind == "unchanged" else _changes(rng)
    proof = Proof(identical=True, checked=59 if changes else 0, mismatches=0, how="synthetic: both ran side by side")
    declined = [Declined(what="jitter", where="train.py:52", reason="it draws random numbers", reason_code="draws")]
    return Report(
        verdict=proof, changes=changes, declined=declined, optimised_seconds=24.0, claim=_claim(kind), heat=heat(kind),
        speed=speed(GAINS[kind], rng, changed=bool(changes)),
    )  # fmt: skip


def _claim(kind: str) -> Claim:
    if kind in ("unknown", "unchanged"):
        return Claim(pairs=3, reason_code="few_blocks", reason="the program ended after 3 pairs of blocks")
    gain = GAINS[kind]
    wide = 0.1 if kind != "slower" else 0.02
    after = "train.py:33 stays as it is" if kind == "slower" else ""
    start = 3.0 if kind == "start_lost" else 0.3
    return Claim(known=True, ratio=gain, low=gain - wide / 2 * gain, high=gain + wide / 2 * gain, pairs=14,
                 start_seconds=start, next_run=after)  # fmt: skip


CHANGES = (
    ("cv2.resize -> torch", "train.py:36", 6.4, "in-use"),
    ("imread kept in memory", "train.py:33", 2.7, "in-use"),
    ("astype > truediv > sub > truediv > transpose -> one kernel", "data/steps.py:9-14", -0.2, "taken-back"),
)


def _changes(rng: random.Random) -> list[Change]:
    return [
        Change(
            what=what, where=where, kind="substitute", variant="torch", equivalence="exact", reason="3.1x a call",
            seconds=1.0, baseline_seconds=1.0 + max(saved, 0), calls=640, checked=20, state=state,
            saved_seconds=saved, spent_seconds=round(0.1 + rng.random() / 2, 2), reason_code="faster",
        )
        for what, where, saved, state in CHANGES
    ]  # fmt: skip


def heat(kind: str = "faster") -> Heat:
    """What a sampler could have seen of a training with albumentations."""
    cpu = 22.0
    functions = [
        HotFunction(name=name, file=file, line=line, package=package, self_seconds=own, total_seconds=total,
                    share=total / cpu)
        for name, file, line, package, own, total in FUNCTIONS
    ]  # fmt: skip
    lines = [HotLine(file="train.py", line=line, seconds=seconds, share=seconds / cpu) for line, seconds in LINES]
    turn = HotTurn(file="train.py", line=72, name="main", period_seconds=PERIOD, turns=700)
    own = 1.1 if kind == "unchanged" else 0.2
    return Heat(sampled_seconds=24.0, cpu_seconds=cpu, waiting_seconds=1.6, own_seconds=own, functions=functions,
                lines=lines, turn=turn)  # fmt: skip


def speed(gain: float, rng: random.Random, changed: bool = True, seconds: float = 24.0) -> Speed:
    """Blocks of 8 batches: as written, then with the changes, and ever more rarely without them in between."""
    blocks, at, number = [], 1.2, 0
    switched = at + 0.25 * seconds
    while at < seconds:
        number += 1
        off = at < switched or (number % (4 if at < 0.6 * seconds else 9) == 0)
        period = PERIOD * (1 if off or not changed else 1 / gain) * rng.uniform(0.95, 1.08)
        void = rng.random() < 0.03
        took = 8 * period * (1.7 if void else 1)
        blocks.append(Block(start=at, seconds=took, turns=8, changed=changed and not off, void=void))
        at += took
    marks = [
        Mark(name="resize -> torch (train.py:36)", seconds=switched),
        Mark(name="imread kept (train.py:33)", seconds=switched + 2),
    ]
    return Speed(unit="batch", blocks=blocks, marks=marks if changed else [])  # fmt: skip
