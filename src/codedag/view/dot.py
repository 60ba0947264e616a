"""Graphs as Graphviz text, for people who have `dot` or a tool that reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from codedag.ir import Graph
from codedag.view.fold import MOST_BOXES, Box, Frame, Picture, picture
from codedag.view.labels import box_lines, box_tooltip, frame_title, heading_lines, link_tooltip
from codedag.view.svg import ANTI, CARRIED, FLOW, FRAMES, SHARES
from codedag.view.text import size_text

STYLES = {"flow": "solid", "anti": "dashed", "carried": "dotted"}
COLOURS = {"flow": FLOW, "anti": ANTI, "carried": CARRIED}


def quoted(text: str) -> str:
    """Text as Graphviz reads it back: nothing in it is an escape or ends the text; lines end with \\n."""
    lines = text.split("\n")
    safe = "\\n".join("".join(c if c.isprintable() else " " for c in line) for line in _escaped(lines))
    return f'"{safe}"'


def _escaped(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield line.replace("\\", "\\\\").replace('"', '\\"')


def attributes(**given: object) -> str:
    """Attributes in brackets."""
    return "[" + ", ".join(f"{name}={quoted(str(value))}" for name, value in given.items()) + "]"


def digraph(graph: Graph, title: str = "", most: int = MOST_BOXES) -> Iterator[str]:
    """The lines of the picture: the boxes, frames and links that `codedag view --svg` draws."""
    shown = picture(graph, most)
    heading = " ".join(filter(None, (title, heading_lines(shown)[0])))
    yield "digraph dataflow {"
    looks = attributes(label=heading, labelloc="t", fontname="Helvetica", rankdir="TB", nodesep="0.3", ranksep="0.5")
    yield f"  graph {looks};"
    yield f"  node {attributes(shape='box', style='filled,rounded', fontname='Helvetica', fontsize='11')};"
    yield f"  edge {attributes(fontname='Helvetica', fontsize='9')};"
    numbers = {id(box): number for number, box in enumerate(shown.boxes)}
    yield from _frame(graph, shown, shown.root, numbers, count(), 1)
    for link in shown.links:
        label = size_text(link.nbytes) if link.kind == "flow" and link.nbytes else ""
        # what reaches a later iteration must not decide what stands above what
        constraint = "false" if link.kind == "carried" else "true"
        looks = attributes(
            label=label, color=COLOURS[link.kind], style=STYLES[link.kind], constraint=constraint,
            tooltip=link_tooltip(shown, link),
        )  # fmt: skip
        yield f"  n{link.source} -> n{link.target} {looks};"
    yield "}"


def _frame(
    graph: Graph, shown: Picture, frame: Frame, numbers: dict[int, int], clusters: Iterator[int], depth: int
) -> Iterator[str]:
    """The boxes of a user function in a cluster, and the functions inside it."""
    inside, indent = frame.path, "  " * depth
    if inside:
        yield f"{indent}subgraph cluster_{next(clusters)} {{"
        looks = {"label": frame_title(shown, frame), "bgcolor": FRAMES[len(inside) % 2], "style": "rounded"}
        yield from (f"{indent}  {name}={quoted(value)};" for name, value in looks.items())
    for part in frame.parts:
        if isinstance(part, Box):
            yield f"{indent}  n{numbers[id(part)]} {_box(graph, shown, part)};"
        else:
            yield from _frame(graph, shown, part, numbers, clusters, depth + 1)
    if inside:
        yield f"{indent}}}"


def _box(graph: Graph, shown: Picture, box: Box) -> str:
    share = box.seconds / (shown.seconds or 1.0)
    colour = next(colour for least, colour in SHARES if share >= least)
    label = "\n".join(box_lines(graph, shown, box))
    return attributes(label=label, fillcolor=colour, tooltip=box_tooltip(graph, box))
