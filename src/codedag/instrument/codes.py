"""Code objects: where they were defined, and which ones a file has had with us.

What a program has given a function itself is left alone.
"""

from __future__ import annotations

import types
from weakref import WeakValueDictionary

CodeKey = tuple[str, int, tuple[int, int]]


class OwnCodes:
    """Code objects that come from the source of one file, with or without sites."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[int, types.CodeType] = WeakValueDictionary()
        self._waiting: list[types.CodeType] = []  # whose inner ones are not looked up yet

    def add(self, code: types.CodeType) -> types.CodeType:
        """Takes in a code object and those inside of it; gives it back."""
        self._waiting.append(code)
        return code

    def take_in(self, other: OwnCodes) -> None:
        """Takes in all of another one."""
        self._waiting += other._waiting
        self._known.update(other._known)

    def hold(self, code: types.CodeType) -> bool:
        """Whether this very code object is one of them."""
        waiting, self._waiting = self._waiting, []
        while waiting:
            one = waiting.pop()
            if self._known.get(id(one)) is not one:
                self._known[id(one)] = one
                waiting += [inner for inner in one.co_consts if isinstance(inner, types.CodeType)]
        return self._known.get(id(code)) is code


def codes_by_place(code: types.CodeType) -> dict[CodeKey, types.CodeType | None]:
    """Nested code objects by where they were defined; None where two share a place and cannot be told apart."""
    found: dict[CodeKey, types.CodeType | None] = {}
    waiting = [code]
    while waiting:
        for constant in waiting.pop().co_consts:
            if isinstance(constant, types.CodeType):
                key = place_of(constant)
                found[key] = None if key in found and found[key] != constant else constant
                waiting.append(constant)
    return found


def place_of(code: types.CodeType) -> CodeKey:
    """Where a code object was defined: qualified name, line and, for those without a name of their own, first column.

    The first column is the leftmost place of any instruction: rewriting keeps places, not the order of instructions.
    """
    first = (0, 0)
    if code.co_name.startswith("<"):
        places = [
            (p[0], p[2]) for p in code.co_positions() if p[0] is not None and p[2] is not None and p[2:] != (0, 0)
        ]
        first = min(places, default=first)
    return code.co_qualname, code.co_firstlineno, first


def is_same_function(code: types.CodeType, before: types.CodeType) -> bool:
    """Whether two codes of one place are of one function: ours that stand for a line of the user's are of none."""
    count = before.co_argcount + before.co_kwonlyargcount
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return code.co_freevars == before.co_freevars and names == before.co_varnames[:count]


def owner_of(qualname: str) -> str:
    """A qualified name as sites give it: without the marks of nested functions."""
    return qualname.replace(".<locals>", "")
