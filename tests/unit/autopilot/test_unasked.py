"""Functions that something else runs than a call: their draws are asked for all the same, or the batch is given up."""

import random

import numpy as np
import pytest
from test_ordered import Ran, states

from codedag.backends.same import same

HEAD = """
import collections, dataclasses, functools
OTHER = np.random.RandomState(3)
LOG = []
def get(self): return OTHER.rand()
def scaled(k): return OTHER.rand() * k
"""
ITEM = "def __getitem__(self, i): return np.sort(np.arange(30.0) * i) + "
CASES = {
    "a property of a lambda": f"class Data:\n value = property(lambda self: OTHER.rand())\n {ITEM} self.value",
    "a property of a function": f"class Data:\n value = property(get)\n {ITEM} self.value",
    "a property that is added": f"class Data:\n {ITEM} self.value\nData.value = property(get)",
    "a partial": f"class Data:\n part = functools.partial(scaled, 3)\n {ITEM} self.part()",
    "a partial method": (
        f"class Data:\n def f(self, k): return scaled(k)\n g = functools.partialmethod(f, 3)\n {ITEM} self.g()"
    ),
    "a partial of a library": f"part = functools.partial(OTHER.rand)\nclass Data:\n {ITEM} part()",
    "a special method of another name": (
        "class Odd:\n def check(self): return OTHER.rand() < 0.5\n __bool__ = check\n"
        f"odd = Odd()\nclass Data:\n {ITEM} (2 if odd else 3)"
    ),
    "a special method that is set": (
        "class Odd: pass\nsetattr(Odd, '__bool__', lambda self: get(self) < 0.5)\nodd = Odd()\n"
        f"class Data:\n {ITEM} (2 if odd else 3)"
    ),
    "a class that is made by a call": (
        "odd = type('Odd', (), {'__bool__': lambda self: OTHER.rand() < 0.5})()\n"
        f"class Data:\n {ITEM} (2 if odd else 3)"
    ),
    "a hash": (
        "class Odd:\n def h(self): return int(OTHER.rand() * 9)\n __hash__ = h\n"
        f"odd, found = Odd(), dict()\nclass Data:\n {ITEM} (odd in found)"
    ),
    "a default of a field": (
        "@dataclasses.dataclass\nclass Row:\n x: float = dataclasses.field(default_factory=lambda: OTHER.rand())\n"
        f"class Data:\n {ITEM} Row().x"
    ),
    "a class of a class": (
        "class Meta(type):\n def __call__(cls, k): return OTHER.rand() * k\nclass Row(metaclass=Meta): pass\n"
        f"class Data:\n {ITEM} Row(3)"
    ),
    "what is kept": (
        f"class Data:\n @functools.cached_property\n def value(self): return OTHER.rand()\n {ITEM} self.value"
    ),
}


def everything(ran):
    _, key, *rest = ran.space["OTHER"].get_state()
    return *states(), key.tolist(), rest


@pytest.mark.parametrize("name", CASES)
def test_draws(tmp_path, name):
    random.seed(5)
    np.random.seed(5)
    ran = Ran(tmp_path, HEAD + CASES[name])
    try:
        for _ in range(3):
            before = everything(ran)
            batch = ran.ahead(list(range(8)))
            after = everything(ran)
            batch.take_back()
            assert everything(ran) == before
            plain = [ran.data[i] for i in range(8)]
            assert batch.reason or (same(plain, batch.results) and everything(ran) == after)
    finally:
        ran.program.restore()
