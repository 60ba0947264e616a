"""The native form of a chain: calls that are as an analysed one was, but for the numbers in them, without Python.

`deferred.py` asks of every step whether it can be deferred and what it does to axes and memory.  The answers hold for
every call with the same operations, types, shapes and strides.  A chain whose steps are plain arithmetic on numbers is
told to the extension `_chain` as operations on 256 values; it is used only if that gives, bit for bit, the table that
the program's own operations gave.  Every other call, and every call without the extension, is analysed.

An operation that *warns* on some value is noticed at the end of the chain, not at its own place.  Where a warning could
become an exception, the native form is not used.
"""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any, NamedTuple

from codedag.backends.elementwise import MAP, PACK, SLICE, Role
from codedag.ir.verdict import No
from codedag.migrate.fuse.deferred import Deferred, Step
from codedag.migrate.fuse.layout import Layout
from codedag.migrate.fuse.lookup_table import Known, elements


def _extension() -> Any:
    try:
        from codedag.migrate import _chain
    except ImportError:  # no compiler when this was installed
        return None
    return _chain


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
_FLOAT = object()  # stands for any Python float
_IMMUTABLE = (int, bool, str, type(None), type)

Op = tuple[int, int, int, float]
Wanted = tuple[tuple[Any, ...], tuple[Op, ...], int]


class _Unknown(Exception):  # noqa: N818 - control flow
    """Something that the extension has no words for."""


class ArrayFact(NamedTuple):
    """What must stay the same of an array parameter; its contents may change."""

    shape: tuple[int, ...]
    dtype: Any


class Spec:
    """One step as it must be: what its parameters are, and what running it needs."""

    __slots__ = ("at", "before", "facts", "function", "keywords", "role", "sample", "to")

    def __init__(self, step: Step, before: Known | None = None, after: Known | None = None) -> None:
        numpy, torch = sys.modules["numpy"], sys.modules.get("torch")
        plain = (*_IMMUTABLE, numpy.dtype, *((torch.dtype,) if torch is not None else ()))
        if step.role.kind == SLICE or not all(isinstance(value, plain) for value in step.keywords.values()):
            raise _Unknown
        self.role: Role = step.role
        self.at, self.function = step.at, step.function
        self.facts = tuple(_fact(parameter, plain) for parameter in step.parameters)
        self.keywords = step.keywords
        if before is not None and after is not None:
            self.before, self.to, self.sample = before.dtype, after.dtype, after.value

    def takes(self, step: Step) -> bool:
        """Whether another call of this step does the same to the array, with parameters of the same kind."""
        try:
            other = Spec(step)
        except _Unknown:
            return False
        same = (other.role, other.at, other.function) == (self.role, self.at, self.function)
        ours, theirs = _parts(self), _parts(other)
        return same and len(ours) == len(theirs) and all(map(_is_same, ours, theirs))


def _parts(spec: Spec) -> list[Any]:
    return [*spec.facts, *spec.keywords, *spec.keywords.values()]


def _fact(value: Any, plain: tuple[type, ...]) -> Any:
    if type(value) is float:
        return _FLOAT
    if type(value) is sys.modules["numpy"].ndarray:
        return ArrayFact(value.shape, value.dtype)
    if all(isinstance(one, (*plain, float)) for one in (value if type(value) is tuple else (value,))):
        return value
    raise _Unknown


def _is_same(value: Any, known: Any) -> bool:
    """Whether two facts are the same in type and worth; 0, 0.0 and False are not."""
    if value is known:
        return True
    if type(value) is not type(known):
        return False
    if type(value) is tuple:
        return len(value) == len(known) and all(map(_is_same, value, known))
    return type(value) in (int, bool, str, float, ArrayFact) and bool(value == known)


