"""Whatever can be read from some roots and then changes is seen."""

from __future__ import annotations

import abc
import argparse
import functools
import random
import types

import numpy as np
import pytest

from codedag.autopilot.reach import Reach

SPACE = {"__name__": "program", "LIMIT": 3, "TABLE": {"a": [1, 2]}}
exec("def read(x): return x + LIMIT + len(TABLE)", SPACE)
READ = SPACE["read"]


MODULE = types.ModuleType("of_the_program")
MODULE.__file__, MODULE.FIRST, MODULE.SECOND = __file__, 1, 2  # type: ignore[attr-defined]
GAIN = 2.0


class Named(type):
    prefix = "a"


class Base(metaclass=Named):
    limit = 3

    def __call__(self, x):
        return x * GAIN

    def scaled(self, x, by=1.0, *, plus=0.0):
        return x * by + plus


class Data(Base):
    shared = [1]
    chance = 0.5

    def __init__(self):
        self.size, self.paths, self.inner = 3, ["a", "b"], {"rows": [(1, [2])]}
        self.mean = np.array([0.5, 0.25])
        self.kinds, self.fixed = {"x", "y"}, frozenset({(1, 2), "z"})
        self.rng = random.Random(0)


def closure():
    count = 1

    def read():
        return count

    def change():
        nonlocal count
        count += 1

    return read, change


class Made:
    def __init__(self):
        self.gain = GAIN


def makes():
    return Made().gain


def makes_another(made):
    return type(made)()


def first():
    return MODULE.FIRST


def second():
    return first() + MODULE.SECOND


def hidden(x):
    return abs(x)


def new_code(function, *_):
    function.__code__ = (lambda x, by=1.0, *, plus=0.0: x).__code__


def changes():
    data, names = Data(), argparse.Namespace(size=3)
    scaled, space, array = Base.scaled, globals(), np.zeros((2, 3), np.float32)
    scaled = types.FunctionType(scaled.__code__, space, "scaled", (1.0,))
    scaled.__kwdefaults__ = {"plus": 0.0}
    read, change = closure()
    yield "an attribute", data, lambda: setattr(data, "size", 4)
    yield "a list", data, lambda: data.paths.append("c")
    yield "an element", data, lambda: data.paths.__setitem__(0, "z")
    yield "deep inside", data, lambda: data.inner["rows"][0][1].append(3)
    yield "an array", data, lambda: data.mean.__setitem__(0, 0.75)
    yield "a set", data, lambda: data.kinds.add("w")
    yield "an element of a set", data, lambda: (data.kinds.remove("x"), data.kinds.add("v"))
    yield "a class", data, lambda: Data.shared.append(2)
    yield "a namespace", names, lambda: setattr(names, "size", 4)
    yield "a cell", read, change
    yield "a new attribute", data, lambda: setattr(data, "more", 1)
    yield "a global", READ, lambda: SPACE.update(LIMIT=SPACE["LIMIT"] + 1)
    yield "inside a global", READ, lambda: SPACE["TABLE"]["a"].append(3)
    yield "a class attribute", data, lambda: setattr(Data, "chance", Data.chance + 1)
    yield "a class attribute of a base", data, lambda: setattr(Base, "limit", Base.limit + 1)
    yield "a method", data, lambda: setattr(Base, "scaled", lambda self, x: x)
    yield "a metaclass", data, lambda: setattr(Named, "prefix", Named.prefix + "a")
    yield "a global of a special method", data, lambda: space.update(GAIN=space["GAIN"] + 1)
    yield "a global of what makes objects", makes, lambda: space.update(GAIN=space["GAIN"] + 1)
    yield "a global of what may be made", (makes_another, Made()), lambda: space.update(GAIN=space["GAIN"] + 1)
    yield "the class of an object", (other := Data()), lambda: setattr(other, "__class__", Base)
    yield "the attributes of an object", (third := Data()), lambda: setattr(third, "__dict__", dict(third.__dict__))
    yield "a name of a module", second, lambda: setattr(MODULE, "FIRST", MODULE.FIRST + 1)
    yield "another name of the module", second, lambda: setattr(MODULE, "SECOND", MODULE.SECOND + 1)
    yield "a default", scaled, lambda: setattr(scaled, "__defaults__", (2.0,))
    yield "a keyword's default", scaled, lambda: scaled.__kwdefaults__.update(plus=scaled.__kwdefaults__["plus"] + 1)
    yield "an attribute of a function", scaled, lambda: setattr(scaled, "seen", getattr(scaled, "seen", 0) + 1)
    yield "what a partial gives", functools.partial(scaled, by=(by := [1])), lambda: by.append(2)
    yield "code", scaled, lambda: new_code(scaled)
    yield "the shape of an array", array, lambda: setattr(array, "shape", (6,))
    yield "the type of an array", (kind := np.zeros(4, np.int32)), lambda: setattr(kind, "dtype", np.float32)
    yield "whether an array can be written", (fixed := np.zeros(4)), lambda: fixed.setflags(write=False)
    yield "a name that hides a built-in one", hidden, lambda: space.update({"abs": lambda x: x})


@pytest.fixture(autouse=True)
def as_before():
    kept = [(of, dict(vars(of))) for of in (Data, Base, Named, MODULE)]
    space = dict(globals())
    yield
    for of, before in kept:
        for name, value in before.items():
            if vars(of)[name] is not value:
                setattr(of, name, value)
    globals().update(GAIN=space["GAIN"])
    globals().pop("abs", None)


@pytest.mark.parametrize(("root", "change"), [each[1:] for each in changes()], ids=[each[0] for each in changes()])
def test_a_change_is_seen(root, change):
    reach = Reach([root])
    assert reach.why is None
    assert reach.is_same()
    change()
    assert not reach.is_same()


class Shape(abc.ABC):
    def __init__(self):
        self.gain = GAIN

    @abc.abstractmethod
    def area(self): ...


class Square(Shape):
    def area(self):
        return self.gain


def test_abstract_classes_can_be_looked_into():
    reach = Reach([Square()])
    assert reach.why is None
    assert reach.is_same()


def test_what_only_makes_objects_is_not_read_by_one_that_is_there():
    reach = Reach([Made()])
    globals().update(GAIN=GAIN + 1)
    assert reach.is_same()


def test_a_global_of_the_name_of_an_attribute_is_something_else():
    reach = Reach([first])
    globals().update(FIRST=1)
    try:
        assert reach.is_same()
    finally:
        del globals()["FIRST"]


def test_what_cannot_be_looked_into_is_said():
    why = Reach([iter([1])]).why
    assert why is not None
    assert "list_iterator" in why.reason


def test_too_much_is_said():
    why = Reach([[object] * 30_000]).why
    assert why is not None
    assert "too many" in why.reason


def test_a_name_that_the_loop_binds_must_not_be_read_by_a_function():
    why = Reach([READ], SPACE, {"LIMIT"}).why
    assert why is not None
    assert "LIMIT" in why.reason


def test_pandas_tables_are_their_arrays():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"path": ["a", "b"], "label": [1, 2], "x": [0.5, 0.25]})
    reach = Reach([table])
    assert reach.why is None
    assert reach.is_same()
    table.loc[1, "label"] = 7
    assert not reach.is_same()
    reach = Reach([table])
    table.loc[0, "path"] = "z"
    assert not reach.is_same()
