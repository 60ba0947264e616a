"""Symbolic sizes: whole-number expressions such as `4*batch` that tensors, FLOP counts and keys are written in."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

Dim = int | str
Sizes = Mapping[str, int]

#: The sizes of a graph: their keys in the guide's tables have no names.
GRAPH = ("nodes", "edges")

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {"max": max, "min": min}


def evaluate(expression: Dim, sizes: Sizes) -> int:
    """The number that an expression has at these sizes; raises ValueError naming what it does not know."""
    return expression if isinstance(expression, int) else int(_value(_parsed(expression), sizes))


def symbols_of(expression: Dim) -> frozenset[str]:
    """The names that an expression depends on."""
    if isinstance(expression, int):
        return frozenset()
    names = (node.id for node in ast.walk(_parsed(expression)) if isinstance(node, ast.Name))
    return frozenset(names) - _FUNCTIONS.keys()


@lru_cache(maxsize=4096)
def _parsed(expression: str) -> ast.expr:
    try:
        return ast.parse(expression, mode="eval").body
    except SyntaxError:
        raise ValueError(f"`{expression}` is no size") from None


def _value(node: ast.expr, sizes: Sizes) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name) if name in sizes:
            return sizes[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, sizes)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return int(_OPERATORS[type(op)](_value(left, sizes), _value(right, sizes)))
        case ast.Call(func=ast.Name(id=name), args=args) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value(each, sizes) for each in args))
    raise ValueError(f"`{ast.unparse(node)}` is no size that is known here ({', '.join(sizes) or 'none'})")


def key_of(sizes: Sizes) -> str:
    """The sizes as they begin a key of a table: `1000,2000` for graphs, `batch=8` for others, `static` for none."""
    if tuple(sizes) == GRAPH:
        return f"{sizes['nodes']},{sizes['edges']}"
    return ",".join(f"{name}={value}" for name, value in sizes.items()) or "static"


def sizes_of(key: str) -> dict[str, int]:
    """The sizes that `key_of` wrote; raises ValueError for anything else."""
    if key == "static":
        return {}
    parts = key.split(",")
    if len(parts) == len(GRAPH) and all(part.isdecimal() for part in parts):
        return dict(zip(GRAPH, map(int, parts), strict=True))
    pairs = [part.partition("=") for part in parts]
    if not all(name and sign and value.isdecimal() for name, sign, value in pairs):
        raise ValueError(f"`{key}` does not begin with sizes (`nodes,edges` or `name=number,...`)")
    return {name: int(value) for name, _, value in pairs}