class NativeChain:
    """One chain in the extension, and what calls must be like to go there."""

    def __init__(self, names: list[str], chain: Any) -> None:
        self.chain = chain
        self._names = names
        self._specs: tuple[Spec, ...] = ()
        self._told: tuple[Any, ...] | None = None  # what the extension was opened with
        self._entry: Any = None

    def learn(self, deferred: Deferred, result: Any, kernels: Any) -> bool:
        """Lets calls like this one, which was analysed, go to the extension; False if it has no words for them."""
        if not self._is_such(deferred) and not self._open(deferred):
            return False
        known, view, source = deferred.last, deferred.view, deferred.source
        kernel = kernels(view, known.rows, known.table, elements(result))
        if isinstance(kernel, No) or not hasattr(kernel, "job"):
            return False
        job = kernel.job(view, known.rows, known.table, elements(result))
        if job is None:
            return False
        entry, axes, held = job
        make = _maker(deferred.layout, known.table.dtype)
        return bool(self.chain.learn(self._told, source.shape, source.strides, make, entry, axes, (held, kernel)))

    def _is_such(self, deferred: Deferred) -> bool:
        if self._told is None or deferred.root.key != self._entry or len(deferred.steps) != len(self._specs):
            return False
        return all(spec.takes(step) for spec, step in zip(self._specs, deferred.steps, strict=True))

    def _open(self, deferred: Deferred) -> bool:
        knowns = [deferred.root]
        while knowns[-1].next is not None and len(knowns) <= len(deferred.steps):
            knowns.append(knowns[-1].next)
        known = deferred.last
        self._told = None
        if knowns[-1] is not known:
            return False
        try:
            self._specs = tuple(Spec(*one) for one in zip(deferred.steps, knowns, knowns[1:], strict=False))
            specs, ops, rows = _wanted(self._names, self._specs, deferred, known)
        except _Unknown:
            return False
        if native.table(ops, _numbers(specs, deferred), rows) != known.table.tobytes():
            return False
        self._entry = deferred.root.key
        if self.chain.open(specs, ops, rows, _world(self._entry[3])):
            self._told = specs
        return self._told is not None


def _maker(layout: Layout, dtype: Any) -> Any:
    """What gives a new value that lies as the result does; in one call of the library where that is all."""
    numpy, torch = sys.modules["numpy"], sys.modules.get("torch")
    block = layout.block
    if layout.views or torch is None or type(block) is numpy.ndarray:
        return functools.partial(layout.make, dtype)
    kind = torch.from_numpy(numpy.empty(0, dtype)).dtype
    return functools.partial(torch.empty_strided, tuple(block.shape), block.stride(), dtype=kind)


def _world(default_dtype: Any) -> tuple[Any, ...]:
    numpy, torch = sys.modules["numpy"], sys.modules.get("torch")
    modes = (torch._C._len_torch_function_stack, torch._C._len_torch_dispatch_stack) if torch is not None else ()
    default = torch.get_default_dtype if torch is not None else None
    errors = getattr(numpy._core.umath, "_extobj_contextvar", None)
    return numpy.ndarray, numpy.dtype("u1"), errors, warnings, modes, default, default_dtype


def nothing_raises() -> bool:
    """Whether a floating-point warning stays a warning: neither numpy nor the filters make it an exception."""
    states = sys.modules["numpy"].geterr().values()
    if "raise" in states or "call" in states:
        return False
    for action, message, category, module, _ in warnings.filters:
        if issubclass(RuntimeWarning, category):
            if action == "error":
                return False
            if message is None and module is None:
                return True  # this one decides, whatever comes after it
    return True


# ---- steps


def _wanted(names: list[str], every: tuple[Spec, ...], deferred: Deferred, known: Known) -> Wanted:
    numpy = sys.modules["numpy"]
    if type(deferred.source) is not numpy.ndarray or known.table.dtype.name not in _CASTS:
        raise _Unknown
    specs: list[Any] = []
    ops: list[Op] = []
    first = 0
    for name, spec in zip(names, every, strict=True):
        ops += _ops(name, spec, first)
        needs = tuple(_need(fact) for fact in spec.facts)
        words = tuple(spec.keywords) or None
        method = spec.function if spec.at < 0 else None
        specs.append((
            spec.at, None if spec.at < 0 else spec.function, method, words, tuple(spec.keywords.values()), spec.sample,
            needs,
        ))  # fmt: skip
        first += len(needs)
    last = _CASTS[known.table.dtype.name]
    return tuple(specs), (*ops, (native.CAST, last, -1, 0.0)), len(known.table)


def _need(fact: Any) -> tuple[int, int, str, Any, tuple[int, ...]]:
    if fact is _FLOAT:
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
    if fact is _FLOAT:
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
