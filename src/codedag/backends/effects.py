"""Known effects: calls that cannot touch an array they were not given, nor change one that they were given.

Unknown is the default.  A call is harmless here if it is pure or only draws from a generator, and if its arguments
are plain numbers, texts, or arrays of the exact library types, so that no code of the user's can run inside it.
"""

from __future__ import annotations

import builtins
import math
import random
import sys
import types
from typing import Any

from codedag.instrument.sites import CALL, GETITEM, INPLACE, SETITEM

_NUMBERS: frozenset[type] = frozenset({int, float, bool, complex, str, bytes, type(None), slice, type(Ellipsis)})
_BUILTINS = "int float bool str len abs min max round range tuple list sum divmod pow"
_DRAWS = (
    "random uniform randint randrange choice choices sample gauss normalvariate betavariate expovariate triangular "
    "getrandbits rand randn normal integers beta poisson binomial random_sample standard_normal exponential"
)
# Functions and methods with the most positional arguments they may have here: the next one would be `out`.
_NUMPY = {
    "array": 2, "asarray": 2, "zeros": 2, "ones": 2, "full": 3, "arange": 4, "float32": 1, "float64": 1, "uint8": 1,
    "int32": 1, "int64": 1, "sqrt": 1, "exp": 1, "log": 1, "absolute": 1, "minimum": 2, "maximum": 2, "clip": 3,
    "add": 2, "subtract": 2, "multiply": 2, "divide": 2, "mean": 2, "round": 2, "std": 2, "var": 2, "sum": 2,
    "min": 2, "max": 2, "amin": 2, "amax": 2,
}  # fmt: skip
_TORCH = {"tensor": 1, "as_tensor": 1, "zeros": 9, "ones": 9, "arange": 3, "rand": 9, "randn": 9, "randint": 3}
_ARRAY_METHODS = {
    "astype": 1, "copy": 1, "reshape": 9, "transpose": 9, "mean": 1, "std": 1, "sum": 1, "min": 1, "max": 1,
    "ravel": 1, "flatten": 1, "item": 9, "tolist": 0, "view": 1, "var": 1,
}  # fmt: skip
_TENSOR_METHODS = {
    "float": 0, "double": 0, "item": 0, "view": 9, "reshape": 9, "permute": 9, "mean": 0, "std": 0, "unsqueeze": 1,
    "numpy": 0, "tolist": 0, "clone": 0,
}  # fmt: skip
_DRAWS_INTO = {"random": 2, "standard_normal": 2}  # the next positional argument would be `out`
# What never warns, what warns only as numpy's flags of errors tell, and what of this does otherwise for no elements.
_SILENT = frozenset(["copy", "reshape", "transpose", "ravel", "flatten", "view", "item", "tolist"])
_REDUCES = frozenset(["mean", "std", "var", "sum", "min", "max", "amin", "amax"])
_FLAGGED = _REDUCES | frozenset(
    ["astype", "sqrt", "exp", "log", "absolute", "minimum", "maximum", "clip", "add", "subtract", "multiply", "divide"]
)
_USUAL = frozenset({"axis", "keepdims", "dtype"})  # with other words, reductions warn of more
NEVER, BY_FLAGS, SOMEHOW = range(3)
_BOUND = (types.MethodType, types.BuiltinMethodType)  # only these are asked for their __self__
_WRITES = frozenset({"out", "dst", "where", "like"})
_TORCH_TYPES = frozenset({"Tensor", "dtype", "device"})


