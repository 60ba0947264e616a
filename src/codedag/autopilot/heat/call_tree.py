"""Call tree of the sampler: nodes that took little are folded into their callers, the others get names and places."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from codedag.autopilot.heat.line_table import positions_of
from codedag.autopilot.heat.report import HotCall
from codedag.instrument.places import is_installed, is_standard_library

if TYPE_CHECKING:
    from codedag.instrument._sampler import Node

NODES_MAX = 400  # of a tree; shares grow until no more are left
CPU_SHARE_MIN = 0.003  # of all CPU time in a node and below it, from which it is kept
WAITING_SHARE_MIN = 0.02  # of the wall time of the run
BLOCKED_FACTOR = 20.0  # a function that waits so many times as long as it computes is blocked, not crowded out
MACHINERY = "<frozen "  # the interpreter's own imports
NOWHERE = (-1, -1, -1, -1)

Names = tuple[str, str, int, bytes]


def call_tree(nodes: list[Node], whole: tuple[float, float], names: Callable[[int], Names | None]) -> list[HotCall]:
    """The nodes with names, callers first; `whole`: seconds of CPU and of the clock that shares are of."""
    cpu, waiting = [node[3] for node in nodes], _blocked(nodes)
    own_cpu, own_waiting = list(cpu), list(waiting)
    for number in reversed(range(len(nodes))):  # callers come first
        parent = nodes[number][0]
        if parent >= 0:
            cpu[parent] += cpu[number]
            waiting[parent] += waiting[number]
    least = CPU_SHARE_MIN * whole[0], WAITING_SHARE_MIN * whole[1]
    large = [(c > 0 and c >= least[0]) or (w > 0 and w >= least[1]) for c, w in zip(cpu, waiting, strict=True)]
    known = {node[1]: names(node[1]) for node, is_large in zip(nodes, large, strict=True) if is_large}
    kept = [is_large and _is_shown(nodes, number, known) for number, is_large in enumerate(large)]
    while sum(kept) > NODES_MAX:
        least = 1.2 * least[0], 1.2 * least[1]
        kept = [one and (cpu[at] >= least[0] or waiting[at] >= least[1]) for at, one in enumerate(kept)]
    return _folded(nodes, kept, known, (own_cpu, own_waiting))


def _blocked(nodes: list[Node]) -> list[float]:
    """Seconds in which each node waited for somebody: what computes waits for its core now and then, too."""
    own, waiting = defaultdict[int, float](float), defaultdict[int, float](float)
    for _, serial, _, seconds, waited in nodes:
        own[serial] += seconds
        waiting[serial] += waited
    return [node[4] if waiting[node[1]] >= BLOCKED_FACTOR * own[node[1]] else 0.0 for node in nodes]


def _is_shown(nodes: list[Node], number: int, known: dict[int, Names | None]) -> bool:
    """Whether a node is of use to a reader: what an import imports is that import's own time."""
    found = known[nodes[number][1]]
    if found is None or found[0].startswith(MACHINERY):
        return False
    if found[1] != "<module>" or not _is_of_package(found[0]):
        return True
    caller = nodes[number][0]
    while caller >= 0:
        outer = known.get(nodes[caller][1])
        if outer is not None and not outer[0].startswith(MACHINERY):
            return not (outer[1] == "<module>" and _is_of_package(outer[0]))
        caller = nodes[caller][0]
    return True


def _is_of_package(file: str) -> bool:
    return is_installed(file) or is_standard_library(file)


def _folded(
    nodes: list[Node], kept: list[bool], known: dict[int, Names | None], own: tuple[list[float], list[float]]
) -> list[HotCall]:
    positions: dict[int, list[tuple[int, int, int, int]]] = {}
    made: list[HotCall] = []
    numbers: list[int] = []
    for number, (parent, serial, offset, _, _) in enumerate(nodes):
        caller = numbers[parent] if parent >= 0 else -1
        found = known[serial] if kept[number] else None
        if found is None:
            if caller >= 0:
                one = made[caller]
                made[caller] = one._replace(
                    self_seconds=one.self_seconds + own[0][number],
                    waiting_seconds=one.waiting_seconds + own[1][number],
                )
            numbers.append(caller)
            continue
        file, qualname, first_line, table = found
        if serial not in positions:
            positions[serial] = positions_of(table, first_line)
        places, unit = positions[serial], offset // 2
        at = places[unit] if 0 <= unit < len(places) else NOWHERE
        numbers.append(len(made))
        made.append(HotCall(caller, file, qualname, first_line, *at, own[0][number], own[1][number]))
    return made
