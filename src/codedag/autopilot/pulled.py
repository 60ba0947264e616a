"""The indices of the next batch, looked up before the program asks for them, as they are when it does."""

from __future__ import annotations

from typing import Any

MOST = 20_000  # indices of a subset that are looked through at each batch; about a millisecond


class Pulled:
    """The indices that a sampler gave before it was asked, and what they were looked up in."""

    __slots__ = ("_before", "_sampler", "indices")

    def __init__(self, sampler: Any, before: list[Any] | None, indices: Any) -> None:
        self._sampler, self._before, self.indices = sampler, before, indices

    def now(self) -> Any:
        """The same list, or another one if the program has changed meanwhile what the sampler looks them up in."""
        if self._before is None or list(self._sampler.indices) == self._before:
            return self.indices
        places = {index: place for place, index in enumerate(self._before)}
        return [self._sampler.indices[places[index]] for index in self.indices]


def looked_up_in(sampler: Any) -> list[Any] | None:
    """What a sampler of a subset looks its indices up in, one by one; None if it has none, or more than can be watched.

    Which place an index came from can be told if no other place has the same.
    """
    source = sampler.indices
    if type(source) not in (list, tuple, range) and type(source).__name__ != "ndarray":
        return None
    found = list(source) if len(source) <= MOST else []
    return found if found and all(hasattr(i, "__index__") for i in found) and len(set(found)) == len(found) else None
