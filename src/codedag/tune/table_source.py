"""The C text of a table kernel: one file of loops, with a byte-permute path where the machine has one.

Measured on a Zen 4 core, 224x224x3 uint8 HWC -> CHW float32, best microseconds of 800 interleaved rounds:
planar loops 54, pixel loop over all planes 46, AVX2 gather 62-88, AVX-512 VBMI byte permutes on
packed indices 20. A later run (300 rounds) of the text below, which loads indices by permutes too: 15,
and 47 where it is compiled without them.
So: byte permutes where `-march=native` offers them, plain planar loops everywhere else.
"""

from __future__ import annotations

LANES = 64  # bytes in one AVX-512 register: elements looked up at a time
SYMBOL = "codedag_table"


def source(itemsize: int, channels: int) -> str:
    """The C text for elements of `itemsize` bytes, with so many interleaved channels (0: none)."""
    wide = _WIDE.replace("@LOOK64@", _look64(itemsize)).replace("@ORDER@", _order(itemsize))
    return "".join(
        (
            f"#define ITEM {itemsize}\n#define CHANNELS {channels}\n#define T_ {_ELEMENTS[itemsize]}\n",
            _HEAD,
            wide if itemsize <= 8 else "",
            _LINES,
            _PIXELS if channels else "",
            _WALK,
        )
    )


_ELEMENTS = {
    1: "uint8_t",
    2: "uint16_t",
    4: "uint32_t",
    8: "uint64_t",
    16: "struct __attribute__((packed)) { uint64_t low, high; }",
}


