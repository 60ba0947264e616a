"""The C text of reductions in the orders that numpy has: pairwise, across, plane after plane, in pieces, any."""

# ruff: noqa: E501 - lines of C are kept whole
from __future__ import annotations

import numpy as np

from codedag.tune.declined import CannotTune
from codedag.tune.emit.element_c import TYPES, Body, is_float
from codedag.tune.program.orders import ACROSS, PIECES, start_of_sums
from codedag.tune.program.program import Load
from codedag.tune.schedule.loop_axes import Loop, Place, merged
from codedag.tune.schedule.stages import Stage

LANES = 16  # greatest and least elements found side by side
CHUNK = 512  # elements that are computed before they are compared

SUMS = "".join(
    f"""typedef {kind} W{name} __attribute__((vector_size({8 * size}), aligned({size}), may_alias));
static inline {kind} sum_{name}(const {kind} *a, long n)
{{
    if (n < 8) {{ {kind} s = -0.0; for (long i = 0; i < n; i++) s += a[i]; return s; }}
    W{name} r = *(const W{name} *)a;
    long i = 8;
    for (; i + 8 <= n; i += 8) r += *(const W{name} *)(a + i);
    {kind} s = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < n; i++) s += a[i];
    return s;
}}
"""
    for name, kind, size in (("f4", "float", 4), ("f8", "double", 8))
)


def reduction_text(
    number: int, stage: Stage, loops: list[Loop], target: Place, places: dict[Load, Place]
) -> tuple[str, str]:
    """The functions of a reduction, and the loops that use them."""
    reduced = [Loop(name, extent) for name, extent in stage.reduced if extent != 1]
    walk = walk_of(stage, loops, places)
    if walk == "blocks":
        return _pairwise(number, stage, loops, reduced, target, places)
    if walk == "across":
        return "", _across(stage, loops, reduced, target, places)
    return _chosen(number, stage, loops, reduced, target, places)


def walk_of(stage: Stage, loops: list[Loop], places: dict[Load, Place]) -> str:
    """How a reduction goes through memory: along a line in blocks or in chunks, or across it."""
    assert stage.reduction is not None
    order = stage.reduction.order
    if stage.reduction.op == "sum" and is_float(stage.target.dtype) and order != ACROSS:
        return "blocks"
    reduced = [Loop(name, extent) for name, extent in stage.reduced if extent != 1]
    lies_apart = loops and any(loop.name != "row" for loop in loops) and not _trailing(reduced, places)
    return "across" if order == ACROSS or lies_apart or len(merged(reduced, list(places.values()))[0]) > 1 else "chunks"


def _trailing(reduced: list[Loop], places: dict[Load, Place]) -> bool:
    return all(abs(p.factors.get(reduced[-1].name, 0)) <= 1 for p in places.values()) if reduced else True


def _head(loops: list[Loop]) -> str:
    return "".join(f"    for (long {loop.name} = 0; {loop.name} < {loop.text}; {loop.name}++)\n" for loop in loops)


def _line(stage: Stage, reduced: list[Loop], places: dict[Load, Place]) -> tuple[Loop, dict[Load, Place]]:
    """The reduced loops as one, or CannotTune."""
    loops, moved = merged(reduced, list(places.values()))
    if len(loops) > 1:
        raise CannotTune(f"{stage.target.name}: the elements of this sum do not lie in one line")
    return (loops[0] if loops else Loop("one", 1)), dict(zip(places, moved, strict=True))


def _function(number: int, stage: Stage, line: Loop, places: dict[Load, Place]) -> tuple[str, str, str]:
    """Parameters of a function over a line, its arguments moved by `at`, and the loop that fills `v`."""
    names = {load: f"p{k}" for k, load in enumerate(places)}
    steps = {load: place.factors.get(line.name, 0) for load, place in places.items()}
    declared = ", ".join(f"const {TYPES[p.dtype]} *{names[load]}" for load, p in places.items())
    moved = ", ".join(f"{names[load]} + at*{steps[load]}L" for load in places)
    body = Body(lambda load: (f"{names[load]}[i*{steps[load]}L]", places[load].dtype))
    value, _ = body.value(stage.expr)
    return declared, moved, "\n            ".join([*body.lines, f"v[i] = {value};"])


