"""Functions that are found without looking at all objects."""

import functools
import types

from codedag.instrument.nearby import functions_near, functions_of


def wraps(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


@wraps
def decorated():
    return 1


class Strange(type):
    def __getattribute__(cls, name):
        raise AssertionError(name)


class Held:
    def __eq__(self, other):
        raise AssertionError

    __hash__ = None

    def method(self):
        return 2

    @property
    def shown(self):
        return 3

    @staticmethod
    def static():
        return 4

    @classmethod
    def of_class(cls):
        return 5

    class Inner:
        def deep(self):
            return 6


class OfStrange(metaclass=Strange):
    def own(self):
        return 7


held = Held()


def keeps():
    held_here, empty = held, types.CellType()
    return (lambda: held_here), empty


function, empty_cell = keeps()


def test_functions_of_modules_classes_and_decorators_are_found():
    found = {each.__qualname__ for each in functions_near(__file__)}
    expected = {
        "wraps", "decorated", "Held.method", "Held.shown", "Held.static", "Held.of_class", "Held.Inner.deep", "keeps",
        "OfStrange.own", "keeps.<locals>.<lambda>", "Held.__eq__", "Strange.__getattribute__",
    }  # fmt: skip
    assert expected <= found
    assert wraps(decorated).__closure__ is not None
    assert any(each.__code__.co_name == "wrapper" for each in functions_near(__file__))


def test_all_of_them_are_alive_and_of_the_file():
    every = set(map(id, functions_of(__file__)))
    assert {id(each) for each in functions_near(__file__)} <= every
    assert functions_near("nowhere.py") == []
