"""Plans that no other plan beats in everything: time, memory, and energy where it was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Front(Generic[Item]):
    """The items that are not dominated, kept while they come in; smaller is better in every key.

    Equal keys are kept once, the first item that had them.
    """

    def __init__(self, keys: Callable[[Item], tuple[float, ...]]) -> None:
        self._keys = keys
        self._kept: list[tuple[tuple[float, ...], Item]] = []

    def add(self, item: Item) -> bool:
        """Whether the item belongs to the front; then what it dominates leaves."""
        mine = self._keys(item)
        if any(_covers(other, mine) for other, _ in self._kept):
            return False
        self._kept = [(other, one) for other, one in self._kept if not _covers(mine, other)]
        self._kept.append((mine, item))
        return True

    @property
    def items(self) -> list[Item]:
        """The front, by rising keys."""
        return [item for _, item in sorted(self._kept, key=lambda one: one[0])]


def _covers(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    """Whether a is at least as good as b everywhere."""
    return all(x <= y for x, y in zip(a, b, strict=True))


def pareto(items: Iterable[Item], keys: Callable[[Item], tuple[float, ...]]) -> list[Item]:
    """The items that no other one beats in everything, by rising keys."""
    front = Front(keys)
    for item in items:
        front.add(item)
    return front.items


def select(
    variants: Iterable[Item], seconds: Callable[[Item], float], joules: Callable[[Item], float], weight: float
) -> Item:
    """The variant with the least seconds + weight * joules; ties go to the faster, then to the earlier one.

    With a rising weight the energy of what is chosen never rises.
    """
    return min(variants, key=lambda one: (seconds(one) + weight * joules(one), seconds(one)))
