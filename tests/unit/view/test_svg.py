"""The picture of a graph: legal XML, true to the graph, few enough boxes, and laid out without overlaps."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest

from codedag.ir import Edge, Graph, Op
from codedag.view import fold, labels, svg, units
from codedag.view.layout import Rect, lay_out

SVG = "{http://www.w3.org/2000/svg}"


def _op(id_: int, name: str, context: str, seconds: float = 1e-3, **more: object) -> Op:
    facts = {"kind": "call", "file": "a.py", "line": id_ + 1, "count": 2, "out_nbytes": 100, **more}
    return Op(id=id_, name=name, context=f"{context}/{name}" if context else name, self_seconds=seconds,
              total_seconds=seconds, **facts)  # type: ignore[arg-type]  # fmt: skip


def _random_graph(seed: int, length: int, places: int) -> Graph:
    """A graph with nested functions in which data goes to and fro; its rows are in no order."""
    rng = random.Random(seed)
    ops, edges = [], []
    for at in range(length):
        place = rng.randrange(places)
        path = "/".join(["main", f"f{place % 7}", f"g{place % 3}"][: 1 + place % 3])
        kind = rng.choice(["call", "call", "operator", "region"])
        op = _op(at, f"lib.op{place}", path, rng.random() ** 6, kind=kind, line=place + 1, in_sig=f"f[{at % 3}]")
        ops.append(op)
        for _ in range(rng.randrange(3) if at else 0):
            edges.append(Edge(rng.randrange(max(0, at - 30), at), at, rng.choice(["flow", "flow", "anti"]), at * 1000))
    rng.shuffle(ops)
    carried = [(rng.randrange(length), rng.randrange(length)) for _ in range(5)]
    return Graph.build(ops, edges, carried)


def _layout(picture: fold.Picture):
    return lay_out(picture, lambda box: (140.0, 58.0), lambda frame: 100.0, lambda link: 1.0)


def _apart(one: Rect, other: Rect) -> bool:
    return (
        one.x + one.width <= other.x
        or other.x + other.width <= one.x
        or one.y + one.height <= other.y
        or other.y + other.height <= one.y
    )


SHAPES = [(0, 1, 1), (1, 40, 12), (2, 300, 60), (3, 1500, 900), (4, 5000, 4000), (5, 4000, 30)]


@pytest.mark.parametrize(("seed", "length", "places"), SHAPES)
def test_boxes_hold_every_operation_once_and_links_go_forward(seed, length, places):
    graph = _random_graph(seed, length, places)
    picture = fold.picture(graph)
    touched = {end for e in graph.edges for end in (e.src, e.dst)} | {end for pair in graph.carried for end in pair}
    drawn = [op for op in graph.ops if op.kind != "region" or op.id in touched]
    assert len(picture.boxes) <= fold.MOST_BOXES
    assert sum(box.templates for box in picture.boxes) == len(drawn)
    assert picture.seconds == pytest.approx(sum(op.self_seconds for op in drawn if op.kind != "region"))
    assert all(link.source < link.target for link in picture.links if link.kind != "carried")


@pytest.mark.parametrize(("seed", "length", "places"), SHAPES[:4])
def test_links_are_the_edges_between_the_boxes(seed, length, places, monkeypatch):
    """No link without an edge, no edge between two boxes without a link, and the bytes add up."""
    monkeypatch.setattr(fold, "LINKS_PER_BOX", 10**6)
    graph = _random_graph(seed, length, places)
    found = units.rolled(graph)
    monkeypatch.setattr(fold, "rolled", lambda graph: found)
    picture = fold.picture(graph)
    of = {id(unit): at for at, box in enumerate(picture.boxes) for unit in box.units}
    between = {(of[id(found.units[s])], of[id(found.units[d])]) for s, d in found.flow}
    assert {(k.source, k.target) for k in picture.links if k.kind == "flow"} == {(s, d) for s, d in between if s != d}
    inside = sum(size for (s, d), size in found.flow.items() if of[id(found.units[s])] == of[id(found.units[d])])
    assert sum(link.nbytes for link in picture.links if link.kind == "flow") == sum(found.flow.values()) - inside


@pytest.mark.parametrize(("seed", "length", "places"), SHAPES)
def test_nothing_overlaps_and_every_wire_goes_down(seed, length, places):
    picture = fold.picture(_random_graph(seed, length, places))
    layout = _layout(picture)
    for at, one in enumerate(layout.boxes):
        assert all(_apart(one, other) for other in layout.boxes[at + 1 :])
    for frame, rect in layout.frames:
        inside = {id(box) for box in frame.boxes()}
        for box, place in zip(picture.boxes, layout.boxes, strict=True):
            if id(box) in inside:
                assert rect.x <= place.x
                assert place.x + place.width <= rect.x + rect.width
                assert rect.y <= place.y
                assert place.y + place.height <= rect.y + rect.height
            else:
                assert _apart(rect, place)
    for at, lanes in layout.routes.items():
        heights = [y for _, top, bottom in lanes for y in (top, bottom)]
        assert all(upper <= lower + 1e-6 for upper, lower in pairwise(heights)), at


@pytest.mark.parametrize(("seed", "length", "places"), SHAPES)
def test_wires_pass_no_box(seed, length, places):
    picture = fold.picture(_random_graph(seed, length, places))
    layout = _layout(picture)
    for at, lanes in layout.routes.items():
        ends = {picture.links[at].source, picture.links[at].target}
        for x, top, bottom in lanes:
            wire = Rect(x - 0.5, top, 1.0, bottom - top)
            for number, box in enumerate(layout.boxes):
                assert number in ends or _apart(wire, box)


def test_the_picture_is_the_same_each_time():
    assert svg.draw(_random_graph(7, 400, 90)) == svg.draw(_random_graph(7, 400, 90))


def test_signatures_of_one_place_are_one_box():
    ops = [_op(0, "np.load", "main", line=1)]
    ops += [_op(n, "np.sqrt", "main", line=5, in_sig=f"f8[{n}]", count=n) for n in (1, 2, 3)]
    graph = Graph.build(ops, [Edge(0, n, "flow", 10) for n in (1, 2, 3)] + [Edge(1, 2, "flow", 7)])
    picture = fold.picture(graph)
    assert [box.name for box in picture.boxes] == ["np.load", "np.sqrt"]
    assert picture.boxes[1].units[0].calls == 6
    assert [(link.kind, link.source, link.target, link.nbytes) for link in picture.links] == [
        ("flow", 0, 1, 30),
        ("carried", 1, 1, 0),
    ]
    assert "f8[2]" in svg.draw(graph)


def test_two_calls_of_one_function_are_drawn_apart_if_one_feeds_the_other():
    """main: y = norm(x); z = conv(y); norm(z).  Rolled into one box, norm would feed conv and conv norm: a cycle."""
    ops = [
        _op(0, "np.std", "main/norm", line=2),
        _op(1, "np.conv", "main", line=9),
        _op(2, "np.std", "main/norm", line=2),
    ]
    picture = fold.picture(Graph.build(ops, [Edge(0, 1, "flow", 8), Edge(1, 2, "flow", 8)]))
    assert [box.name for box in picture.boxes] == ["np.std", "np.conv", "np.std"]
    assert [(link.source, link.target, link.kind) for link in picture.links] == [(0, 1, "flow"), (1, 2, "flow")]


def test_a_late_row_does_not_tear_its_function_apart():
    """A branch that is first taken late has a late row, but stands in the middle of its function."""
    ops = [
        _op(0, "cv2.resize", "main/load"),
        _op(1, "np.astype", "main/load"),
        _op(2, "np.mean", "main/other"),
        _op(3, "cv2.flip", "main/load"),
    ]
    edges = [Edge(0, 1, "flow", 1), Edge(0, 3, "flow", 1), Edge(3, 1, "flow", 1)]
    (main,) = fold.picture(Graph.build(ops, edges)).root.parts
    assert sorted(part.name for part in main.parts) == ["load", "other"]


def test_carried_edges_point_back_and_have_a_style_of_their_own():
    graph = Graph.build([_op(0, "a.f", "main"), _op(1, "a.g", "main")], [Edge(0, 1, "flow", 9)], [(1, 0), (1, 1)])
    picture = fold.picture(graph)
    assert [(k.source, k.target) for k in picture.links if k.kind == "carried"] == [(1, 0), (1, 1)]
    drawn = svg.draw(graph)
    assert drawn.count(f'stroke="{svg.CARRIED}" stroke-width="1.5" stroke-dasharray="2 3"') == 2
    assert "feeds a later iteration" in drawn


def test_cheap_functions_are_collapsed_first_and_the_picture_says_so():
    ops = [_op(f * 20 + i, "np.f", f"main/cheap{f}", 1e-6) for f in range(10) for i in range(20)]
    ops += [_op(1000 + i, "np.hot", "main/hot", 1.0) for i in range(20)]
    graph = Graph.build(ops)
    picture = fold.picture(graph, most=120)
    hot = [box for box in picture.boxes if box.name == "np.hot"]
    assert len(hot) == 20
    assert len(picture.boxes) <= 120
    closed = [box for box in picture.boxes if box.kind == "function"]
    assert closed
    assert all(box.templates == 20 for box in closed)
    assert f"{len(closed)} functions drawn as one box each ({20 * len(closed)} operations" in picture.notes[0]
    assert picture.notes[0] in svg.draw(graph, most=120).replace("&#39;", "'")


def test_small_operations_are_folded_and_the_hot_ones_stay():
    ops = [_op(n, f"np.f{n}", "main", 1.0 if n % 40 == 0 else 1e-6) for n in range(400)]
    graph = Graph.build(ops, [Edge(n, n + 1, "flow", 5) for n in range(399)])
    picture = fold.picture(graph, most=30)
    assert len(picture.boxes) <= 30
    assert sum(box.kind == "place" and box.seconds == 1.0 for box in picture.boxes) == 10
    assert re.search(r"390 operations, 0\.0% of the time folded into 10 boxes", picture.notes[0])
    assert "39 small operations" in svg.draw(graph, most=30)


HOSTILE = [
    "</text><script>alert(1)</script>",
    "a\"b'c&d]]>",
    "nul\0bell\x07\x1b[31m",
    "\ufffe\uffff\u202e",
    "\ud800",
    "名前" * 40,
    "x" * 5000,
    "",
    "/",
    "a/b//c",
]


def _parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text.encode("utf-8"))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_only_text(name):
    graph = Graph.build(
        [
            _op(0, name, name, file=name, in_sig=name, out_sig=name),
            _op(1, name, f"main/{name}/f", file=name),
            _op(2, "", "", line=0),
        ],
        [Edge(0, 1, "flow", 2**62)],
        [(1, 0)],
    )
    root = _parsed(svg.draw(graph, title=name))
    names = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert names <= {"svg", "title", "style", "rect", "text", "g", "path"}
    assert not any(key.endswith("href") or key.startswith("on") for element in root.iter() for key in element.attrib)


def test_the_picture_refers_to_nothing_outside():
    drawn = svg.draw(_random_graph(2, 300, 60))
    assert re.findall(r"https?://[^\"]*", drawn) == ["http://www.w3.org/2000/svg"]
    assert "url(" not in drawn
    assert "@import" not in drawn
    root = _parsed(drawn)
    background = root.find(f"{SVG}rect")
    assert background is not None
    assert background.attrib["fill"] == "#ffffff"
    assert (background.attrib["width"], background.attrib["height"]) == (root.attrib["width"], root.attrib["height"])


def test_empty_and_tiny_graphs():
    assert "0 operations" in svg.draw(Graph.build([]))
    _parsed(svg.draw(Graph.build([])))
    _parsed(svg.draw(Graph.build([_op(0, "a.b", "", 0.0)])))
    _parsed(svg.draw(Graph.build([_op(0, "a.b", "main", kind="region")])))


def test_deep_recursion_ends_in_a_last_frame():
    graph = Graph.build([_op(0, "np.f", "/".join(f"f{n}" for n in range(3000)))])
    picture = fold.picture(graph)
    assert len(picture.boxes[0].units[0].path) == units.MOST_DEPTH
    assert "f2999" in svg.draw(graph)


def test_a_large_unrolled_graph_is_rolled_by_place():
    length = 20_000
    ops = [_op(n, f"np.f{n % 8}", f"main/s{n % 2}", line=n % 8 + 1) for n in range(length)]
    graph = Graph.build(ops, [Edge(n, n + 1, "flow", 1) for n in range(length - 1)])
    picture = fold.picture(graph)
    assert len(picture.boxes) == 8
    assert sum(link.kind == "flow" for link in picture.links) == 7
    assert [(k.source, k.target) for k in picture.links if k.kind == "carried"] == [(7, 0)]


def test_a_peak_is_shown_if_it_was_measured():
    graph = Graph.build([_op(0, "np.f", "main")])
    picture = fold.picture(graph)
    (box,) = picture.boxes
    assert "peak" not in labels.box_lines(graph, picture, box)[2]
    box.units[0].peak = 5000
    assert "peak 5.0 kB" in labels.box_lines(graph, picture, box)[2]
