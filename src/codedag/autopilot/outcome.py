"""What a run brought: the estimate of the gain, the verdict on equality, the plan, and what was declined and why."""

from __future__ import annotations

from dataclasses import dataclass

from codedag.autopilot.pilot import Applied, Pilot
from codedag.ir import Change, CostTable, Declined, Graph, Move, Op, Plan, Proof, Report, Source
from codedag.migrate.trial import EVERY, FIRST, RAREST
from codedag.plan.serial import serial_plan
from codedag.trace.recorder import shown_path

WORTH_NAMING = 0.05  # share of the observed time from which an unchanged operation is named in the report


@dataclass(frozen=True, slots=True)
class Outcome:
    """The facts of a finished run, ready to be written and shown."""

    graph: Graph
    costs: CostTable
    plan: Plan
    report: Report
    seconds: float
    switched_seconds: float
    observing_seconds: float

    def since_switch(self) -> tuple[float, float, float] | None:
        """The gain of the part of the run after the first change: middle, low, high."""
        report = self.report
        if not report.changes or self.switched_seconds <= 0 or report.gain is None:
            return None
        saved = [(g or 1.0) * self.seconds - self.seconds for g in (report.gain, report.gain_low, report.gain_high)]
        middle, low, high = (1 + (each + self.observing_seconds) / self.switched_seconds for each in saved)
        return middle, low, high


def conclude(pilot: Pilot, seconds: float, switched_seconds: float, observing_seconds: float) -> Outcome:
    """The outcome of a pilot that has stopped."""
    graph, costs = pilot.recorder.graph(), pilot.recorder.costs()
    moves = [_move(pilot, applied, graph) for applied in pilot.applied if _counts(applied)]
    files = {applied.path for applied in pilot.applied if _counts(applied)}
    sources = [Source(file=shown_path(path), sha256=pilot.program.files[path].sha256) for path in sorted(files)]
    plan = serial_plan(graph, costs, moves, sources)
    return Outcome(
        graph,
        costs,
        plan,
        _report(pilot, graph, seconds, switched_seconds, observing_seconds),
        seconds,
        switched_seconds,
        observing_seconds,
    )


def _counts(applied: Applied) -> bool:
    """Whether a change is still in force and has been checked at least once."""
    return applied.trial.active and applied.trial.checked > 0


def _where(pilot: Pilot, applied: Applied) -> str:
    first, last = applied.lines(pilot.program.files[applied.path])
    return f"{shown_path(applied.path)}:{first}" + (f"-{last}" if last != first else "")


