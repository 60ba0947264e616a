"""Queue simulation of items through a pipeline of blocks: bounded queues, and PUs on the same resource take turns."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from codedag.plan.line import line


@dataclass(frozen=True, slots=True)
class DeviceChain:
    """When the last item has left, and the longest time of one item from its first block to its end."""

    seconds: float
    slowest_item: float


def passage(times: Sequence[float], turns: Sequence[frozenset[Hashable]], items: int, queue: int) -> DeviceChain:
    """The passage of equal items through blocks that take `times` and occupy `turns` while they work.

    Behind each block is a queue for `queue` items.  Of blocks that take turns the one with the oldest item goes first.
    """
    if len(frozenset[Hashable]().union(*turns)) == sum(map(len, turns)):
        moments = line([[seconds] * items for seconds in times], [queue] * len(times))
        begun, left = moments.begun[0], moments.left[-1]
    else:
        begun, left = _Turns(times, turns, items, queue).run()
    return DeviceChain(left[-1], max(end - start for start, end in zip(begun, left, strict=True)))


class _Turns:
    """The event simulation for blocks of which some occupy the same resource."""

    def __init__(self, times: Sequence[float], turns: Sequence[frozenset[Hashable]], items: int, queue: int) -> None:
        self.times, self.turns, self.items, self.queue = times, turns, items, queue
        self.last = len(times) - 1
        self.next = [0] * len(times)  # the item that each block begins next
        self.ready = [items, *[0] * self.last]  # items that have come to each block
        self.ends: list[float | None] = [None] * len(times)  # of the item that a block works on
        self.held = [False] * len(times)  # a block whose item waits for room behind it
        self.begun: list[float] = []
        self.left: list[float] = []
        self.now = 0.0

    def run(self) -> tuple[list[float], list[float]]:
        """When each item began its first block, and when it left the last one."""
        while len(self.left) < self.items:
            while self._begin_one():
                pass
            self.now = min(end for end in self.ends if end is not None)
            for block in range(self.last, -1, -1):
                if self.ends[block] is not None and self.ends[block] <= self.now:  # type: ignore[operator]
                    self.ends[block], self.held[block] = None, True
            self._hand_on()
        return self.begun, self.left

    def _begin_one(self) -> bool:
        busy = frozenset[Hashable]().union(*(self.turns[at] for at, end in enumerate(self.ends) if end is not None))
        able = [
            (self.next[at], -at) for at in range(len(self.times))
            if self.ends[at] is None and not self.held[at] and self.next[at] < self.ready[at]
            and not busy & self.turns[at]
        ]  # fmt: skip
        if not able:
            return False
        block = -min(able)[1]
        self.next[block] += 1
        self.ends[block] = self.now + self.times[block]
        if block == 0:
            self.begun.append(self.now)
        self._hand_on()  # there is room in the queue before it
        return True

    def _hand_on(self) -> None:
        for block in range(self.last, -1, -1):
            if not self.held[block]:
                continue
            if block == self.last:
                self.left.append(self.now)
                self.held[block] = False
            elif self.ready[block + 1] - self.next[block + 1] < self.queue:
                self.ready[block + 1] += 1
                self.held[block] = False
