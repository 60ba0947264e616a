"""Placeholder of a value that is not computed yet: what the sites of a chain hand to each other.

The links of a chain prove that only its next site can see a placeholder.  Should one get out all the same (the sites
were switched off half-way), it behaves as the value that it stands for, or is refused with a TypeError; it never
passes for an array with other contents.
"""

from __future__ import annotations

import operator
import sys
from typing import Any


class Placeholder:
    """Stands for the value of one deferred array."""

    __slots__ = ("__weakref__", "deferred")

    def __init__(self, deferred: Any) -> None:
        self.deferred = deferred

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.deferred.sample, name)  # raises AttributeError with the words of the real type
        return Method(self, name) if callable(found) else getattr(self.deferred.settle(), name)

    def __repr__(self) -> str:
        return repr(self.deferred.settle())

    def __enter__(self) -> Any:
        return self.deferred.entered(self)

    def __exit__(self, *raised: Any) -> Any:
        return self.deferred.left(*raised)

    def __array__(self, *args: Any, **keywords: Any) -> Any:
        return sys.modules["numpy"].array(self.deferred.settle(), *args, **keywords)

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        return function(*map(real, args), **{name: real(value) for name, value in keywords.items()})

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **keywords: Any) -> Any:
        return getattr(ufunc, method)(*map(real, args), **keywords)


class Method:
    """A method of the value that a placeholder stands for, not called yet."""

    __slots__ = ("name", "placeholder")

    def __init__(self, placeholder: Placeholder, name: str) -> None:
        self.placeholder, self.name = placeholder, name

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """The result of the method of the value itself."""
        return getattr(real(self.placeholder), self.name)(*args, **keywords)


def real(value: Any) -> Any:
    """The value itself, or what it stands for."""
    return value.deferred.settle() if type(value) is Placeholder else value


def _forwarding(function: Any, swapped: bool) -> Any:
    if swapped:
        return lambda self, other: function(other, real(self))
    return lambda self, *others: function(real(self), *map(real, others))


_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "matmul")
for _name in _ARITHMETIC:
    _function = getattr(operator, f"__{_name}__")
    setattr(Placeholder, f"__{_name}__", _forwarding(_function, swapped=False))
    setattr(Placeholder, f"__r{_name}__", _forwarding(_function, swapped=True))
    setattr(Placeholder, f"__i{_name}__", _forwarding(getattr(operator, f"__i{_name}__"), swapped=False))
for _name in ("neg", "pos", "abs", "invert", "lt", "le", "gt", "ge", "eq", "ne", "getitem", "setitem"):
    setattr(Placeholder, f"__{_name}__", _forwarding(getattr(operator, f"__{_name}__"), swapped=False))
for _name, _builtin in (("len", len), ("iter", iter), ("bool", bool), ("float", float), ("int", int)):
    setattr(Placeholder, f"__{_name}__", _forwarding(_builtin, swapped=False))
Placeholder.__hash__ = object.__hash__  # type: ignore[method-assign]
