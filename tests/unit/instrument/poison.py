"""Runs a program in which the value of every link is a poison that only the target of the link may take.

A poison that is touched by anything else, or that is still there at the end, is a link that the source does not prove.
"""

from __future__ import annotations

import operator
from typing import Any

from codedag.instrument.program import InstrumentedFile
from codedag.instrument.sites import CALL, GETITEM, ITERATE, RETURN, SETITEM, VARIANT


class Escaped(BaseException):
    """A linked value was seen by someone else than its target."""


class Poison:
    """Stands for the value of a link; whatever is done to it is an escape."""

    def __init__(self, value: Any, target: int) -> None:
        self.__dict__.update(value=value, target=target)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise Escaped(name)
        return Method(self, name)  # `x.m(...)`: the target takes the method apart again


def _escape(name: str) -> Any:
    def touched(*args: Any, **keywords: Any) -> Any:
        raise Escaped(name)

    return touched


_TOUCHES = """
    add radd sub rsub mul rmul truediv rtruediv floordiv mod neg pos invert lt le gt ge eq ne hash bool len iter next
    call getitem setitem contains enter exit repr str format index int float iadd isub imul setattr delattr or ror
"""
for _name in _TOUCHES.split():
    setattr(Poison, f"__{_name}__", _escape(_name))


class Method:
    """A method of a poison; only the target of the link may call it."""

    def __init__(self, poison: Poison, name: str) -> None:
        self.poison, self.name = poison, name

    def __call__(self, *args: Any) -> Any:
        raise Escaped(self.name)


class Poisoned:
    """A program file whose links are poisoned."""

    def __init__(self, source: str, *, main: bool = False) -> None:
        self.file = InstrumentedFile("poisoned.py", source.encode(), main=main)
        self.links = {link.source: link for link in self.file.links}
        self.taken = 0
        operands: dict[int, set[Any]] = {}
        for link in self.file.links:
            operands.setdefault(link.target, set()).add(link.operand)
        for site in self.file.sites:
            site.variant = self._variant(site, operands.get(site.info.index, set()))
            site.mode = VARIANT
        for switch in self.file.switches:
            switch.on = True

    def run(self, **names: Any) -> dict[str, Any]:
        space = {"__name__": "poisoned", **names}
        exec(self.file.full, space)
        return space

    def _variant(self, site: Any, operands: set[Any]) -> Any:
        index, kind, function = site.info.index, site.kind, site.function

        def run(*args: Any, **keywords: Any) -> Any:
            at = 1 if kind == CALL else 0
            clean = [self._taken(a, index, i - at in operands) for i, a in enumerate(args)]
            named = {k: self._taken(v, index, k in operands) for k, v in keywords.items()}
            result = _operate(kind, function, clean, named)
            link = self.links.get(index)
            return result if link is None else Poison(result, link.target)

        return run

    def _taken(self, value: Any, index: int, allowed: bool) -> Any:
        poison = value.poison if type(value) is Method else value
        if type(poison) is not Poison:
            return value
        if poison.__dict__["target"] != index or not (allowed or type(value) is Method):
            raise Escaped(f"site {index} took what was meant for {poison.__dict__['target']}")
        self.taken += 1
        real = poison.__dict__["value"]
        return getattr(real, value.name) if type(value) is Method else real


def _operate(kind: int, function: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
    if kind == CALL:
        return args[0](*args[1:], **keywords)
    if kind == SETITEM:
        return operator.setitem(args[1], args[2], args[0])
    if kind == GETITEM:
        return args[0][args[1]]
    return args[0] if kind in (RETURN, ITERATE) else function(*args)


def no_poison(value: Any) -> bool:
    """Whether a result, looked through its containers, is free of poison."""
    if isinstance(value, list | tuple | set):
        return all(no_poison(v) for v in value)
    if isinstance(value, dict):
        return all(no_poison(v) for v in value.values())
    return type(value) not in (Poison, Method)
