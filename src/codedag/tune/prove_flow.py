"""Proofs of flow kernels: numpy runs the same steps in the same types, in a process of its own.

`python -m codedag.tune.prove_flow SO SPECJSON` exits with 0 if wherever the kernel says that its result is sure, it is
numpy's bit for bit and numpy raised no flag.  Arrays lie flush against pages that cannot be touched.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from codedag.ir.verdict import No, Verdict, Yes
from codedag.tune.compiler import run_quietly
from codedag.tune.flow import FlowKernel, decoded, encoded, load
from codedag.tune.flow_source import NONE, SCALAR, FlowSpec, FlowStep
from codedag.tune.prove_kernel import SECONDS, Fenced

CASES = 160
ARENA = 1 << 19  # bytes: nine elements of eight bytes along each of five axes
_START = (
    "import sys, json, runpy\n"
    "sys.path[:0] = [p for p in json.loads(sys.argv.pop(1)) if p not in sys.path]\n"
    "runpy.run_module('codedag.tune.prove_flow', run_name='__main__', alter_sys=True)\n"
)
_BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "min": np.minimum, "max": np.maximum,
}  # fmt: skip
_UNARY: dict[str, Callable[..., Any]] = {
    "neg": np.negative, "pos": np.positive, "square": np.square, "sqrt": np.sqrt, "abs": np.absolute,
}  # fmt: skip


def prove(library: Path, spec: FlowSpec, seconds: float = SECONDS) -> Verdict:
    """Yes if a child process found the kernel right, else how it failed."""
    if not sys.executable:
        return No("there is no interpreter to prove a kernel in")
    roots = json.dumps([str(Path(__file__).parents[2]), str(Path(np.__file__).parents[1])])
    command = (sys.executable, "-I", "-c", _START, roots, str(library), encoded(spec))
    quiet = {"CODEDAG_DISABLE": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = run_quietly(command, seconds, quiet)
    if isinstance(done, No):
        return No(f"the proof: {done.reason}")
    if done.returncode < 0:
        return No(f"the kernel crashed in its proof (signal {-done.returncode})")
    if done.returncode > 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        return No(f"the kernel failed its proof: {lines[-1][:300]}")
    return Yes


def reference(spec: FlowSpec, arrays: list[Any], scalars: list[float]) -> Any:
    """What numpy gives for the steps; raises FloatingPointError where it would warn."""
    value, arrays, scalars = arrays[0], arrays[1:], list(scalars)
    with np.errstate(all="raise", under="ignore"):
        for step in spec.steps:
            own: list[Any] = []
            for parameter in step.parameters:
                one = None if parameter == NONE else scalars.pop(0) if parameter == SCALAR else arrays.pop(0)
                own.append(None if one is None else np.asarray(one).astype(step.dtype))
            value = _stepped(step, value, own)
    return value


def _stepped(step: FlowStep, value: Any, own: list[Any]) -> Any:
    value = value.astype(step.dtype)
    if step.op == "cast":
        return value
    if step.op == "clip":
        return np.clip(value, *own)
    if step.op in _UNARY:
        return _UNARY[step.op](value)
    return _BINARY[step.op](own[0], value) if step.swapped else _BINARY[step.op](value, own[0])


class Prover:
    """Random jobs for one kernel; the first that is wrong is an error that names it."""

    def __init__(self, kernel: FlowKernel, seed: int = 0) -> None:
        self.kernel, self.spec = kernel, kernel.spec
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.memory = [Fenced(ARENA) for _ in self.spec.inputs]
        self.result = Fenced(ARENA)
        self.sure = 0

    def run(self, cases: int) -> None:
        """So many jobs."""
        for number in range(cases):
            self.one(f"case {number}", wild=number % 4 == 3)

    def one(self, what: str, wild: bool) -> None:
        """One job with random shape, layout and values."""
        shape = self._shape()
        arrays = [self._array(k, shape if k == 0 else self._part(shape), wild) for k in range(len(self.memory))]
        scalars = [float(self._values(np.dtype(one), 1, wild)[0]) for one in self.spec.scalars]
        strides = [np.broadcast_to(array, shape).strides for array in arrays]
        turned = self.random.sample(range(len(shape)), len(shape)) if self.random.random() < 0.4 else range(len(shape))
        dtype = np.dtype(self.spec.out)
        place = self.result.place(int(np.prod(shape)) * dtype.itemsize, self.random.random() < 0.5)
        place[:] = 0xA5
        out = place.view(dtype).reshape([shape[a] for a in turned]).transpose(np.argsort(turned))
        said = self.kernel.apply([(a, s, 0) for a, s in zip(arrays, strides, strict=True)], scalars, out)
        try:
            expected = np.broadcast_to(reference(self.spec, [np.array(a) for a in arrays], scalars), shape)
        except FloatingPointError:
            assert said is not None, f"{what}: numpy raises a flag, the kernel does not say so"
            return
        if said is None:
            self.sure += 1
            assert np.ascontiguousarray(expected).tobytes() == np.ascontiguousarray(out).tobytes(), f"{what}: differs"

    def _shape(self) -> tuple[int, ...]:
        choice = self.random.random()
        if choice < 0.35:
            return (self.random.randint(2, 60), self.random.randint(2, 60), self.random.choice((2, 3, 4)))
        if choice < 0.5:
            return (self.random.randint(1, 2000),)
        return tuple(self.random.randint(1, 9) for _ in range(self.random.randint(1, 5)))

    def _part(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that broadcasts to this one."""
        if self.random.random() < 0.4:
            return shape[-1:]
        part = tuple(n if self.random.random() < 0.5 else 1 for n in shape)
        return part[self.random.randint(0, len(part) - 1) :]

    def _array(self, k: int, shape: tuple[int, ...], wild: bool) -> Any:
        dtype = np.dtype(self.spec.inputs[k])
        size = int(np.prod(shape))
        at = self.memory[k].place(size * dtype.itemsize, self.random.random() < 0.5).view(dtype)
        at[:] = self._values(dtype, size, wild)
        turned = self.random.sample(range(len(shape)), len(shape)) if k == 0 else list(range(len(shape)))
        array = at.reshape([shape[a] for a in turned]).transpose(np.argsort(turned))
        flip = tuple(slice(None, None, -1) if k == 0 and self.random.random() < 0.2 else slice(None) for _ in shape)
        return array[flip]

    def _values(self, dtype: Any, size: int, wild: bool) -> Any:
        if dtype.kind != "f":
            info = np.iinfo(dtype)
            return self.numbers.integers(max(info.min, -(2**40)), min(info.max, 2**40), size, dtype, endpoint=True)
        values = self.numbers.uniform(0.1, 3.0, size).astype(dtype)
        if wild:
            values = (values * self.numbers.choice((-1.0, 1.0, 100.0, 1e-3), size).astype(dtype)).astype(dtype)
            odd = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, 3e38, -1.0, 255.5, 1e9]
            some = self.numbers.random(size) < 0.02
            values[some] = self.numbers.choice(odd, int(some.sum())).astype(dtype)
        return values


def main(library: str, text: str) -> None:
    """The proof of one library, in this process."""
    spec = decoded(text)
    entry = load(Path(library))
    if isinstance(entry, No):
        sys.exit(entry.reason)
    prover = Prover(FlowKernel(spec, entry))
    prover.run(CASES)


if __name__ == "__main__":
    main(*sys.argv[1:])
