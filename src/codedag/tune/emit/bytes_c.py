"""The C text of a map of small integers: by table or by one multiplication and addition, channels taken apart or not.

The entry is `int codedag_kernel(const void *const *in, void *out, const void *table, long pixels, long tile, long)`; `table`
holds a row of values for each channel, or slopes and offsets.
"""

# ruff: noqa: E501 - lines of C are kept whole
from __future__ import annotations

from codedag.tune.emit.element_c import TYPES
from codedag.tune.emit.head import HEAD, SYMBOL
from codedag.tune.schedule.byte_map import ByteMap

Point = dict[str, int | str]
TILE_MAX = 2048  # pixels whose channels are taken apart at a time


def bytes_source(mapping: ByteMap, point: Point) -> str:
    """The C text of one point."""
    source = mapping.staged.program.buffers[mapping.data.buffer]
    kinds = f"typedef {TYPES[source.dtype]} S;\ntypedef {TYPES[mapping.staged.stages[-1].target.dtype]} T;\n"
    body = {"shuffle": _shuffle, "pixel": _pixel, "planar": _planar}[str(point["style"])](mapping, point)
    number = mapping.staged.program.inputs.index(mapping.data.buffer)
    return (
        f"{HEAD}{kinds}{_one(mapping, point)}"
        f"int {SYMBOL}(const void *const *in, void *out, const void *table, long pixels, long tile, long b)\n{{\n"
        f"    const S *restrict x = in[{number}]; T *restrict o = out; (void)tile; (void)b;\n{body}    return 0;\n}}\n"
    )


def _one(mapping: ByteMap, point: Point) -> str:
    """The function of one element and the parameters of each channel."""
    if point["by"] == "line":
        return (
            f"#define LOAD(c) const double s##c = ((const double *)table)[c], f##c = ((const double *)table)[{mapping.channels} + c];\n"
            "#define ONE(c, v) (T)((double)(v)*s##c + f##c)\n"
        )
    size = 65536 if mapping.staged.program.buffers[mapping.data.buffer].dtype == "i2" else 256
    shift = "" if mapping.staged.program.buffers[mapping.data.buffer].dtype == "u1" else f" + {size // 2}"
    return f"#define LOAD(c) const T *restrict t##c = (const T *)table + c*{size};\n#define ONE(c, v) t##c[(int)(v){shift}]\n"


def _loads(mapping: ByteMap) -> str:
    return "    " + " ".join(f"LOAD({c})" for c in range(mapping.channels)) + "\n"


def _unroll(point: Point) -> str:
    return f"#pragma GCC unroll {point['unroll']}\n" if int(point["unroll"]) > 1 else ""


def _planar(mapping: ByteMap, point: Point) -> str:
    """A plane after the other, in tiles of pixels."""
    planes = "".join(
        f"{_unroll(point)}        for (long p = q; p < end; p++)"
        f" o[p*{mapping.out_pixel}L + {c * mapping.out_channel}L] = ONE({c}, x[p*{mapping.pixel}L + {c * mapping.channel}L]);\n"
        for c in range(mapping.channels)
    )
    return (
        f"{_loads(mapping)}    for (long q = 0; q < pixels; q += tile) {{\n"
        f"        const long end = pixels - q < tile ? pixels : q + tile;\n{planes}    }}\n"
    )


def _pixel(mapping: ByteMap, point: Point) -> str:
    """All channels of a pixel at once; the compiler finds the vectors."""
    stores = " ".join(
        f"o[p*{mapping.out_pixel}L + {c * mapping.out_channel}L] = ONE({c}, x[p*{mapping.pixel}L + {c * mapping.channel}L]);"
        for c in range(mapping.channels)
    )
    return f"{_loads(mapping)}{_unroll(point)}    for (long p = 0; p < pixels; p++) {{ {stores} }}\n"


def _shuffle(mapping: ByteMap, point: Point) -> str:
    """Channels taken apart by byte permutations into planes that stay in the smallest cache, then planes computed.

    Conversions of vectors by four times their width were taken apart into scalars by gcc 12; a loop over bytes is not.
    """
    lanes, channels = int(point["lanes"]), mapping.channels
    width = 16
    while width < lanes * channels:
        width *= 2
    masks = [", ".join(str(channels * k + c if k < lanes else 0) for k in range(width)) for c in range(channels)]
    apart = "".join(
        f"            {{ const B b_ = __builtin_shufflevector(w, w, {mask}); memcpy(t + {c * TILE_MAX} + p, &b_, {lanes}); }}\n"
        for c, mask in enumerate(masks)
    )
    left = " ".join(f"t[{c * TILE_MAX} + p] = x[(q + p)*{channels}L + {c}];" for c in range(channels))
    planes = "".join(
        f"{_unroll(point)}        for (long p = 0; p < n; p++) o[q + p + {c * mapping.out_channel}L] = ONE({c}, t[{c * TILE_MAX} + p]);\n"
        for c in range(channels)
    )
    return (
        f"    typedef uint8_t B __attribute__((vector_size({width})));\n    uint8_t t[{channels * TILE_MAX}];\n{_loads(mapping)}"
        f"    for (long q = 0; q < pixels; q += tile) {{\n        const long n = pixels - q < tile ? pixels - q : tile;\n"
        f"        long p = 0;\n        for (; p + {lanes} <= n && (q + p)*{channels} + {width} <= pixels*{channels}; p += {lanes}) {{\n"
        f"            B w; memcpy(&w, x + (q + p)*{channels}L, {width});\n{apart}        }}\n"
        f"        for (; p < n; p++) {{ {left} }}\n{planes}    }}\n"
    )


def shuffles(mapping: ByteMap) -> bool:
    """Whether channels lie side by side in bytes and apart in the result, which is what shuffling is for."""
    source = mapping.staged.program.buffers[mapping.data.buffer]
    apart = mapping.out_pixel == 1 and mapping.pixel == mapping.channels and mapping.channel == 1
    return source.dtype == "u1" and apart and 2 <= mapping.channels <= 4


def flags_of(point: Point) -> tuple[str, ...]:
    """Flags of the compiler that belong to a point."""
    return ("-fno-math-errno", f"-mprefer-vector-width={8 * int(point['vb'])}")
