"""Flow kernels: a chain of element-wise steps on arrays of any plain type, whatever their strides."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from codedag.ir.verdict import No
from codedag.tune import kernel_cache
from codedag.tune.addresses import address_of
from codedag.tune.compiler import Compiler, find_compiler
from codedag.tune.flow_source import AXES, SYMBOL, FlowSpec, FlowStep, source

Array = Any
Strides = tuple[int, ...]
LAYOUTS_MAX = 4096  # remembered per kernel
NO_ERRNO = "-fno-math-errno"  # bits and flags of a root stay the same; such chains were 0.7x numpy's speed without it
ODD = {1: "a NaN, or a number at a bound or out of a range", 2: "a result that numpy may warn of"}


def encoded(spec: FlowSpec) -> str:
    """A spec as text, for another process."""
    return json.dumps(asdict(spec))


def decoded(text: str) -> FlowSpec:
    """The spec of such a text."""
    found = json.loads(text)
    steps = [FlowStep(s["op"], s["dtype"], tuple(s["parameters"]), s["swapped"]) for s in found["steps"]]
    return FlowSpec(found["source"], tuple(steps))


class FlowKernel:
    """A kernel that is proven on this machine; safe to use from several threads."""

    engine = "c"
    declined: tuple[tuple[str, str], ...] = ()

    def __init__(self, spec: FlowSpec, entry: Any, note: str = "") -> None:
        self.spec, self.note = spec, note
        self._entry = entry
        self._places = ctypes.c_void_p * len(spec.inputs)
        self._numbers = ctypes.c_double * max(1, len(spec.scalars))
        self._loops: dict[tuple[Any, ...], Any] = {}
        self._address = address_of()

    def apply(self, inputs: Sequence[tuple[Array, Strides, int]], scalars: Sequence[float], out: Array) -> No | None:
        """Fills `out`; No if what it would hold is not sure to be what numpy gives.

        An input is an array, its strides along the axes of `out`, and where in it, in bytes, the first element lies.
        """
        key = (out.shape, out.strides, *[strides for _, strides, _ in inputs])
        loops = self._loops.get(key)
        if loops is None:
            if len(self._loops) >= LAYOUTS_MAX:
                self._loops.clear()
            loops = self._loops[key] = _loops(out, [strides for _, strides, _ in inputs])
        if isinstance(loops, No):
            return loops
        values = self._numbers(*scalars)
        address = self._address
        places = self._places(*[address(array) + first for array, _, first in inputs])
        said = self._entry(places, values, address(out), loops)
        return No(ODD[2 if said & 2 else 1]) if said else None


def _loops(out: Array, strides: list[Strides]) -> Any:
    """The loops of one layout, outermost first, as the kernel reads them; No if it cannot."""
    shape = out.shape
    order = sorted(range(len(shape)), key=lambda a: (shape[a] != 1, -out.strides[a]))
    expected = out.itemsize
    for axis in reversed(order):
        if shape[axis] != 1 and out.strides[axis] != expected:
            return No("out is not contiguous in any order of its axes")
        expected *= shape[axis]
    axes = _merged([(shape[a], tuple(one[a] for one in strides)) for a in order if shape[a] != 1])
    return _packed(axes, len(strides)) if len(axes) <= AXES else No("more axes than kernels take")


Loop = tuple[int, tuple[int, ...]]


def _merged(axes: list[Loop]) -> list[Loop]:
    done: list[Loop] = []
    for n, steps in axes:
        if done and all(outer == inner * n for outer, inner in zip(done[-1][1], steps, strict=True)):
            done[-1] = (done[-1][0] * n, steps)
        else:
            done.append((n, steps))
    return done


def _packed(axes: list[Loop], inputs: int) -> Any:
    padded = [(1, (0,) * inputs)] * (AXES - len(axes)) + axes
    numbers = [number for n, steps in padded for number in (n, *steps)]
    return (ctypes.c_int64 * len(numbers))(*numbers)


def load(library: Path) -> Any:
    """The function in a shared library, or why it cannot be loaded."""
    try:
        entry = getattr(ctypes.CDLL(str(library)), SYMBOL)
    except (OSError, AttributeError) as error:
        return No(f"the kernel cannot be loaded: {error}")
    entry.argtypes, entry.restype = (ctypes.c_void_p,) * 4, ctypes.c_int
    return entry


def compiler_for(spec: FlowSpec, compiler: Compiler) -> Compiler:
    """The compiler for a kernel: a root that may set errno is a call, and keeps the whole loop from using vectors."""
    roots = any(step.op == "sqrt" for step in spec.steps)
    return replace(compiler, flags=(*compiler.flags, NO_ERRNO)) if roots else compiler


def flow_kernel(spec: FlowSpec) -> FlowKernel | No:
    """The kernel of a spec, compiled and proven if it is not in the cache."""
    from codedag.tune.prove_flow import prove

    compiler = find_compiler()
    if isinstance(compiler, No):
        return compiler
    built = kernel_cache.build(source(spec), compiler_for(spec, compiler), lambda library: prove(library, spec))
    if isinstance(built, No):
        return built
    entry = load(built.path)
    return entry if isinstance(entry, No) else FlowKernel(spec, entry, built.note)
