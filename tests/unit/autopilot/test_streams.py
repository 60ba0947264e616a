"""Generators that moved although nobody asked for a draw."""

from __future__ import annotations

import random
import threading
from functools import partial

import pytest

from codedag.autopilot.ordered import Batch, Habit
from codedag.autopilot.streams import Streams, among, of_everybody

np = pytest.importorskip("numpy")


def kinds():
    own = (
        random.Random(3),
        np.random.RandomState(4),
        np.random.default_rng(5),
        np.random.Generator(np.random.MT19937(6)),
    )
    return [random._inst, np.random.mtrand._rand, *own]


def draw(generator):
    return generator.random() if hasattr(generator, "random") else generator.random_sample()


@pytest.mark.parametrize("number", range(6))
def test_one_that_moved_is_found_and_put_back(number):
    generator = kinds()[number]
    streams = Streams([*kinds()[:2], generator])
    assert streams.moved(()) == []
    first = [draw(generator) for _ in range(3)]
    assert streams.moved(()) == [generator]
    assert streams.moved({id(generator)}) == []
    streams.put_back(())
    assert [draw(generator) for _ in range(3)] == first


def test_half_of_a_pair_of_normal_numbers_is_a_move():
    generator = random.Random(1)
    generator.gauss(0, 1)
    streams = Streams([generator])
    expected = generator.gauss(0, 1)
    assert streams.moved(()) == [generator]
    streams.put_back(())
    assert generator.gauss(0, 1) == expected


def test_what_everybody_draws_from_and_what_is_given():
    class Data:
        def __init__(self):
            self.rng, self.others = np.random.default_rng(1), 5

    data, own = Data(), random.Random(1)
    assert random._inst in of_everybody()
    assert among([data, 3, [own]]) == [data.rng, own]


@pytest.mark.parametrize(
    "held", [iter([1, 2, 3]), (k for k in range(3)), threading.local()], ids=lambda v: type(v).__name__
)
def test_what_moves_where_no_site_stands_gives_a_batch_up(held):
    class Data:
        def __init__(self):
            self.rows = held

        def get(self, index):
            return index in self.rows

    batch = Batch(partial(Data.get, Data()), [1, 2], Habit())
    assert not batch.run(1)
    assert type(held).__qualname__ in batch.reason
    assert type(held) is threading.local or list(held)


def test_a_generator_of_a_class_of_the_program_is_not_looked_at():
    class Own(random.Random):
        def getstate(self):
            raise AssertionError

    assert Streams([Own(1)]).moved(()) == []


@pytest.mark.parametrize("threads", [1, 2])
def test_a_batch_that_draws_unasked_is_taken_back(threads):
    random.seed(7)
    before = random.getstate()
    batch = Batch(lambda index: random.random(), [1, 2, 3, 4], Habit())
    assert not batch.run(threads)
    assert batch.unasked
    batch.take_back()
    assert random.getstate() == before


def test_a_generator_that_items_are_given_is_looked_at():
    rng = np.random.default_rng(1)
    batch = Batch(partial(lambda own, index: own.random(), rng), [1, 2], Habit())
    assert not batch.run(1)
    assert batch.reason == "a generator was drawn from where that could not be seen"
