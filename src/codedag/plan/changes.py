"""What a plan changes at places of the source: operators, which have no function that could be replaced."""

from __future__ import annotations

from collections.abc import Sequence

from codedag.ir import Move
from codedag.plan.problem import Problem

ARROW = " -> "  # between the function and what stands in for it, in the name of a variant


def moves_of(problem: Problem, places: Sequence[int]) -> list[Move]:
    """The moves by which `codedag run --plan` brings the variants of operators to their places, in the source's order.

    A place whose operations (one for each shape of its inputs) are given different variants is left as it is.
    """
    if not any(ARROW in variant for variant in problem.variants):
        return []
    columns = problem.graph.op_columns
    chosen: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for row, pu in enumerate(places):
        if columns.site[row] >= 0 and columns.kind[row] == "operator":
            key = (columns.file[row], columns.site[row])
            chosen.setdefault(key, []).append((row, problem.variant_of(row, pu)))
    found = []
    for (file, site), rows in sorted(chosen.items()):
        variants = {variant for _, variant in rows}
        if len(variants) == 1 and ARROW in next(iter(variants)):
            found.append(_move(problem, file, site, [row for row, _ in rows], variants.pop()))
    return found


def _move(problem: Problem, file: str, site: int, rows: Sequence[int], variant: str) -> Move:
    columns, first = problem.graph.op_columns, rows[0]
    inside = columns.context[first].split("/")[:-1]
    return Move(
        kind="substitute", ops=[columns.id[row] for row in rows], variant=variant.partition(ARROW)[2], file=file,
        line=columns.line[first], function=inside[-1] if inside else "", sites=[site], chain=[columns.name[first]],
    )  # fmt: skip