def _pairwise(
    number: int, stage: Stage, loops: list[Loop], reduced: list[Loop], target: Place, places: dict[Load, Place]
) -> tuple[str, str]:
    """Halves down to blocks of 128, each computed into a small buffer and added up by eight sums side by side."""
    assert stage.reduction is not None
    first, start = next(iter(places.values())), start_of_sums()
    outside = {name for name, _ in stage.reduced[: stage.leading]}
    leading = [r for r in reduced if r.name in outside]
    line, places = _line(stage, [r for r in reduced if r not in leading], places)
    declared, moved, fill = _function(number, stage, line, places)
    kind, name = TYPES[stage.target.dtype], stage.target.dtype
    halves = f"{{ const long at = n/2 - n/2%8; return pair{number}({_names(places)}, at, odd) + pair{number}({moved}, n - at, odd); }}"
    direct = isinstance(stage.expr, Load) and first.factors.get(line.name, 0) == 1
    leaf = f"    (void)odd; return sum_{name}(p0, n);" if direct else (
        f"    {kind} v[128]; int bad = 0;\n    {{ int odd = 0;\n        for (long i = 0; i < n; i++) {{\n            {fill}\n        }}\n"
        f"    bad = odd; }}\n    *odd |= bad;\n    return sum_{name}(v, n);"
    )  # fmt: skip
    function = f"static {kind} pair{number}({declared}, long n, int *odd)\n{{\n    if (n > 128) {halves}\n{leaf}\n}}\n"
    arguments = ", ".join(place.at([*leading, *loops]) for place in places.values())
    total = f"pair{number}({arguments}, {line.extent}, &odd)"
    if stage.reduction.order == PIECES:
        size = np.getbufsize()
        function += (
            f"static {kind} pieces{number}({declared}, long n, int *odd)\n{{\n    {kind} s = {start};\n"
            f"    for (long at = 0; at < n; at += {size}) s += pair{number}({moved}, n - at < {size} ? n - at : {size}, odd);\n"
            "    return s;\n}\n"
        )
        total = f"pieces{number}({arguments}, {line.extent}, &odd)"
    elif not leading:
        total = f"({kind}){start} + {total}"
    pointer = f"{kind} *o = {target.at(loops)};"
    if leading:
        begin = f"{_head(loops)}    {{ {pointer} *o = {start}; }}\n"
        end = f"{_head(loops)}    {{ {pointer} odd |= *o != *o; }}\n"
        return function, f"{begin}{_head([*leading, *loops])}    {{ {pointer} *o += {total}; }}\n{end}"
    return function, f"{_head(loops)}    {{ {pointer} *o = {total}; odd |= *o != *o; }}\n"


def _names(places: dict[Load, Place]) -> str:
    return ", ".join(f"p{k}" for k in range(len(places)))


def _combined(op: str, total: str, value: str) -> str:
    if op == "sum":
        return f"{total} + {value}"
    sign = ">" if op == "max" else "<"
    return f"{value} {sign} {total} ? {value} : {total}"


def _across(stage: Stage, loops: list[Loop], reduced: list[Loop], target: Place, places: dict[Load, Place]) -> str:
    """Elements of the target side by side, one after the other along the reduced axes."""
    assert stage.reduction is not None
    rows = [loop for loop in loops if loop.name == "row"]
    kept = [loop for loop in loops if loop.name != "row" and loop.extent != 1]
    kept, every = merged(kept, [target, *places.values()])
    target, places = every[0], dict(zip(places, every[1:], strict=True))
    inner = kept[-1] if kept else Loop("one", 1)
    outer = [*rows, *reduced, *kept[:-1]]
    names = {load: f"p{k}" for k, load in enumerate(places)}
    pointers = "".join(
        f"const {TYPES[p.dtype]} *{names[load]} = {p.at(outer)};\n        " for load, p in places.items()
    )
    body = Body(lambda load: (f"{names[load]}[i*{places[load].factors.get(inner.name, 0)}L]", places[load].dtype))
    value, dtype = body.value(stage.expr)
    kind, op = TYPES[stage.target.dtype], stage.reduction.op
    first = " && ".join(f"{r.name} == 0" for r in reduced) or "1"
    begin = f"({kind}){start_of_sums()} + " if op == "sum" and is_float(stage.target.dtype) else ""
    step = target.factors.get(inner.name, 0)
    if is_float(dtype):
        body.tell_nan(value)
        if op != "sum":
            body.lines.append(f"odd |= !(first) & ({value} == 0) & (o[i*{step}L] == 0);")
    lines = "\n            ".join(body.lines)
    return (
        f"{_head(outer)}    {{\n        {kind} *restrict o = {target.at([*rows, *kept[:-1]])};\n        {pointers}"
        f"const int first = {first};\n        if (first) for (long i = 0; i < {inner.text}; i++) {{\n            {lines}\n"
        f"            o[i*{step}L] = {begin}{value};\n        }}\n        else for (long i = 0; i < {inner.text}; i++) {{\n"
        f"            {lines}\n            o[i*{step}L] = {_combined(op, f'o[i*{step}L]', value)};\n        }}\n    }}\n"
    )