def _move(pilot: Pilot, applied: Applied, graph: Graph) -> Move:
    file = pilot.program.files[applied.path]
    first, last = applied.lines(file)
    shown = shown_path(applied.path)
    ops = [
        op for op in graph.ops if op.file == shown and op.site in applied.sites and op.kind not in ("region", "source")
    ]
    ops.sort(key=lambda op: applied.sites.index(op.site))
    low, high = _gain_interval(applied)
    count = max((op.count for op in ops), default=1)
    variant_seconds = sorted(b for _, b in applied.trial.pairs)[len(applied.trial.pairs) // 2] * count
    return Move(
        kind=applied.kind, ops=[op.id for op in ops], id=f"{applied.kind}-{shown}-{first}", variant=applied.variant,
        file=shown, line=first, end_line=last, function=applied.owner, sites=applied.sites, chain=applied.names,
        equivalence="exact", seconds=variant_seconds, baseline_seconds=sum(op.self_seconds for op in ops),
        gain_low=low, gain_high=high,
    )  # fmt: skip


def _report(pilot: Pilot, graph: Graph, seconds: float, switched: float, observing: float) -> Report:
    saved = [sum(part) for part in zip(*(_saved(a) for a in pilot.applied if _counts(a)), strict=True)] or [
        0.0,
        0.0,
        0.0,
    ]
    extra = sum(b for a in pilot.applied for _, b in a.trial.pairs)  # checked calls ran twice
    checked = sum(a.trial.checked for a in pilot.applied)
    mismatches = sum(a.trial.mismatches for a in pilot.applied)
    spent = max(seconds, 1e-9)
    gains = [(spent - extra - observing + each) / spent for each in saved]
    return Report(
        baseline_seconds=spent - extra - observing + saved[0],
        optimised_seconds=spent,
        gain=gains[0],
        gain_low=min(gains[1:]),
        gain_high=max(gains[1:]),
        verdict=Proof(identical=mismatches == 0, checked=checked, mismatches=mismatches, how=_how(pilot, checked)),
        changes=[_change(pilot, a) for a in pilot.applied if _counts(a)],
        declined=_declined(pilot, graph, seconds),
    )


def _saved(applied: Applied) -> tuple[float, float, float]:
    count = applied.trial.calls - applied.trial.checked
    middle, low, high = applied.trial.saved_seconds()
    return middle * count, low * count, high * count


def _how(pilot: Pilot, checked: int) -> str:
    if not checked:
        return "nothing was changed"
    engines = ", ".join(pilot.shelf.engines())
    kernels = f"; {engines} kernel proven in another process first" if engines else ""
    sampled = f"the first {FIRST} calls of each change, then on 1 in {EVERY} to {RAREST}"
    return f"original and variant ran side by side on {sampled}{kernels}"


def _change(pilot: Pilot, applied: Applied) -> Change:
    low, high = _gain_interval(applied)
    unchecked = max(applied.trial.calls - applied.trial.checked, 1)
    middle = sorted(applied.trial.pairs)[len(applied.trial.pairs) // 2]
    what = " > ".join(name.rpartition(".")[2] for name in applied.names)
    how = (
        f"one table kernel ({', '.join(pilot.shelf.engines()) or 'none'})"
        if applied.kind == "fuse"
        else applied.variant
    )
    return Change(
        what=f"{what} -> {how}", where=_where(pilot, applied), kind=applied.kind, variant=applied.variant,
        equivalence="exact", reason=f"{applied.trial.gain():.1f}x on the same calls", seconds=middle[1] * unchecked,
        baseline_seconds=middle[0] * unchecked, gain_low=low, gain_high=high,
    )  # fmt: skip


def _gain_interval(applied: Applied) -> tuple[float, float]:
    """The quarter points of original time over variant time."""
    ratios = sorted(a / b for a, b in applied.trial.pairs[1:] if b > 0) or [applied.trial.gain()]
    return ratios[len(ratios) // 4], ratios[(3 * len(ratios)) // 4]


def _declined(pilot: Pilot, graph: Graph, seconds: float) -> list[Declined]:
    found = [Declined(what=r.what, where=r.where, reason=r.reason) for r in pilot.refused]
    for applied in pilot.applied:
        what = " > ".join(name.rpartition(".")[2] for name in applied.names)
        if not applied.trial.active:
            found.append(Declined(what=what, where=_where(pilot, applied), reason=applied.trial.reason))
        elif not applied.trial.checked:
            reasons = applied.trial.declined.most_common(1)
            found.append(
                Declined(
                    what=what,
                    where=_where(pilot, applied),
                    reason=reasons[0][0] if reasons else "the program ended before it could be tried",
                )
            )
        for reason, count in applied.trial.declined.most_common(3):
            if applied.trial.checked:
                found.append(Declined(what=f"{count} calls of {what}", where=_where(pilot, applied), reason=reason))
    return found + [_unchanged(op, share) for op, share in _hot(pilot, graph, seconds)]


def _hot(pilot: Pilot, graph: Graph, seconds: float) -> list[tuple[Op, float]]:
    """Operations that took much of the time and were left as they are, hottest first.

    Functions are observed for different spans, so what counts is an operation's seconds per second of observation.
    """
    changed = {(shown_path(a.path), site) for a in pilot.applied for site in a.sites}
    ended = pilot.started_at + seconds
    spans = {(shown_path(file), owner): (w.ended or ended) - w.started for (file, owner), w in pilot.watches.items()}
    owner = {(shown_path(path), info.index): info.owner for path, f in pilot.program.files.items() for info in f.infos}
    load = {}
    for op in graph.ops:
        span = max(spans.get((op.file, owner.get((op.file, op.site), "")), 0.0), seconds / 20)
        if op.kind not in ("region", "source") and span > 0:
            load[op.id] = op.self_seconds / span
    total = sum(load.values()) or 1.0
    left = [(graph.op(number), each / total) for number, each in load.items()]
    left = [(op, share) for op, share in left if (op.file, op.site) not in changed]
    return sorted(((op, share) for op, share in left if share >= WORTH_NAMING), key=lambda pair: -pair[1])


def _unchanged(op: Op, share: float) -> Declined:
    reason = "no exact variant is known for it"
    if op.name.endswith(".__next__"):
        reason = "time inside the library's own loop"
    return Declined(
        what=f"{op.name} ({share:.0%} of the time)",
        where=f"{op.file}:{op.line}",
        reason=reason,
        seconds=op.self_seconds,
    )
