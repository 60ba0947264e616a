"""Proofs: a kernel runs on hard layouts in a process of its own before it may enter the user's.

`python -m codedag.tune.prove_kernel SO SPECJSON` loads the library (for SO = "numba" it compiles the numba
walk), compares it bit for bit with numpy and exits with 0. Inputs lie flush against pages that cannot be
touched and `out` between guard bytes: a stray read is a crash, a stray write is seen, only the child dies.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from codedag.ir.verdict import No, Verdict, Yes
from codedag.tune.compiler import run_quietly
from codedag.tune.layout import Array, Layout, layout_of
from codedag.tune.table_c import Apply, load_c
from codedag.tune.table_reference import table_reference

NUMBA = "numba"  # what stands for the library when the engine is numba
CASES = 300
SECONDS = 120
GUARD = 128  # bytes on either side of `out`
ARENA = 1 << 20
ROWS_NBYTES = 1 << 21  # of the largest table in a proof
BITS = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}
_START = (
    "import sys, json, runpy\n"
    "sys.path[:0] = [p for p in json.loads(sys.argv.pop(1)) if p not in sys.path]\n"
    "runpy.run_module('codedag.tune.prove_kernel', run_name='__main__', alter_sys=True)\n"
)


def prove(library: Path | str, itemsize: int, channels: int, seconds: float = SECONDS) -> Verdict:
    """Yes if a child process found the kernel right, else how it failed."""
    if not sys.executable:
        return No("there is no interpreter to prove a kernel in")
    roots = json.dumps([str(Path(__file__).parents[2]), str(Path(np.__file__).parents[1])])
    spec = json.dumps({"itemsize": itemsize, "channels": channels})
    command = (sys.executable, "-I", "-c", _START, roots, str(library), spec)
    quiet = {"CODEDAG_DISABLE": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = run_quietly(command, seconds, quiet)
    if isinstance(done, No):
        return No(f"the proof: {done.reason}")
    if done.returncode < 0:
        return No(f"the kernel crashed in its proof ({_signal(-done.returncode)})")
    if done.returncode > 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        return No(f"the kernel failed its proof: {lines[-1][:300]}")
    return Yes


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Fenced:
    """Memory with an untouchable page before and after it (where the system lets us forbid pages)."""

    def __init__(self, nbytes: int) -> None:
        page = mmap.PAGESIZE
        inner = -(-nbytes // page) * page
        self._map = mmap.mmap(-1, inner + 2 * page)
        self._whole = np.frombuffer(self._map, np.uint8)
        self.bytes: Array = self._whole[page : page + inner]
        self._forbid(0, page)
        self._forbid(page + inner, page)

    def _forbid(self, start: int, nbytes: int) -> None:
        try:
            protect = ctypes.CDLL(None).mprotect
        except (OSError, AttributeError, TypeError):
            return
        protect(ctypes.c_void_p(int(self._whole.ctypes.data) + start), ctypes.c_size_t(nbytes), 0)

    def place(self, nbytes: int, at_end: bool) -> Array:
        """`nbytes` bytes that touch the page behind or before."""
        return self.bytes[self.bytes.size - nbytes :] if at_end else self.bytes[:nbytes]


class Prover:
    """Random jobs for one kernel; the first that differs from numpy is an error that names it."""

    def __init__(self, apply: Apply, itemsize: int, channels: int, seed: int = 0) -> None:
        self.apply, self.itemsize, self.channels = apply, itemsize, channels
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.pixels, self.tables = Fenced(ARENA), Fenced(ROWS_NBYTES)
        self.target = Fenced(ARENA * itemsize)

    def run(self, cases: int = CASES) -> Verdict:
        """Yes after that many right answers, else the first wrong one."""
        for number in range(cases):
            view, row_step, order = self._job(number)
            wrong = self._check(view, row_step, order)
            if wrong:
                job = f"shape {view.shape}, strides {view.strides}, row steps {row_step}"
                return No(f"{wrong} (case {number}: {job})")
        return Yes

    def _job(self, number: int) -> tuple[Array, tuple[int, ...], tuple[int, ...]]:
        """A view, its row steps, and the order of axes in which `out` lies."""
        if number % 3 == 0:
            return self._image(number)
        ndim = self.random.randint(1, 5)
        most = (4000, 120, 24, 9, 7)[ndim - 1]
        shape = [self.random.choice((1, 2, 3, self.channels or 4, self.random.randint(1, most))) for _ in range(ndim)]
        if self.random.random() < 0.05:
            shape[self.random.randrange(ndim)] = 0
        view = self._cut(self._filled(shape))
        steps = [self.random.choice((0, 0, 0, 1, 2)) for _ in range(ndim)]
        if _rows(view, steps) * 256 * self.itemsize > ROWS_NBYTES:
            steps = [0] * ndim
        return view, tuple(steps), tuple(self.random.sample(range(ndim), ndim))

    def _image(self, number: int) -> tuple[Array, tuple[int, ...], tuple[int, ...]]:
        """The layouts that pipelines have: HWC to HWC or CHW, alone or as a batch, flipped or cropped."""
        many = self.channels or self.random.choice((1, 2, 3, 4, 5))
        wide = self.random.choice((1, 2, 63, 64, 65, self.random.randint(1, 300)))
        view = self._filled([self.random.randint(1, 2), self.random.randint(1, 40), wide, many])
        if number % 2:
            view = self._cut(view)
        orders = ((0, 1, 2, 3), (0, 3, 1, 2), (0, 1, 3, 2))
        return view, (self.random.choice((0, 0, many)), 0, 0, 1), self.random.choice(orders)

    def _filled(self, shape: list[int]) -> Array:
        """An array of random bytes that reaches an edge of its memory, its axes stored in some order."""
        stored = self.random.sample(range(len(shape)), len(shape)) if self.random.random() < 0.5 else None
        extents = [shape[a] for a in stored] if stored else shape
        flat = self.pixels.place(int(np.prod(extents)), self.random.random() < 0.5)
        flat[:] = self.numbers.integers(0, 256, flat.size, dtype=np.uint8)
        view = flat.reshape(extents)
        return view.transpose(np.argsort(stored)) if stored else view

    def _cut(self, view: Array) -> Array:
        """The same array flipped, cropped or thinned along each axis, or not."""
        return view[tuple(self._slice(n) for n in view.shape)]

    def _slice(self, n: int) -> slice:
        kind = self.random.randrange(6)
        if kind == 0:
            return slice(None, None, -1)
        if kind == 1 and n > 2:
            return slice(self.random.randrange(n // 2), n - self.random.randrange(n // 2))
        return slice(None, None, self.random.choice((2, 3, 5, -2))) if kind == 2 else slice(None)

    def _check(self, view: Array, row_step: tuple[int, ...], order: tuple[int, ...]) -> str:
        """What is wrong with the kernel's answer, or nothing."""
        table = self._table(_rows(view, row_step))
        memory = self.target.place(view.size * self.itemsize + 2 * GUARD, self.random.random() < 0.5)
        fill = self.random.randrange(256)
        memory[:] = fill
        extents = [view.shape[a] for a in order]
        flat = memory[GUARD : memory.size - GUARD].view(BITS[self.itemsize])
        out = flat.reshape(extents).transpose(np.argsort(order))
        layout = layout_of(view.shape, view.strides, row_step, out.strides, self.itemsize)
        if not isinstance(layout, Layout):
            return layout.reason
        if layout.size:
            self.apply(layout, row_step, view, table, out)
        if (memory[:GUARD] != fill).any() or (memory[memory.size - GUARD :] != fill).any():
            return "it wrote outside of out"
        expected = np.ascontiguousarray(table_reference(view, table, row_step).transpose(order))
        same = expected.reshape(-1).view(np.uint8).tobytes() == flat.view(np.uint8).tobytes()
        return "" if same else "it differs from numpy"

    def _table(self, rows: int) -> Array:
        flat = self.tables.place(rows * 256 * self.itemsize, self.random.random() < 0.5)
        flat[:] = self.numbers.integers(0, 256, flat.size, dtype=np.uint8)
        return flat.view(BITS[self.itemsize]).reshape(rows, 256)


def _rows(view: Array, row_step: Sequence[int]) -> int:
    """The rows that a job's table has."""
    shape: tuple[int, ...] = view.shape
    return 1 + sum(max(n - 1, 0) * step for n, step in zip(shape, row_step, strict=True))


def _apply_of(library: str) -> Apply | No:
    if library != NUMBA:
        return load_c(Path(library))
    from codedag.tune.table_numba import apply_numba

    return apply_numba


def main(arguments: list[str]) -> int:
    """0 if the kernel named by the arguments is right, else 1 with the reason on stderr."""
    _no_core_file()
    library, spec = arguments[0], json.loads(arguments[1])
    apply = _apply_of(library)
    if isinstance(apply, No):
        verdict: Verdict = apply
    else:
        verdict = Prover(apply, int(spec["itemsize"]), int(spec["channels"])).run(int(spec.get("cases", CASES)))
    if isinstance(verdict, No):
        sys.stderr.write(verdict.reason + "\n")
        return 1
    return 0


def _no_core_file() -> None:
    """A crash here is an answer, not something to keep on the user's disk."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    except (ImportError, ValueError, OSError):
        pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
