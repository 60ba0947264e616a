"""Each rule of single use: what is a link, and every way in which a value could be seen by someone else."""

from __future__ import annotations

import ast
import textwrap

import pytest

from codedag.instrument.links import links
from codedag.instrument.numbering import number


def carried(source: str, *, main: bool = False) -> set[str]:
    """The links of a program as `source text -> target text`."""
    source = textwrap.dedent(source)
    tree = ast.parse(source)
    sites, _ = number(tree, "x.py")
    lines = source.splitlines()

    def text(index: int) -> str:
        info = sites[index]
        return lines[info.line - 1].encode()[info.column : info.end_column].decode()

    return {f"{text(link.source)} -> {text(link.target)}" for link in links(tree, main=main)}


def body(statements: str) -> str:
    return "def f(a, b, c, d, items, cond):\n" + textwrap.indent(textwrap.dedent(statements), "    ")


LINKED = {
    "through a name": "x = A(a)\ny = x + 1\nreturn d",
    "as an operand": "return A(a) + 1",
    "as self": "x = A(a)\nreturn x.m()",
    "as a keyword": "x = A(a)\nreturn g(k=x)",
    "rebound by its own target": "x = A(a)\nx = x + 1\nreturn x",
    "in place": "x = A(a)\nx += 1\nreturn x",
    "bound again before it is read": "x = A(a)\ny = x + 1\nx = 5\nreturn x",
    "inside a loop": "for i in items:\n    x = A(i)\n    y = x + 1",
    "in a branch": "if cond:\n    x = A(a)\n    return x + 1\nreturn 0",
    "inside try without a reader": "try:\n    x = A(a)\n    return x + 1\nexcept ValueError:\n    return 0",
    "with other sites between": "x = A(a)\ny = g(b)\nreturn x + y",
    "an attribute between": "x = A(a)\ny = b.mean\nreturn x + y",
    "annotated": "x: int = A(a)\nreturn x + 1",
    "into a subscript": "x = A(a)\nreturn x[0]",
    "into an item assignment": "x = A(a)\nx[0] = 5\nreturn d",
    "as an index": "x = A(a)\nb[x] = 5",
    "vars of something else": "x = A(a)\ny = x + 1\nreturn vars(b)",
    "a function called evaluate": "x = A(a)\ny = x + 1\nreturn evaluate(y)",
    "a function called stack": "x = A(a)\ny = x + 1\nreturn np.stack(y)",
}

