"""The dataflow graph of a run as one self-contained SVG picture."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import log10

from codedag.ir import Graph
from codedag.view.fold import MOST_BOXES, Box, Frame, Link, Picture, picture
from codedag.view.labels import box_lines, box_tooltip, frame_title, heading_lines, link_tooltip
from codedag.view.layout import Lane, Layout, Rect, lay_out
from codedag.view.text import size_text

MARGIN = 24.0
LINE = 17.0
BOX_HEIGHT = 58.0
LEAST_WIDTH, MOST_WIDTH = 132.0, 250.0
LEAST_PICTURE = 820.0

#: From this share of the time on, this colour; dark text is readable on all of them.
SHARES = ((0.20, "#f2704f"), (0.08, "#f9a26c"), (0.02, "#fccf9b"), (0.005, "#fdebd3"), (0.0, "#ffffff"))
FRAMES = ("#f3f6fb", "#e8eef7")
FLOW, ANTI, CARRIED = "#4a6a94", "#7d7d7d", "#b0189a"

DASHES = {"flow": "", "anti": ' stroke-dasharray="6 4"', "carried": ' stroke-dasharray="2 3"'}
COLOURS = {"flow": FLOW, "anti": ANTI, "carried": CARRIED}
LEGEND = (
    ("data flows (wider: more bytes)", FLOW, DASHES["flow"]),
    ("order only: is overwritten after it was read", ANTI, DASHES["anti"]),
    ("feeds a later iteration or call", CARRIED, DASHES["carried"]),
)

OUTLINE = ' stroke="#6e7781"'
FOLDED = ' stroke="#57606a" stroke-width="2" stroke-dasharray="1 3"'

STYLE = (
    "text{font-family:Helvetica,Arial,'Liberation Sans',sans-serif;font-size:11px;fill:#1b1f24}"
    ".n{font-family:Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:12px;font-weight:bold}"
    ".q{fill:#57606a}.t{font-size:17px;font-weight:bold}.f{font-size:12px;font-weight:bold;fill:#34527a}"
    ".b{font-size:10px;fill:#34527a;stroke:#ffffff}"
    ".b,.f{stroke-width:3px;paint-order:stroke;stroke-linejoin:round}"
    f".f0{{stroke:{FRAMES[0]}}}.f1{{stroke:{FRAMES[1]}}}"
    "path{fill:none}"
)

# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"  # compiling it takes milliseconds


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture, how many boxes it has, and what was folded to make it so."""

    svg: str
    boxes: int
    notes: list[str]


def draw(graph: Graph, title: str = "", most: int = MOST_BOXES) -> str:
    """The picture of a graph as SVG text: operations in frames of user functions, edges with bytes, time as colour."""
    return drawing(graph, title, most).svg


def drawing(graph: Graph, title: str = "", most: int = MOST_BOXES) -> Drawing:
    """The picture of a graph with the facts about it."""
    shown = picture(graph, most)
    lines = {box: box_lines(graph, shown, box) for box in shown.boxes}
    titles = {frame: frame_title(shown, frame) for frame in frames_of(shown.root)}
    layout = lay_out(
        shown, lambda box: (box_width(lines[box]), BOX_HEIGHT), lambda frame: heading_width(titles[frame]), weight_of
    )
    heading = heading_lines(shown)
    if title:
        heading[0] = f"{title}: {heading[0][0].lower()}{heading[0][1:]}"
    body = [
        *_draw_frames(layout),
        *_draw_links(shown, layout),
        *_draw_headings(layout, titles),
        *_draw_boxes(graph, shown, layout, lines),
        *_draw_sizes(shown, layout),
    ]
    return Drawing("\n".join(_document(heading, layout, body)) + "\n", len(shown.boxes), shown.notes)


def escaped(text: str) -> str:
    """Text that is safe inside XML, in attributes too; what XML cannot hold is a replacement character."""
    text = text if text.isascii() and text.isprintable() else re.sub(_NOT_XML, "\ufffd", text)
    for raw, safe in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        text = text.replace(raw, safe)
    return text


def frames_of(frame: Frame) -> Iterator[Frame]:
    """A frame and all frames inside it, outermost first."""
    yield frame
    for part in frame.parts:
        if isinstance(part, Frame):
            yield from frames_of(part)


# -- sizes


def _wide(text: str, per_letter: float) -> float:
    """About how wide a text is drawn; letters outside Latin scripts are counted as wide ones."""
    return sum(per_letter if letter < "\u1100" else 2 * per_letter for letter in text)


def cut(text: str, per_letter: float, room: float) -> str:
    """The beginning of a text that fits into this room."""
    most = int(room / per_letter) + 1  # a letter is at least this wide
    if len(text) < most and _wide(text, per_letter) <= room:
        return text
    text = text[:most]
    while text and _wide(text, per_letter) + per_letter > room:
        text = text[:-1]
    return text + "\u2026"


