"""Known effects: calls that cannot touch an array they were not given.

Unknown is the default.  A call is harmless here if it is pure or only draws from a generator, and if its arguments
are plain numbers, texts, or arrays of the exact library types, so that no code of the user's can run inside it.
"""

from __future__ import annotations

import builtins
import math
import operator
import random
import sys
from typing import Any

from codedag.instrument.sites import CALL, GETITEM, INPLACE, SETITEM

_NUMBERS = (int, float, bool, complex, str, bytes, type(None), slice, type(Ellipsis))
_BUILTINS = (
    "int",
    "float",
    "bool",
    "str",
    "len",
    "abs",
    "min",
    "max",
    "round",
    "range",
    "tuple",
    "list",
    "sum",
    "divmod",
    "pow",
)
_NUMPY = (
    "array", "asarray", "float32", "float64", "uint8", "int32", "int64", "zeros", "ones", "full", "arange", "sqrt", "exp",
    "log", "minimum", "maximum", "clip", "add", "subtract", "multiply", "divide", "mean", "abs", "round",
)  # fmt: skip
_TORCH = ("tensor", "as_tensor", "zeros", "ones", "arange", "rand", "randn", "randint", "empty")
_DRAWS = frozenset(
    {
        "random",
        "uniform",
        "randint",
        "randrange",
        "choice",
        "choices",
        "sample",
        "gauss",
        "normalvariate",
        "betavariate",
        "expovariate",
        "triangular",
        "getrandbits",
        "rand",
        "randn",
        "normal",
        "integers",
        "beta",
        "poisson",
        "binomial",
        "random_sample",
        "standard_normal",
        "exponential",
        "permutation",
    }  # fmt: skip
)


class Effects:
    """Answers whether a call is harmless to arrays that are not among its arguments."""

    def __init__(self) -> None:
        self._functions: set[Any] = {getattr(builtins, name) for name in _BUILTINS}
        self._functions |= {f for f in vars(math).values() if callable(f)}
        self._generators: set[type] = {random.Random, random.SystemRandom}
        self._values: set[type] = set(_NUMBERS)
        self._learned: set[str] = set()
        self._learn()

    def _learn(self) -> None:
        """Adds the functions and types of libraries that the program has loaded by now."""
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        if numpy is not None and "numpy" not in self._learned and hasattr(numpy, "random"):
            self._learned.add("numpy")
            self._functions |= {getattr(numpy, name) for name in _NUMPY}
            self._generators |= {numpy.random.RandomState, numpy.random.Generator}
            self._values |= {
                numpy.ndarray,
                numpy.dtype,
                *(t for t in numpy.sctypeDict.values() if isinstance(t, type)),
            }
        if torch is not None and "torch" not in self._learned and hasattr(torch, "Tensor"):
            self._learned.add("torch")
            self._functions |= {getattr(torch, name) for name in _TORCH}
            self._values |= {torch.Tensor, torch.dtype}

    def harmless(self, kind: int, args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
        """Whether the operation at a site of this kind, with these arguments, can be let through."""
        if kind == SETITEM:
            return False
        if kind == INPLACE:
            return type(args[0]) in _NUMBERS
        if kind == GETITEM:
            return type(args[0]) in (list, tuple, dict, str) or self._plain(args[0])
        if kind == CALL:
            return (
                self._known(args[0])
                and all(map(self._plain, args[1:]))
                and all(map(self._plain, keywords.values()))
            )
        return all(map(self._plain, args))

    def _plain(self, value: Any) -> bool:
        if type(value) in (list, tuple):
            return all(
                type(v) in _NUMBERS or type(v) in (list, tuple) or type(v) in self._values for v in value
            )
        if type(value) in self._values or value is float or value is int:
            return True
        self._learn()
        return type(value) in self._values or (isinstance(value, type) and value.__module__ == "numpy")

    def _known(self, function: Any) -> bool:
        own = getattr(function, "__self__", None)
        if type(own) in self._generators:
            return getattr(function, "__name__", "") in _DRAWS
        if type(own) is dict:
            return getattr(function, "__name__", "") in ("get", "keys", "values", "items")
        try:
            return function in self._functions
        except TypeError:  # an unhashable callable is none of ours
            return False


#: operators by name, for chains that are read from a plan
OPERATORS = {name: getattr(operator, name) for name in dir(operator) if not name.startswith("_")}
