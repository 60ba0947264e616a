"""Probes of this machine: the peak of fused multiply-adds, and in which way numpy adds products up."""

# ruff: noqa: E501 - lines of C are kept whole
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from codedag.ir.verdict import No, Verdict, Yes
from codedag.tune import kernel_cache
from codedag.tune.compiler import Compiler, find_compiler
from codedag.tune.measure.process import MeasuringProcess
from codedag.tune.program.orders import remembered
from codedag.tune.program.program import Program
from codedag.tune.schedule.contraction import contraction_of

PRODUCTS_MAX = 1 << 25  # of a question about order; larger products are in blocks of a library
SOURCE = """#include <stdint.h>
#if defined(__AVX512F__)
#define BYTES 64
#define KEEP "+v"
#elif defined(__SSE2__)
#define BYTES 32
#define KEEP "+x"
#else
#define BYTES 16
#define KEEP "+w"
#endif
typedef float Vf4 __attribute__((vector_size(BYTES)));
typedef double Vf8 __attribute__((vector_size(BYTES)));
static volatile double sink;
#define EACH(M, V) M(0, V) M(1, V) M(2, V) M(3, V) M(4, V) M(5, V) M(6, V) M(7, V) M(8, V) M(9, V) M(10, V) M(11, V)
#define BEGIN(k, V) V a##k = x*(k + 1); __asm__ volatile("" : KEEP(a##k));
#define STEP(k, V) a##k = a##k*x + y; __asm__ volatile("" : KEEP(a##k));
#define ADD(k, V) s += a##k;
#define PEAK(V, T, name) \\
double name(long n) \\
{ \\
    V x, y, s = {0}; \\
    for (unsigned i = 0; i < sizeof(V)/sizeof(T); i++) { x[i] = 0.999f; y[i] = 0.0001f; } \\
    __asm__ volatile("" : KEEP(x), KEEP(y)); \\
    EACH(BEGIN, V) \\
    for (long q = 0; q < n; q++) { EACH(STEP, V) } \\
    EACH(ADD, V) \\
    sink = s[0]; \\
    return (double)n*12*2*(sizeof(V)/sizeof(T)); \\
}
PEAK(Vf4, float, codedag_peak_f4)
PEAK(Vf8, double, codedag_peak_f8)
#define LANES(T) (16/(long)sizeof(T))
#define ADDED(T, name, fma) \\
static T name##_lanes(const T *a, const T *b, int64_t n) \\
{ \\
    T s[LANES(T)] = {0}; int64_t k = 0; \\
    for (; k + 4*LANES(T) <= n; k += 4*LANES(T)) \\
        for (int u = 3; u >= 0; u--) for (int l = 0; l < LANES(T); l++) s[l] = a[k + u*LANES(T) + l]*b[k + u*LANES(T) + l] + s[l]; \\
    for (; k < n; k += LANES(T)) for (int l = 0; l < LANES(T); l++) s[l] = (k + l < n ? a[k + l]*b[k + l] : 0) + s[l]; \\
    return (LANES(T) == 4 ? (s[0] + s[1]) + (s[2%LANES(T)] + s[3%LANES(T)]) : s[0] + s[1]) + (T)0; \\
} \\
static T name##_one(const T *a, const T *b, const int64_t *t, long n, int fused, T s) \\
{ \\
    if (n == 0) return fused ? fma(*a, *b, s) : s + *a * *b; \\
    for (int64_t i = 0; i < t[0]; i++) s = name##_one(a + i*t[1], b + i*t[2], t + 3, n - 1, fused, s); \\
    return s; \\
} \\
static T *name##_all(const T *a, const T *b, T *c, const int64_t *t, long kept, long all, int fused) \\
{ \\
    if (kept == 0) { *c = fused == 2 ? name##_lanes(a, b, t[0]) : name##_one(a, b, t, all, fused, (T)0); return c + 1; } \\
    for (int64_t i = 0; i < t[0]; i++) c = name##_all(a + i*t[1], b + i*t[2], c, t + 3, kept - 1, all - 1, fused); \\
    return c; \\
} \\
void name(const T *a, const T *b, T *c, const int64_t *t, long kept, long all, long fused) \\
{ name##_all(a, b, c, t, kept, all, (int)fused); }
ADDED(float, codedag_added_f4, __builtin_fmaf)
ADDED(double, codedag_added_f8, __builtin_fma)
"""
PEAK_FLAGS = ("-ffp-contract=fast",)


def _library(flags: tuple[str, ...]) -> Path | No:
    compiler = find_compiler()
    if isinstance(compiler, No):
        return compiler
    own = Compiler(compiler.name, compiler.command, (*compiler.flags, *flags), compiler.version, compiler.tried)
    built = kernel_cache.build(SOURCE, own, _never_loaded_here)
    return built if isinstance(built, No) else built.path


def _never_loaded_here(library: Path) -> Verdict:
    """Probes run only in the measuring process, so there is nothing to prove for this one."""
    return Yes


def peak_gflops(process: MeasuringProcess, dtype: str) -> float | No:
    """Operations of fused multiply-adds of one type that one thread reaches at this moment."""
    library = _library(PEAK_FLAGS)
    if isinstance(library, No):
        return library
    said = process.ask({"do": "peak", "library": str(library), "dtype": dtype})
    return said if isinstance(said, No) else float(said["peak"])


def product_order(program: Program) -> str:
    """How numpy adds the products of this program up: `fused`, `unfused` (one after the other), `lanes`, or nothing."""
    contraction = contraction_of(program)
    if contraction is None or not 0 < contraction.flops <= 2 * PRODUCTS_MAX:
        return ""
    one = program.statements[0]
    shapes = [list(program.buffers[name].shape) for name in program.inputs]
    question: list[Any] = [
        "order of products, zeros apart",
        np.__version__,
        one.how,
        program.result.dtype,
        shapes,
        library_threads(),
    ]
    return remembered(question, lambda: _ask_products(program))


def library_threads() -> int:
    """Threads that the library of products may use: with others, its sums may have other parts."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return os.cpu_count() or 1


def _ask_products(program: Program) -> str | None:
    """The order, or None if it cannot be asked at this time."""
    library = _library(())
    if isinstance(library, No):
        return None
    with MeasuringProcess(one_thread=False) as process:
        said = process.ask({"do": "order", "library": str(library), "program": program.encoded()})
    return None if isinstance(said, No) else str(said["order"])
