"""The C text of a flow kernel: element-wise steps on numbers of any plain type, in one walk over memory.

Each step is computed in the type that numpy computes it in, with the operations that IEEE 754 fixes to the last bit
(+ - * / sqrt, casts, comparisons).  What is not fixed is not computed but told: the kernel returns something else than
0 if an operation raised a flag that numpy would warn of, or gave a NaN (whose bits depend on the order of operands), if
a zero met a bound that is a zero of the other sign, or if a cast to an integer met a number out of its range.
"""

from __future__ import annotations

from dataclasses import dataclass

SYMBOL = "codedag_flow"
AXES = 5
TYPES = {
    "f4": "float", "f8": "double", "u1": "uint8_t", "i1": "int8_t", "u2": "uint16_t", "i2": "int16_t",
    "i4": "int32_t", "u4": "uint32_t", "i8": "int64_t",
}  # fmt: skip
RANGES = {"u1": (-1, 256), "i1": (-129, 128), "u2": (-1, 65536), "i2": (-32769, 32768)}
BINARY = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
SCALAR, NONE = "scalar", "none"


@dataclass(frozen=True, slots=True)
class FlowStep:
    """One step: what it does, the type that it gives, its parameters, and whether the first of them stands before.

    A parameter is `scalar` (a number of the step's own type), `none` (a bound that is not there), or an array's type.
    """

    op: str
    dtype: str
    parameters: tuple[str, ...] = ()
    swapped: bool = False


