"""What passes over a recorded graph advise: followed to the letter, programs give the same."""

from __future__ import annotations

import ast
import json
import random

import pytest

from codedag.instrument.numbering import number
from codedag.ir import load

np = pytest.importorskip("numpy")

HEAD = """
import operator
import numpy as np

ESCAPED = []

def double(x):
    return x * 2

def spoil(x):
    x += 1
    return x
"""
#: {a} and {b} are variables that exist, {new} is one that may.
STATEMENTS = """
{new} = np.sqrt({a})
{new} = np.sqrt({a})
{new} = np.maximum({a}, {b})
{new} = np.maximum({a}, {b})
{new} = np.clip({a}, 1, 5)
{new} = {a} + {b}
{new} = {a} + {b}
{new} = {a} * 2
{new} = {a} * 2
{new} = ({a} * 2 + {b}) * ({a} * 2)
{new} = np.sqrt(np.sqrt({a}) + np.sqrt({a}))
{new} = np.hanning(6)
{new} = np.hanning(6)
{new} = np.ones(6) * 3
{new} = np.arange(6.0).reshape(2, 3).reshape(-1)
{new} = np.linspace(0.0, 1.0, 6)
{new} = {a}[::-1]
{new} = {a}.copy()
{new} = {a}.reshape(-1)
{new} = np.asarray({a})
{new} = double({a})
{new} = spoil({a})
{new} = {a} + {a}.mean()
{new} = {a} + n
{a} += 1
{a}[1:3] = 7
{a}[:] = {b}
np.add({a}, {b}, {a})
np.add({a}, 1, out={a})
np.multiply({a}, 2, {b})
{a}, {b} = {b}, {a}
ESCAPED.append({a})
ESCAPED[-1:] = [{a}]
held = [{a}, {b}]
held[0][:] = 3
{a} = {a} - 1
if n % 2: {new} = {a} + 3
for {new} in ({a}, {b}): {b} = {b} + 1
"""


def function_of(chance: random.Random, name: str) -> str:
    """A random function of a number; its result is made of some of its variables, and some arrays escape."""
    lines = [line for line in STATEMENTS.splitlines() if line]
    names = ["v0", "v1", "v2", "v3"]
    body = ["v0 = np.arange(6.0) + n", "v1 = np.ones(6)", "v2 = v0 * 1.5", "v3 = np.hanning(6)", "ESCAPED.append(v2)"]
    for _ in range(chance.randint(3, 12)):
        a, b, new = (chance.choice(names) for _ in range(3))
        body.append(chance.choice(lines).format(a=a, b=b, new=new))
    body.append(f"return [{', '.join(chance.sample(names, 2))}]")
    return f"def {name}(n):\n" + "".join(f"    {line}\n" for line in body)


def program_of(seed: int, functions: int) -> str:
    chance = random.Random(seed)
    parts = [function_of(chance, f"f{k}") for k in range(functions)]
    main = f"""
def main():
    for f in ({", ".join(f"f{k}" for k in range(functions))},):
        for n in range(3):
            try:
                for each in f(n): print(each.tolist())
            except Exception as error: print(type(error).__name__)
            for each in ESCAPED[-9:]: print(np.asarray(each).tolist())
main()
"""
    return HEAD + "\n".join(parts) + main


class Followed(ast.NodeTransformer):
    """Does to the source what the findings say, each at its site."""

    def __init__(self, findings, site_of):
        self.what = {}
        for one in findings:
            site = site_of[one["op"]]
            self.what[site] = (one["kind"], site_of.get(one["other"], -1))
        self.kept = {other for kind, other in self.what.values() if kind == "twice"}

    def visit(self, node):
        site = getattr(node, "cd_site", -1)
        kind, other = self.what.get(site, ("", -1))
        if kind == "unused":
            return ast.Constant(None)
        if kind == "twice":
            return ast.parse(f"FIRST[{other}]", mode="eval").body
        self.generic_visit(node)
        if kind == "constant":
            node = ast.parse(f"once({site}, lambda: {ast.unparse(node)})", mode="eval").body
        elif kind == "in place":
            name = type(node.op).__name__
            inplace = {"Add": "iadd", "Sub": "isub", "Mult": "imul", "Div": "itruediv"}[name]
            function = ast.Attribute(ast.Name("operator", ast.Load()), inplace, ast.Load())
            node = ast.Call(function, [node.left, node.right], [])
        if site in self.kept and site >= 0 and isinstance(node, ast.expr):
            node = ast.parse(f"first({site}, {ast.unparse(node)})", mode="eval").body
        return node


ONCE = """
KEPT, FIRST = {}, {}
def first(key, value):
    FIRST[key] = value
    return value
def once(key, make):
    if key not in KEPT: KEPT[key] = make()
    return KEPT[key]
"""