def cut_front(text: str, per_letter: float, room: float) -> str:
    """The end of a name: that is where names differ."""
    fits = len(text) * per_letter <= room and _wide(text, per_letter) <= room
    return text if fits else "\u2026" + cut(text[::-1], per_letter, room)[:-1][::-1]


def box_width(lines: list[str]) -> float:
    """How wide a box with these lines is drawn."""
    wanted = max(_wide(lines[0][:60], 7.3), _wide(lines[1][:60], 5.9), _wide(lines[2][:60], 5.9)) + 18
    return min(max(wanted, LEAST_WIDTH), MOST_WIDTH)


def heading_width(text: str) -> float:
    """The room that the heading of a frame needs."""
    return min(_wide(text[:90], 6.8) + 20, 420.0)


# -- the document


def _document(heading: list[str], layout: Layout, body: list[str]) -> Iterator[str]:
    top = MARGIN + 10 + LINE * len(heading) + 54
    width = max(layout.width, LEAST_PICTURE) + 2 * MARGIN
    height = top + layout.height + MARGIN
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">'
    )
    yield f"<title>{escaped(heading[0])}</title>"
    yield f"<style>{STYLE}</style>"
    yield f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>'
    for at, line in enumerate(heading):
        yield _text(MARGIN, MARGIN + 8 + LINE * at, line, "q" if at else "t")
    yield from _legend(top - 56)
    yield f'<g transform="translate({MARGIN:.0f} {top:.0f})">'
    yield from body
    yield "</g>"
    yield "</svg>"


def _legend(y: float) -> Iterator[str]:
    x = MARGIN
    yield _text(x, y + 12, "share of the time:", "q")
    x += 112
    for least, colour in reversed(SHARES):
        words = f"from {100 * least:g} %" if least else "less"
        yield f'<rect x="{x:.0f}" y="{y + 2:.0f}" width="14" height="13" rx="2" fill="{colour}" stroke="#8c959f"/>'
        yield _text(x + 18, y + 12, words, "q")
        x += 34 + 5.5 * len(words)
    yield from _legend_of_links(y + 20)


def _legend_of_links(y: float) -> Iterator[str]:
    x = MARGIN
    for words, colour, dash in LEGEND:
        yield f'<path d="M{x:.0f} {y + 8:.0f}h26" stroke="{colour}" stroke-width="2"{dash}/>'
        yield _text(x + 31, y + 12, words, "q")
        x += 50 + 5.6 * len(words)


def _text(x: float, y: float, words: str, style: str = "") -> str:
    named = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{named}>{escaped(words)}</text>'


def _draw_frames(layout: Layout) -> Iterator[str]:
    for frame, rect in layout.frames:
        fill = FRAMES[len(frame.path) % 2]
        yield f"<g><title>{escaped('/'.join(frame.path))}</title>"
        yield f'{_rect(rect)} rx="7" fill="{fill}" stroke="#a9b8cf"/></g>'


def _draw_headings(layout: Layout, titles: dict[Frame, str]) -> Iterator[str]:
    """The names of the functions; after the links, which may pass below them."""
    for frame, rect in layout.frames:
        yield _text(rect.x + 10, rect.y + 17, cut(titles[frame], 6.8, rect.width - 16), f"f f{len(frame.path) % 2}")


def _rect(rect: Rect) -> str:
    return f'<rect x="{rect.x:.1f}" y="{rect.y:.1f}" width="{rect.width:.1f}" height="{rect.height:.1f}"'


def _draw_boxes(graph: Graph, shown: Picture, layout: Layout, lines: dict[Box, list[str]]) -> Iterator[str]:
    for box, rect in zip(shown.boxes, layout.boxes, strict=True):
        share = box.seconds / (shown.seconds or 1.0)
        colour = next(colour for least, colour in SHARES if share >= least)
        source = box.kind == "place" and graph.op_columns.kind[box.units[0].row] == "source"
        outline = FOLDED if box.kind == "small" else OUTLINE
        yield f"<g><title>{escaped(box_tooltip(graph, box))}</title>"
        if box.kind == "function":  # looks like a stack of boxes
            behind = Rect(rect.x + 4, rect.y + 4, rect.width, rect.height)
            yield f'{_rect(behind)} rx="4" fill="#ffffff"{OUTLINE}/>'
        yield f'{_rect(rect)} rx="{18 if source else 4}" fill="{colour}"{outline}/>'
        yield _text(rect.x + 9, rect.y + 19, cut_front(lines[box][0], 7.3, rect.width - 14), "n")
        yield _text(rect.x + 9, rect.y + 35, cut(lines[box][1], 5.9, rect.width - 12))
        yield _text(rect.x + 9, rect.y + 50, cut(lines[box][2], 5.9, rect.width - 12), "q")
        yield "</g>"


# -- links


def thickness(link: Link) -> float:
    """Wider by bytes on a logarithmic scale: 1 kB and less thin, 10 GB thick."""
    if link.kind != "flow":
        return 1.5
    return min(1.0 + 0.9 * max(0.0, log10(link.nbytes + 1) - 3), 7.5)