def _order(itemsize: int) -> str:
    """The byte order of 64 indices that makes the unpacked results come out in memory order.

    Unpacking works inside 128-bit lanes: result q holds, in lane j, the elements from byte q*per of lane j.
    """
    per = 16 // itemsize
    places = [
        q * (LANES // itemsize) + lane * per + r for lane in range(4) for q in range(itemsize) for r in range(per)
    ]
    return ", ".join(map(str, places))


def _look64(itemsize: int) -> str:
    """The statements that look 64 indices up in `itemsize` byte planes and store 64 elements."""
    lines = [f"__m512i p{k} = plane(p + {256 * k}, x, high);" for k in range(itemsize)]
    columns = [[f"p{k}"] for k in range(itemsize)]
    bits = 8
    while len(columns) > 1:
        columns, more = _unpack(columns, bits)
        lines += more
        bits *= 2
    lines += [f"_mm512_storeu_si512((char *)o + {LANES * q}, {name});" for q, name in enumerate(columns[0])]
    return "\n    ".join(lines)


def _unpack(columns: list[list[str]], bits: int) -> tuple[list[list[str]], list[str]]:
    """Neighbouring columns interleaved pair by pair, and the statements that do it."""
    joined, lines = [], []
    for k in range(0, len(columns), 2):
        column: list[str] = []
        for low, high in zip(columns[k], columns[k + 1], strict=True):
            for half in ("lo", "hi"):
                name = f"u{bits}_{k}_{len(column)}"
                lines.append(f"__m512i {name} = _mm512_unpack{half}_epi{bits}({low}, {high});")
                column.append(name)
        joined.append(column)
    return joined, lines


_HEAD = """
#include <stdint.h>
#include <string.h>
#if defined(__AVX512VBMI__) && defined(__AVX512BW__) && ITEM <= 8
#define WIDE 1
#include <immintrin.h>
#else
#define WIDE 0
typedef int Wide;                  /* never made: plain loops only */
#endif
#define BLOCK 2048                 /* indices packed at a time: stays in the first-level cache */
#define NEAR(step) (-4 <= (step) && (step) <= 4)
#define ROWS (CHANNELS >= 2 && CHANNELS <= 4 && ITEM <= 4 ? CHANNELS : 1) /* 8 bytes: plain loops win */
#define ENOUGH 1024                /* elements per table row below which splitting the row does not pay */
typedef T_ __attribute__((aligned(1), may_alias)) T;
typedef struct { int64_t n, view, row; } Axis;

static void line(const uint8_t *restrict v, int64_t step, const T *restrict t, T *restrict o, int64_t n)
{
    if (step == 1)
        for (int64_t i = 0; i < n; i++) o[i] = t[v[i]];
    else
        for (int64_t i = 0; i < n; i++) o[i] = t[v[i * step]];
}

static void line_of_rows(const uint8_t *restrict v, int64_t step, const T *restrict t, int64_t row,
                         T *restrict o, int64_t n)
{
    for (int64_t i = 0; i < n; i++) o[i] = t[256 * row * i + v[i * step]];
}
"""

_WIDE = """
#if WIDE
/* A table row as ITEM planes of 256 bytes, so that a byte permute looks 64 indices up at once. */
typedef struct { const T *row; uint8_t plane[ITEM * 256] __attribute__((aligned(64))); } Split;

static void split(Split *s, const T *row)
{
    const uint8_t *bytes = (const uint8_t *)row;
    if (s->row == row) return;
    s->row = row;
    for (int k = 0; k < ITEM; k++)
        for (int i = 0; i < 256; i++) s->plane[k * 256 + i] = bytes[i * ITEM + k];
}

static inline __m512i plane(const uint8_t *p, __m512i x, __mmask64 high)
{
    __m512i a = _mm512_permutex2var_epi8(_mm512_load_si512(p), x, _mm512_load_si512(p + 64));
    __m512i b = _mm512_permutex2var_epi8(_mm512_load_si512(p + 128), x, _mm512_load_si512(p + 192));
    return _mm512_mask_blend_epi8(high, a, b);
}

static const uint8_t order[64] __attribute__((aligned(64))) = {@ORDER@};

/* Stores the 64 elements whose indices are x, given in the order above. */
static inline void look64(__m512i x, const uint8_t *restrict p, T *restrict o)
{
    __mmask64 high = _mm512_movepi8_mask(x);
    @LOOK64@
}

/* How to load 64 indices that lie `step` bytes apart (-4 to 4) and touch no byte before or after them. */
typedef struct { __m512i at; __mmask64 part[4], last; int64_t first; int parts; } Take;

static Take take_of(int64_t step)
{
    const int64_t far = step < 0 ? -step : step;
    uint8_t at[64];
    Take k = {.first = step < 0 ? 63 * step : 0, .parts = (int)(63 * far / 64 + 1)};
    for (int i = 0; i < 64; i++) {
        int64_t offset = far * (step < 0 ? 63 - order[i] : order[i]);
        at[i] = (uint8_t)(offset % 64);
        k.part[offset / 64] |= (__mmask64)1 << i;
    }
    k.at = _mm512_loadu_si512(at);
    k.last = ~(__mmask64)0 >> (64 * k.parts - (63 * far + 1));
    return k;
}

static inline __m512i take64(const uint8_t *v, const Take *k)
{
    const uint8_t *from = v + k->first, *end = from + 64 * (k->parts - 1);
    __m512i x = _mm512_maskz_loadu_epi8(k->last, end);
    x = _mm512_maskz_permutexvar_epi8(k->part[k->parts - 1], k->at, x);
    for (int i = 0; i < k->parts - 1; i++)
        x = _mm512_mask_permutexvar_epi8(x, k->part[i], k->at, _mm512_loadu_si512(from + 64 * i));
    return x;
}

/* What a wide walk keeps: the rows it looks up in, how to load its own indices, and packed ones. */
typedef struct { Split row[ROWS]; Take take, packed; } Wide;

static void line_near(const uint8_t *restrict v, int64_t step, const Take *k, const Split *restrict s,
                      T *restrict o, int64_t n)
{
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) look64(take64(v + i * step, k), s->plane, o + i);
    if (i < n) look64(take64(v + (n - 64) * step, k), s->plane, o + n - 64); /* the same values again */
}

static void line_wide(const uint8_t *restrict v, int64_t step, const Wide *restrict w, T *restrict o,
                      int64_t n)
{
    uint8_t b[BLOCK];
    if (n < 64) { line(v, step, w->row->row, o, n); return; }
    if (NEAR(step)) { line_near(v, step, &w->take, w->row, o, n); return; }
    for (int64_t j = 0; j < n; j += BLOCK) {
        int64_t m = n - j < BLOCK ? n - j : BLOCK;
        for (int64_t i = 0; i < m; i++) b[i] = v[(j + i) * step];
        if (m < 64) line(b, 1, w->row->row, o + j, m);
        else line_near(b, 1, &w->packed, w->row, o + j, m);
    }
}
#endif
"""

_LINES = """
/* How many neighbours in `out` share one table row, looking outwards from axis `k`. */
static inline int64_t run_of(const Axis *a, int k)
{
    int64_t n = 1;
    for (; k >= 0 && a[k].row == 0; k--) n *= a[k].n;
    return n;
}

static void lines(const uint8_t *v, const T *t, T *o, const Axis *a, Wide *w)
{
    for (int64_t i = 0; i < a[3].n; i++, o += a[4].n) {
        const uint8_t *from = v + i * a[3].view;
        const T *row = t + 256 * i * a[3].row;
#if WIDE
        if (w) { split(w->row, row); line_wide(from, a[4].view, w, o, a[4].n); continue; }
#endif
        (void)w;
        if (a[4].row) line_of_rows(from, a[4].view, row, a[4].row, o, a[4].n);
        else line(from, a[4].view, row, o, a[4].n);
    }
}
"""

_PIXELS = """
static void pixels(const uint8_t *restrict v, const T *restrict t, T *restrict o, const Axis *a)
{
    const int64_t step = a[3].view, side = a[4].view, row = 256 * a[4].row;
    for (int64_t i = 0; i < a[3].n; i++)
        for (int c = 0; c < CHANNELS; c++) o[i * CHANNELS + c] = t[c * row + v[i * step + c * side]];
}

#if WIDE && ROWS > 1
/* 64 pixels at a time: planes looked up side by side, then interleaved; n >= 64, step -4 to 4. */
static inline void pixels64(const uint8_t *restrict v, int64_t side, const Take *k, const Split *restrict s,
                            T *restrict o)
{
    T p[CHANNELS][64] __attribute__((aligned(64)));
    for (int c = 0; c < CHANNELS; c++) look64(take64(v + c * side, k), s[c].plane, p[c]);
    for (int i = 0; i < 64; i++)
        for (int c = 0; c < CHANNELS; c++) o[i * CHANNELS + c] = p[c][i];
}

static void pixels_wide(const uint8_t *restrict v, const Wide *restrict w, T *restrict o, const Axis *a)
{
    const int64_t n = a[3].n, step = a[3].view, side = a[4].view;
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) pixels64(v + i * step, side, &w->take, w->row, o + i * CHANNELS);
    if (i < n) pixels64(v + (n - 64) * step, side, &w->take, w->row, o + (n - 64) * CHANNELS);
}
#endif

static void pixel_lines(const uint8_t *v, const T *t, T *o, const Axis *a, Wide *w)
{
#if WIDE && ROWS > 1
    if (w) {
        for (int c = 0; c < CHANNELS; c++) split(w->row + c, t + 256 * c * a[4].row);
        pixels_wide(v, w, o, a);
        return;
    }
#endif
    (void)w;
    pixels(v, t, o, a);
}
"""

_WALK = """
/* Writes `out` from its first element to its last; a[5] are outermost first, padded in front with n = 1. */
void codedag_table(const uint8_t *view, const T *table, T *out, const Axis *a)
{
    Wide *w = 0;
    int pixelwise = 0;
    (void)pixelwise;
#if CHANNELS
    pixelwise = a[4].row && a[4].n == CHANNELS && a[3].row == 0;
#endif
#if WIDE
    Wide wide;
    const int64_t step = a[pixelwise ? 3 : 4].view;
    const int64_t run = run_of(a, pixelwise ? 3 : 4);
    if (run >= ENOUGH && (!pixelwise || (ROWS > 1 && a[3].n >= 64 && NEAR(step)))) {
        w = &wide;
        for (int k = 0; k < ROWS; k++) w->row[k].row = 0;
        w->take = take_of(NEAR(step) ? step : 1);
        w->packed = take_of(1);
    }
#endif
    for (int64_t i = 0; i < a[0].n; i++)
        for (int64_t j = 0; j < a[1].n; j++)
            for (int64_t k = 0; k < a[2].n; k++, out += a[3].n * a[4].n) {
                const uint8_t *v = view + i * a[0].view + j * a[1].view + k * a[2].view;
                const T *t = table + 256 * (i * a[0].row + j * a[1].row + k * a[2].row);
#if CHANNELS
                if (pixelwise) { pixel_lines(v, t, out, a, w); continue; }
#endif
                lines(v, t, out, a, w);
            }
}
"""
