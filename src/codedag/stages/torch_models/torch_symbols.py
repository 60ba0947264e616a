"""Symbolic sizes of exported torch programs as expressions of a staged model, and FLOP counted in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy  # type: ignore[import-untyped]

from codedag.stages.sizes import Dim


def expression(dim: Any, symbols: Mapping[str, Dim]) -> Dim:
    """A dimension of a fake tensor in the model's sizes: a number, or an expression of `sizes`' grammar."""
    return written(renamed(sympy_of(dim), symbols))


def is_open(dim: Any) -> bool:
    """Whether a dimension of a fake tensor is not a number."""
    return not isinstance(dim, int) and not dim.node.expr.is_number


def sympy_of(dim: Any) -> Any:
    """A dimension as a sympy expression."""
    return sympy.Integer(dim) if isinstance(dim, int) else dim.node.expr


def renamed(formula: Any, symbols: Mapping[str, Dim]) -> Any:
    """The formula with the program's symbols replaced by the model's sizes."""
    pairs = {symbol: parsed(symbols[str(symbol)]) for symbol in formula.free_symbols if str(symbol) in symbols}
    return formula.subs(pairs, simultaneous=True) if pairs else formula


def parsed(dim: Dim) -> Any:
    """A dimension of the model as sympy, with sizes that are whole numbers."""
    if isinstance(dim, int):
        return sympy.Integer(dim)
    return _from_python(dim)


def _from_python(text: str) -> Any:
    import ast

    from codedag.stages.sizes import symbols_of

    names = {name: symbol(name) for name in symbols_of(text)}
    return _walk(ast.parse(text, mode="eval").body, names)


def _walk(node: Any, names: Mapping[str, Any]) -> Any:
    import ast
    import operator

    simple = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Pow: operator.pow}
    match node:
        case ast.Constant(value=value):
            return sympy.Integer(value)
        case ast.Name(id=name):
            return names[name]
        case ast.UnaryOp(operand=operand):
            return -_walk(operand, names)
        case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
            return sympy.floor(_walk(left, names) / _walk(right, names))
        case ast.BinOp(left=left, op=ast.Mod(), right=right):
            return sympy.Mod(_walk(left, names), _walk(right, names))
        case ast.BinOp(left=left, op=op, right=right):
            return simple[type(op)](_walk(left, names), _walk(right, names))
        case ast.Call(func=ast.Name(id=name), args=args):
            return {"max": sympy.Max, "min": sympy.Min}[name](*(_walk(each, names) for each in args))
    raise ValueError(f"`{ast.unparse(node)}` is no size")


def symbol(name: str) -> Any:
    """A size of the model in sympy."""
    return sympy.Symbol(name, integer=True, positive=True)


def written(formula: Any) -> Dim:
    """A sympy expression in the grammar of `sizes`; raises ValueError for what that cannot say."""
    if formula.is_Integer:
        return int(formula)
    return _text(formula)


def _text(formula: Any) -> str:
    if formula.is_Integer or formula.is_Symbol:
        return str(formula)
    name, args = formula.func.__name__, formula.args
    if name == "Add":
        return "(" + " + ".join(_text(each) for each in args) + ")"
    if name == "Mul":
        return _product(formula)
    if name in ("Pow", "PowByNatural"):
        return f"{_text(args[0])}**{_text(args[1])}"
    if name in ("Max", "Min"):
        return f"{name.lower()}({', '.join(_text(each) for each in args)})"
    if name in ("FloorDiv", "CleanDiv"):
        return f"({_text(args[0])} // {_text(args[1])})"
    if name in ("Mod", "PythonMod"):
        return f"({_text(args[0])} % {_text(args[1])})"
    if name == "floor":
        return _floor(args[0])
    raise ValueError(f"`{formula}` is a size that cannot be written")


def _product(formula: Any) -> str:
    top, bottom = formula.as_numer_denom()
    if bottom != 1:
        return f"({_text(top)} // {_text(bottom)})"
    return "*".join(_text(each) for each in formula.args)


def _floor(formula: Any) -> str:
    top, bottom = sympy.together(formula).as_numer_denom()
    return f"({_text(top)} // {_text(bottom)})"


def flop_of(program: Any, symbols: Mapping[str, Dim]) -> Dim:
    """The FLOP of an exported program: products by their formula, other operations one for each element made."""
    total = sympy.Integer(0)
    for node in program.graph.nodes:
        if node.op == "call_function":
            total += node_flop(node)
    return written(sympy.expand(renamed(total, symbols)))


def node_flop(node: Any) -> Any:
    """The FLOP of one node of a graph, as a sympy expression of its symbols."""
    made = node.meta.get("val")
    first = made[0] if isinstance(made, tuple | list) and made else made
    if not hasattr(first, "shape") or _moves_only(node):
        return sympy.Integer(0)
    operation = getattr(node.target, "_opname", "")
    if operation in _PRODUCTS:
        return _PRODUCTS[operation](node, first)
    if operation in ("sum", "mean", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "amax", "amin"):
        return max((numel(each.meta["val"]) for each in node.all_input_nodes if _is_tensor(each)), key=_rough)
    return numel(first) * _COSTS.get(operation, 1)


def _rough(formula: Any) -> float:
    """A number to compare two formulas by: all symbols 64."""
    return float(formula.subs(dict.fromkeys(formula.free_symbols, 64)))


def _is_tensor(node: Any) -> bool:
    return hasattr(node.meta.get("val"), "shape")


def numel(value: Any) -> Any:
    """The elements of a fake tensor, as a formula."""
    total = sympy.Integer(1)
    for dim in value.shape:
        total *= sympy_of(dim)
    return total


#: Operations that only move or view: no arithmetic.
_MOVES = frozenset((
    "view", "reshape", "_unsafe_view", "permute", "transpose", "t", "unsqueeze", "squeeze", "expand", "expand_as",
    "clone", "contiguous", "select", "slice", "cat", "stack", "split", "split_with_sizes", "chunk", "unbind",
    "flatten", "index_select", "embedding", "gather", "index", "zeros", "ones", "full", "empty", "new_zeros",
    "new_ones", "new_full", "zeros_like", "ones_like", "full_like", "arange", "detach", "alias", "_to_copy", "to",
    "lift_fresh_copy", "narrow", "movedim", "unflatten", "dropout", "identity", "pad", "constant_pad_nd", "repeat",
    "roll", "flip", "scalar_tensor",
))  # fmt: skip
#: Operations whose elements take several.
_COSTS = {"softmax": 5, "_softmax": 5, "log_softmax": 5, "layer_norm": 8, "native_layer_norm": 8, "gelu": 8, "silu": 4,
          "batch_norm": 2, "sigmoid": 4, "tanh": 6, "exp": 4}  # fmt: skip


_VIEWS = frozenset((
    "view", "_unsafe_view", "permute", "transpose", "t", "unsqueeze", "squeeze", "expand", "select", "slice", "split",
    "split_with_sizes", "chunk", "unbind", "detach", "alias", "narrow", "unflatten",
))  # fmt: skip


def is_view(node: Any) -> bool:
    """Whether an operation only looks at the same bytes in another way."""
    return getattr(node.target, "_opname", "") in _VIEWS


def _moves_only(node: Any) -> bool:
    return getattr(node.target, "_opname", "") in _MOVES or not hasattr(node.target, "_opname")


def _value(node: Any, place: int) -> Any:
    return node.args[place].meta["val"]


def _linear(node: Any, made: Any) -> Any:
    bias = numel(made) if len(node.args) > 2 and node.args[2] is not None else 0
    return 2 * numel(made) * sympy_of(_value(node, 1).shape[-1]) + bias


def _matmul(node: Any, made: Any) -> Any:
    return 2 * numel(made) * sympy_of(_value(node, 0).shape[-1])


def _addmm(node: Any, made: Any) -> Any:
    return 2 * numel(made) * sympy_of(_value(node, 1).shape[-1]) + numel(made)


def _convolution(node: Any, made: Any) -> Any:
    weight = _value(node, 1)
    channels = sympy_of(made.shape[1])
    return 2 * numel(made) * numel(weight) / channels


def _attention(node: Any, made: Any) -> Any:
    query, key = _value(node, 0), _value(node, 1)
    return 4 * numel(query) * sympy_of(key.shape[-2])


def _recurrent(node: Any, made: Any) -> Any:
    weights = [each for each in node.args[2] if hasattr(each, "meta")]
    steps = numel(made) / sympy_of(made.shape[-1])
    return 2 * steps * sum((numel(each.meta["val"]) for each in weights), sympy.Integer(0))


def _scattered(node: Any, made: Any) -> Any:
    return numel(_value(node, 3))


_PRODUCTS: dict[str, Any] = {
    "linear": _linear, "mm": _matmul, "bmm": _matmul, "matmul": _matmul, "addmm": _addmm, "baddbmm": _addmm,
    "convolution": _convolution, "conv1d": _convolution, "conv2d": _convolution, "conv3d": _convolution,
    "scaled_dot_product_attention": _attention, "lstm": _recurrent, "gru": _recurrent,
    "scatter_add": _scattered,
}  # fmt: skip
