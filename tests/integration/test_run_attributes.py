"""Watching a program does not change how its objects keep their attributes: Python reads those of a dict slowly."""

from __future__ import annotations

import sys

import pytest

from codedag.instrument import sites

PROGRAM = """
import gc

class Vocabulary:
    def __init__(self):
        self.numbers, self.frozen = {}, False
    def __getitem__(self, word):
        return self.numbers.setdefault(word, len(self.numbers))

class Weak(Vocabulary):
    __slots__ = ("more",)

def use(thing):
    return thing["a"]

plain, slotted, asked = Vocabulary(), Weak(), Vocabulary()
slotted.more = asked
vars(asked)
for _ in range(50):
    for thing in (plain, slotted, asked):
        use(thing)
print([type(held).__name__ for held in gc.get_referents(plain)])
print(sorted(vars(asked)), [type(held).__name__ for held in gc.get_referents(asked)])
"""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="later versions keep attributes in other ways")
@pytest.mark.skipif(bool(sites.why_twin), reason="the plain-Python recorder asks for the dict")
@pytest.mark.parametrize("command", ["run", "trace"])
def test_attributes_stay_where_they_are(tmp_path, plain, codedag, command):
    (tmp_path / "s.py").write_text(PROGRAM)
    expected = plain("s.py")
    assert "['dict', 'bool', 'type']" in expected.stdout
    assert codedag(command, "s.py").stdout == expected.stdout
