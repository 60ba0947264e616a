"""The C text of a scheduled sum of products: register blocks with packing, unrolled small products, plain loops.

Every kernel is `int codedag_kernel(const T *a, const T *b, T *c, const long *n, T *scratch)`; it returns something else
than 0 if the result holds a NaN or an infinity (the library may warn of both) or an operation raised a flag that numpy looks at.
"""

# ruff: noqa: E501 - lines of C are kept whole
from __future__ import annotations

from codedag.tune.emit.head import HEAD, SYMBOL
from codedag.tune.schedule.contraction import Axis, Contraction

Point = dict[str, int | str]
TYPES = {"f4": "float", "f8": "double"}
SIZES = {"f4": 4, "f8": 8}
FUSED = ("-ffp-contract=fast", "--param=avoid-fma-max-bits=0")  # gcc leaves chains of sums unfused on some processors


def contraction_source(contraction: Contraction, point: Point, exact: bool) -> str:
    """The C text of one point of the space."""
    body = {"block": _block, "small": _small, "plain": _plain, "dot": _dot}[str(point["sketch"])](contraction, point)
    kind = TYPES[contraction.dtype]
    head = f"{HEAD}typedef {kind} T;\n{_vectors(contraction, point)}{body[0]}"
    said = _odd_check(contraction, bool(point["fused"])) if exact else "    return 0;\n"
    return (
        f"{head}\nint {SYMBOL}(const T *restrict a, const T *restrict b, T *restrict c, const long *n, T *scratch)\n"
        f"{{\n    (void)n; (void)scratch;\n{'    clear();' if exact else ''}\n{body[1]}{said}}}\n"
    )


