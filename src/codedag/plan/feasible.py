"""Where ops may run at all: values must reach their readers over the links that there are."""

from __future__ import annotations

from array import array
from math import inf
from typing import TYPE_CHECKING

from codedag.ir import CannotPlan

if TYPE_CHECKING:
    from codedag.plan.problem import Problem

HINT = "Add the missing link to machine.json, or measure these ops on PUs that can exchange data."


def reachable(problem: Problem) -> list[int]:
    """For each PU the set of PUs (as bits) that a value on it can get to, itself included."""
    k, lane = problem.k, problem.links.lane
    reach = [1 << a | sum(1 << b for b in range(k) if lane[a * k + b] >= 0) for a in range(k)]
    for via in range(k):
        for a in range(k):
            if reach[a] >> via & 1:
                reach[a] |= reach[via]
    return reach


def prune(problem: Problem) -> None:
    """Strikes out PUs from which some reader, or to which some input, cannot be reached; raises if none is left."""
    reach = reachable(problem)
    if all(bits == (1 << problem.k) - 1 for bits in reach):
        return
    domains = _domains(problem)
    edges = [(s, t) for s, t, kind in _edges(problem) if kind == "flow"]
    rank = {row: at for at, row in enumerate(problem.graph.topological_rows())}
    edges.sort(key=lambda edge: rank[edge[0]])
    while _pass(problem, reach, domains, edges) or _pass(problem, reach, domains, edges[::-1]):
        pass
    for row, bits in enumerate(domains):
        for pu in range(problem.k):
            if not bits >> pu & 1:
                problem.seconds[row * problem.k + pu] = inf


def _edges(problem: Problem) -> zip[tuple[int, int, str]]:
    sources, targets = problem.graph.edge_rows()
    return zip(sources, targets, problem.graph.edge_columns.kind, strict=True)


def _domains(problem: Problem) -> list[int]:
    k, seconds = problem.k, problem.seconds
    return [sum(1 << pu for pu in range(k) if seconds[row * k + pu] < inf) for row in range(problem.n)]


def _pass(problem: Problem, reach: list[int], domains: list[int], edges: list[tuple[int, int]]) -> bool:
    """Whether anything was struck out."""
    changed, k = False, problem.k
    for src, dst in edges:
        before = domains[src], domains[dst]
        into = 0
        for pu in range(k):
            if before[0] >> pu & 1:
                into |= reach[pu]
        domains[dst] &= into
        domains[src] = sum(1 << pu for pu in range(k) if before[0] >> pu & 1 and reach[pu] & domains[dst])
        if not domains[dst] or not domains[src]:
            raise _no_link(problem, src, dst, before)
        changed |= (domains[src], domains[dst]) != before
    return changed


def _no_link(problem: Problem, src: int, dst: int, domains: tuple[int, int]) -> CannotPlan:
    names = [", ".join(pu for at, pu in enumerate(problem.pus) if bits >> at & 1) for bits in domains]
    ops = problem.graph.ops
    return CannotPlan(
        f"{ops[src].label} runs on {names[0]} only and {ops[dst].label}, which needs its value, on {names[1]} only: "
        f"no link leads there",
        hint=HINT,
    )


def islands(problem: Problem) -> bool:
    """Whether each part of the graph was confined to PUs that reach each other; False if that changes nothing.

    Parts that are joined by values must be on one island; each takes the one where it is cheapest.
    """
    reach, domains = reachable(problem), _domains(problem)
    classes = {
        frozenset(b for b in range(problem.k) if reach[a] >> b & 1 and reach[b] >> a & 1) for a in range(problem.k)
    }
    if len(classes) < 2:
        return False
    changed = False
    for part in _parts(problem):
        fitting = [one for one in classes if all(any(domains[row] >> pu & 1 for pu in one) for row in part)]
        if not fitting:
            return False
        chosen = min(fitting, key=lambda one: (_cheapest(problem, part, one), sorted(one)))
        changed |= _confine(problem, part, chosen)
    return changed


def _cheapest(problem: Problem, part: list[int], island: frozenset[int]) -> float:
    return sum(min(problem.seconds[row * problem.k + pu] for pu in island) for row in part)


def _confine(problem: Problem, part: list[int], island: frozenset[int]) -> bool:
    changed = False
    for row in part:
        for pu in range(problem.k):
            at = row * problem.k + pu
            if pu not in island and problem.seconds[at] < inf:
                problem.seconds[at] = inf
                changed = True
    return changed


def _parts(problem: Problem) -> list[list[int]]:
    """The rows of each part of the graph that values join."""
    root = array("q", range(problem.n))

    def find(row: int) -> int:
        while root[row] != row:
            root[row] = root[root[row]]
            row = root[row]
        return row

    for src, dst, kind in _edges(problem):
        if kind == "flow":
            root[find(src)] = find(dst)
    parts: dict[int, list[int]] = {}
    for row in range(problem.n):
        parts.setdefault(find(row), []).append(row)
    return list(parts.values())


def why_not(problem: Problem) -> CannotPlan:
    """The error for an instance in which every strategy got stuck for want of a link."""
    missing = [f"{a} -> {b}" for i, a in enumerate(problem.pus) for j, b in enumerate(problem.pus)
               if i != j and problem.links.lane[i * problem.k + j] < 0]  # fmt: skip
    return CannotPlan(
        f"no placement was found in which every value reaches its readers; no link: {', '.join(missing)}", hint=HINT
    )
