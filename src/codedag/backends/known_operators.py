"""What operators, subscripts and loops do with plain operands."""

from __future__ import annotations

from typing import Any

from codedag.backends.known_pandas import INDEXERS
from codedag.backends.known_table import Effect, Known, Table, bases, named_type
from codedag.ir.verdict import No

_PURE = Known(Effect.PURE)
_ALIAS = Known(Effect.PURE, fresh=False)
_WRITES_FIRST = Known(Effect.WRITES, fresh=False, writes=(0,))
_MOVES_ON = Known(Effect.WRITES, fresh=False, writes=(0,))  # whoever else holds the iterator finds it further on
_SUMS = Known(Effect.PURE, by_threads=True)
_BINARY = frozenset(
    [
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "matmul",
        "lshift",
        "rshift",
        "or_",
        "xor",
        "and_",
        "lt",
        "le",
        "gt",
        "ge",
        "eq",
        "ne",
        "contains",
    ]
)
_UNARY = frozenset({"neg", "pos", "invert", "abs", "not_", "truth", "index"})
_INPLACE = frozenset(
    [
        "iadd",
        "isub",
        "imul",
        "itruediv",
        "ifloordiv",
        "imod",
        "ipow",
        "imatmul",
        "ilshift",
        "irshift",
        "ior",
        "ixor",
        "iand",
    ]
)
_LISTS = (list, tuple)
_HOLDERS = (list, tuple, dict)
_EMPTY: tuple[Any, ...] = ([], (), {}, range(0), "a", "é", b"", {}.values(), {}.items(), range(2**70))
_STEPS: frozenset[type] = frozenset(type(iter(each)) for each in _EMPTY) | {type(reversed([]))}
_JOINED = frozenset({enumerate, zip})
_WALKS: tuple[type, ...] = (list, tuple, dict, range, str, bytes, type({}.keys()), type({}.values()), type({}.items()))


def known(table: Table, name: str, operands: tuple[Any, ...]) -> Known | No | Any:
    """What the operator does with the operands, or why that is not known."""
    if name == "is_" or name == "is_not":
        return _PURE
    if name == "getitem":
        return _getitem(table, *operands)
    if name == "setitem":
        return _setitem(table, *operands)
    if name == "iter":
        return _iter(table, operands[0])
    if name == "contains":
        operands = operands[::-1] if type(operands[0]) is dict else operands
    for value in operands:
        if not table.plain(value):
            return _not_plain(name, value)
    return _with_plain(table, name, operands)


def _with_plain(table: Table, name: str, operands: tuple[Any, ...]) -> Known | No:
    first = operands[0]
    if name in _INPLACE:
        if not table.is_atom(first) and type(first) is not tuple:
            return _WRITES_FIRST
        name = name[1:] if name[1:] in _BINARY else f"{name[1:]}_"
    if name in _UNARY or name in _BINARY:
        if any(type(value) in _HOLDERS for value in operands) and name in ("add", "mul", "or_"):
            return _PURE if all(_flat(table, value) for value in operands) else _ALIAS
        if name == "pos" and not table.is_atom(first):
            return _ALIAS  # +tensor is the tensor itself
        return _SUMS if name == "matmul" else _PURE
    return No(f"operator.{name} is not known")


def _flat(table: Table, value: Any) -> bool:
    """Whether nothing that could be written is inside of a container."""
    if type(value) is dict:
        return all(map(table.is_atom, value.values()))
    return all(map(table.is_atom, value)) if type(value) in _LISTS else True


def _not_plain(name: str, value: Any) -> No:
    return No(f"operator.{name} is given {named_type(value)}, which may run code of its own")


def _getitem(table: Table, holder: Any, key: Any) -> Known | No:
    kind = type(holder)
    if not table.plain(key):
        return _not_plain("getitem", key)
    if kind in (str, bytes, range) or (kind in table.atoms and issubclass(kind, tuple)):
        return _PURE
    if kind in _LISTS or kind is dict:
        return _ALIAS if type(key) is not slice or not _flat(table, holder) else _PURE
    if kind in table.held and table.plain(holder):
        return _PURE if _copies(holder, key) else _ALIAS
    if kind.__name__ in INDEXERS and kind.__module__ == "pandas.core.indexing" and _reads_one(table, holder, key):
        return _ALIAS
    return _not_plain("getitem", holder)


def _reads_one(table: Table, indexer: Any, key: Any) -> bool:
    """Whether `table.iloc[key]` and its like read one row or one value of a plain table."""
    parts = key if type(key) is tuple else (key,)
    return all(type(part) is not slice and table.is_atom(part) for part in parts) and table.plain(indexer.obj)


def _copies(holder: Any, key: Any) -> bool:
    """Whether a subscript surely makes a copy: a single number out of a one-dimensional array."""
    return type(key) is int and getattr(holder, "ndim", 0) == 1 and type(holder).__module__ == "numpy"


def _setitem(table: Table, holder: Any, key: Any, value: Any) -> Known | No:
    if not table.plain(key):
        return _not_plain("setitem", key)
    if type(holder) in (list, dict) and (type(key) is not slice or type(value) in _LISTS):
        return _WRITES_FIRST
    if type(holder) in table.held and table.plain(holder) and table.plain(value):
        return _WRITES_FIRST
    return _not_plain("setitem", holder if type(holder) not in table.held else value)


def _iter(table: Table, value: Any) -> Known | No:
    kind = type(value)
    if kind in (set, frozenset):
        return Known(Effect.PURE, fresh=False, deterministic=len(value) < 2)
    if _is_plain_iterator(value):
        return _MOVES_ON
    if kind in _WALKS or (kind in table.held and table.plain(value)):
        return _ALIAS
    return _not_plain("iter", value)


def _is_plain_iterator(value: Any, depth: int = 4) -> bool:
    """Whether an iterator walks over builtin containers only; what it holds is asked of the exact builtin type."""
    kind = type(value)
    if kind in _STEPS:
        return True
    return depth > 0 and kind in _JOINED and all(_is_plain_iterator(part, depth - 1) for part in _parts(value, kind))


def _parts(value: Any, kind: type) -> tuple[Any, ...]:
    held = value.__reduce__()[1]
    return held[:1] if kind is enumerate else held  # type: ignore[no-any-return]


def static(kind: type, name: str) -> Any:
    """An attribute of a class as it was defined, found without running any code."""
    return next((vars(base)[name] for base in bases(kind) if name in vars(base)), None)
