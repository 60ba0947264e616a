"""Watching inside a program: iterators of any kind, each batch once, and only of this process."""

from __future__ import annotations

import io
import os
from types import SimpleNamespace

import pytest

from codedag.experiment.digest import digest
from codedag.experiment.watching import Watch


class Counting:
    """An iterator made in Python."""

    def __init__(self):
        self.left = [3, 2, 1]

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        return self.left.pop()


class Unhashable(Counting):
    __hash__ = None


class Slotted:
    __slots__ = ("left",)
    __init__, __iter__, __next__ = Counting.__init__, Counting.__iter__, Counting.__next__


class Delegating(Counting):
    """Takes its batches from another iterator that its loader handed out."""

    def __init__(self, inner):
        self.inner = inner

    def __next__(self):
        return next(self.inner)


@pytest.fixture
def watch():
    file = io.StringIO()
    found = Watch(file)
    found.lines = lambda: [line.split("\t")[:2] for line in file.getvalue().splitlines()]
    return found


def _batches(*numbers):
    return [["batch", digest(number)] for number in numbers]


@pytest.mark.parametrize(
    "make",
    [Counting, Unhashable, Slotted, lambda: iter([1, 2, 3]), lambda: (n for n in (1, 2, 3))],
    ids=["class", "unhashable", "slots", "list", "generator"],
)
def test_batches_of_any_iterator_are_seen_once(watch, make):
    kind = type(make())
    before = vars(kind).get("__next__")

    class Loader:
        def __iter__(self):
            return make()

    watch.data_loader(SimpleNamespace(DataLoader=Loader))
    try:
        assert list(Loader()) == list(Loader()) == [1, 2, 3]
        assert watch.lines() == _batches(1, 2, 3, 1, 2, 3)
        list(make())  # of an iterator that no loader handed out
        assert len(watch.lines()) == 6
    finally:
        for each in (Counting, Unhashable, Slotted):
            if hasattr(vars(each).get("__next__"), "codedag_watch"):
                each.__next__ = vars(each)["__next__"].__wrapped__
    assert vars(kind).get("__next__") is before


def test_a_loader_inside_a_loader_counts_once(watch):
    class Loader:
        def __init__(self, inner=None):
            self.inner = inner

        def __iter__(self):
            return Delegating(iter(self.inner)) if self.inner else Counting()

    watch.data_loader(SimpleNamespace(DataLoader=Loader))
    try:
        assert list(Loader(Loader())) == [1, 2, 3]
    finally:
        for each in (Counting, Delegating):
            each.__next__ = getattr(each.__next__, "__wrapped__", each.__next__)
    assert watch.lines() == _batches(1, 2, 3)


def test_what_cannot_be_read_is_kept_as_that(watch):
    class Hostile:
        @property
        def __dict__(self):
            raise ValueError("mine")

    watch.saw("batch", Hostile())
    ((kind, text),) = watch.lines()
    assert (kind, text) == ("batch", "unreadable: ValueError: mine")


def test_other_processes_are_not_watched(watch, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: -1)
    watch.saw("batch", 1)
    assert watch.lines() == []