class Effects:
    """Answers whether a call is harmless to arrays."""

    def __init__(self) -> None:
        self._functions: dict[int, tuple[Any, int]] = {}  # by identity: asking a user's object for a hash runs its code
        self._know(builtins, dict.fromkeys(_BUILTINS.split(), 9))
        self._know(math, {name: 9 for name, f in vars(math).items() if callable(f)})
        self._methods: dict[type, dict[str, int]] = {dict: dict.fromkeys(("get", "keys", "values", "items"), 2)}
        self._methods |= dict.fromkeys((random.Random, random.SystemRandom), dict.fromkeys(_DRAWS.split(), 9))
        self._values: set[type] = {*_NUMBERS}
        self._arrays: set[type] = set()
        self._scalars: set[type] = set()
        self._flagged: dict[int, str] = {}  # functions of numpy by identity
        self._learned: set[str] = set()

    def _know(self, module: Any, most: dict[str, int]) -> None:
        functions = ((vars(module)[name], number) for name, number in most.items() if name in vars(module))
        self._functions |= {id(function): (function, number) for function, number in functions}

    def _learn(self) -> None:
        """Adds the functions and types of libraries that the program has loaded by now; asking a module for a name that
        it has not would load what it loads late, in the middle of a call of the program."""
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        drawing = sys.modules.get("numpy.random")
        if numpy is not None and "numpy" not in self._learned and {"ndarray", "sctypeDict"} <= vars(numpy).keys():
            self._learned.add("numpy")
            self._know(numpy, _NUMPY)
            self._flagged = {id(vars(numpy)[name]): name for name in _NUMPY.keys() & _FLAGGED & vars(numpy).keys()}
            self._scalars = {t for t in numpy.sctypeDict.values() if t is not numpy.object_}
            self._methods[numpy.ndarray] = _ARRAY_METHODS
            self._values |= {
                numpy.dtype,
                *_dtypes(numpy),
                *self._scalars,
            }
            self._arrays.add(numpy.ndarray)
        if drawing is not None and "numpy.random" not in self._learned and "RandomState" in vars(drawing):
            self._learned.add("numpy.random")
            generators = [vars(drawing)[name] for name in ("RandomState", "Generator") if name in vars(drawing)]
            self._methods |= {of: {**dict.fromkeys(_DRAWS.split(), 9), **_DRAWS_INTO} for of in generators}
        if torch is not None and "torch" not in self._learned and vars(torch).keys() >= _TORCH_TYPES:
            self._learned.add("torch")
            self._know(torch, _TORCH)
            self._methods[torch.Tensor] = _TENSOR_METHODS
            self._values |= {torch.Tensor, torch.dtype, torch.device}

    def harmless(self, kind: int, args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
        """Whether the operation at a site of this kind, with these arguments, can be let through."""
        if len(self._learned) < 3:
            self._learn()
        if kind == SETITEM:
            return False
        if kind == INPLACE:
            return type(args[0]) in _NUMBERS and self._plain(args[1])
        if kind == GETITEM:
            return (type(args[0]) in (list, tuple, dict, str) or self._plain(args[0])) and self._plain(args[1])
        if kind == CALL:
            return self._call(args[0], args[1:], keywords)
        return all(map(self._plain, args))

    def warns(self, kind: int, args: tuple[Any, ...], keywords: dict[str, Any]) -> int:
        """How a harmless operation may warn: not at all, of errors of floating point, or of anything."""
        function = args[0] if kind == CALL else None
        owner = getattr(function, "__self__", None) if type(function) in _BOUND else None
        given = [value for value in (*args, *keywords.values(), owner) if self._is_fraction(value)]
        if kind == GETITEM or function is len or (not given and id(function) not in self._flagged):
            return NEVER
        if kind != CALL:
            return BY_FLAGS
        name: str = function.__name__ if type(owner) in self._arrays else self._flagged.get(id(function), "")  # type: ignore[union-attr]
        if name in _REDUCES and not (keywords.keys() <= _USUAL and all(value.size for value in given)):
            return SOMEHOW
        return NEVER if name in _SILENT else BY_FLAGS if name in _FLAGGED else SOMEHOW

    def _is_fraction(self, value: Any) -> bool:
        """Whether numpy may tell of errors when it computes with it."""
        return (type(value) in self._arrays or type(value) in self._scalars) and value.dtype.kind in "fc"

    def _call(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
        most = self._most_arguments(function)
        if most < len(args) or (keywords and not _WRITES.isdisjoint(keywords)):
            return False
        return all(map(self._plain, args)) and all(map(self._plain, keywords.values()))

    def _most_arguments(self, function: Any) -> int:
        """How many positional arguments a known function may have; -1 for an unknown one."""
        known = self._functions.get(id(function))
        if known is not None:
            return known[1]
        if type(function) not in _BOUND:
            return -1
        return self._methods.get(type(function.__self__), {}).get(function.__name__, -1)

    def _plain(self, value: Any, depth: int = 4) -> bool:
        kind = type(value)
        if kind in self._values:
            return True
        if kind in self._arrays:
            return not value.dtype.hasobject  # elements that are objects can run anything
        if kind in (list, tuple):
            return depth > 0 and all(self._plain(item, depth - 1) for item in value)
        return value is float or value is int or (kind is type and value.__module__ == "numpy")


def _dtypes(numpy: Any) -> set[type]:
    """The classes of plain dtype objects (each dtype has its own)."""
    return {type(numpy.dtype(code)) for code in "?bBhHiIlLqQefd"}
