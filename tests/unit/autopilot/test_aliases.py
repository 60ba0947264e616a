"""What may be changed in place under another name, as far as the source says."""

import ast

import pytest

from codedag.autopilot.aliases import Aliases

FOUND = {
    "def f(data):\n    w = data.mean\n    w += 1": {"mean"},
    "def f(data):\n    w = data.rows[0]\n    w[1] = 2": {"rows"},
    "other = data.mean\ndef change(a):\n    a += 1\nfor x in y:\n    change(other)": {"mean", "other"},
    "def f(data):\n    change(a=data.mean)\ndef change(*, a):\n    a[0] = 1": {"mean"},
    "class A:\n    def f(self, a):\n        a[0] = 1\ndef g(x, data):\n    x.f(data.mean)": {"mean"},
    "def f(data):\n    for row in data.rows:\n        row.append(1)": {"rows", "*"},
    "def f(data):\n    np.asarray(data.mean)[0] = 1": {"mean"},
    "def f(data):\n    v = data.mean.reshape(-1)\n    v.add_(1)": {"mean"},
    "def f(data):\n    np.add(1, 2, out=data.mean)": {"mean"},
    "def f(data):\n    random.shuffle(data.rows)": {"rows"},
    "def f(data):\n    getattr(data, 'rows').append(1)": {"rows"},
    "def f(data):\n    data.__dict__['rows'][0] = 1": {"rows", "__dict__"},
    "class A:\n    def get(self):\n        return self.kept\ndef f(a):\n    a.get()[0] = 1": {"kept"},
    "class A:\n    def __init__(self, d):\n        self.mine = d.rows\n    def f(self):\n        self.mine.pop()": {
        "mine",
        "rows",
    },
    "def f(loader):\n    for x, y in loader:\n        x += 1": {"*"},
    "def f(it):\n    x = next(it)\n    x.mul_(2)": {"*"},
    "def f(data):\n    a, b = data.mean, data.std\n    b[0] = 1": {"mean", "std"},
    "def f(data):\n    box = {'a': data.mean}\n    box['a'][0] = 1": {"a", "mean"},
}
NOTHING = [
    "def f(data):\n    total = 0\n    total += data.size",
    "def f(data):\n    found = []\n    found.append(data.rows)",
    "def f(data):\n    w = data.mean.copy()\n    w += 1",
    "def f(data):\n    w = data.mean * 2\n    w += 1",
    "class A:\n    def __init__(self, rows):\n        rows.append(1)",
    "rows.append(1)",
    "def f(group, rate):\n    group['lr'] = rate",
    "def f(loader):\n    for x, y in loader:\n        x = x * 2\n        print(x)",
]


def names(source):
    aliases = Aliases()
    aliases.read(ast.parse(source), "program.py")
    return aliases.names()


@pytest.mark.parametrize("source", FOUND)
def test_names_that_may_stand_for_what_is_changed(source):
    assert names(source) >= FOUND[source]


@pytest.mark.parametrize("source", NOTHING)
def test_what_changes_nothing_that_others_hold(source):
    assert names(source) == set()


def test_functions_that_ask_change_nothing():
    aliases = Aliases()
    source = "class Data:\n    def load(self, i):\n        x = self.images[i]\n        x -= 1"
    aliases.read(ast.parse(source), "program.py", {"Data.load"})
    assert aliases.names() == set()
    assert names(source) == {"images"}
