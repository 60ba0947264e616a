"""The sampler's heat as the report shows it: hot functions of the user and of packages, hot lines, the turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codedag.instrument.places import OURS, is_installed, is_standard_library
from codedag.ir.report import Heat, HotFunction, HotLine, HotTurn
from codedag.trace.gathered import shown_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codedag.autopilot.heat import Heat as SampledHeat
    from codedag.autopilot.heat import HeatReport
    from codedag.autopilot.processes.worker_heat import WorkerHeat

FUNCTIONS_SHOWN, LINES_SHOWN, WORKERS_SHOWN = 40, 40, 64


def heat_of(heat: SampledHeat, workers: Iterable[WorkerHeat] = ()) -> Heat:
    """What a report says about where the time went; of workers, what their own samplers saw."""
    from codedag.autopilot.report.calls import calls_of

    seen, others = heat.look(), list(workers)
    whole = max(seen.cpu_seconds, 1e-9)
    own = [each for each in seen.functions if not each.file.startswith(("<", OURS))]
    functions = [
        HotFunction(
            name=each.qualname, file=shown_path(each.file), line=each.first_line, package=package_of(each.file),
            self_seconds=each.self_seconds, total_seconds=each.cumulative_seconds,
            share=min(each.cumulative_seconds / whole, 1.0),
        )
        for each in own[:FUNCTIONS_SHOWN]
    ]  # fmt: skip
    turn = seen.turn
    return Heat(
        sampled_seconds=seen.wall_seconds, cpu_seconds=seen.cpu_seconds, waiting_seconds=seen.waiting_seconds,
        own_seconds=seen.own_cpu_seconds, is_biased=seen.is_biased, functions=functions, lines=_lines(seen, whole),
        calls=calls_of([heat.tree()]), workers=[each.totals for each in others[:WORKERS_SHOWN]],
        worker_calls=calls_of([each.calls for each in others]),
        turn=None if turn is None else HotTurn(
            file=shown_path(turn.file), line=turn.loop_first_line, name=turn.qualname,
            period_seconds=turn.period_seconds, turns=turn.turns_at_least,
        ),
    )  # fmt: skip


def _lines(seen: HeatReport, whole: float) -> list[HotLine]:
    """The hottest lines of the user's own files."""
    seconds: dict[tuple[str, int], float] = {}
    for function in seen.functions:
        if not package_of(function.file) and not function.file.startswith("<"):
            for line in function.lines:
                key = (shown_path(function.file), line.line)
                seconds[key] = seconds.get(key, 0.0) + line.cumulative_seconds
    hottest = sorted(seconds.items(), key=lambda each: -each[1])[:LINES_SHOWN]
    return [HotLine(file=file, line=line, seconds=s, share=min(s / whole, 1.0)) for (file, line), s in hottest]


def package_of(path: str) -> str:
    """The installed package that a file belongs to; empty: the user's own."""
    if is_standard_library(path):
        return "python"
    if not is_installed(path):
        return ""
    return path.partition("/site-packages/")[2].partition("/")[0].removesuffix(".py") or "python"