NOT_LINKED = {
    "read twice": "x = A(a)\nreturn x + x",
    "read later": "x = A(a)\ny = x + 1\nreturn x",
    "read later in one statement": "x = A(a)\nreturn g(x + 1, x)",
    "in a container": "x = A(a)\ny = [x]\nreturn y",
    "returned": "x = A(a)\nreturn x",
    "an attribute of it": "x = A(a)\nreturn x.shape",
    "star argument": "x = A(a)\nreturn g(*x)",
    "spread beside it": "x = A(a)\nreturn g(x, *b)",
    "double star": "x = A(a)\nreturn g(**x)",
    "a spread in between": "x = A(a)\ny = g(*b)\nreturn x + y",
    "a mapping spread in between": "x = A(a)\ny = g(**b)\nreturn x + y",
    "a closure": "x = A(a)\ny = x + 1\nreturn lambda: x",
    "a closure made before": "h = lambda: x\nx = A(a)\ny = x + 1\nreturn h()",
    "a nested function": "def h():\n    return x\nx = A(a)\nh()\nreturn x + 1",
    "a nested function's default": "x = A(a)\ny = x + 1\ndef h(z=x): pass\nreturn h",
    "nonlocal in a nested function": "def h():\n    nonlocal x\n    x += 1\nx = A(a)\nreturn x + 1",
    "a class body": "x = A(a)\nclass K:\n    y = x\nreturn x + 1",
    "a generator expression read later": "x = 0\ng = (x for _ in items)\nx = A(a)\nsum(g)\nreturn x + 1",
    "a global": "global x\nx = A(a)\nreturn x + 1",
    "an exception handler": "try:\n    x = A(a)\n    y = x + 1\nexcept ValueError:\n    return x",
    "a handler further out": (
        "try:\n    try:\n        x = A(a)\n        y = x + 1\n    except KeyError:\n        pass\n"
        "except ValueError:\n    print(x)"
    ),
    "after a handler": "x = 0\ntry:\n    x = A(a)\n    y = x + 1\nexcept ValueError:\n    pass\nreturn x",
    "finally": "try:\n    x = A(a)\n    y = x + 1\nfinally:\n    print(x)",
    "after a with that may swallow": "x = 0\nwith b:\n    x = A(a)\n    x = x + 1\nreturn x",
    "the next iteration": "x = 0\nfor i in items:\n    y = x + 1\n    x = A(i)",
    "the test of a while": "x = 1\nwhile x:\n    x = A(a)\n    y = x + 1",
    "the else of a while": "while cond:\n    x = A(a)\n    y = x + 1\nelse:\n    print(x)",
    "the else of a for": "for i in items:\n    x = A(a)\n    y = x + 1\nelse:\n    print(x)",
    "a break before it is bound again": (
        "x = 0\nfor i in items:\n    x = A(i)\n    y = x + 1\n    if cond: break\n    x = 0\nprint(x)"
    ),
    "a continue before it is bound again": (
        "x = 0\nfor i in items:\n    print(x)\n    x = A(i)\n    y = x + 1\n    if cond: continue\n    x = 0"
    ),
    "a break through finally": (
        "for i in items:\n    x = A(i)\n    y = x + 1\n    try:\n        break\n    finally:\n        z = 0\nprint(x)"
    ),
    "a conditional store": "x = A(a)\ny = x + 1\nif cond:\n    x = 0\nreturn x",
    "a store that may fail": "x = A(a)\ny = x + 1\nfor x in items: pass\nreturn x",
    "a match capture that may fail": "x = A(a)\ny = x + 1\nmatch b:\n    case [x]: pass\nreturn x",
    "an except name": "x = A(a)\ny = x + 1\ntry: g()\nexcept E as x: pass\nreturn x",
    "a store by import": "x = A(a)\ny = x + 1\ntry:\n    import x\nexcept ImportError: pass\nreturn x",
    "deleted": "x = A(a)\ndel x\nreturn x + 1",
    "deleted after": "x = A(a)\ny = x + 1\ndel x",
    "a walrus": "y = (x := A(a)) + x\nreturn y",
    "a walrus over it": "x = A(a)\ny = (x := 5) + x\nreturn y",
    "a comprehension": "x = A(a)\ny = [x for _ in items]\nreturn y",
    "a condition": "x = A(a)\nreturn x + 1 if cond else 0",
    "an and": "x = A(a)\nreturn cond and x + 1",
    "a chained comparison": "x = A(a)\nreturn 0 < x < 1",
    "not": "x = A(a)\nreturn not x",
    "an f-string between": "x = A(a)\nprint(f'{b}')\nreturn x + 1",
    "an f-string of it": "x = A(a)\nreturn f'{x}'",
    "an assert between": "x = A(a)\nassert b\nreturn x + 1",
    "an assert of it": "x = A(a)\nassert x\nreturn x + 1",
    "a statement between": "x = A(a)\nif cond: pass\nreturn x + 1",
    "an attribute store between": "x = A(a)\nb.z = 1\nreturn x + 1",
    "stored in an attribute": "b.z = A(a)\nreturn b.z + 1",
    "a tuple store": "x, y = A(a)\nreturn x + 1",
    "unpacking between": "x = A(a)\ny, z = b\nreturn x + y",
    "two targets": "x = y = A(a)\nreturn x + 1",
    "a set between": "x = A(a)\ny = {b}\nreturn x + 1",
    "a dict between": "x = A(a)\ny = {b: 1}\nreturn x + 1",
    "locals": "x = A(a)\ny = x + 1\nreturn locals()",
    "locals by another name": "h = locals\nx = A(a)\ny = x + 1\nreturn h()",
    "eval": "x = A(a)\ny = x + 1\nreturn eval('x')",
    "vars without arguments": "x = A(a)\ny = x + 1\nreturn vars()",
    "a text that is evaluated": "import numexpr as ne\nx = A(a)\ny = x + 1\nreturn ne.evaluate('x + 1')",
    "a query": "x = A(a)\ny = x + 1\nreturn b.query('k > @x')",
    "a raise": "x = A(a)\ny = x + 1\nraise g(x)",
    "a slice": "x = A(a)\nreturn b[x:]",
    "in a with item": "x = A(a)\nwith g(x): pass\nreturn x + 1",
    "a return in finally": "try:\n    x = A(a)\n    y = x + 1\nfinally:\n    return x",
    "an except star": "try:\n    x = A(a)\n    y = x + 1\nexcept* ValueError:\n    print(x)",
    "subscript in place": "x = A(a)\nx[0] += 1",
    "attribute in place": "x = A(a)\nx.n += 1",
}


