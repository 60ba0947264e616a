"""`codedag plan`: decide which variant of each operation runs where, from a run or from files alone."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from codedag.cli.options import tell

if TYPE_CHECKING:
    from msgspec import UnsetType

    from codedag.ir import Source
    from codedag.plan.problem import Problem
    from codedag.plan.search import Progress
    from codedag.plan.solution import Solution

WHAT_IF = "pu=cuda:0[,machine=FILE][,allow=ulp+level1]"
SAME = 1e-9  # relative: rounding, no gain
# Before this nobody wonders whether anything happens.
PATIENCE_SECONDS = 2.0


@click.command("plan", short_help="Plan which PU runs which operation, from measured costs.")
@click.argument("run", required=False)
@click.option("--graph", metavar="FILE", help="Plan this graph.json instead of a run's.")
@click.option("--costs", metavar="FILE", help="Use these costs.")
@click.option("--machine", metavar="FILE", help="Plan for this machine; what is not measured is labelled simulated.")
@click.option("--budget", type=click.FloatRange(0), default=2.0, show_default=True, help="Seconds to search.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The same seed gives the same plan.")
@click.option("--front", is_flag=True, help="Also list the plans that none beats in time, memory and energy.")
@click.option(
    "--joule", type=click.FloatRange(0), default=0.0, metavar="SECONDS", help="What a saved joule is worth [0]."
)
@click.option("--stages", type=click.IntRange(2), metavar="K", help="Also cut the program's loop into up to K stages.")
@click.option(
    "--what-if", "wished", metavar="pu=NAME", help=f"Only say what a device that is not here would bring: {WHAT_IF}."
)
@click.option("-o", "--output", metavar="FILE", help="Write the plan here (default: plan.json of the run).")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
@click.pass_context
def command(
    ctx: click.Context, run: str | None, graph: str | None, costs: str | None, machine: str | None, budget: float,
    seed: int, front: bool, joule: float, stages: int | None, wished: str | None, output: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Plan which PU runs which operation and in which order.

    The plan is judged by a simulator in which copies take turns; it states a bound that no plan can beat. Without a
    RUN, name --graph, --costs and --machine.
    """
    if wished is not None:
        if run is None or graph or costs or machine or front or stages or joule:
            raise click.UsageError("--what-if takes a RUN and -o, --json; the machine file is a part of it.")
        _what_if(run, wished, output, as_json)
        return
    from codedag.ir import write_atomically
    from codedag.plan.decide import solve

    for name, value in (("--budget", budget), ("--joule", joule)):
        if not math.isfinite(value):
            raise click.UsageError(f"Invalid value for '{name}': {value} is no number of seconds.")
    place = Path(output) if output else _default_place(run)
    problem, sources = _problem(run, graph, costs, machine)
    with _bar(budget, quiet=as_json or ctx.obj["quiet"]) as progress:
        solution = solve(
            problem, budget=budget, seed=seed, sources=sources, progress=progress, front=front, joule=joule
        )
    write_atomically(place, solution.pieces())
    facts = _facts(solution, place)
    more = _stages(solution, stages, run if graph is None else None, facts) if stages else []
    if as_json:
        tell(json.dumps(facts))
    else:
        tell(*_lines(solution, facts), *more, f"next: {_next(run, place, solution)}")


def _what_if(run: str, wished: str, output: str | None, as_json: bool) -> None:
    """What a device that is not here would bring; a plan is written only where the user names a file."""
    from codedag.api.planning import sources_of
    from codedag.cli import what_if
    from codedag.ir import RunDirectory, load, save

    directory = RunDirectory(run)
    if not directory.path.is_dir():
        load(directory.path)  # says what is wrong with it
    found = what_if.answer(directory, what_if.wish(wished))
    if output:
        save(found.plan(directory.graph, directory.costs, sources_of(directory)), output)
    if as_json:
        tell(json.dumps({**what_if.facts(found), "plan": output}))
        return
    written = (
        [f"plan: {output} (simulated; it declines everything where there is no {found.pu.name})"] if output else []
    )
    tell(*what_if.lines(found), *written, f"next: codedag profile {quote(run)}")


def _default_place(run: str | None) -> Path:
    if run is None:
        raise click.UsageError("Name -o FILE: without a RUN there is no place for the plan.")
    return Path(run) / "plan.json"


