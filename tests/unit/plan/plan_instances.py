"""Instances for the tests of the plan room: hand-made, random and hostile, as the three files would hold them."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from codedag.ir import CostTable, Edge, Graph, Machine, Op

Instance = dict[str, Any]


def op(number: int, nbytes: int = 0, **more: Any) -> dict[str, Any]:
    facts = {
        "id": number, "name": f"f{number}", "kind": "call", "file": "a.py", "line": number + 1,
        "context": f"main/f{number}", "count": 1, "self_seconds": 0.0, "total_seconds": 0.0, "out_nbytes": nbytes,
    }  # fmt: skip
    return facts | more


def instance(
    nbytes: list[int],
    edges: list[tuple[Any, ...]],
    costs: dict[str, list[float | None]],
    links: Any = None,
    **pus: dict[str, Any],
) -> Instance:
    """An instance: costs per PU (None = unsupported), links as (src, dst, latency, rate[, shared]) or all equal."""
    names = list(costs)
    if links is None:
        links = [(a, b, 0.0, 1.0) for a in names for b in names if a != b]
    ops = [op(i, n) for i, n in enumerate(nbytes)]
    rows = [
        {"op": i, "pu": pu, "variant": "original", "seconds": s, "status": "ok" if s is not None else "unsupported",
         "scratch_nbytes": 0}
        for pu, column in costs.items() for i, s in enumerate(column)
    ]  # fmt: skip
    machine_pus = [{"name": n, "memory_nbytes": 1 << 40, "launch_seconds": 0.0} | pus.get(n, {}) for n in names]
    return {
        "graph": {
            "format": "codedag/graph", "version": 1, "ops": ops, "carried": [],
            "edges": [
                {"src": e[0], "dst": e[1], "kind": e[2] if len(e) > 2 else "flow", "nbytes": nbytes[e[0]]}
                for e in edges
            ],
        },
        "costs": {"format": "codedag/costs", "version": 1, "pus": names, "rows": rows},
        "machine": {
            "format": "codedag/machine", "version": 1, "pus": machine_pus,
            "links": [
                {"src": x[0], "dst": x[1], "latency_seconds": x[2], "bytes_per_second": x[3]}
                | ({"shared": x[4]} if len(x) > 4 else {})
                for x in links
            ],
        },
    }  # fmt: skip


def objects(made: Instance) -> tuple[Graph, CostTable, Machine]:
    """The same as objects."""
    graph = Graph.build(
        [msgspec.convert(one, Op) for one in made["graph"]["ops"]],
        [msgspec.convert(one, Edge) for one in made["graph"]["edges"]],
    )
    return graph, msgspec.convert(made["costs"], CostTable), msgspec.convert(made["machine"], Machine)


def random_instance(seed: int, most: int = 30, *, hostile: bool = False) -> Instance:
    """A small random instance; `hostile` adds zero times, shared things, missing links, odd edges."""
    r = random.Random(seed)
    n, k = r.randint(1, most), r.randint(1, 4)
    names = ["cpu", "gpu", "npu", "igpu"][:k]
    zero = hostile and r.random() < 0.3
    nbytes = [0 if zero and r.random() < 0.5 else r.randint(0, 1000) for _ in range(n)]
    edges: list[tuple[Any, ...]] = []
    for v in range(1, n):
        for _ in range(r.randint(0, 3)):
            u = r.randrange(v)
            edges.append((u, v, "anti" if hostile and r.random() < 0.2 else "flow"))
    if hostile and edges:
        edges += [r.choice(edges) for _ in range(3)]
        edges += [(u, v, "anti") for u, v, *_ in edges[:2]]
    costs: dict[str, list[float | None]] = {
        name: [0.0 if zero and r.random() < 0.3 else r.lognormvariate(0, 1) for _ in range(n)] for name in names
    }
    if hostile:
        for name in names[1:]:
            for v in range(n):
                if r.random() < 0.2:
                    costs[name][v] = None
    rate = 10 ** r.uniform(1, 4)
    links = []
    for a in names:
        for b in names:
            if a == b or (hostile and k > 2 and r.random() < 0.2 and "cpu" not in (a, b)):
                continue
            link: tuple[Any, ...] = (a, b, r.choice((0.0, 0.01, 0.3)), rate * r.uniform(0.3, 3))
            links.append((*link, "bus") if hostile and r.random() < 0.3 else link)
    pus = {name: {"launch_seconds": r.choice((0.0, 0.01))} for name in names}
    if hostile and k > 2 and r.random() < 0.4:
        pus["gpu"]["resource"] = pus["npu"]["resource"] = "chip"
    made = instance(nbytes, edges, costs, links, **pus)
    if hostile:
        for row in made["costs"]["rows"]:
            row["scratch_nbytes"] = r.choice((0, 0, r.randint(0, 500)))
    return made
