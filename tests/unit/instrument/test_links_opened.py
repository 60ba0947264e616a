"""What a `with` statement opens, and the one thing that is done with it."""

import ast
import textwrap

import pytest

from codedag.instrument.links import opened
from codedag.instrument.numbering import number


def carried(statements):
    source = "def f(a, b, c):\n" + textwrap.indent(statements, "    ")
    tree = ast.parse(source)
    sites, _ = number(tree, "x.py")
    lines = source.splitlines()

    def text(index):
        info = sites[index]
        return lines[info.line - 1][info.column : info.end_column]

    return [(text(link.source), text(link.target), link.operand) for link in opened(tree, main=False)]


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("with A(a) as x:\n    y = x.m(1)\nreturn y", ("A(a)", "x.m(1)", "self")),
        ("with A(a) as x:\n    return g(x)", ("A(a)", "g(x)", 0)),
        ("with A(a) as x:\n    return g(x).m()", ("A(a)", "g(x)", 0)),
        ("with A(a) as x:\n    y = g(b, k=x)\n    z = y + 1", ("A(a)", "g(b, k=x)", "k")),
        ("for i in a:\n    with A(i) as x:\n        y = x.m()", ("A(i)", "x.m()", "self")),
        ("with A(a) as x:\n    x = x.m(1)\nreturn x", ("A(a)", "x.m(1)", "self")),  # bound anew
        ("with A(a) as x:\n    x = x.m()\n    x = x.n()\nreturn g(x, x)", ("A(a)", "x.m()", "self")),
        ("x = b\nwith A(a) as x:\n    x = g(x)", ("A(a)", "g(x)", 0)),
    ],
)
def test_one_use_is_a_link(statements, expected):
    assert carried(statements) == [expected]


@pytest.mark.parametrize(
    "statements",
    [
        "with A(a) as x:\n    y = x.m()\n    z = x.n()",  # two uses
        "with A(a) as x:\n    y = x.m()\nreturn x",  # and after it
        "with A(a) as x:\n    y = x.m",  # an attribute, not a call
        "with A(a) as x:\n    y = [x]",
        "with A(a) as x, B(b) as y:\n    z = x.m()",  # another one is entered between
        "with A(a) as (x, y):\n    z = x.m()",
        "with A(a):\n    z = b.m()",
        "with A(a) as x:\n    if b:\n        z = x.m()",  # not always
        "with A(a) as x:\n    import y\n    z = x.m()",  # something runs between
        "with A(a) as x:\n    g = lambda: x.m()",  # later
        "with A(a) as x:\n    z = x.m()\nlocals()",  # seen by name
        "with a as x:\n    z = x.m()",
        "x = b\nwith A(a) as x:\n    z = x.m()",
        "with A(a) as x:\n    x = x.m(x)",  # bound anew, but read twice before
        "with A(a) as x:\n    y = x.m()\n    x = x.n()",
        "with A(a) as x:\n    x, y = x.m(), x",
        "try:\n    with A(a) as x:\n        x = x.m()\nexcept E:\n    g(x)",  # what was opened is seen if m fails
        "try:\n    g()\nfinally:\n    pass\nwith A(a) as x:\n    x = x.m()",
        "with suppress(E):\n    with A(a) as x:\n        x = x.m()\nreturn x",
        "with A(a) as x:\n    x = x.m()\ng = lambda: x",
    ],
)
def test_anything_else_is_none(statements):
    assert carried(statements) == []