def _problem(
    run: str | None, graph: str | None, costs: str | None, machine: str | None
) -> tuple[Problem, list[Source]]:
    from codedag.api.planning import sources_of
    from codedag.ir import RunDirectory, load
    from codedag.ir.cost_columns import read_cost_columns
    from codedag.plan.problem import Problem

    if run is None and not (graph and costs and machine):
        raise click.UsageError("Name a RUN, or --graph, --costs and --machine.")
    directory = RunDirectory(run) if run is not None else None
    if directory is not None and not directory.path.is_dir():
        load(directory.path)  # says what is wrong with it
    loaded = directory.graph if directory is not None and not graph else load(graph or "", "graph")
    table = directory.costs if directory is not None and not costs else read_cost_columns(costs or "")
    found = directory.machine if directory is not None and not machine else load(machine or "", "machine")
    sources = sources_of(directory) if directory is not None and not graph else []
    return Problem(loaded, table, found), sources


@contextmanager
def _bar(budget: float, quiet: bool) -> Iterator[Progress | None]:
    """A progress bar on stderr if the search may take long."""
    if quiet or budget < PATIENCE_SECONDS or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("planning", total=1.0)
        yield lambda part: bar.update(task, completed=part)


def _facts(solution: Solution, place: Path) -> dict[str, object]:
    from codedag.plan.overlap import idle_seconds

    problem, table = solution.problem, solution.table
    makespan = table.makespan
    copied = sum(table.copy_end) - sum(table.copy_start)
    counts = dict.fromkeys(problem.pus, 0)
    for pu in table.place:
        counts[problem.pus[pu]] += 1
    return {
        "plan": str(place), "ops": problem.n, "makespan_seconds": makespan, "lower_bound_seconds": solution.lower_bound,
        "baseline": solution.baseline, "baseline_seconds": solution.baseline_seconds, "strategy": solution.strategy,
        "transfers": len(table.copy_start), "ops_per_pu": counts, "truncated": solution.truncated,
        "simulated": [pu.name for pu in problem.machine.pus if pu.simulated],
        "front": [[one.name, one.makespan_seconds, one.peak_nbytes] for one in solution.front],
        "joules": solution.joules, "transfer_seconds": copied,
        "exposed_seconds": idle_seconds(zip(table.start, table.end, strict=True), makespan),
    }  # fmt: skip


def _stages(solution: Solution, k: int, run: str | None, told: dict[str, object]) -> list[str]:
    """The lines about stages; the facts are put with the others."""
    from codedag.cli import staged
    from codedag.ir import RunDirectory

    found = staged.staged(solution, k, RunDirectory(run) if run is not None else None)
    told["stages"] = staged.facts(found, solution)
    return staged.lines(found, solution)


def _joules(energy: float | UnsetType) -> str:
    return f" and {energy:.4g} J" if isinstance(energy, float) else ""


def _lines(solution: Solution, facts: dict[str, object]) -> list[str]:
    makespan, bound, before = solution.table.makespan, solution.lower_bound, solution.baseline_seconds
    gap = f"{makespan / bound - 1:.1%} above the bound {bound:.6g} s" if bound > 0 else "no bound"
    if makespan >= before * (1 - SAME):
        gain = "nothing that was found is faster than"
    else:  # with the strategy stay too: other variants run where the operation was
        gain = f"{before / makespan:.2f} times as fast as" if makespan > 0 else "against"
    against = "the program as written" if solution.baseline == "stay" else solution.baseline
    counts: dict[str, int] = facts["ops_per_pu"]  # type: ignore[assignment]
    lines = [
        f"{solution.problem.n} operations in {makespan:.6g} s ({gap}), {gain} {against} ({before:.6g} s)",
        f"strategy: {solution.strategy}; {facts['transfers']} transfers; "
        + ", ".join(f"{count} on {name}" for name, count in counts.items() if count),
    ]
    if facts["transfers"]:
        still = f"which stands still for {facts['exposed_seconds']:.6g} s"
        lines.append(f"transfers: {facts['transfer_seconds']:.6g} s beside the work, {still}")
    if solution.joules is not None:
        lines.append(f"energy: {solution.joules:.4g} J while PUs work")
    if facts["simulated"]:
        lines.append(f"simulated, not measured here: {', '.join(facts['simulated'])}")  # type: ignore[arg-type]
    if solution.truncated:
        lines.append("truncated: the clock ended the search, so another run may give another plan")
    lines += [
        f"front: {one.makespan_seconds:.6g} s with {one.peak_nbytes} bytes{_joules(one.joules)} ({one.name})"
        for one in solution.front
    ]
    return [*lines, f"plan: {facts['plan']}"]


def _next(run: str | None, place: Path, solution: Solution) -> str:
    if run is None:
        return f"codedag run --plan {quote(str(place))} SCRIPT"
    row = max(range(solution.problem.n), key=lambda one: solution.problem.graph.op_columns.self_seconds[one], default=0)
    op = solution.problem.graph.op_columns.id[row] if solution.problem.n else 0
    return f"codedag explain {quote(run)} {op}"
