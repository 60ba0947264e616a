"""The end of a run in which nothing was tried: what the sampler saw, as the files of a run directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codedag.autopilot.hot import changeable_share
from codedag.autopilot.knowledge_store import RunFacts, length_of
from codedag.autopilot.processes import worker_heat
from codedag.autopilot.report.finished import Finished
from codedag.autopilot.report.heat_report import heat_of
from codedag.instrument.guard import after
from codedag.ir.costs import CostTable
from codedag.ir.graph import Graph
from codedag.ir.plan import Plan
from codedag.ir.report import Heat, Proof, Report

if TYPE_CHECKING:
    from codedag.autopilot.budget import Budget
    from codedag.autopilot.heat import Heat as SampledHeat
    from codedag.autopilot.heat import HeatReport
    from codedag.autopilot.knowledge_store import Store
    from codedag.instrument.launch import Ending
    from codedag.trace.rundir import Keeper

NOTHING_SECONDS_MIN = 4.0  # a shorter run is mostly start-up, which says nothing of what a change could reach
NOTHING_SHARE_MAX = 0.1  # of the time in code that a change could reach: below it nothing is to be gained
NOTHING = Plan(
    sources=[], placement=[], moves=[], makespan_seconds=0.0, lower_bound_seconds=0.0, baseline_seconds=0.0
)  # fmt: skip
LEFT_ALONE = "earlier runs found nothing to gain, so the program ran as written (--fresh: it is tried again)"


def conclude(
    keeper: Keeper, store: Store | None, sampled: SampledHeat, ending: Ending, budget: Budget, is_left_alone: bool
) -> Finished:
    """Writes the run (an empty graph and plan, a report of what is slow) and what is known of the program now."""
    workers = worker_heat.read(keeper.path / "workers" if keeper.has_workers else None)
    heat, seconds = heat_of(sampled, workers), budget.elapsed()
    report = Report(
        optimised_seconds=seconds, heat=heat,
        verdict=Proof(identical=True, checked=0, mismatches=0, how="nothing was changed"),
    )  # fmt: skip
    if is_left_alone:
        keeper.notes.append(LEFT_ALONE)
    keeper.keep(Graph.build([]), CostTable(pus=["cpu"], rows=[]), NOTHING, report)
    keeper.has_page = keeper.asked
    if store is not None and is_left_alone:
        store.count_rest(length_of(seconds, store.target))
    elif store is not None:
        keeper.left("what was found could not be kept", after(_remember, store, heat, sampled.look(), budget))
    keeper.end("ok" if ending.code == 0 else "failed", ending.code)
    if keeper.asked:
        from codedag.autopilot.session import keep_page

        keeper.left("the report page could not be written", after(keep_page, keeper))
    return Finished(ending, keeper, report=report)


def _remember(store: Store, heat: Heat, seen: HeatReport, budget: Budget) -> None:
    seconds, known = budget.elapsed(), store.known
    nothing = seconds >= NOTHING_SECONDS_MIN and changeable_share(seen) < NOTHING_SHARE_MAX
    files = {} if known is None else {path: file.sha256 for path, file in known.files.items()}
    facts = RunFacts(
        length=length_of(seconds, store.target), functions=heat.functions, turn=heat.turn, found_nothing=nothing,
        files=files, unproven=() if known is None else [(each.source, each.into) for each in known.wanted],
        credit_seconds=budget.credit(),
    )  # fmt: skip
    store.keep(facts)
