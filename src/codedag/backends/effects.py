"""Known effects: calls that cannot touch an array they were not given, nor change one that they were given.

Unknown is the default.  A call is harmless here if it is pure or only draws from a generator, and if its arguments
are plain numbers, texts, or arrays of the exact library types, so that no code of the user's can run inside it.
"""

from __future__ import annotations

import builtins
import math
import random
import sys
from typing import Any

from codedag.instrument.sites import CALL, GETITEM, INPLACE, SETITEM

_NUMBERS = frozenset({int, float, bool, complex, str, bytes, type(None), slice, type(Ellipsis)})
_BUILTINS = "int float bool str len abs min max round range tuple list sum divmod pow"
_DRAWS = (
    "random uniform randint randrange choice choices sample gauss normalvariate betavariate expovariate triangular "
    "getrandbits rand randn normal integers beta poisson binomial random_sample standard_normal exponential"
)
# Functions and methods with the most positional arguments they may have here: the next one would be `out`.
_NUMPY = {
    "array": 2, "asarray": 2, "zeros": 2, "ones": 2, "full": 3, "arange": 4, "float32": 1, "float64": 1, "uint8": 1,
    "int32": 1, "int64": 1, "sqrt": 1, "exp": 1, "log": 1, "absolute": 1, "minimum": 2, "maximum": 2, "clip": 3,
    "add": 2, "subtract": 2, "multiply": 2, "divide": 2, "mean": 2, "round": 2,
}  # fmt: skip
_TORCH = {"tensor": 1, "as_tensor": 1, "zeros": 9, "ones": 9, "arange": 3, "rand": 9, "randn": 9, "randint": 3}
_ARRAY_METHODS = {
    "astype": 1, "copy": 1, "reshape": 9, "transpose": 9, "mean": 1, "std": 1, "sum": 1, "min": 1, "max": 1,
    "ravel": 1, "flatten": 1, "item": 9, "tolist": 0, "view": 1,
}  # fmt: skip
_TENSOR_METHODS = {
    "float": 0, "double": 0, "item": 0, "view": 9, "reshape": 9, "permute": 9, "mean": 0, "std": 0, "unsqueeze": 1,
    "numpy": 0, "tolist": 0, "clone": 0,
}  # fmt: skip
_WRITES = frozenset({"out", "dst", "where", "like"})


class Effects:
    """Answers whether a call is harmless to arrays."""

    def __init__(self) -> None:
        self._functions: dict[Any, int] = {getattr(builtins, name): 9 for name in _BUILTINS.split()}
        self._functions |= {f: 9 for f in vars(math).values() if callable(f)}
        self._methods: dict[type, dict[str, int]] = {dict: dict.fromkeys(("get", "keys", "values", "items"), 2)}
        self._methods |= dict.fromkeys((random.Random, random.SystemRandom), dict.fromkeys(_DRAWS.split(), 9))
        self._values: set[type] = set(_NUMBERS)
        self._arrays: set[type] = set()
        self._learned: set[str] = set()

    def _learn(self) -> None:
        """Adds the functions and types of libraries that the program has loaded by now."""
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        if numpy is not None and "numpy" not in self._learned and hasattr(numpy, "random"):
            self._learned.add("numpy")
            self._functions |= {getattr(numpy, name): most for name, most in _NUMPY.items()}
            generators = (numpy.random.RandomState, numpy.random.Generator)
            self._methods |= dict.fromkeys(generators, dict.fromkeys(_DRAWS.split(), 9))
            self._methods[numpy.ndarray] = _ARRAY_METHODS
            self._values |= {numpy.dtype, *(t for t in numpy.sctypeDict.values() if isinstance(t, type))}
            self._arrays.add(numpy.ndarray)
        if torch is not None and "torch" not in self._learned and hasattr(torch, "Tensor"):
            self._learned.add("torch")
            self._functions |= {getattr(torch, name): most for name, most in _TORCH.items()}
            self._methods[torch.Tensor] = _TENSOR_METHODS
            self._values |= {torch.Tensor, torch.dtype}

    def harmless(self, kind: int, args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
        """Whether the operation at a site of this kind, with these arguments, can be let through."""
        if len(self._learned) < 2:
            self._learn()
        if kind == SETITEM:
            return False
        if kind == INPLACE:
            return type(args[0]) in _NUMBERS
        if kind == GETITEM:
            return (type(args[0]) in (list, tuple, dict, str) or self._plain(args[0])) and self._plain(args[1])
        if kind == CALL:
            return self._call(args[0], args[1:], keywords)
        return all(map(self._plain, args))

    def _call(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
        most = self._most_arguments(function)
        if most < len(args) or (keywords and not _WRITES.isdisjoint(keywords)):
            return False
        return all(map(self._plain, args)) and all(map(self._plain, keywords.values()))

    def _most_arguments(self, function: Any) -> int:
        """How many positional arguments a known function may have; -1 for an unknown one."""
        methods = self._methods.get(type(getattr(function, "__self__", None)))
        if methods is not None:
            return methods.get(getattr(function, "__name__", ""), -1)
        try:
            return self._functions.get(function, -1)
        except TypeError:  # an unhashable callable is none of ours
            return -1

    def _plain(self, value: Any) -> bool:
        kind = type(value)
        if kind in self._values:
            return True
        if kind in self._arrays:
            return not value.dtype.hasobject  # elements that are objects can run anything
        if kind in (list, tuple):
            return all(map(self._plain, value))
        return value is float or value is int or (kind is type and value.__module__ == "numpy")