def scratch_items(contraction: Contraction, point: Point) -> int:
    """Elements of scratch memory that the kernel of a point needs for the extents of the task."""
    if point["sketch"] != "block":
        return 0
    rows, columns, inner = (one.extent for one in main_axes(contraction))
    mr, nr = _blocks(contraction, point)
    kc = min(int(point["kc"]), max(inner, 1))
    panel = min(int(point["nt"]) * nr, -(-max(columns, 1) // nr) * nr) * kc
    left = min(int(point["mt"]) * mr, -(-max(rows, 1) // mr) * mr) * kc if point["packa"] else 0
    return panel + left + mr * nr + 64


def tiles_of(point: Point) -> tuple[int, ...]:
    """Tiles for the caches, which follow the extents among the arguments: points that differ in them share their code."""
    return (int(point["mt"]), int(point["nt"]), int(point["kc"])) if point["sketch"] == "block" else ()


def flags_of(point: Point) -> tuple[str, ...]:
    """Flags of the compiler that belong to a point: contraction of products and sums, width of vectors."""
    fused = FUSED if point["fused"] else ()
    width = (f"-mprefer-vector-width={8 * int(point['vb'])}",) if point["sketch"] == "plain" else ()
    return fused + width


def main_axes(contraction: Contraction) -> tuple[Axis, Axis, Axis]:
    """Rows, columns and inner axis of the register block; what is absent has extent 1."""
    one = Axis("", 1, -1)
    rows = max(contraction.rows, key=lambda axis: axis.extent, default=one)
    columns = contraction.axis(contraction.c[-1]) if contraction.c else one
    if columns not in contraction.columns:
        columns = one
    inner = contraction.inner[-1] if contraction.inner else one
    return rows, columns, inner


def _blocks(contraction: Contraction, point: Point) -> tuple[int, int]:
    lanes = int(point["vb"]) // SIZES[contraction.dtype]
    return int(point["mr"]), int(point["nv"]) * lanes


def _vectors(contraction: Contraction, point: Point) -> str:
    """Vector types of every width up to the point's; loads need no alignment."""
    size, lines, width = SIZES[contraction.dtype], [], SIZES[contraction.dtype] * 2
    while width <= int(point["vb"]):
        lanes = width // size
        lines.append(f"typedef T V{lanes} __attribute__((vector_size({width})));")
        lines.append(f"typedef T U{lanes} __attribute__((vector_size({width}), aligned({size}), may_alias));")
        width *= 2
    return "\n".join(lines) + "\n"


def _odd_check(contraction: Contraction, is_fused: bool) -> str:
    """Whether a result is infinite or NaN; or a negative zero, which libraries may add to a zero once more."""
    total = "*".join(contraction.axis(name).text for name in contraction.c) or "1"
    bits = SIZES[contraction.dtype] * 8
    zero = f"uint{bits}_t u; memcpy(&u, c + i, sizeof u); odd |= u == 1ull << {bits - 1};" if is_fused else ""
    return (
        f"    int odd = 0;\n    const long total = {total};\n"
        f"    for (long i = 0; i < total; i++) {{ odd |= c[i] - c[i] != 0; {zero} }}\n    return odd | raised() << 1;\n"
    )


def _outer(contraction: Contraction, without: set[str]) -> tuple[str, str]:
    """Loops over all axes of the result but some, and the moves of the three pointers."""
    loops, moves = "", {"a": "", "b": "", "c": ""}
    arrays = {"a": contraction.a, "b": contraction.b, "c": contraction.c}
    for name in contraction.c:
        if name in without:
            continue
        axis = contraction.axis(name)
        loops += f"    for (long {name} = 0; {name} < {axis.text}; {name}++)\n"
        for array, axes in arrays.items():
            if name in axes:
                moves[array] += f" + {name}*({contraction.stride(axes, name)})"
    moved = "".join(f"        const T *{p}p = {p}{moves[p]};\n" for p in "ab")
    return loops, f"{moved}        T *cp = c{moves['c']};\n"


def _inner_loops(contraction: Contraction, without: set[str]) -> tuple[str, str, str]:
    """Loops over the other inner axes, the moves of a and b, and whether this is the first turn."""
    loops, moves, first = "", {"a": "", "b": ""}, []
    for axis in contraction.inner:
        if axis.name in without:
            continue
        loops += f"        for (long {axis.name} = 0; {axis.name} < {axis.text}; {axis.name}++)\n"
        first.append(f"!{axis.name}")
        for array, axes in (("a", contraction.a), ("b", contraction.b)):
            moves[array] += f" + {axis.name}*({contraction.stride(axes, axis.name)})"
    moved = "".join(f"        const T *{p}k = {p}p{moves[p]};\n" for p in "ab")
    return loops, moved, " && ".join(first) or "1"


def _stride_of(contraction: Contraction, array: tuple[str, ...], axis: Axis) -> str:
    return contraction.stride(array, axis.name) if axis.name in array else "0"


def _block(contraction: Contraction, point: Point) -> tuple[str, str]:
    """Tiles for the caches around a block of registers; rows and columns that are left over go through a small tile."""
    rows, columns, inner = main_axes(contraction)
    mr, nr = _blocks(contraction, point)
    arrays = {"ai": (contraction.a, rows), "ak": (contraction.a, inner), "bk": (contraction.b, inner),
              "bj": (contraction.b, columns), "ci": (contraction.c, rows)}  # fmt: skip
    strides = "".join(
        f"    const long {name} = {_stride_of(contraction, array, axis)};\n" for name, (array, axis) in arrays.items()
    )
    packa, packb = bool(point["packa"]), bool(point["packb"])
    outer, moved = _outer(contraction, {rows.name, columns.name})
    inner_loops, inner_moved, first = _inner_loops(contraction, {inner.name})
    sizes = (
        f"    const long M = {rows.text}, N = {columns.text}, K = {inner.text};\n"
        f"    const long *tiles = n + {len(contraction.axes)}, MC = tiles[0]*{mr}, NC = tiles[1]*{nr}, KC = tiles[2];\n"
        f"    const long kmax = K < KC ? K : KC, nmax = (N + {nr} - 1)/{nr}*{nr} < NC ? (N + {nr} - 1)/{nr}*{nr} : NC;\n"
        f"    T *pb = scratch, *tile = scratch + nmax*kmax, *pa = tile + {mr * nr}; (void)pa;\n"
    )
    panel = f"pb + (j/{nr})*kc*{nr}"
    pack_all = "pack_b(bk_ + jc*bj + pc*bk, bk, bj, nc, kc, pb);\n"
    pack_edge = (
        f"if (nc % {nr}) pack_b(bk_ + (jc + nc/{nr}*{nr})*bj + pc*bk, bk, bj, nc % {nr}, kc, pb + nc/{nr}*{nr}*kc);\n"
    )
    edge_b = f"const T *bb = {panel}; const long bs = {nr};"
    if not packb:
        edge_b = (
            f"const int whole = j + {nr} <= nc; const T *bb = whole ? bk_ + (jc + j)*bj + pc*bk : {panel};"
            f" const long bs = whole ? bk : {nr};"
        )
    a_part = "const T *aa = pa + i*kc;" if packa else "const T *aa = ak_ + (ic + i)*ai + pc*ak;"
    a_steps = ("1", str(mr)) if packa else ("ai", "ak")
    loops = [f"for (long j = 0; j < nc; j += {nr})", f"for (long i = 0; i < mc; i += {mr})"]
    if point["order"] == "ij":
        loops.reverse()
    body = f"""{strides}{sizes}{outer}    {{
{moved}{inner_loops}        {{
{inner_moved}        const T *ak_ = ak__, *bk_ = bk__;
        for (long jc = 0; jc < N; jc += NC) for (long pc = 0; pc < K; pc += KC) {{
            const long nc = N - jc < NC ? N - jc : NC, kc = K - pc < KC ? K - pc : KC;
            const int first = ({first}) && pc == 0;
            {pack_all if packb else pack_edge}
            for (long ic = 0; ic < M; ic += MC) {{
                const long mc = M - ic < MC ? M - ic : MC;
                {"pack_a(ak_ + ic*ai + pc*ak, ai, ak, mc, kc, pa);" if packa else ""}
                {loops[0]} {loops[1]} {{
                    {edge_b}
                    {a_part}
                    T *cc = cp + (ic + i)*ci + jc + j;
                    const long m_ = mc - i < {mr} ? mc - i : {mr}, n_ = nc - j < {nr} ? nc - j : {nr};
                    if (m_ == {mr} && n_ == {nr}) {{ micro(aa, {a_steps[0]}, {a_steps[1]}, bb, bs, cc, ci, kc, first); continue; }}
                    if (!first) for (long r = 0; r < m_; r++) for (long q = 0; q < n_; q++) tile[r*{nr} + q] = cc[r*ci + q];
                    {"micro" if packa else "micro_edge"}(aa, {a_steps[0]}, {a_steps[1]}, bb, bs, tile, {nr}, kc, first{"" if packa else ", m_"});
                    for (long r = 0; r < m_; r++) for (long q = 0; q < n_; q++) cc[r*ci + q] = tile[r*{nr} + q];
                }}
            }}
        }}
        if (K == 0) for (long i = 0; i < M; i++) for (long j = 0; j < N; j++) cp[i*ci + j] = 0;
        }}
    }}
""".replace("const T *ak =", "const T *ak__ =").replace("const T *bk =", "const T *bk__ =")
    return _micro(contraction, point) + _packing(mr, nr, packa), body


def _packing(mr: int, nr: int, packa: bool) -> str:
    left = f"""static void pack_a(const T *restrict a, long ai, long ak, long mc, long kc, T *restrict to)
{{
    for (long i = 0; i < mc; i += {mr}, to += {mr}*kc)
        for (long r = 0; r < {mr}; r++) {{
            const T *from = a + (i + r < mc ? i + r : mc - 1)*ai;
            for (long p = 0; p < kc; p++) to[p*{mr} + r] = from[p*ak];
        }}
}}
"""
    return f"""{left if packa else ""}static void pack_b(const T *restrict b, long bk, long bj, long nc, long kc, T *restrict to)
{{
    for (long j = 0; j < nc; j += {nr}, to += {nr}*kc) {{
        const long w = nc - j < {nr} ? nc - j : {nr};
        if (bj == 1 && w == {nr}) {{ for (long p = 0; p < kc; p++) memcpy(to + p*{nr}, b + p*bk + j, {nr}*sizeof(T)); continue; }}
        if (bk == 1) {{ for (long q = 0; q < {nr}; q++) {{ const T *from = b + (j + (q < w ? q : w - 1))*bj;
            for (long p = 0; p < kc; p++) to[p*{nr} + q] = from[p]; }} continue; }}
        for (long p = 0; p < kc; p++) for (long q = 0; q < {nr}; q++) to[p*{nr} + q] = q < w ? b[p*bk + (j + q)*bj] : 0;
    }}
}}
"""


def _micro(contraction: Contraction, point: Point) -> str:
    """The block of registers; for rows that are left over, rows of a are read twice and not stored."""
    mr, nv, ku = int(point["mr"]), int(point["nv"]), int(point["ku"])
    lanes = int(point["vb"]) // SIZES[contraction.dtype]
    names = [[f"c{r}_{v}" for v in range(nv)] for r in range(mr)]
    zero = "".join(f"{c} = (V{lanes}){{0}};" for row in names for c in row)
    load = "".join(f"{names[r][v]} = *(U{lanes} *)(c + {r}*ci + {v * lanes});" for r in range(mr) for v in range(nv))
    store = "".join(f"*(U{lanes} *)(c + {r}*ci + {v * lanes}) = {names[r][v]};" for r in range(mr) for v in range(nv))
    step = _micro_step(point, lanes)
    many = "".join(f"{{ const long q = p + {u}; {step} }}\n" for u in range(ku))
    every = ", ".join(c for row in names for c in row)
    left = f"for (; p < kc; p++) {{ const long q = p; {step} }}" if ku > 1 else ""
    body = f"""    V{lanes} {every};
    if (first) {{ {zero} }} else {{ {load} }}
    long p = 0;
    for (; p + {ku} <= kc; p += {ku}) {{
{many}    }}
    {left}
    {store}
}}
"""
    whole = "".join(f"    const T *a{r} = a + {r}*ai;\n" for r in range(mr))
    head = "(const T *restrict a, long ai, long ak, const T *restrict b, long bs, T *restrict c, long ci, long kc, int first"
    made = f"static void micro{head})\n{{\n{whole}{body}"
    if not point["packa"]:
        edge = "".join(f"    const T *a{r} = a + ({r} < rows ? {r} : rows - 1)*ai;\n" for r in range(mr))
        made += f"static __attribute__((noinline)) void micro_edge{head}, long rows)\n{{\n{edge}{body}"
    return made


def _micro_step(point: Point, lanes: int) -> str:
    mr, nv = int(point["mr"]), int(point["nv"])
    text = "".join(f"V{lanes} b{v} = *(const U{lanes} *)(b + q*bs + {v * lanes});" for v in range(nv))
    if point["pin"]:
        text += '__asm__("" : ' + ", ".join(f"KEEP(b{v})" for v in range(nv)) + ");"
    for r in range(mr):
        text += f"{{ const T x = a{r}[q*ak]; " + "".join(f"c{r}_{v} += x*b{v};" for v in range(nv)) + " }"
    return text


def _cover(extent: int, lanes: int) -> list[tuple[int, int]]:
    """Starts and widths of the vectors that cover some columns, none beyond the last."""
    parts, at = [], 0
    while at < extent:
        while lanes > extent - at:
            lanes //= 2
        parts.append((at, lanes))
        at += lanes
    return parts


def _small(contraction: Contraction, point: Point) -> tuple[str, str]:
    """Blocks of rows whose columns are whole vectors of falling width, all in registers; extents are constants."""
    rows, columns, inner = main_axes(contraction)
    size = SIZES[contraction.dtype]
    cover = _cover(columns.extent, int(point["vb"]) // size)
    outer, moved = _outer(contraction, {rows.name, columns.name})
    mr = int(point["mr"])
    strides = {
        "ai": _stride_of(contraction, contraction.a, rows), "ak": _stride_of(contraction, contraction.a, inner),
        "bk": _stride_of(contraction, contraction.b, inner), "ci": _stride_of(contraction, contraction.c, rows),
    }  # fmt: skip
    bk = strides["bk"]
    step = "".join(f"{_vector(w)} b{v} = {_loaded(w, f'bp + k*({bk}) + {at}')};" for v, (at, w) in enumerate(cover))
    blocks = ""
    for count in [mr, *([1] if mr > 1 else [])]:
        blocks += _small_rows(count, mr, rows, inner, cover, step, strides, int(point["ku"]))
    return "", f"{outer}    {{\n{moved}        long i = 0;\n{blocks}    }}\n"


def _small_rows(
    count: int,
    mr: int,
    rows: Axis,
    inner: Axis,
    cover: list[tuple[int, int]],
    step: str,
    strides: dict[str, str],
    ku: int,
) -> str:
    """A loop over blocks of so many rows."""
    every = [(r, v, at, w) for r in range(count) for v, (at, w) in enumerate(cover)]
    made = "".join(f"{_vector(w)} c{r}_{v} = {{0}};" for r, v, _, w in every)
    sums = "".join(
        f"{{ const T x = ap[(i + {r})*({strides['ai']}) + k*({strides['ak']})]; "
        + "".join(f"c{r}_{v} += x*b{v};" for v in range(len(cover)))
        + " }"
        for r in range(count)
    )
    stored = "".join(
        f"*({_unaligned(w)} *)(cp + (i + {r})*({strides['ci']}) + {at}) = c{r}_{v};" for r, v, at, w in every
    )
    return (
        f"        for (; i + {count} <= {rows.text}; i += {count}) {{ {made}\n"
        f"#pragma GCC unroll {ku}\n            for (long k = 0; k < {inner.text}; k++) {{ {step} {sums} }}\n"
        f"            {stored} }}\n"
    )


def _vector(width: int) -> str:
    return f"V{width}" if width > 1 else "T"


def _unaligned(width: int) -> str:
    return f"U{width}" if width > 1 else "T"


def _loaded(width: int, place: str) -> str:
    return f"*(const {_unaligned(width)} *)({place})"


def _plain(contraction: Contraction, point: Point) -> tuple[str, str]:
    """Scalar sums written out for constant columns and inner axis; the compiler finds vectors along what is left."""
    _, columns, inner = main_axes(contraction)
    order = [name for name in contraction.c if name != columns.name]
    outer, moved = _outer(contraction, {columns.name})
    if point["order"] == "ij" and len(order) > 1:
        lines = outer.splitlines(keepends=True)
        outer = "".join(reversed(lines))
    strides = {
        "ak": _stride_of(contraction, contraction.a, inner), "bk": _stride_of(contraction, contraction.b, inner),
    }  # fmt: skip
    sums = ""
    for j in range(columns.extent):
        sums += f"        T s{j} = 0;\n"
        for k in range(inner.extent):
            sums += f"        s{j} += ap[{k}*({strides['ak']})] * bp[{k}*({strides['bk']}) + {j}];\n"
    stored = "".join(f"        cp[{j}] = s{j};\n" for j in range(columns.extent))
    unroll = f"#pragma GCC unroll {point['ku']}\n"
    parts = outer.splitlines(keepends=True)
    outer = "".join(parts[:-1]) + unroll + "".join(parts[-1:])
    return "", f"{outer}    {{\n{moved}{sums}{stored}    }}\n"


def _dot(contraction: Contraction, point: Point) -> tuple[str, str]:
    """Products of lines as numpy.einsum adds them up: lanes of its baseline, four steps from the back, then a tree."""
    _, columns, inner = main_axes(contraction)
    lanes = 16 // SIZES[contraction.dtype]
    outer, moved = _outer(contraction, {columns.name})
    step = _stride_of(contraction, contraction.b, columns)
    blocks = "".join(_dot_block(count, columns, inner, step, lanes) for count in dict.fromkeys((int(point["mr"]), 1)))
    return "", f"{outer}    {{\n{moved}        long j = 0;\n{blocks}    }}\n"


def _dot_block(count: int, columns: Axis, inner: Axis, step: str, lanes: int) -> str:
    """So many columns at once: each has sums of its own."""
    every = range(count)
    made = "".join(f"const T *b{r} = bp + (j + {r})*({step}); V{lanes} s{r} = {{0}};" for r in every)

    def added(at: str) -> str:
        sums = "".join(f"s{r} = x*(*(const U{lanes} *)(b{r} + {at})) + s{r};" for r in every)
        return f"{{ const V{lanes} x = *(const U{lanes} *)(ap + {at}); {sums} }}"

    four = " ".join(added(f"k + {u * lanes}") for u in (3, 2, 1, 0))
    left = "".join(
        f"{{ V{lanes} y = {{0}}; for (long q = k; q < {inner.text}; q++) y[q - k] = b{r}[q]; s{r} = x*y + s{r}; }}"
        for r in every
    )
    tree = {4: "((s{0}[0] + s{0}[1]) + (s{0}[2] + s{0}[3]))", 2: "(s{0}[0] + s{0}[1])"}[lanes]
    stored = "".join(f"cp[j + {r}] = {tree.format(r)} + (T)0;" for r in every)
    return (
        f"        for (; j + {count} <= {columns.text}; j += {count}) {{ {made} long k = 0;\n"
        f"            for (; k + {4 * lanes} <= {inner.text}; k += {4 * lanes}) {{ {four} }}\n"
        f"            for (; k + {lanes} <= {inner.text}; k += {lanes}) {added('k')}\n"
        f"            if (k < {inner.text}) {{ V{lanes} x = {{0}}; for (long q = k; q < {inner.text}; q++) x[q - k] = ap[q]; {left} }}\n"
        f"            {stored} }}\n"
    )
