"""What a run brought: the gain that was measured, the verdict on equality, the plan, and what was declined and why."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from codedag.autopilot.judge.judging import Judging
from codedag.autopilot.knowledge import Proven
from codedag.autopilot.pilot import Applied, Pilot
from codedag.autopilot.processes import worker_heat
from codedag.autopilot.processes.worker_report import Share, join, move_of
from codedag.autopilot.report.claims import claim_of, speed_of, whole_gain
from codedag.autopilot.report.heat_report import heat_of
from codedag.autopilot.report.spans import Spans
from codedag.backends.registry import find
from codedag.ir import Change, CostTable, Declined, Graph, Move, Op, OwnCosts, Plan, Proof, Report, Source
from codedag.migrate.trial import EVERY, FIRST, RAREST, Trial
from codedag.plan.serial import serial_plan
from codedag.trace.recorder import shown_path

MEMOS = ("remember", "recall", "memoise", "items")  # kinds of changes that keep results
WORTH_NAMING = 0.05  # share of the observed time from which an unchanged operation is named in the report
#: What results of the looser classes are checked with (backends/proof.py).
TOLERANCES = {
    "ulp": "floating-point results within 64 rounding steps of the largest value, doubles within 1024",
    "level1": "grey levels within 1",
}


class Outcome(msgspec.Struct, frozen=True):
    """The facts of a finished run, ready to be written and shown."""

    graph: Graph
    costs: CostTable
    plan: Plan
    report: Report
    proven: list[Proven] = []  # what the next run may begin with
    tried: list[Proven] = []  # what this run had an occasion to judge


class Result(msgspec.Struct, frozen=True):
    """One change with what all processes saw of it: its joined trial, and who had which part in it."""

    applied: Applied
    own: Applied
    others: list[Share] = []

    @property
    def counts(self) -> bool:
        """Whether the change is still in force, and has been checked and timed at least once."""
        trial = self.applied.trial
        return trial.active and trial.checked > 0 and bool(trial.pairs)

    @property
    def was_tried(self) -> bool:
        """Whether the run has judged the change: it was checked, or taken back."""
        return self.applied.trial.checked > 0 or not self.applied.trial.active


def results(pilot: Pilot) -> list[Result]:
    """Every change with what this process and its workers saw of it."""
    crew = pilot.team.crew
    others = crew.by_change()
    known = {(a.kind, a.path, tuple(a.sites)): a for a in pilot.applied}
    for key, every in others.items():
        move = every[0].move
        file = pilot.program.files.get(move.file)
        if key not in known and file is not None and file.sha256 == move.sha256:
            trial = Trial(" ".join(move.chain))
            known[key] = Applied(
                move.kind, move.file, move.function, move.sites, move.chain, trial, move.variant, move.equivalence
            )
    found = []
    for key, own in known.items():
        theirs = others.get(key, [])
        joined = replace(own, trial=join(own.trial, theirs)) if theirs else own
        found.append(Result(joined, own, theirs))
    return found


def conclude(pilot: Pilot, spans: Spans) -> Outcome:
    """The outcome of a pilot that has stopped, and what is known by then of where the time went."""
    gathered = pilot.team.gathered()
    graph, costs = _with_effects(gathered.graph()), gathered.costs()
    every = results(pilot)
    made = [result.applied for result in every if result.counts]
    moves = [_move(pilot, applied, graph) for applied in made]
    files = {applied.path for applied in made}
    sources = [Source(file=shown_path(path), sha256=pilot.program.files[path].sha256) for path in sorted(files)]
    plan = serial_plan(graph, costs, moves, sources)
    return Outcome(
        graph,
        costs,
        plan,
        _report(pilot, every, graph, spans),
        [move_of(applied, pilot.program) for applied in made],
        [move_of(result.applied, pilot.program) for result in every if result.was_tried],
    )


def _with_effects(graph: Graph) -> Graph:
    """The graph with its effects column; what is known of libraries is loaded only if there is an operation."""
    if not len(graph):
        return graph
    from codedag.backends.known_graph import with_effects

    return with_effects(graph)


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
        equivalence=applied.equivalence, seconds=variant_seconds, baseline_seconds=sum(op.self_seconds for op in ops),
        gain_low=low, gain_high=high,
    )  # fmt: skip


def _report(pilot: Pilot, every: list[Result], graph: Graph, spans: Spans) -> Report:
    made = [result for result in every if result.counts]
    heat = None if pilot.openings is None else heat_of(pilot.openings.heat, worker_heat.read(pilot.team.crew.folder))
    base = Report(
        verdict=_proof(pilot, every),
        changes=_with_kept([_change(pilot, result.applied) for result in made], pilot.memory.peak_nbytes),
        declined=_declined(pilot, every, graph, spans.program),
        workers=len(pilot.team.crew.reports),
        heat=heat,
        own=OwnCosts(
            kept_nbytes=pilot.memory.peak_nbytes, cpu_seconds=0.0 if heat is None else heat.own_seconds,
            start_seconds=spans.starting + spans.ending,
        ),
        optimised_seconds=spans.whole,
    )  # fmt: skip
    return base if pilot.judging is None else _claimed(pilot, pilot.judging, base, spans)


def _with_kept(changes: list[Change], nbytes: int) -> list[Change]:
    """The changes with what they kept, where one of them alone kept something: the budget is one for all."""
    memos = [change for change in changes if change.kind in MEMOS]
    only = memos[0] if len(memos) == 1 else None
    return [msgspec.structs.replace(each, kept_nbytes=nbytes) if each is only else each for each in changes]


def _claimed(pilot: Pilot, judging: Judging, base: Report, spans: Spans) -> Report:
    """The report with the gain that the judge measured, if it did."""
    claim, interval = claim_of(judging, spans.starting + spans.ending), judging.judge.gain
    found = msgspec.structs.replace(base, claim=claim, speed=speed_of(judging))
    if interval is None or not base.changes:
        return found
    middle, low, high = whole_gain(interval, spans, judging.with_changes_seconds(pilot.started_at + spans.program))
    return msgspec.structs.replace(
        found, baseline_seconds=middle * spans.whole, gain=middle, gain_low=low, gain_high=high,
        steady_gain=interval.middle, steady_low=interval.low, steady_high=interval.high,
    )  # fmt: skip


def _proof(pilot: Pilot, every: list[Result]) -> Proof:
    """What all checked calls say; results that were only near are not identical."""
    trials = [result.applied.trial for result in every]
    checked, mismatches = sum(t.checked for t in trials), sum(t.mismatches for t in trials)
    looser = sorted({result.applied.equivalence for result in every if result.counts} - {"exact"})
    return Proof(
        identical=mismatches == 0 and not looser, checked=checked, mismatches=mismatches,
        how=_how(pilot, looser) if checked else "nothing was changed",
        unverified=sum(t.unverified for t in trials),
    )  # fmt: skip


def _how(pilot: Pilot, looser: list[str]) -> str:
    engines = ", ".join(_engines(pilot))
    kernels = f"; {engines} kernel proven in another process first" if engines else ""
    sampled = f"the first {FIRST} calls of each change (3 if they take long), then on 1 in {EVERY} to {RAREST}"
    workers = len(pilot.team.crew.reports)
    where = f" in each of {workers} worker processes" if workers > 1 else " in the worker process" if workers else ""
    allowed = "".join(f"; {name} was allowed: {TOLERANCES[name]}" for name in looser)
    in_part = sum(applied.trial.in_part for applied in pilot.applied)
    part = f"; {in_part} calls that go row by row were compared on some of their rows" if in_part else ""
    return f"original and variant ran side by side on {sampled}{where}{part}{kernels}{allowed}"


def _engines(pilot: Pilot) -> list[str]:
    """The engines of the kernels that any process of the program used."""
    theirs = [engine for report in pilot.team.crew.reports for engine in report.engines]
    return list(dict.fromkeys([*pilot.shelf.engines(), *theirs]))


def _change(pilot: Pilot, applied: Applied) -> Change:
    low, high = _gain_interval(applied)
    unchecked = max(applied.trial.calls - applied.trial.checked + applied.trial.in_part, 1)
    original, variant = applied.trial.middle()
    what = " > ".join(name.rpartition(".")[2] for name in applied.names)
    kernel = "one kernel" if applied.variant == "loops" else "one table kernel"
    how = f"{kernel} ({', '.join(_engines(pilot)) or 'none'})" if applied.kind == "fuse" else applied.variant
    return Change(
        what=f"{what} -> {how}", where=_where(pilot, applied), kind=applied.kind, variant=applied.variant,
        equivalence=applied.equivalence, reason=applied.trial.told(),
        seconds=variant * unchecked, baseline_seconds=original * unchecked, gain_low=low, gain_high=high,
        calls=applied.trial.calls, checked=applied.trial.checked,
    )  # fmt: skip


def _gain_interval(applied: Applied) -> tuple[float, float]:
    """The quarter points of original time over variant time."""
    ratios = sorted(a / b for a, b in applied.trial.pairs[1:] if b > 0) or [applied.trial.gain()]
    return ratios[len(ratios) // 4], ratios[(3 * len(ratios)) // 4]


def _declined(pilot: Pilot, every: list[Result], graph: Graph, seconds: float) -> list[Declined]:
    theirs = [refusal for report in pilot.team.crew.reports for refusal in report.refused]
    own = [(r.what, r.where, r.reason) for r in pilot.refused]
    refused = dict.fromkeys([*own, *((r.what, r.where, r.reason) for r in theirs)])
    found = [Declined(what=what, where=where, reason=reason) for what, where, reason in refused]
    # what was taken back comes first, then what was refused and what is hot; single calls are a matter for the file
    stopped = [_judged(pilot, r.applied, r.applied.trial.reason) for r in every if not r.applied.trial.active]
    idle = [_judged(pilot, r.applied, _why_idle(r)) for r in every if r.applied.trial.active and not r.was_tried]
    single = [each for result in every if result.applied.trial.checked for each in _single(pilot, result.applied)]
    return [
        *stopped,
        *found,
        *(_unchanged(*each) for each in _hot(pilot, every, graph, seconds) if not is_named(each[0], found)),
        *idle,
        *single,
    ]


def is_named(op: Op, refused: list[Declined]) -> bool:
    """Whether a refusal says already why this operation is as it was: there is a variant then, which was not used."""
    at = f"{op.file}:{op.line}"
    return any(each.where == at and _is_same_function(each.what.partition(" ")[0], op.name) for each in refused)


def _is_same_function(one: str, other: str) -> bool:
    """Whether these name the same function of a library, as such or as a method: numpy.sum and numpy.ndarray.sum."""
    return (one.partition(".")[0], one.rpartition(".")[2]) == (other.partition(".")[0], other.rpartition(".")[2])


def _judged(pilot: Pilot, applied: Applied, reason: str) -> Declined:
    what = " > ".join(name.rpartition(".")[2] for name in applied.names)
    return Declined(what=what, where=_where(pilot, applied), reason=reason)


def _why_idle(result: Result) -> str:
    reasons = result.applied.trial.declined.most_common(1)
    return reasons[0][0] if reasons else "the program ended before it could be tried"


def _single(pilot: Pilot, applied: Applied) -> list[Declined]:
    """The calls of a change that ran as written, by reason."""
    what = " > ".join(name.rpartition(".")[2] for name in applied.names)
    return [
        Declined(what=f"{count} calls of {what}", where=_where(pilot, applied), reason=reason)
        for reason, count in applied.trial.declined.most_common(3)
    ]


def _hot(pilot: Pilot, every: list[Result], graph: Graph, seconds: float) -> list[tuple[Op, float, str]]:
    """Operations that took much of the time and were left as they are, hottest first, with whose time it was.

    Functions are observed for different spans, so what counts is an operation's seconds per second of observation.
    """
    changed = {(shown_path(r.applied.path), s) for r in every for s in r.applied.sites}
    ended = pilot.started_at + seconds
    spans = {
        (shown_path(file), owner): (w.ended or ended) - w.started for (file, owner), w in pilot.observed.watches.items()
    }
    theirs = _worker_spans(pilot)
    owner = {(shown_path(path), info.index): info.owner for path, f in pilot.program.files.items() for info in f.infos}
    load: dict[str, dict[int, float]] = {"": {}, " in workers": {}}
    for op in graph.ops:
        function = (op.file, owner.get((op.file, op.site), ""))
        whose = " in workers" if function in theirs else ""
        span = max((theirs if whose else spans).get(function, 0.0), seconds / 20)
        if op.kind not in ("region", "source") and span > 0:
            load[whose][op.id] = op.self_seconds / span
    found = []
    for whose, part in load.items():
        total = sum(part.values()) or 1.0
        found += [(graph.op(number), each / total, whose) for number, each in part.items()]
    left = [(op, share, whose) for op, share, whose in found if (op.file, op.site) not in changed]
    return sorted((each for each in left if each[1] >= WORTH_NAMING), key=lambda each: -each[1])


def _worker_spans(pilot: Pilot) -> dict[tuple[str, str], float]:
    """How long the functions that ran in workers were observed there, all workers together."""
    found: dict[tuple[str, str], float] = {}
    for report in pilot.team.crew.reports:
        for file, owner, span in report.spans:
            found[shown_path(file), owner] = found.get((shown_path(file), owner), 0.0) + span
    return found


def _why_no_variant(name: str) -> str:
    known = {substitution.equivalence.value for substitution in find(name, "cpu")}
    if not known:
        return "no faster variant is known for it"
    return "its variants take other calls" if "exact" in known else f"its variants round (--allow {min(known)})"


def _unchanged(op: Op, share: float, whose: str) -> Declined:
    reason = _why_no_variant(op.name)
    if op.name.endswith("_MultiProcessingDataLoaderIter.__next__"):
        reason = "it waits for the worker processes"
    elif op.name.endswith(".__next__"):
        reason = "time inside the library's own loop"
    return Declined(
        what=f"{op.name} ({share:.0%} of the observed operations' time{whose})",
        where=f"{op.file}:{op.line}",
        reason=reason,
        seconds=op.self_seconds,
    )
