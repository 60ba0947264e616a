"""What is read off the source of functions, and that owners are named as sites name them."""

import textwrap

from codedag.instrument.conduct import conduct_of
from codedag.instrument.program import InstrumentedFile


def facts(text):
    return conduct_of(textwrap.dedent(text).encode(), "t.py")


def stores(text, owner="f"):
    return [(s.kind, s.name, s.reach) for s in facts(text)[owner].stores]


def test_stores_that_others_see_are_told_from_own_ones():
    found = facts(
        """
        class Photos:
            def __init__(self, root):
                self.root = root
                root.used = True
            def __getitem__(self, index):
                self.count += 1
                image = load(index)
                image[0] = 1
                self.cache[index] = image
                del self.old
                for self.last in range(3):
                    pass
        """
    )
    made = found["Photos.__init__"]
    assert [(s.name, s.reach) for s in made.stores] == [("self.root", "own"), ("root.used", "parameter")]
    assert [s.name for s in made.seen_by_others] == ["root.used"]
    item = found["Photos.__getitem__"]
    assert [(s.kind, s.name, s.reach, s.line, s.deletes) for s in item.stores] == [
        ("attribute", "self.count", "parameter", 7, False),
        ("subscript", "image[0]", "local", 9, False),
        ("subscript", "self.cache[index]", "parameter", 10, False),
        ("attribute", "self.old", "parameter", 11, True),
        ("attribute", "self.last", "parameter", 12, False),
    ]


def test_names_of_others():
    assert stores("def f():\n  global n\n  n += 1\n  m = 2") == [("global", "n", "outer")]
    assert stores("def f():\n  cache['a'] = 1\n  table[0][1] = 2") == [
        ("subscript", "cache['a']", "outer"), ("subscript", "table[0][1]", "outer"),
    ]  # fmt: skip
    text = "def f():\n  n = 0\n  def g():\n    nonlocal n\n    n, x = 1, 2\n    n2[0] = 1"
    assert stores(text, "f.g") == [("nonlocal", "n", "outer"), ("subscript", "n2[0]", "outer")]
    assert (
        stores("def f():\n  global n\n  import n\n  with a as n: pass\n  [n := 1 for x in y]")
        == [("global", "n", "outer")] * 3
    )
    assert (
        stores("def f():\n  global n\n  try: pass\n  except E as n: pass\n  def n(): pass")
        == [("global", "n", "outer")] * 2
    )
    assert (
        stores("def f(x):\n  global n\n  match x:\n    case [1, *n]: pass\n    case {'a': 1, **n}: pass")
        == [("global", "n", "outer")] * 2
    )
    assert [s.name for s in facts("a = 1\nfor b in c: pass")[""].stores] == ["a", "b"]


def test_a_name_that_is_declared_is_not_local():
    assert stores("def f():\n  global cache\n  cache[1] = 2") == [("subscript", "cache[1]", "outer")]


def test_handlers_that_catch_everything():
    for body, lines in (
        ("try: pass\n  except: pass", (3,)),
        ("try: pass\n  except BaseException: pass", (3,)),
        ("try: pass\n  except (ValueError, builtins.BaseException) as e: pass", (3,)),
        ("try: pass\n  except Exception: pass", ()),
        ("with contextlib.suppress(BaseException): pass", (2,)),
        ("with suppress(OSError): pass", ()),
        ("try: pass\n  finally:\n    return 1", (4,)),
        ("for x in y:\n    try: pass\n    finally: continue", (4,)),
        ("try: pass\n  finally:\n    for x in y: break", ()),
    ):
        assert facts(f"def f():\n  {body}")["f"].catches_everything == lines, body


def test_what_runs_otherwise():
    found = facts(
        """
        def items():
            yield from x
        async def later():
            async with a() as b: pass
        def many():
            return [lambda: (yield), sorted(x for x in y)]
        def look():
            import os.path, a as b
            from . import c; from ..d import e
            with open(p) as f, lock: pass
            return locals(), sys._getframe(1), x.__dict__
        """
    )
    assert found["items"].is_generator
    assert found["later"].is_async
    assert found["later"].with_items == (("a()", 5),)
    assert not found["many"].is_generator
    assert found["many.<lambda>"].is_generator
    look = found["look"]
    assert look.imports == (("os.path", 9), ("a", 9), (".c", 10), ("..d.e", 10))
    assert look.with_items == (("open(p)", 11), ("lock", 11))
    assert look.looks == (("locals", 12), ("_getframe", 12), ("__dict__", 12))


def test_definitions_of_one_name_share_their_facts():
    found = facts("if a:\n  def f(): x.y = 1\nelse:\n  def f():\n    yield 1\n")
    assert found["f"].is_generator
    assert len(found["f"].stores) == 1


def test_every_owner_of_sites_has_facts():
    text = textwrap.dedent(
        """
        import os
        class A:
            size = len("abc")
            def m(self, k=len("x")):
                def inner():
                    return [g(lambda v: h(v)) for _ in range(3)]
                return inner()
        f = lambda x: lambda y: k(x)
        async def co():
            return await g()
        """
    ).encode()
    file = InstrumentedFile("t.py", text, main=True)
    assert file.owners() <= conduct_of(text, "t.py").keys()
    assert "A.m.inner.<lambda>" in file.owners()