def weight_of(link: Link) -> float:
    """How much a link wants to be straight."""
    return thickness(link) if link.kind == "flow" else 0.5


def _draw_links(shown: Picture, layout: Layout) -> Iterator[str]:
    for at, link in enumerate(shown.links):
        colour, dash = COLOURS[link.kind], DASHES[link.kind]
        wide = thickness(link)
        if link.source == link.target:
            path, head = loop_path(layout.boxes[link.source])
        else:
            path, head = route_path(layout.routes[at], link.source > link.target, wide)
        opacity = ' stroke-opacity="0.75"' if link.kind == "flow" else ""
        yield f"<g><title>{escaped(link_tooltip(shown, link))}</title>"
        yield f'<path d="{path}" stroke="{colour}" stroke-width="{wide:.1f}"{dash}{opacity}/>'
        yield f'<path d="{head}" style="fill:{colour}"/></g>'


def route_path(lanes: list[Lane], upwards: bool, wide: float) -> tuple[str, str]:
    """The path along the lanes and the head of the arrow; between lanes it bends, in a lane it is straight."""
    size = 4.5 + wide
    x, top, bottom = lanes[0]
    parts = [f"M{x:.1f} {top + (size if upwards else 0):.1f}V{bottom:.1f}"]
    y = bottom
    for at, (next_x, next_top, next_bottom) in enumerate(lanes[1:], 2):
        stop = next_top - (0 if upwards or at < len(lanes) else size)
        middle = (y + stop) / 2
        parts.append(f"C{x:.1f} {middle:.1f} {next_x:.1f} {middle:.1f} {next_x:.1f} {stop:.1f}")
        if next_bottom > next_top:
            parts.append(f"V{next_bottom - (size if at == len(lanes) and not upwards else 0):.1f}")
        x, y = next_x, next_bottom
    if len(lanes) == 1 and not upwards:
        parts = [f"M{x:.1f} {top:.1f}V{bottom - size:.1f}"]
    if upwards:
        return "".join(parts), _head(lanes[0][0], lanes[0][1], size, 1)
    return "".join(parts), _head(lanes[-1][0], lanes[-1][2], size, -1)


def _head(x: float, y: float, size: float, way: int) -> str:
    half = size * 0.55
    return f"M{x:.1f} {y:.1f}L{x - half:.1f} {y + way * size:.1f}H{x + half:.1f}Z"


def loop_path(rect: Rect) -> tuple[str, str]:
    """An arrow from the right side of a box back to it."""
    x, y = rect.x + rect.width, rect.y + rect.height / 2
    path = f"M{x:.1f} {y + 12:.1f}C{x + 20:.1f} {y + 16:.1f} {x + 20:.1f} {y - 16:.1f} {x + 6:.1f} {y - 10:.1f}"
    return path, f"M{x:.1f} {y - 10:.1f}l7 -4v8Z"


# -- sizes at the links


def _draw_sizes(shown: Picture, layout: Layout) -> Iterator[str]:
    for room, words in size_labels(shown, layout):
        yield _text(room.x + 1, room.y + 9, words, "b")


def size_labels(shown: Picture, layout: Layout) -> Iterator[tuple[Rect, str]]:
    """The bytes of the links, the largest first, each where it hides nothing; the tooltips have all of them."""
    taken = layout.boxes + [Rect(rect.x, rect.y, min(rect.width, 200.0), 24.0) for _, rect in layout.frames]
    for at in sorted(range(len(shown.links)), key=lambda at: (-shown.links[at].nbytes, at)):
        link = shown.links[at]
        if link.kind == "flow" and link.nbytes:
            words = size_text(link.nbytes)
            room = _first_free(layout.routes[at], 5.6 * len(words) + 2, taken)
            if room is not None:
                taken.append(room)
                yield room, words


def _first_free(lanes: list[Lane], width: float, taken: list[Rect]) -> Rect | None:
    for x, y in _label_places(lanes):
        for left in (x + 7, x - width - 7):
            room = Rect(left, y - 5, width, 11.0)
            if not any(_overlap(room, other) for other in taken):
                return room
    return None


def _label_places(lanes: list[Lane]) -> Iterator[tuple[float, float]]:
    """Places along a route, the ends last."""
    for (x, _, bottom), (next_x, top, _) in pairwise(lanes):
        for part in (0.5, 0.7, 0.3):
            yield x + (next_x - x) * _bend(part), bottom + (top - bottom) * part
    for x, top, bottom in lanes:
        if bottom - top > 14:
            yield x, (top + bottom) / 2


def _bend(part: float) -> float:
    """How far to the side a bend is at this part of its height (close enough for a label)."""
    return part * part * (3 - 2 * part)


def _overlap(one: Rect, other: Rect) -> bool:
    apart_x = one.x + one.width <= other.x or other.x + other.width <= one.x
    return not (apart_x or one.y + one.height <= other.y or other.y + other.height <= one.y)
