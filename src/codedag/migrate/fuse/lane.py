"""The fast lane of a chain: what an express lane has learned, in the words of the extension that needs no Python.

A chain whose steps are plain arithmetic on numbers is told to `_lane` as operations on 256 values.  It is used only if
that gives, bit for bit, the table that the program's own operations gave.  Without the extension, and for any other
chain, the express lane goes on in Python.
"""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any

from codedag.backends.elementwise import MAP, PACK
from codedag.migrate.fuse.deferred import Deferred
from codedag.migrate.fuse.express import ArrayFact, Express, Spec, is_any_float
from codedag.migrate.fuse.layout import Layout
from codedag.migrate.fuse.lookup_table import Known, elements


def _extension() -> Any:
    try:
        from codedag.migrate import _lane
    except ImportError:  # no compiler when this was installed
        return None
    return _lane


native = _extension()
LARGEST_INT = 2**24  # up to here an int is the same number as a float32
_CASTS = {"uint8": 0, "float32": 1, "float64": 2}  # as the extension numbers them
_BINARY = {
    "add": ("ADD", "ADD"), "sub": ("SUB", "RSUB"), "subtract": ("SUB", "RSUB"), "mul": ("MUL", "MUL"),
    "multiply": ("MUL", "MUL"), "truediv": ("DIV", "RDIV"), "divide": ("DIV", "RDIV"), "true_divide": ("DIV", "RDIV"),
    "maximum": ("LEAST", "LEAST"), "minimum": ("MOST", "MOST"),
}  # fmt: skip
_UNARY = {"neg": "NEG", "negative": "NEG", "absolute": "ABS", "sqrt": "ROOT", "square": "SQUARE"}
_BOUNDS = (("min", "a_min"), ("max", "a_max"))
_NUMPY = ("operator.", "numpy.")

Op = tuple[int, int, int, float]
Wanted = tuple[tuple[Any, ...], tuple[Op, ...], int]


class _Unknown(Exception):  # noqa: N818 - control flow
    """Something that the fast lane has no words for."""


def opened(lane: Any, names: list[str], express: Express, deferred: Deferred) -> bool:
    """Opens the fast lane for calls like this one; False if it has no words for them."""
    known = deferred.last
    try:
        specs, ops, rows = _wanted(names, express, deferred, known)
    except _Unknown:
        return False
    if native.table(ops, _numbers(specs, deferred), rows) != known.table.tobytes():
        return False
    if not lane.open(specs, ops, rows, _world(express)):
        return False
    express.fast = specs
    return True


def taught(lane: Any, express: Express, deferred: Deferred, kernel: Any, result: Any) -> bool:
    """Teaches the lane such a source, if it is this one that is open: how its result is made, and by which loops."""
    known, view = deferred.last, deferred.view
    job = kernel.job(view, known.rows, known.table, elements(result)) if hasattr(kernel, "job") else None
    if job is None:
        return False
    entry, axes, held = job
    source = deferred.source
    make = _maker(deferred.layout, known.table.dtype)
    where = (source.shape, source.strides)
    return bool(lane.learn(express.fast, *where, make, entry, axes, (held, kernel)))


def _maker(layout: Layout, dtype: Any) -> Any:
    """What gives a new value that lies as the result does; in one call of the library where that is all."""
    numpy, torch = sys.modules["numpy"], sys.modules.get("torch")
    block = layout.block
    if layout.views or torch is None or type(block) is numpy.ndarray:
        return functools.partial(layout.make, dtype)
    kind = torch.from_numpy(numpy.empty(0, dtype)).dtype
    return functools.partial(torch.empty_strided, tuple(block.shape), block.stride(), dtype=kind)


def _world(express: Express) -> tuple[Any, ...]:
    numpy, torch = sys.modules["numpy"], sys.modules.get("torch")
    modes = (torch._C._len_torch_function_stack, torch._C._len_torch_dispatch_stack) if torch is not None else ()
    default = torch.get_default_dtype if torch is not None else None
    errors = getattr(numpy._core.umath, "_extobj_contextvar", None)
    return numpy.ndarray, numpy.dtype("u1"), errors, warnings, modes, default, express.default_dtype


# ---- steps


