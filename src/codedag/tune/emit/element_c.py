"""C statements of the operations on one element, and what has to be told because numpy's bits are not fixed.

`odd` becomes true where a NaN meets a comparison that chooses, a zero meets a zero of the other sign in a minimum or
maximum, or a cast to an integer meets a number out of its range: such calls run as written.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codedag.tune.declined import CannotTune
from codedag.tune.program.program import Const, Expr, Load, Op

TYPES = {
    "f4": "float", "f8": "double", "u1": "uint8_t", "i1": "int8_t", "u2": "uint16_t", "i2": "int16_t",
    "i4": "int32_t", "u4": "uint32_t", "i8": "int64_t", "u8": "uint64_t", "b1": "uint8_t",
}  # fmt: skip
SIZES = {name: np.dtype(name).itemsize for name in TYPES}
RANGES = {
    "u1": ("-1", "256"), "i1": ("-129", "128"), "u2": ("-1", "65536"), "i2": ("-32769", "32768"),
    "i4": ("-2147483648.0", "2147483648.0"), "u4": ("-1", "4294967296.0"),
    "i8": ("-9223372036854775808.0", "9223372036854775808.0"), "u8": ("-1", "18446744073709551616.0"),
}  # fmt: skip
BINARY = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
TRUTH = {"add": "|", "mul": "&"}  # of truth values
CHECKED = {"checked_add": "add", "checked_sub": "sub", "checked_mul": "mul", "checked_square": "mul",
           "checked_neg": "sub", "checked_abs": "sub"}  # fmt: skip
BOUNDED = ("min", "max", "clip")
COMPARED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "and": "&", "or": "|"}


def is_float(dtype: str) -> bool:
    """Whether a type is a floating one."""
    return dtype in ("f4", "f8")


def constant(value: float, dtype: str) -> str:
    """A number as C, to the last bit."""
    if not is_float(dtype):
        return f"(({TYPES[dtype]}){int(value)}{'LL' if dtype == 'i8' else 'ULL' if dtype == 'u8' else ''})"
    if value != value or value in (float("inf"), float("-inf")):
        text = '__builtin_nan("")' if value != value else f"{'-' if value < 0 else ''}__builtin_inf()"
        return f"(({TYPES[dtype]}){text})"
    return f"{float(value).hex()}{'f' if dtype == 'f4' else ''}"


class Body:
    """The statements that compute one element; the same expression is computed once."""

    def __init__(self, loaded: Callable[[Load], tuple[str, str]]) -> None:
        self.loaded = loaded  # a load's C text and type
        self.lines: list[str] = []
        self.known: dict[Expr, tuple[str, str]] = {}
        self.ordered: set[str] = set()  # names of values that are no NaN unless that was told

    def value(self, expr: Expr) -> tuple[str, str]:
        """The name of a value and its type."""
        if expr in self.known:
            return self.known[expr]
        if isinstance(expr, Const):
            return constant(expr.value, expr.dtype), expr.dtype
        if isinstance(expr, Load):
            text, dtype = self.loaded(expr)
        else:
            text, dtype = self._operation(expr)
        name = f"t{len(self.known)}"
        self.lines.append(f"const {TYPES[dtype]} {name} = {text};")
        self.known[expr] = name, dtype
        if isinstance(expr, Op) and expr.name in BOUNDED:
            self.ordered.add(name)
        return name, dtype

    def tell_nan(self, name: str) -> None:
        """Tells of a value that is NaN."""
        if name not in self.ordered:
            self.lines.append(f"odd |= {name} != {name};")

    def _operation(self, op: Op) -> tuple[str, str]:
        args = [self.value(one) for one in op.args]
        (first, kind), kinds = args[0], TYPES[op.dtype]
        names = [name for name, _ in args]
        if op.name == "cast":
            return self._cast(first, kind, op.dtype), op.dtype
        if op.name in COMPARED:
            return f"{first} {COMPARED[op.name]} {names[1]}", op.dtype
        if op.name in TRUTH and op.dtype == "b1":
            return f"{first} {TRUTH[op.name]} {names[1]}", op.dtype
        if op.name in BINARY:
            return f"({kinds})({first} {BINARY[op.name]} {names[1]})", op.dtype
        if op.name in BOUNDED:
            return self._bounded(op, names), op.dtype
        if op.name in CHECKED:
            return self._checked(op, names), op.dtype
        if op.name == "where":
            self._tell_flags(op.args[1:])
            return f"{first} ? {names[1]} : {names[2]}", op.dtype
        return self._unary(op, first), op.dtype

    def _checked(self, op: Op, names: list[str]) -> str:
        """An operation on whole numbers that are scalars: numpy warns if they overflow."""
        name, kind = f"w{len(self.lines)}", TYPES[op.dtype]
        zero = constant(0, op.dtype)
        left, right = {"checked_square": (names[0], names[0]), "checked_neg": (zero, names[0]),
                       "checked_abs": (zero, names[0])}.get(op.name, (names[0], names[-1]))  # fmt: skip
        overflow = f"__builtin_{CHECKED[op.name]}_overflow({left}, {right}, &{name})"
        if op.name == "checked_abs":
            self.lines.append(f"{kind} {name} = {names[0]}; if ({names[0]} < 0) odd |= {overflow};")
        else:
            self.lines.append(f"{kind} {name}; odd |= {overflow};")
        return name

    def _tell_flags(self, branches: tuple[Expr, ...]) -> None:
        """The compiler may compute a branch only where it is chosen; numpy computes all of it, and warns of all."""
        for op in dict.fromkeys(one for branch in branches for one in _operations(branch)):
            name, dtype = self.known[op]
            if is_float(dtype):
                self.lines.append(f"odd |= {name} - {name} != 0;")

    def _unary(self, op: Op, value: str) -> str:
        kind, suffix = TYPES[op.dtype], "f" if op.dtype == "f4" else ""
        known = {
            "neg": f"({kind})(-{value})", "pos": value, "square": f"({kind})({value} * {value})", "not": f"!{value}",
            "sqrt": f"__builtin_sqrt{suffix}({value})", "reciprocal": f"{constant(1, op.dtype)} / {value}",
            "abs": f"__builtin_fabs{suffix}({value})" if is_float(op.dtype)
            else f"({kind})({value} < 0 ? -{value} : {value})",
        }  # fmt: skip
        if op.name not in known or (op.name in ("sqrt", "reciprocal") and not is_float(op.dtype)):
            raise CannotTune(f"{op.name} of type {op.dtype} has no C text here")
        return known[op.name]

    def _cast(self, value: str, before: str, to: str) -> str:
        if to == "b1":
            return f"{value} != 0"
        if is_float(before) and not is_float(to):
            low, high = RANGES[to]
            self.lines.append(f"odd |= !(({value} > {low}) & ({value} < {high}));")
        return f"({TYPES[to]}){value}"

    def _bounded(self, op: Op, names: list[str]) -> str:
        here, bounds = names[0], [(names[1], "<" if op.name == "min" else ">")]
        if op.name == "clip":
            bounds = [(names[1], ">"), (names[2], "<")]
        kind, bits = TYPES[op.dtype], "bits32" if op.dtype == "f4" else "bits64"
        consts = [arg.value if isinstance(arg, Const) else None for arg in op.args[1:]]
        if is_float(op.dtype):
            self.tell_nan(here)
        for (bound, sign), const in zip(bounds, consts, strict=True):
            if is_float(op.dtype) and const is None:
                self.tell_nan(bound)
            if is_float(op.dtype) and not const:  # a zero, or a number that is not known yet
                self.lines.append(f"odd |= ({here} == {bound}) & ({bits}({here}) != {bits}({bound}));")
            name = f"m{len(self.lines)}"
            self.lines.append(f"const {kind} {name} = {here} {sign} {bound} ? {here} : {bound};")
            here = name
        return here


def _operations(expr: Expr) -> list[Op]:
    """Every operation of an expression."""
    return [expr, *(one for arg in expr.args for one in _operations(arg))] if isinstance(expr, Op) else []


# PRE makes branches of what is told beside a maximum, and loops with branches have no vectors: relu was 9x numpy's time
BITS = """#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize ("no-tree-pre")
#endif
static inline uint32_t bits32(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
static inline uint64_t bits64(double x) { uint64_t u; memcpy(&u, &x, 8); return u; }
"""