def _chosen(
    number: int, stage: Stage, loops: list[Loop], reduced: list[Loop], target: Place, places: dict[Load, Place]
) -> tuple[str, str]:
    """Greatest or least elements, or sums of whole numbers, along a line, in chunks and lanes."""
    assert stage.reduction is not None
    line, places = _line(stage, reduced, places)
    declared, _, fill = _function(number, stage, line, places)
    kind, op, dtype = TYPES[stage.target.dtype], stage.reduction.op, stage.target.dtype
    first = next(iter(places.values()))
    direct = isinstance(stage.expr, Load) and first.factors.get(line.name, 0) == 1 and first.dtype == dtype
    body = f"        const {kind} *v = p0 + at;" if direct else (
        f"        {kind} v[{CHUNK}];\n        for (long i = at; i < at + m; i++) {{ {fill.replace('v[i] =', 'v[i - at] =')} }}"
    )  # fmt: skip
    start = f"({kind}){'-0.0' if is_float(dtype) else '0'}" if op == "sum" else "v[0]"
    function = f"""{_lanes(number, op, dtype)}static {kind} line{number}({declared}, long n, int *bad)
{{
    {kind} s = 0; int odd = 0;
    for (long at = 0; at < n; at += {CHUNK}) {{
        const long m = n - at < {CHUNK} ? n - at : {CHUNK};
{body}
        if (at == 0) s = {start};
        s = lanes{number}(v, m, s, &odd);
    }}
    *bad |= odd;
    return s;
}}
"""
    arguments = ", ".join(place.at(loops) for place in places.values())
    call = f"*o = line{number}({arguments}, {line.extent}, &odd);"
    return function, f"{_head(loops)}    {{ {kind} *o = {target.at(loops)}; {call} }}\n"


def _lanes(number: int, op: str, dtype: str) -> str:
    """The reduction of a chunk that lies in order, side by side; zeros of both signs and NaN are told."""
    kind = TYPES[dtype]
    if not is_float(dtype) or op == "sum":
        return (
            f"static {kind} lanes{number}(const {kind} *v, long n, {kind} s, int *odd)\n{{\n    (void)odd;\n"
            f"    for (long i = 0; i < n; i++) s = {_combined(op, 's', 'v[i]')};\n    return s;\n}}\n"
        )
    bits, sign = ("int32_t", ">" if op == "max" else "<") if dtype == "f4" else ("int64_t", ">" if op == "max" else "<")
    size = 4 if dtype == "f4" else 8
    return f"""typedef {kind} M{number} __attribute__((vector_size({LANES * size}), aligned({size}), may_alias));
typedef {bits} N{number} __attribute__((vector_size({LANES * size}), aligned({size}), may_alias));
static {kind} lanes{number}(const {kind} *v, long n, {kind} s, int *odd)
{{
    long i = 0;
    int bad = 0;
    if (n >= {LANES}) {{
        M{number} m = *(const M{number} *)v;
        N{number} nan = m != m;
        for (i = {LANES}; i + {LANES} <= n; i += {LANES}) {{
            const M{number} x = *(const M{number} *)(v + i);
            const N{number} more = x {sign} m;
            nan |= x != x;
            m = (M{number})(((N{number})x & more) | ((N{number})m & ~more));
        }}
        for (int l = 0; l < {LANES}; l++) {{ bad |= nan[l] != 0; s = {_combined(op, "s", "m[l]")}; }}
    }}
    for (; i < n; i++) {{ bad |= v[i] != v[i]; s = {_combined(op, "s", "v[i]")}; }}
    if (s == 0) {{ int z = 1 << (__builtin_signbit(s) != 0); for (i = 0; i < n; i++) z |= v[i] == 0 ? 1 << (__builtin_signbit(v[i]) != 0) : 0; bad |= z == 3; }}
    *odd |= bad;
    return s;
}}
"""
