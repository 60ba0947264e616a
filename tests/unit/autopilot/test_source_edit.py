"""Edits of source: what is taken out, and what is refused because the program would do something else."""

from __future__ import annotations

import ast

import pytest

from codedag.autopilot.adopt_check import Request, trial
from codedag.autopilot.source_edit import Source, is_method
from codedag.ir import Op

pytest.importorskip("libcst")


def op(text: str, line: int, name: str, within: str = "") -> Op:
    """The operation of this name at the first place of `within` in the line."""
    column = text.splitlines()[line - 1].index(within)
    return Op(id=1, name=name, kind="call", file="a.py", line=line, col=column, context="f", count=1,
              self_seconds=1.0, total_seconds=1.0, out_nbytes=1, in_sig="uint8[4,4,3]")  # fmt: skip


ASTYPE, DIVIDE, OPEN = "numpy.ndarray.astype", "operator.truediv", "PIL.Image.open"


def test_one_expression_becomes_a_lambda():
    text = "def f(a):\n    return a[0].astype(float) / 255  # scaled\n"
    got = Source(text).extract([op(text, 2, ASTYPE, "a["), op(text, 2, DIVIDE, "a[")], "by_table", "steps")
    assert got.text == "def f(a):\n    return by_table(a[0], lambda value: value.astype(float) / 255)  # scaled\n"
    assert got.operand == "a[0]"


def test_statements_become_a_function():
    text = (
        "def f(p):\n    # first\n    img = Image.open(p)\n    img = img.convert('L')\n    return np.asarray(img)[1:]\n"
    )
    ops = [op(text, 3, OPEN, "Image"), op(text, 4, "PIL.Image.Image.convert", "img.c"),
           op(text, 5, "numpy.asarray", "np")]  # fmt: skip
    got = Source(text).extract(ops, "kept", "steps").text
    ast.parse(got)
    assert "    # first\n    def steps(value):\n        img = Image.open(value)\n" in got
    assert "        return np.asarray(img)\n\n    return kept(p, steps)[1:]\n" in got


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def f(a):\n    x = a.astype(float)\n    y = x / 2\n    return x, y\n", "`x` is read again"),
        ("def f(a):\n    x = a.astype(float)\n    print(x)\n    y = x / 2\n    return y\n", "other statements"),
        ("def f(a):\n    self.x = x = a.astype(float)\n    y = x / 2\n    return y\n", "other statements"),
        ("async def f(a):\n    x = a.astype(float)\n    z = await g()\n    y = x / 2\n    return y\n", "await"),
        ("def f(a):\n    if a.astype(float) is a:\n        y = x / 2\n", "compound statement"),
    ],
)
def test_what_would_change_the_program_is_refused(text, why):
    lines = text.splitlines()
    first = next(at for at, line in enumerate(lines, 1) if "astype" in line)
    last = next(at for at, line in enumerate(lines, 1) if "x / 2" in line)
    ops = [op(text, first, ASTYPE, "a.astype"), op(text, last, DIVIDE, "x / 2")]
    with pytest.raises(LookupError, match=why):
        Source(text).extract(ops, "by_table", "steps")


def test_a_method_gets_what_it_is_called_on():
    text = "x = img.resize((2, 2), reducing_gap=3)\ny = cv2.resize(x, (2, 2))\n"
    source = Source(text)
    assert "fast_resize(img, (2, 2), reducing_gap=3)" in source.replace_call(
        op(text, 1, "PIL.Image.Image.resize", "img"), "fast_resize", True
    )
    assert "y = fast_resize(x, (2, 2))" in source.replace_call(op(text, 2, "cv2.resize", "cv2"), "fast_resize", False)


def test_letters_of_several_bytes_before_it():
    text = "def f(a):\n    t = 'größe'; y = a.astype(float) / 2\n    return y\n"
    column = text.splitlines()[1].encode().index(b"a.astype")
    ops = [op(text, 2, name) for name in (ASTYPE, DIVIDE)]
    import msgspec

    ops = [msgspec.structs.replace(one, col=column) for one in ops]
    assert "y = by_table(a, lambda value: value.astype(float) / 2)" in Source(text).extract(ops, "by_table", "s").text


def test_helpers_stand_below_the_imports():
    text = '"""Doc."""\n\nfrom __future__ import annotations\n\nimport os\n\nX = 1\n'
    got = Source(text).with_preamble("def kept():\n    return 1")
    assert got == (
        '"""Doc."""\n\nfrom __future__ import annotations\n\nimport os\n\n\ndef kept():\n    return 1\n\n\nX = 1\n'
    )


@pytest.mark.parametrize(("name", "expected"), [("PIL.Image.open", False), ("PIL.Image.Image.resize", True),
                                               ("numpy.ndarray.astype", True), ("cv2.resize", False),
                                               ("numpy.sort", False)])  # fmt: skip
def test_methods_are_told_from_functions(name, expected):
    assert is_method(name) is expected


HELPER = "def twice(value, steps):\n    return steps(value){more}"


@pytest.mark.parametrize(("more", "why"), [("", ""), (" + 1", "it gave another result")])
def test_a_trial_finds_a_difference(tmp_path, more, why):
    steps = "def steps(value):\n    return value.astype(np.float32) * scale / self.size\n"
    request = Request(
        "table", HELPER.format(more=more), "twice", steps, "import numpy as np\nraise SystemExit(9)\n", ""
    )
    found = trial(request, tmp_path).why
    assert found.startswith(why) if why else found == ""
