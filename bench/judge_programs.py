"""Simulated programs for the judge: turns with noise, drift, load, periods and growth, on a simulated clock."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from codedag.autopilot.judge.change import Account, Change, Place, State
from codedag.autopilot.judge.judge import Block, Decision, Judge, Verdict
from codedag.autopilot.judge.policy import POLICY, Policy

SHAPES = ("steady", "drift", "load", "periodic", "growing")


@dataclass(slots=True)
class Program:
    """Turns of a program that does not exist; the same seed gives the same turns at the same times."""

    shape: str
    seed: int
    turn_seconds: float = 0.0
    noise: float = 0.0
    seconds: float = 0.0  # the clock
    turns: int = 0
    _random: random.Random = field(default_factory=random.Random)
    _load_until: float = 0.0
    _load: float = 1.0
    _phase: float = 0.0
    _period: int = 10

    def __post_init__(self) -> None:
        self._random = random.Random(f"{self.shape}-{self.seed}")
        self.turn_seconds = self.turn_seconds or math.exp(self._random.uniform(math.log(0.005), math.log(0.08)))
        self.noise = self.noise or self._random.uniform(0.01, 0.08)
        self._phase = self._random.uniform(0, 6)
        self._period = self._random.choice((10, 10, 7, 25))

    def turn(self, factor: float) -> float:
        """The seconds of the next turn, with the changes' factor on its time; the clock moves on."""
        seconds = self.turn_seconds * factor * self._shape() * self._random.lognormvariate(0, self.noise)
        if self._random.random() < 0.002:
            seconds += self._random.uniform(0.01, 0.3)  # another process, a page fault, a disk
        self.turns += 1
        self.seconds += seconds
        return seconds

    def _shape(self) -> float:
        if self.shape == "drift":
            return 1 + 0.4 * math.sin(self._phase + self.seconds / 7)
        if self.shape == "load":
            return self._loaded()
        if self.shape == "periodic":
            return 5.0 if self.turns % self._period == 0 else 1.0
        return min(1 + self.seconds / 60, 5.0) if self.shape == "growing" else 1.0

    def _loaded(self) -> float:
        """Foreign load that comes for 0.05 to 3 s, and goes."""
        if self.seconds >= self._load_until:
            is_quiet = self._load > 1
            self._load = 1.0 if is_quiet else self._random.uniform(1.1, 2.0)
            self._load_until = self.seconds + self._random.expovariate(1 / (4.0 if is_quiet else 1.0)) + 0.05
        return self._load


@dataclass(slots=True)
class Outcome:
    """What the judge made of a simulated program."""

    judge: Judge
    verdicts: list[tuple[float, Verdict]] = field(default_factory=list)
    off_seconds: list[tuple[float, float]] = field(default_factory=list)  # when, how long

    def decided(self, decision: Decision) -> list[float]:
        """When a decision was made."""
        return [at for at, verdict in self.verdicts if verdict.decision is decision]

    def taken_back(self, change: int) -> float | None:
        """When a change was taken back first."""
        return next((at for at, state, _ in self.judge.changes[change].log if state is State.TAKEN_BACK), None)


def change(number: int, move: str = "substitute", net: float = 0.0) -> Change:
    """A change with an account of this many seconds saved or spent."""
    account = Account(saved=max(net, 0.0), spent=max(-net, 0.0))
    return Change(number, move, Place(file="a.py", sites=(number,)), f"change {number}", account=account)


def simulate(
    program: Program, factors: Mapping[int, float], seconds: float, policy: Policy = POLICY,
    on_block: Callable[[Judge, float], None] | None = None, net: float = 0.0,
) -> Outcome:  # fmt: skip
    """Runs a program for some simulated seconds with changes that multiply the time of its turns by these factors."""
    judge = Judge(policy, lambda: program.seconds, seed=program.seed)
    outcome = Outcome(judge)
    for number in factors:
        judge.add(change(number, net=net))
    before: frozenset[int] | None = None
    while program.seconds < seconds:
        on, enabled = judge.begins(), judge.enabled()
        factor, began = math.prod(factors[each] for each in enabled), program.seconds
        if enabled != before:
            for _ in range(judge.carry_over_turns()):
                program.turn(factor)
        verdict = judge.block(_block(program, on, judge.block_turns(), factor))
        if not on:
            outcome.off_seconds.append((began, program.seconds - began))
        if verdict.decision is not Decision.OPEN:
            outcome.verdicts.append((program.seconds, verdict))
        if on_block is not None:
            on_block(judge, program.seconds)
        before = enabled
    return outcome


def _block(program: Program, on: bool, turns: int, factor: float) -> Block:
    seconds = sum(program.turn(factor) for _ in range(turns))
    return Block(on, turns, seconds, seconds)
