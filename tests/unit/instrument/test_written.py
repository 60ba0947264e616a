"""What the source alone proves about its sites, and above all what it does not."""

from __future__ import annotations

import textwrap

import pytest

from codedag.instrument.written import SPREAD, written


def facts(body: str, head: str = "import numpy as np\n"):
    """What is proven about the sites of a function with this body, by line of the body (the last site of the line)."""
    source = head + "def f(x, y, flag):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    first = head.count("\n") + 2
    return {fact.line - first: fact for _, fact in sorted(written(source.encode(), "f.py", main=True).items())}


@pytest.mark.parametrize(
    ("body", "is_unused"),
    [
        ("a = np.exp(x)\nreturn x", True),
        ("a = np.exp(x)\na = np.sqrt(x)\nreturn a", True),
        ("a = np.exp(x)\nreturn a", False),
        ("a = np.exp(x)\nreturn lambda: a", False),
        ("a = np.exp(x)\nreturn locals()", False),
        ("a = np.exp(x)\nif flag: return a\nreturn x", False),
        ("a = np.exp(x)\nfor k in y: print(a)", False),
        ("a = np.exp(x)\nreturn f'{a}'", False),
        ("a = np.exp(x)\ndel a", False),
        ("a = b = np.exp(x)\nreturn x", False),
        ("global a\na = np.exp(x)\nreturn x", False),
        ("np.exp(x)\nreturn x", False),  # it may be there to raise
        ("self.a = np.exp(x)\nreturn x", False),
        ("y[0] = np.exp(x)\nreturn x", False),
        ("(a,) = np.exp(x)\nreturn x", False),
    ],
)
def test_a_value_that_nothing_reads(body, is_unused):
    at = next(k for k, line in enumerate(body.splitlines()) if "np.exp" in line)
    assert facts(body)[at].unused is is_unused


@pytest.mark.parametrize("around", ["try:\n    a = np.exp(x)\nexcept ValueError: pass", "with y:\n    a = np.exp(x)"])
def test_where_an_exception_may_be_wanted_nothing_is_unused(around):
    assert not facts(around + "\nreturn x")[1].unused


def test_a_value_of_one_round_that_the_next_one_reads():
    assert not facts("a = x\nfor k in y:\n    print(a)\n    a = np.exp(x)")[3].unused


@pytest.mark.parametrize(
    ("between", "comes_again"),
    [
        ("", True),
        ("c = np.sqrt(y)", True),
        ("x = y", False),
        ("x += 1", False),
        ("y, x = x, y", False),
        ("if flag: x = y", False),
        ("for x in y: pass", False),
        ("del y", False),
        ("self.x = 1", False),
    ],
)
def test_an_expression_that_comes_again(between, comes_again):
    lines = ["a = np.exp(x)", *([between] if between else []), "b = np.exp(x)", "return a, b"]
    found = facts("\n".join(lines))
    assert (found[len(lines) - 2].again >= 0) is comes_again


def test_other_arguments_or_another_block_are_not_again():
    assert facts("a = np.exp(x)\nb = np.exp(y)")[1].again < 0
    assert facts("a = np.clip(x, 0, 1)\nb = np.clip(x, 0, 2)")[1].again < 0
    assert facts("a = np.exp(x)\nif flag:\n    b = np.exp(x)")[2].again < 0
    assert facts("a = np.exp(*x)\nb = np.exp(*x)")[1].again < 0
    assert facts("a = np.exp(lambda: x)\nb = np.exp(lambda: x)")[1].again < 0


@pytest.mark.parametrize(
    ("body", "is_fixed"),
    [
        ("k = np.hanning(9)", True),
        ("k = np.arange(9, dtype=np.float32)", True),
        ("k = np.ones((3, 3)) * 2 - 1", True),
        ("k = np.arange(9).reshape(3, 3)", True),
        ("k = np.hanning(x)", False),
        ("k = np.hanning(config.SIZE)", False),
        ("k = np.hanning(*[9])", False),
        ("k = open('f')", False),
        ("k = helper(9)", False),
    ],
)
def test_what_is_made_of_literals(body, is_fixed):
    head = "import numpy as np\nimport config\ndef helper(n): return n\n"
    assert (facts(body, head)[0].fixed is not None) is is_fixed


def test_literals_are_followed_through_names():
    found = facts("k = np.hanning(9)\nm = np.outer(k, k)\nk = x\nn = np.outer(k, k)")
    assert found[1].fixed is not None
    assert len(found[1].fixed) == 2
    assert found[3].fixed is None
    assert facts("k = np.hanning(9)\nif flag: k = x\nn = np.outer(k, k)")[2].fixed is None


def test_a_library_whose_name_is_bound_again_is_none():
    assert facts("k = np.hanning(9)", "import numpy as np\nnp = object()\n")[0].fixed is None
    assert facts("def g(np): return 1\nk = np.hanning(9)")[1].fixed is None


def test_how_arguments_are_given():
    found = facts("a = np.add(x, y, out=x)\nb = np.add(x, y, x)\nc = np.add(*x)\nd = np.add(**x)")
    assert (found[0].keywords, found[0].positional) == (("out",), 2)
    assert (found[1].keywords, found[1].positional) == ((), 3)
    assert found[2].positional == found[3].positional == SPREAD