@dataclass(frozen=True, slots=True)
class FlowSpec:
    """What is compiled into a kernel: the type of the source, and the steps."""

    source: str
    steps: tuple[FlowStep, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The types of the arrays that are read: the source, then the parameters that are arrays."""
        own = [p for step in self.steps for p in step.parameters if p not in (SCALAR, NONE)]
        return (self.source, *own)

    @property
    def scalars(self) -> tuple[str, ...]:
        """The types of the parameters that are single numbers."""
        return tuple(step.dtype for step in self.steps for p in step.parameters if p == SCALAR)

    @property
    def out(self) -> str:
        """The type of the result."""
        return self.steps[-1].dtype


def source(spec: FlowSpec) -> str:
    """The C text of a kernel."""
    types = [TYPES[one] for one in spec.inputs]
    lines, last = _body(spec)
    return "".join(
        (
            f"#define INPUTS {len(types)}\n",
            _HEAD,
            "".join(f"typedef {name} __attribute__((aligned(1), may_alias)) T{k};\n" for k, name in enumerate(types)),
            f"typedef {TYPES[spec.out]} __attribute__((aligned(1), may_alias)) TO;\n",
            _block(types, spec.scalars, lines, last),
            "".join(_fetch(k) for k in range(len(types))),
            _walk(types),
        )
    )


def _body(spec: FlowSpec) -> tuple[list[str], str]:
    """The statements for one element, and the name of the result."""
    lines, last, array, scalar = [f"const {TYPES[spec.source]} t0 = v0[i];"], "t0", 0, 0
    before = spec.source
    for number, step in enumerate(spec.steps, 1):
        kind, own = TYPES[step.dtype], []
        for parameter in step.parameters:
            if parameter == NONE:
                own.append("")
            elif parameter == SCALAR:
                own.append(f"s{scalar}")
                scalar += 1
            else:
                array += 1
                own.append(f"(({kind})v{array}[i])")
        lines += _statements(step, before, f"x{number}", last, own)
        last, before = f"t{number}", step.dtype
        lines.append(f"const {kind} {last} = x{number};")
    if before in ("f4", "f8"):
        lines.append(f"odd |= {last} != {last};")
    return lines, last


def _statements(step: FlowStep, before: str, name: str, last: str, own: list[str]) -> list[str]:
    kind = TYPES[step.dtype]
    if step.op == "cast":
        return [*_range_check(step.dtype, before, last), f"const {kind} {name} = ({kind}){last};"]
    value = f"(({kind}){last})"
    root, absolute = ("sqrtf", "fabsf") if step.dtype == "f4" else ("sqrt", "fabs")
    unary = {
        "neg": f"-{value}", "pos": value, "square": f"{value} * {value}",
        "sqrt": f"__builtin_{root}({value})", "abs": f"__builtin_{absolute}({value})",
    }  # fmt: skip
    if step.op in unary:
        return [f"const {kind} {name} = {unary[step.op]};"]
    if step.op in BINARY:
        first, second = (own[0], value) if step.swapped else (value, own[0])
        return [f"const {kind} {name} = {first} {BINARY[step.op]} {second};"]
    bounds = {"clip": own, "max": [*own, ""], "min": ["", *own]}[step.op]
    return _bounded(step.dtype, name, value, bounds)


def _range_check(to: str, before: str, last: str) -> list[str]:
    """What a number outside of an integer's range becomes is up to the machine."""
    if before not in ("f4", "f8") or to in ("f4", "f8"):
        return []
    low, high = RANGES[to]
    return [f"odd |= !(({last} > {low}) & ({last} < {high}));"]


def _bounded(dtype: str, name: str, value: str, bounds: list[str]) -> list[str]:
    kind, bits = TYPES[dtype], "bits32" if dtype == "f4" else "bits64"
    lines, here = [], value
    for number, (bound, sign) in enumerate(zip(bounds, "><", strict=True)):
        if bound:
            lines.append(f"odd |= ({here} == {bound}) & ({bits}({here}) != {bits}({bound}));")
            lines.append(f"const {kind} {name}_{number} = {here} {sign} {bound} ? {here} : {bound};")
            here = f"{name}_{number}"
    return [*lines, f"const {kind} {name} = {here};"]


def _block(types: list[str], scalars: tuple[str, ...], lines: list[str], last: str) -> str:
    arrays = "".join(f"const T{k} *restrict v{k}, " for k in range(len(types)))
    loaded = "".join(f"    const {TYPES[one]} s{k} = ({TYPES[one]})scalars[{k}];\n" for k, one in enumerate(scalars))
    body = "\n        ".join(lines)
    return f"""
static __attribute__((noinline)) int block({arrays}const double *scalars, TO *restrict o, int64_t n)
{{
    int odd = 0;
    (void)scalars;
{loaded}    for (int64_t i = 0; i < n; i++) {{
        {body}
        o[i] = {last};
    }}
    return odd;
}}
"""


def _fetch(k: int) -> str:
    """Elements of one input side by side: where they lie, or copied; what lies everywhere the same is copied once."""
    copies = "".join(f"    if (n == {n}) {{ {_rows(k, n)} return b; }}\n" for n in (2, 3, 4))
    return f"""
static const T{k} *fetch{k}(const char *from, int64_t far, int64_t near, int64_t rows, int64_t n, T{k} *b,
                          const char **filled)
{{
    T{k} *o = b;
    if (near == sizeof(T{k}) && (rows == 1 || far == n * near)) return (const T{k} *)from;
    if (rows == 1 ? near == 0 : far == 0) {{
        if (*filled == from) return b;
        *filled = from;
        if (rows == 1) n = CHUNK; else rows = CHUNK / n;
    }}
    else *filled = 0;
{copies}    for (int64_t r = 0; r < rows; r++, from += far, o += n)
        for (int64_t i = 0; i < n; i++) o[i] = *(const T{k} *)(from + i * near);
    return b;
}}
"""


def _rows(k: int, n: int) -> str:
    parts = " ".join(f"o[{i}] = *(const T{k} *)(from + {i} * near);" for i in range(n))
    return f"for (int64_t r = 0; r < rows; r++, from += far, o += {n}) {{ {parts} }}"


def _walk(types: list[str]) -> str:
    """Rows of the innermost axis in pieces; if it is short, many rows at a time."""
    every = range(len(types))
    buffers = "".join(f"    T{k} b{k}[CHUNK]; const char *f{k} = 0;\n" for k in every)
    fetched = ", ".join(f"fetch{k}(p[{k}] + at[{k}], far[{k}], near[{k}], rows, n, b{k}, &f{k})" for k in every)
    return f"""
int {SYMBOL}(const char *const *in, const double *scalars, char *out, const Axis *a)
{{
    TO *o = (TO *)out;
    int odd = 0;
    const int64_t *far = a[3].step, *near = a[4].step, inner = a[4].n;
    const int64_t short_ = inner <= SHORT, many = inner ? CHUNK / inner : 1;
{buffers}    clear();
    for (int64_t w = 0; w < a[0].n; w++)
    for (int64_t x = 0; x < a[1].n; x++)
    for (int64_t y = 0; y < a[2].n; y++) {{
        const char *p[INPUTS];
        for (int k = 0; k < INPUTS; k++) p[k] = in[k] + w * a[0].step[k] + x * a[1].step[k] + y * a[2].step[k];
        for (int64_t z = 0, rows; z < a[3].n; z += rows) {{
            rows = short_ ? (a[3].n - z < many ? a[3].n - z : many) : 1;
            for (int64_t j = 0, n; j < inner; j += n) {{
                int64_t at[INPUTS];
                n = short_ || inner - j < CHUNK ? inner - j : CHUNK;
                for (int k = 0; k < INPUTS; k++) at[k] = z * far[k] + j * near[k];
                odd |= block({fetched}, scalars, o, rows * n);
                o += rows * n;
            }}
        }}
    }}
    return odd | raised() << 1;
}}
"""


_HEAD = """
#include <stdint.h>
#include <string.h>
#define CHUNK 1024
#define SHORT 64 /* an innermost axis up to this is walked many rows at a time */
typedef struct { int64_t n, step[INPUTS]; } Axis;
#ifdef __SSE2__
#include <immintrin.h>
#define RAISED (0x01 | 0x04 | 0x08) /* invalid, division by zero, overflow */
static void clear(void) { _mm_setcsr(_mm_getcsr() & ~0x3fu); }
static int raised(void) { return (_mm_getcsr() & RAISED) != 0; }
#else
#include <fenv.h>
static void clear(void) { feclearexcept(FE_ALL_EXCEPT); }
static int raised(void) { return fetestexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW) != 0; }
#endif
static inline uint32_t bits32(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
static inline uint64_t bits64(double x) { uint64_t u; memcpy(&u, &x, 8); return u; }
"""
