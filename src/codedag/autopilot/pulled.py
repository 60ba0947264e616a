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


def length_of_epoch(iterator: Any) -> int | None:
    """How many indices an epoch has that has begun, told by what torch's own samplers have noted; None if nothing is.

    The data set is not asked: its `__len__` is the program's own code, which may count how often it is.
    """
    sampler = iterator._index_sampler.sampler
    if hasattr(sampler, "indices"):
        return _plain_length(sampler.indices)
    if hasattr(sampler, "weights"):
        return sampler.num_samples if type(sampler.num_samples) is int else None
    under_way = _noted(iterator._sampler_iter, "sampler_iter")
    if type(under_way) is _RANGE:  # of one that goes through all in order
        return len(under_way.__reduce__()[1][0])
    given = getattr(sampler, "_num_samples", None)
    return permuted_at_once(iterator) if given is None else given if type(given) is int else None


def permuted_at_once(iterator: Any) -> int | None:
    """How many indices a sampler that permutes them does so at a time: all that there were when the epoch began."""
    found = _noted(_noted(iterator._sampler_iter, "sampler_iter"), "n")
    return found if type(found) is int else None


_RANGE = type(iter(range(0)))


def _plain_length(source: Any) -> int | None:
    return len(source) if type(source) in (list, tuple, range) or type(source).__name__ == "ndarray" else None


def _noted(generator: Any, name: str) -> Any:
    """What a generator that is under way has in a variable."""
    frame = getattr(generator, "gi_frame", None)
    return None if frame is None else frame.f_locals.get(name)
