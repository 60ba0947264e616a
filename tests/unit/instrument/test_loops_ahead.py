"""Which part of a loop could run ahead, as its source says."""

from __future__ import annotations

import ast
import textwrap

import pytest

from codedag.instrument.compiled import Compiled
from codedag.instrument.loops import loops_ahead, outlined
from codedag.instrument.program import InstrumentedFile


def found(source):
    loops = loops_ahead(textwrap.dedent(source).encode(), "program.py", Compiled())
    return [(loop.whole, [ast.unparse(each) for each in loop.body]) for loop in loops.values()]


CASES = {
    "[f(x) for x in xs]": (True, ["return f(x)"]),
    "{k: f(v) for k, v in xs}": (True, ["return (k, f(v))"]),
    "for x in xs:\n    y = f(x)\n    out.append(g(y))": (False, ["y = f(x)", "g(y)"]),
    "for x in xs:\n    out[x] = f(x)": (False, ["f(x)"]),
    "for x in xs:\n    total += f(x)": (False, ["f(x)"]),
    "for x in xs:\n    y = f(x)\n    if y is None: continue\n    y = g(y)\n    raise y": (
        False,
        ["y = f(x)", "if y is None:\n    return", "y = g(y)"],
    ),
    "for x in xs:\n    a = f(b)\n    c = f(x)\n    b = a": None,  # what the turn before left is not known
    "for x in xs:\n    y = f(x)\n    self.y = y\n    z = g(y)": (False, ["y = f(x)"]),
    "for x in xs:\n    with f(x) as y: g(y)": None,
    "for x in xs:\n    y = x + 1": None,  # no call: not worth it
    "[f(x) for x in xs if g(x)]": None,
    "[(y := f(x)) for x in xs]": None,
    "[locals() for x in xs]": None,
    "for x in xs:\n    y = f(x)\n    yield g(y)": (False, ["y = f(x)", "g(y)"]),
    "for x in xs:\n    if f(x): y = 1\n    z = g(y)": (
        False,
        ["if f(x):\n    y = 1"],
    ),  # y may be that of an earlier turn
}


@pytest.mark.parametrize("source", CASES)
def test_what_can_run_ahead(source):
    expected = CASES[source]
    inside = "def program(self, xs, out, total, b):\n" + textwrap.indent(source, "    ")
    assert found(inside) == ([] if expected is None else [expected])


def test_the_function_of_a_turn_computes_what_the_turn_does():
    source = b"def program(xs, scale):\n    return [sum(x) * scale for x in xs]\n"
    file = InstrumentedFile("program.py", source, main=False)
    (loop,) = file.loops_ahead.values()
    assert loop.names == ("scale", "sum")
    code = outlined(loop, "program.py", ("scale",), file.sites, file.switches)
    turn = type(found)(code, {"sum": sum})
    assert turn([1, 2], 10) == 30