@pytest.mark.parametrize("name", LINKED)
def test_is_a_link(name: str) -> None:
    assert any(link.startswith("A(") for link in carried(body(LINKED[name]))), name


@pytest.mark.parametrize("name", NOT_LINKED)
def test_is_no_link(name: str) -> None:
    found = {link for link in carried(body(NOT_LINKED[name])) if link.startswith("A(")}
    assert not found, name


@pytest.mark.parametrize(
    "between", ["yield", "yield b", "await b", "yield from b", "(yield)", "z = yield b", "z = await b"]
)
def test_nothing_that_suspends_may_stand_between(between: str) -> None:
    keyword = "async def" if "await" in between else "def"
    source = f"{keyword} f(a, b):\n    x = A(a)\n    {between}\n    y = x + 1\n"
    assert not carried(source)


MAIN = {
    "read by nobody else": ("x = A(a)\ny = x + 1\nprint(y)", True),
    "read by a function": ("def f():\n    return x\nx = A(a)\ny = x + 1", False),
    "declared in a function": ("def f():\n    global x\n    del x\nx = A(a)\ny = x + 1", False),
    "read by a method": ("class K:\n    def f(self):\n        return x\nx = A(a)\ny = x + 1", False),
    "through globals()": ("x = A(a)\ny = x + 1\nprint(globals()['x'])", False),
    "through globals() in a function": ("def f():\n    return globals()\nx = A(a)\ny = x + 1\nf()", False),
    "through the module": ("import sys\nx = A(a)\ny = x + 1\nsys.modules[__name__].x", False),
    "through import": ("import __main__\nx = A(a)\ny = x + 1\n__main__.x", False),
    "through exec": ("x = A(a)\ny = x + 1\nexec('print(x)')", False),
    "through dir": ("x = A(a)\ny = x + 1\nprint(dir())", False),
    "an annotation": ("x: g(x) = A(a)\ny = x + 1", False),
    "a star import after": ("x = A(a)\ny = x + 1\nfrom m import *\nprint(x)", False),
}


@pytest.mark.parametrize("name", MAIN)
def test_names_of_the_main_module(name: str) -> None:
    source, linked = MAIN[name]
    assert ("A(a) -> x + 1" in carried(source, main=True)) is linked


def test_names_of_an_imported_module_are_never_hidden() -> None:
    assert not carried("x = A(a)\ny = x + 1", main=False)


@pytest.mark.parametrize(
    "peek",
    [
        "sys._getframe(1).f_locals",
        "inspect.currentframe().f_back",
        "inspect.stack()[1]",
        "pdb.set_trace()",
        "breakpoint()",
    ],
)
def test_a_function_that_reads_frames_opens_all_others(peek: str) -> None:
    source = f"def peek():\n    return {peek}\n" + body("x = A(a)\ny = x + 1\npeek()")
    assert not {link for link in carried(source) if link.startswith("A(")}


PROPERTIES = {
    "property": "class K:\n    @property\n    def mean(self): return 0\n",
    "made": "class K:\n    mean = property(g)\n",
    "hook": "class K:\n    def __getattr__(self, name): return 0\n",
    "descriptor": "class D:\n    def __get__(self, o, t): return 0\n",
}


@pytest.mark.parametrize("name", PROPERTIES)
def test_an_attribute_that_runs_code_is_a_barrier(name: str) -> None:
    source = PROPERTIES[name] + body("x = A(a)\ny = b.mean\nreturn x + y")
    assert not {link for link in carried(source) if link.startswith("A(")}


def test_an_attribute_of_a_module_runs_no_code() -> None:
    source = "import np\n" + PROPERTIES["hook"] + body("x = A(a)\ny = np.float32\nreturn x + y")
    assert {link for link in carried(source) if link.startswith("A(")}
