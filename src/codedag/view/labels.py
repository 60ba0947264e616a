"""The words in the picture: what a box says, what its tooltip says, and operators as one writes them."""

from __future__ import annotations

from collections.abc import Iterable

from codedag.ir import Graph
from codedag.view.fold import Box, Frame, Link, Picture
from codedag.view.text import size_text, time_text

OPERATORS = {
    "add": "a + b", "sub": "a - b", "mul": "a * b", "truediv": "a / b", "floordiv": "a // b", "mod": "a % b",
    "pow": "a ** b", "matmul": "a @ b", "and_": "a & b", "or_": "a | b", "xor": "a ^ b", "lshift": "a << b",
    "rshift": "a >> b", "iadd": "a += b", "isub": "a -= b", "imul": "a *= b", "itruediv": "a /= b",
    "ifloordiv": "a //= b", "imod": "a %= b", "ipow": "a **= b", "imatmul": "a @= b", "iand": "a &= b",
    "ior": "a |= b", "ixor": "a ^= b", "ilshift": "a <<= b", "irshift": "a >>= b", "neg": "-a", "pos": "+a",
    "invert": "~a", "not_": "not a", "lt": "a < b", "le": "a <= b", "eq": "a == b", "ne": "a != b", "ge": "a >= b",
    "gt": "a > b", "is_": "a is b", "is_not": "a is not b", "contains": "a in b", "getitem": "a[...]",
    "setitem": "a[...] = b", "delitem": "del a[...]",
}  # fmt: skip


def short_name(name: str) -> str:
    """The name as one knows it: an operator as it is written, otherwise the last two parts."""
    module, _, last = name.rpartition(".")
    if module == "operator":
        return OPERATORS.get(last, last)
    return f"{module.rpartition('.')[2]}.{last}" if module else name


def share_text(share: float) -> str:
    """A share of the time, never rounded to nothing."""
    if 0 < share < 0.0005:
        return "< 0.1 %"
    return f"{100 * share:.1f} %"


def box_lines(graph: Graph, picture: Picture, box: Box) -> list[str]:
    """The lines of a box: its name, how often and how long, what came out and where it stands."""
    share = share_text(box.seconds / (picture.seconds or 1.0))
    time = f"{time_text(box.seconds)} \u00b7 {share}"
    if box.kind != "place":
        name = box.name or f"{box.templates:,} small operations"
        return [name, f"{box.templates:,} operations" if box.name else time, time if box.name else "folded"]
    unit, ops = box.units[0], graph.op_columns
    file = ops.file[unit.row].replace("\\", "/").rpartition("/")[2]
    kind, where = ops.kind[unit.row], f"{file}:{ops.line[unit.row]}"
    second = "comes from outside" if kind == "source" else f"\u00d7 {unit.calls:,} \u00b7 {time}"
    sizes = [f"out {size_text(unit.nbytes)}"] if unit.nbytes else []
    sizes += [f"peak {size_text(unit.peak)}"] if unit.peak else []
    return [short_name(box.name), second, " \u00b7 ".join([*sizes, where])]


def box_tooltip(graph: Graph, box: Box) -> str:
    """Everything about a box, for a pointer that rests on it."""
    if box.kind != "place":
        return "\n".join(_contents(graph, box))
    unit, ops = box.units[0], graph.op_columns
    lines = [
        f"{box.name} ({ops.kind[unit.row]})",
        f"{ops.file[unit.row]}:{ops.line[unit.row]}",
        f"context: {ops.context[unit.row]}",
        f"{unit.calls:,} calls, {time_text(unit.seconds)} in all, "
        f"{time_text(unit.seconds / max(unit.calls, 1))} each, out {size_text(unit.nbytes)}",
        *(f"signature: {signature}" for signature in unit.signatures),
    ]
    if unit.peak:
        lines.append(f"peak {size_text(unit.peak)}")
    if unit.templates > 1:
        lines.append(f"{unit.templates} signatures or chains of calls in this box")
    return "\n".join(lines)


def _contents(graph: Graph, box: Box, most: int = 12) -> Iterable[str]:
    """The hottest of what a folded box holds."""
    yield f"{box.name or 'small operations'}: {box.templates:,} operations, {time_text(box.seconds)}, the longest:"
    ops = graph.op_columns
    for unit in sorted(box.units, key=lambda unit: -unit.seconds)[:most]:
        what = f"{ops.name[unit.row]}  {ops.file[unit.row]}:{ops.line[unit.row]}"
        yield f"{time_text(unit.seconds)}  {what if unit.place else f'{unit.templates:,} operations'}"
    if len(box.units) > most:
        yield f"... and {len(box.units) - most} more"


def frame_title(picture: Picture, frame: Frame) -> str:
    """A user function with the time of the operations in it."""
    seconds = sum(box.seconds for box in frame.boxes())
    return f"{frame.name} \u00b7 {time_text(seconds)} \u00b7 {share_text(seconds / (picture.seconds or 1.0))}"


def link_tooltip(picture: Picture, link: Link) -> str:
    """What a link means."""
    ends = f"{_called(picture.boxes[link.source])} -> {_called(picture.boxes[link.target])}"
    if link.kind == "flow":
        return f"{ends}: {size_text(link.nbytes)}"
    if link.kind == "anti":
        return f"{ends}: must not write before the other has read"
    return f"{ends}: feeds a later iteration, or a later run of that code"


def _called(box: Box) -> str:
    return short_name(box.name) if box.kind == "place" else box.name or "small operations"


def heading_lines(picture: Picture) -> list[str]:
    """The title of the picture and what it leaves out."""
    drawn = sum(box.templates for box in picture.boxes)
    boxes = f"{len(picture.boxes):,} {'box' if len(picture.boxes) == 1 else 'boxes'}"
    title = f"Dataflow: {drawn:,} operations in {boxes}, {time_text(picture.seconds)} of self time"
    return [title, *(f"{note[0].upper()}{note[1:]}." for note in picture.notes)]
