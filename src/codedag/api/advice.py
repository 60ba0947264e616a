"""What of a run's work could be saved, from its graph and the source that it ran."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from codedag.ir import Graph, Op, RunDirectory, RunInfo
from codedag.ir.findings import ChainBytes, Finding, Written
from codedag.ir.machine import Pu

LATE_SECONDS = 1.0  # the beginning of a run is known to the second


def advice_of(directory: RunDirectory, graph: Graph) -> list[Finding]:
    """What the passes find in a run; nothing in files that were changed since, or are gone."""
    from codedag.plan.passes import findings

    return findings(graph, places_of(directory.run, graph))


def chains_of(directory: RunDirectory, graph: Graph) -> list[ChainBytes]:
    """The chains of element-wise operations of a run, those that move most bytes in vain first."""
    from codedag.plan.traffic import candidates, predicted, traffic

    pu = _processor(directory)
    found = []
    for chain in candidates(graph, _is_elementwise):
        moved = traffic(graph, chain)
        if moved is not None and moved.unfused_nbytes > moved.fused_nbytes:
            gain = predicted(moved, pu) if pu is not None else None
            found.append(ChainBytes(chain, moved.unfused_nbytes, moved.fused_nbytes, gain))
    return sorted(found, key=lambda one: (one.together_nbytes - one.apart_nbytes) * graph.op(one.ops[0]).count)


def _is_elementwise(op: Op) -> bool:
    from codedag.backends.elementwise import MAP, role_of

    role = role_of(op.name)
    return role is not None and role.kind == MAP and not role.in_place


def _processor(directory: RunDirectory) -> Pu | None:
    """The processor of the run's machine, if it was measured how fast bytes move there."""
    if not directory.has("machine"):
        return None
    measured = (pu for pu in directory.machine.pus if pu.name == "cpu" and isinstance(pu.stream_levels, list))
    return next(measured, None)


def places_of(info: RunInfo, graph: Graph) -> dict[tuple[str, int], Written]:
    """What the source proves about the sites of a graph, by file and number."""
    sites: dict[str, dict[int, tuple[int, int]]] = {}
    ops = graph.op_columns
    for file, site, line, column in zip(ops.file, ops.site, ops.line, ops.col, strict=True):
        if file and site >= 0:
            sites.setdefault(file, {})[site] = (line, column)
    found: dict[tuple[str, int], Written] = {}
    for file, seen in sites.items():
        facts = _facts(info, file)
        if all(site in facts and (facts[site].line, facts[site].column) == at for site, at in seen.items()):
            found |= {(file, site): fact for site, fact in facts.items()}
    return found


def _facts(info: RunInfo, file: str) -> dict[int, Written]:
    from codedag.instrument.written import written

    path = Path(info.cwd) / file
    try:
        if not info.started or path.stat().st_mtime > datetime.fromisoformat(info.started).timestamp() + LATE_SECONDS:
            return {}
        return written(path.read_bytes(), file, main=file == info.script)
    except (OSError, ValueError, SyntaxError, RecursionError):
        return {}
