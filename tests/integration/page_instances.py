"""Random plans, and what the model says about them: written from the model alone, apart from the page's own simulator.

Times are longest paths over an explicit graph of precedences; live bytes are summed up anew at every moment.
"""

from __future__ import annotations

import itertools
import random
from functools import cache
from typing import Any

from codedag.ir import CostRow, CostTable, Edge, Graph, Link, Machine, Op, Pu

Item = tuple[str, Any]  # ("op", id) or ("copy", (id, destination))


def instance(seed: int) -> dict[str, Any]:
    """Units, links, operations with costs everywhere, a placement, and the order that its times come from."""
    rng = random.Random(seed)
    pus = [f"pu{at}" for at in range(rng.randint(1, 4))]
    count = rng.randint(1, 14)
    ids = rng.sample(range(100), count)
    edges: dict[tuple[int, int], int] = {}
    for at in range(count):
        for before in rng.sample(range(at), min(at, rng.randint(0, 3))):
            edges[ids[before], ids[at]] = int(rng.random() < 0.8)
    pairs = [(a, b) for a in pus for b in pus if a != b]
    ring = {(pus[at], pus[(at + 1) % len(pus)]) for at in range(len(pus))}
    links = [pair for pair in pairs if pair in ring or rng.random() < 0.6]
    made: dict[str, Any] = {
        "pus": [
            {
                "name": pu,
                "launch_seconds": rng.choice([0.0, 0.01]),
                "memory_nbytes": 1,
                **({"resource": rng.choice("xy")} if rng.random() < 0.4 else {}),
            }
            for pu in pus
        ],
        "links": [
            {
                "src": a,
                "dst": b,
                "latency_seconds": rng.choice([0.01, 0.05]),  # at 0 a copy may take no time, and times tell no order
                "bytes_per_second": rng.choice([10.0, 100.0]),
                **({"shared": "bus"} if rng.random() < 0.4 else {}),
            }
            for a, b in links
        ],
        "edges": [[a, b, kind] for (a, b), kind in edges.items()],
        "nbytes": {op: rng.choice([0, 1, 10, 50]) for op in ids},
        "scratch": {op: rng.choice([0, 0, 7]) for op in ids},
        "costs": {op: {pu: rng.choice([0.0, rng.random()]) for pu in pus} for op in ids},
    }
    place = {op: rng.choice(pus) for op in ids}
    order: list[tuple[Item, dict[str, Any]]] = []
    for op in ids:  # ids are in an order that respects the edges; copies come whenever they please before their reader
        for (a, b), kind in edges.items():
            if b == op and kind and place[a] != place[op]:
                _route(rng, made, place, order, a, place[op])
        order.append((("op", op), {"pu": place[op], "seconds": made["costs"][op][place[op]]}))
    made["place"], made["order"] = place, order
    return made


def _route(rng: random.Random, made: dict[str, Any], place: dict[int, str], order: list[Any], op: int, to: str) -> None:
    """Adds copies of a value until it is there: directly, or by a random way over other units."""
    holds = {place[op], *(item[1][1] for item, _ in order if item[0] == "copy" and item[1][0] == op)}
    if to in holds:
        return
    best = {pu: [] for pu in holds}
    waiting = sorted(holds)
    while to not in best:
        here = waiting.pop(rng.randrange(len(waiting)))
        for link in made["links"]:
            if link["src"] == here and link["dst"] not in best:
                best[link["dst"]] = [*best[here], (here, link["dst"])]
                waiting.append(link["dst"])
    for src, dst in best[to]:
        order.append((("copy", (op, dst)), {"src": src, "dst": dst}))


def times(made: dict[str, Any], order: list[tuple[Item, dict[str, Any]]]) -> dict[Item, tuple[float, float]]:
    """Start and end of everything: the longest path through what it needs and what takes its turn before it."""
    known = dict(order)
    place = {item[1]: facts["pu"] for item, facts in order if item[0] == "op"}
    turns: dict[str, list[Item]] = {}
    for item, facts in order:
        turns.setdefault(_turn(made, item, facts), []).append(item)
    before = {b: a for line in turns.values() for a, b in itertools.pairwise(line)}

    def holder(op: int, pu: str) -> Item:
        return ("op", op) if place[op] == pu else ("copy", (op, pu))

    def needs(item: Item) -> list[Item]:
        if item[0] == "copy":
            return [holder(item[1][0], known[item]["src"])]
        arriving = [(a, kind) for a, b, kind in made["edges"] if b == item[1]]
        return [holder(a, place[item[1]]) if kind else ("op", a) for a, kind in arriving]

    @cache
    def end(item: Item) -> float:
        return start(item) + _seconds(made, item, known[item])

    @cache
    def start(item: Item) -> float:
        earlier = needs(item) + ([before[item]] if item in before else [])
        return max((end(other) for other in earlier), default=0.0)

    return {item: (start(item), end(item)) for item in known}