def _wanted(names: list[str], express: Express, deferred: Deferred, known: Known) -> Wanted:
    numpy = sys.modules["numpy"]
    if type(deferred.source) is not numpy.ndarray or known.table.dtype.name not in _CASTS:
        raise _Unknown
    specs: list[Any] = []
    ops: list[Op] = []
    first = 0
    for name, spec, step in zip(names, express.specs, deferred.steps, strict=True):
        ops += _ops(name, spec, first)
        needs = tuple(_need(fact) for fact in spec.facts)
        words = tuple(spec.keywords) or None
        method = step.function if spec.at < 0 else None
        specs.append((
            spec.at, None if spec.at < 0 else step.function, method, words, tuple(spec.keywords.values()), spec.sample,
            needs,
        ))  # fmt: skip
        first += len(needs)
    last = _CASTS[known.table.dtype.name]
    return tuple(specs), (*ops, (native.CAST, last, -1, 0.0)), len(known.table)


def _need(fact: Any) -> tuple[int, int, str, Any, tuple[int, ...]]:
    if is_any_float(fact):
        return (native.NUMBER, 1, "d", None, ())
    if isinstance(fact, ArrayFact):
        count = int(sys.modules["numpy"].prod(fact.shape, dtype=int))
        if fact.dtype.char not in "fd" or not 1 <= count <= native.MOST_ROWS or not fact.dtype.isnative:
            raise _Unknown
        return (native.ARRAY, count, fact.dtype.char, fact.dtype, fact.shape)
    return (native.FIXED, 0, "", fact, ())


def _ops(name: str, spec: Spec, first: int) -> list[Op]:
    before, after = _type_of(spec.before), _type_of(spec.to)
    role, plain = spec.role, name.rpartition(".")[2]
    if role.kind == PACK:
        return [(native.CAST, after, -1, 0.0)]
    if role.kind != MAP:
        return []
    if plain in ("astype", "to", "type") or (not spec.facts and plain != "clip"):
        return _without_operand(name, plain, after)
    if not name.startswith(_NUMPY) or after == native.BYTE or after < before or _is_tensor(spec.sample):
        raise _Unknown
    if plain == "clip":
        return _clip(spec, after, first)
    code = _BINARY.get(plain.removeprefix("i") if name.startswith("operator.i") else plain)
    if code is None or len(spec.facts) != 1 or spec.keywords:
        raise _Unknown
    return [_operand(getattr(native, code[spec.at == 1]), spec, 0, after, first)]


def _without_operand(name: str, plain: str, after: int) -> list[Op]:
    cast: list[Op] = [(native.CAST, after, -1, 0.0)]
    if plain in ("astype", "to", "type", "float", "double", "float32", "float64", "uint8", "pos"):
        return cast
    code = _UNARY.get(plain)
    if code is None or after == native.BYTE or not name.startswith(_NUMPY):
        raise _Unknown
    return [(getattr(native, code), after, -1, 0.0)]


def _clip(spec: Spec, after: int, first: int) -> list[Op]:
    """The order of numpy: first what is too small, then what is too large."""
    found: list[Op] = []
    for number, (code, names) in enumerate(zip((native.LEAST, native.MOST), _BOUNDS, strict=True)):
        if number < len(spec.facts):
            if spec.facts[number] is not None:
                found.append(_operand(code, spec, number, after, first))
            continue
        given = [spec.keywords[name] for name in names if name in spec.keywords and spec.keywords[name] is not None]
        found += [(code, after, -1, _constant(value)) for value in given]
    if any(isinstance(fact, ArrayFact) for fact in spec.facts):
        raise _Unknown
    return found


def _operand(code: int, spec: Spec, number: int, after: int, first: int) -> Op:
    fact = spec.facts[number]
    if is_any_float(fact):
        return (code, after, first + number, 0.0)
    if isinstance(fact, ArrayFact):  # numpy must compute in the type of the result
        if sys.modules["numpy"].result_type(spec.before, fact.dtype) != spec.to:
            raise _Unknown
        return (code, after, first + number, 0.0)
    return (code, after, -1, _constant(fact))


def _constant(value: Any) -> float:
    if type(value) is float or (type(value) is int and abs(value) <= LARGEST_INT):
        return float(value)
    raise _Unknown


def _type_of(dtype: Any) -> int:
    name = str(dtype).removeprefix("torch.")
    if name not in _CASTS:
        raise _Unknown
    return _CASTS[name]


def _is_tensor(value: Any) -> bool:
    return type(value) is not sys.modules["numpy"].ndarray


def _numbers(specs: tuple[Any, ...], deferred: Deferred) -> tuple[tuple[float, ...], ...]:
    """What the parameters of a call are, as the extension takes them."""
    found: list[tuple[float, ...]] = []
    for spec, step in zip(specs, deferred.steps, strict=True):
        for (kind, *_), value in zip(spec[-1], step.parameters, strict=True):
            if kind == native.FIXED:
                found.append(())
            else:
                found.append((value,) if kind == native.NUMBER else tuple(map(float, value.ravel())))
    return tuple(found)
