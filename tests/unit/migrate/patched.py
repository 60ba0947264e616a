"""Nine and more ways of holding a function, for the tests of patches."""

from __future__ import annotations

import functools
import sys
import types
from collections import OrderedDict, deque, namedtuple

SOURCE = """
import functools
from collections import deque, namedtuple, OrderedDict
from {module} import {name}
from {module} import {name} as other
import {module} as library

class Plain:
    def __init__(self): self.f = {name}
class Slotted:
    __slots__ = ('f',)
    def __init__(self): self.f = {name}
class Static:
    op = staticmethod({name})
class OfClass:
    op = classmethod({name})
class Attribute:
    op = {name}
def default(x=None, f={name}): return f
def keyword(x=None, *, f={name}): return f
def closure():
    g = {name}
    return lambda: g
captured = closure()
part = functools.partial({name})
argument = functools.partial(max, {name})
keyed = functools.partial(max, key={name})
table, items, pair, queue = {{'r': {name}}}, [1, {name}], ({name}, 2), deque([{name}])
ordered = OrderedDict(a=1, f={name}, b=2)
Named = namedtuple('Named', 'f')
named = Named({name})
members, frozen = {{1, {name}}}, frozenset([{name}])
nested = {{'a': [({name},)]}}
plain, slotted = Plain(), Slotted()
"""

GETTERS = {
    "attribute of its module": lambda user: getattr(user.library, user.name),
    "alias": lambda user: getattr(user, user.name),
    "alias under another name": lambda user: user.other,
    "instance": lambda user: user.plain.f,
    "slot": lambda user: user.slotted.f,
    "static method": lambda user: user.Static.op,
    "class method": lambda user: vars(user.OfClass)["op"].__func__,
    "class attribute": lambda user: vars(user.Attribute)["op"],
    "default": lambda user: user.default(),
    "keyword default": lambda user: user.keyword(),
    "closure": lambda user: user.captured(),
    "partial": lambda user: user.part.func,
    "argument of a partial": lambda user: user.argument.args[0],
    "keyword of a partial": lambda user: user.keyed.keywords["key"],
    "dict": lambda user: user.table["r"],
    "list": lambda user: user.items[1],
    "tuple": lambda user: user.pair[0],
    "deque": lambda user: user.queue[0],
    "ordered dict": lambda user: user.ordered["f"],
    "named tuple": lambda user: user.named.f,
    "set": lambda user: next(filter(callable, user.members)),
    "frozen set": lambda user: next(iter(user.frozen)),
    "nested": lambda user: user.nested["a"][0][0],
}


def holders(module: str, name: str) -> types.ModuleType:
    """A module, known to Python, that holds the function in every way."""
    user = types.ModuleType("user_of_patches")
    user.name = name
    sys.modules[user.__name__] = user
    exec(SOURCE.format(module=module, name=name), vars(user))
    return user


def unreached(user: types.ModuleType, wanted: object) -> list[str]:
    """The ways by which another object than the wanted one is found."""
    return [way for way, get in GETTERS.items() if get(user) is not wanted]


__all__ = ["GETTERS", "OrderedDict", "deque", "functools", "holders", "namedtuple", "unreached"]