def _turn(made: dict[str, Any], item: Item, facts: dict[str, Any]) -> str:
    if item[0] == "op":
        pu = next(one for one in made["pus"] if one["name"] == facts["pu"])
        return f"resource {pu['resource']}" if "resource" in pu else f"pu {facts['pu']}"
    link = _link(made, facts)
    return "shared bus" if "shared" in link else f"{facts['src']} to {facts['dst']}"


def _link(made: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    return next(one for one in made["links"] if (one["src"], one["dst"]) == (facts["src"], facts["dst"]))


def _seconds(made: dict[str, Any], item: Item, facts: dict[str, Any]) -> float:
    if item[0] == "op":
        launch = next(one["launch_seconds"] for one in made["pus"] if one["name"] == facts["pu"])
        return launch + facts["seconds"]
    link = _link(made, facts)
    return link["latency_seconds"] + made["nbytes"][item[1][0]] / link["bytes_per_second"]


def plan_of(made: dict[str, Any], found: dict[Item, tuple[float, float]]) -> dict[str, Any]:
    """The plan that these times belong to, as the page has it."""
    known = dict(made["order"])
    return {
        "placement": [[item[1], facts["pu"], "original"] for item, facts in made["order"] if item[0] == "op"],
        "schedule": [[item[1], *found[item]] for item in found if item[0] == "op"],
        "transfers": [
            {"op": item[1][0], "src": known[item]["src"], "dst": known[item]["dst"], "start": at, "end": end}
            for item, (at, end) in found.items()
            if item[0] == "copy"
        ],
    }


def peaks(made: dict[str, Any], order: list[tuple[Item, dict[str, Any]]], found: dict[Item, Any]) -> dict[str, float]:
    """The most bytes that each unit holds: at every start, all that lives then is summed up."""
    known = dict(order)
    place = {item[1]: facts["pu"] for item, facts in order if item[0] == "op"}
    spans: list[tuple[str, float, float, int]] = []
    for item, (start, end) in found.items():
        op, pu = (item[1], place[item[1]]) if item[0] == "op" else item[1]
        readers = [found["op", b][1] for a, b, kind in made["edges"] if a == op and kind and place[b] == pu] + [
            found[other][1] for other in found if other[0] == "copy" and other[1][0] == op and known[other]["src"] == pu
        ]
        spans.append((pu, start, max(readers, default=end), made["nbytes"][op]))
        if item[0] == "op":
            spans.append((pu, start, end, made["scratch"][op]))
    # What starts and ends at the same moment is freed before it is allocated in the model: it never counts.
    moments = {start for _, start, _, _ in spans}
    most: dict[str, float] = {}
    for moment in moments:
        for pu in {where for where, *_ in spans}:
            held = sum(size for where, start, end, size in spans if where == pu and start <= moment < end)
            most[pu] = max(most.get(pu, 0), held)
    return most


def changed(made: dict[str, Any], found: dict[Item, Any], choice: dict[int, str]) -> list[tuple[Item, dict[str, Any]]]:
    """The order that the page's what-if stands for: by planned starts, then ends, with the copies still needed.

    The copies of a value stay if its producer and its readers did; other values are copied the cheapest way, as soon as
    the plan has them.
    """
    position = _positions(made, found)
    place = {op: choice.get(op, pu) for op, pu in made["place"].items()}
    items: list[tuple[tuple[Any, ...], Item, dict[str, Any]]] = []
    for op in place:
        seconds = made["costs"][op][place[op]]
        key = (*found["op", op], position[op], 0, "")
        items.append((key, ("op", op), {"pu": place[op], "seconds": seconds}))
        for src, dst, planned, depth in _copies(made, found, place, op):
            items.append(((*planned, position[op], depth, dst), ("copy", (op, dst)), {"src": src, "dst": dst}))
    return [(item, facts) for _, item, facts in sorted(items, key=lambda one: one[0])]


def _positions(made: dict[str, Any], found: dict[Item, Any]) -> dict[int, int]:
    """The place of each operation in an order that respects the edges: by start, end and place in the list."""
    listed = {item[1]: at for at, item in enumerate(found) if item[0] == "op"}
    left = {op: {a for a, b, _ in made["edges"] if b == op} for op in made["place"]}
    position: dict[int, int] = {}
    while left:
        ready = [op for op, waits in left.items() if not waits - position.keys()]
        op = min(ready, key=lambda one: (*found["op", one], listed[one]))
        position[op] = len(position)
        del left[op]
    return position


def _copies(made: dict[str, Any], found: dict[Item, Any], place: dict[int, str], op: int) -> list[tuple[Any, ...]]:
    readers = [b for a, b, kind in made["edges"] if a == op and kind]
    planned = {i[1][1]: facts["src"] for i, facts in made["order"] if i[0] == "copy" and i[1][0] == op}
    depth = {place[op]: 0}
    result: list[tuple[Any, ...]] = []
    if all(place[one] == made["place"][one] for one in (op, *readers)):
        while planned:  # sources first
            dst = min(pu for pu in planned if planned[pu] in depth)
            src = planned.pop(dst)
            depth[dst] = depth[src] + 1
            result.append((src, dst, found["copy", (op, dst)], depth[dst]))
        return result
    for pu in sorted({place[one] for one in readers} - {place[op]}):
        if pu not in depth:
            for src, dst in _cheapest(made, depth, pu, made["nbytes"][op]):
                depth[dst] = depth[src] + 1
                result.append((src, dst, (found["op", op][1],) * 2, depth[dst]))
    return result


def _cheapest(made: dict[str, Any], depth: dict[str, int], to: str, nbytes: int) -> list[tuple[str, str]]:
    """The way that costs least, by trying all without a loop."""
    ways: list[tuple[float, list[tuple[str, str]]]] = []

    def go(way: list[tuple[str, str]], here: str, seconds: float) -> None:
        if here == to:
            ways.append((seconds, way))
            return
        for link in made["links"]:
            if link["src"] == here and link["dst"] not in depth and link["dst"] not in {s for s, _ in way}:
                more = link["latency_seconds"] + nbytes / link["bytes_per_second"]
                go([*way, (here, link["dst"])], link["dst"], seconds + more)

    for pu in depth:
        go([], pu, 0.0)
    least = min(seconds for seconds, _ in ways)
    near = [way for seconds, way in ways if seconds <= least * (1 + 1e-12)]
    # several ways cost the same: the caller skips such an instance, since either is right
    if len(near) > 1:
        raise Ambiguous
    return near[0]


def as_files(made: dict[str, Any]) -> tuple[Graph, CostTable, Machine]:
    """The instance as the planner reads it; some operations cannot run on some units."""
    rng = random.Random(len(made["edges"]))
    ops = [
        Op(
            id=op, name="f", kind="call", file="a.py", line=1, context="f", count=1, self_seconds=0.0,
            total_seconds=0.0, out_nbytes=made["nbytes"][op],
        )
        for op in made["place"]
    ]  # fmt: skip
    edges = [Edge(a, b, "flow" if kind else "anti", made["nbytes"][a] if kind else 0) for a, b, kind in made["edges"]]
    rows = [
        CostRow(op=op, pu=pu, variant="original", seconds=seconds, status="ok", scratch_nbytes=made["scratch"][op])
        for op, costs in made["costs"].items()
        for at, (pu, seconds) in enumerate(costs.items())
        if at == 0 or rng.random() < 0.8
    ]
    machine = Machine(
        pus=[Pu(**{**pu, "memory_nbytes": 1 << 40}) for pu in made["pus"]],
        links=[Link(**link) for link in made["links"]],
    )
    return Graph.build(ops, edges), CostTable(pus=[pu["name"] for pu in made["pus"]], rows=rows), machine


class Ambiguous(Exception):
    """An instance in which the model leaves a choice."""
