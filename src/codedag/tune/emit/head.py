"""The first lines of every generated C text: flags of the processor, and registers that are kept."""

from __future__ import annotations

SYMBOL = "codedag_kernel"
HEAD = """#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
static void clear(void) { __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() & ~0x3fu); }
static int raised(void) { return (__builtin_ia32_stmxcsr() & 0x0d) != 0; } /* invalid, division by zero, overflow */
#ifdef __AVX512F__
#define KEEP "+v"
#else
#define KEEP "+x"
#endif
#else
#include <fenv.h>
static void clear(void) { feclearexcept(FE_ALL_EXCEPT); }
static int raised(void) { return fetestexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW) != 0; }
#define KEEP "+w"
#endif
"""