def followed(source: str, facts: dict, run) -> str:
    """The program after all advice was followed."""
    tree = ast.parse(source)
    number(tree, "program.py")
    site_of = {op.id: op.site for op in load(run).graph.ops}
    return ONCE + ast.unparse(ast.fix_missing_locations(Followed(facts["advice"], site_of).visit(tree)))


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_give_the_same_when_all_advice_is_followed(plain, codedag, tmp_path, seed):
    source, path = program_of(seed, 60), tmp_path / "program.py"
    path.write_text(source)
    traced = codedag("trace", "-o", tmp_path / "run", path)
    assert traced.returncode == 0, traced.stderr
    facts = json.loads(codedag("view", "--json", tmp_path / "run").stdout)
    kinds = {one["kind"] for one in facts["advice"]}
    assert kinds == {"unused", "twice", "constant", "in place"}
    (tmp_path / "followed.py").write_text(followed(source, facts, tmp_path / "run"))
    after = plain("followed.py")
    assert after.returncode == 0, after.stderr
    assert after.stdout == plain("program.py").stdout == traced.stdout


SCRIPT = """
import numpy as np

def item(x):
    window = np.hanning(200)
    first = np.sort(x)
    again = np.sort(x)
    wasted = np.exp(x)
    scaled = first + again
    shown = scaled * 2.0
    return (shown * window).sum()

print(sum(item(np.arange(200.0) * k) for k in range(4)))
"""


def test_what_is_advised_is_shown_with_what_it_would_save(codedag, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    codedag("trace", "-o", tmp_path / "run", "script.py")
    facts = json.loads(codedag("view", "--json", tmp_path / "run").stdout)
    graph = load(tmp_path / "run").graph
    said = {(one["kind"], graph.op(one["op"]).name, graph.op(one["op"]).line) for one in facts["advice"]}
    assert said == {
        ("twice", "numpy.sort", 7), ("unused", "numpy.exp", 8), ("constant", "numpy.hanning", 5),
        ("in place", "operator.mul", 10), ("in place", "operator.mul", 11),
    }  # fmt: skip
    assert facts["advised"]["ops"] - facts["advised"]["ops_left"] == 2
    assert 0 < facts["advised"]["seconds"] < sum(op.self_seconds for op in graph.ops)
    assert graph.op(facts["critical_path"]["ops"][-1]).kind in ("sink", "call", "operator")
    rows = [
        ([graph.op(op).line for op in one["ops"]], one["apart_nbytes"], one["together_nbytes"])
        for one in facts["chains"]
    ]
    assert rows == [
        ([9, 10, 11], (3 + 2 + 3) * 1600, 4 * 1600)
    ]  # first, again and window are read, the product written
    shown = codedag("view", tmp_path / "run").stdout
    assert "longest chain within an iteration: " in shown


def test_a_source_that_was_changed_since_gets_no_advice(codedag, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    codedag("trace", "-o", tmp_path / "run", "script.py")
    script.write_text(SCRIPT.replace("def item", "\ndef item"))
    assert json.loads(codedag("view", "--json", tmp_path / "run").stdout)["advice"] == []
    script.unlink()
    assert json.loads(codedag("view", "--json", tmp_path / "run").stdout)["advice"] == []


REPEATS = """
import hashlib
import numpy as np

def window():
    return np.kaiser(120_000, 14.0)

def item(x):
    w = window()
    low = np.sort(x, kind="stable")
    again = np.sort(x, kind="stable")
    return (low * again * w).sum()

def main():
    rng = np.random.default_rng(0)
    data = [rng.random(120_000) for _ in range(8)]
    for epoch in range(30):
        results = []
        for x in data: results.append(item(x))
        print(hashlib.sha256(np.array(results).tobytes()).hexdigest())
main()
"""


def test_repeated_work_is_gone_in_a_run_and_the_results_are_equal(plain, codedag, tmp_path):
    (tmp_path / "script.py").write_text(REPEATS)
    ran = codedag("run", "-o", tmp_path / "run", "script.py")
    assert ran.stdout == plain("script.py").stdout
    report = load(tmp_path / "run").report
    assert report.verdict.identical
    kept = {each.where for each in report.changes if each.kind in ("recall", "memoise") and each.calls > each.checked}
    assert {"script.py:10", "script.py:11"} <= kept  # the call that comes twice
    assert kept & {"script.py:6", "script.py:9"}, "the constant, or the function that gives it"
    shown = codedag("view", tmp_path / "run").stdout
    assert "on the same calls" in shown
    assert "script.py:6 gives the same" not in shown  # what was done is not advised
