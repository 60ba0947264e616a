"""What a program changes and changes back while something runs beside it."""

import ast
import sys

import numpy as np
import pytest

from codedag.autopilot.reach import Reach
from codedag.autopilot.stored import Stored, _look


class Data:
    def __init__(self):
        self.size, self.options, self.rows, self.mean = 3, {"a": {"b": 1}}, [1], np.ones(2)


def set_and_put_back(data, how):
    if how == "an attribute":
        data.size = 4
        data.size = 3
    elif how == "an item":
        data.options["a"]["b"] = 2
        data.options["a"]["b"] = 1
    elif how == "by name":
        setattr(data, "size", 4)
        setattr(data, "size", 3)
    else:
        data.options["new"] = 1
        del data.options["new"]


#: From 3.13 on attributes are kept beside the dict, which does not count them: what the source says must do there.
COUNTED = ["an item", "another item"] + ["an attribute", "by name"] * (sys.version_info < (3, 13))


@pytest.mark.parametrize("how", COUNTED)
def test_what_is_put_back_is_seen_beside_the_program_and_is_no_change_before_it(how):
    data = Data()
    beside, before = Reach([data], beside=True), Reach([data])
    assert beside.is_same()
    assert before.is_same()
    set_and_put_back(data, how)
    assert before.is_same()
    assert not beside.is_same()


def test_names_of_lists_and_arrays():
    assert Reach([Data()], beside=True).changeable == {"rows", "mean"}


@pytest.mark.parametrize(
    ("source", "inside"),
    [
        ("def f(data):\n    data.rows[0] = 1", {"data", "rows"}),
        ("def f(data):\n    data.rows[0].low[1] += 1", {"data", "rows", "low"}),
        ("def f(rows):\n    del rows[0]", {"rows"}),
        ("def f(rows):\n    rows.append(rows.pop())", {"rows"}),
        ("for x in y:\n    rows[x] = 1", {"rows"}),
        ("rows[0] = 1", set()),
        ("class A:\n    def __init__(self):\n        self.rows[0] = 1", set()),
        ("def f(rows):\n    return rows[0], rows.count(1)", set()),
    ],
)
def test_what_is_changed_in_place(source, inside):
    found = Stored()
    _look(ast.parse(source), found, "", False)
    assert found.inside == inside


def test_an_attribute_that_is_set_by_name():
    found = Stored()
    _look(ast.parse("def f(x):\n    setattr(x, 'size', 1)\n    delattr(x, 'rows')"), found, "", False)
    assert found.attributes == {"size", "rows"}
