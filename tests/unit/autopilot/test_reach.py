"""Whatever can be read from some roots and then changes is seen."""

from __future__ import annotations

import argparse
import random

import numpy as np
import pytest

from codedag.autopilot.reach import Reach

SPACE = {"__name__": "program", "LIMIT": 3, "TABLE": {"a": [1, 2]}}
exec("def read(x): return x + LIMIT + len(TABLE)", SPACE)
READ = SPACE["read"]


class Data:
    shared = [1]

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


def changes():
    data, names = Data(), argparse.Namespace(size=3)
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


@pytest.mark.parametrize(("root", "change"), [each[1:] for each in changes()], ids=[each[0] for each in changes()])
def test_a_change_is_seen(root, change):
    reach = Reach([root])
    assert reach.why is None
    assert reach.is_same()
    change()
    assert not reach.is_same()


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
