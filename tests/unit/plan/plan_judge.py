"""An independent judge of plan.json: slow, plain, written from the rules of docs/planning.md only."""

from __future__ import annotations

import graphlib
import itertools
from collections import defaultdict

RELATIVE = 1e-9


def judge(graph: dict, costs: dict, machine: dict, plan: dict) -> float:
    """The makespan that a replay gives; raises AssertionError naming the rule that the plan breaks."""
    pus = {pu["name"]: pu for pu in machine["pus"]}
    links = {(link["src"], link["dst"]): link for link in machine["links"]}
    rows = {(row["op"], row["pu"]): row for row in costs["rows"] if row["status"] == "ok"}
    ops = {op["id"]: op for op in graph["ops"]}
    place = {row["op"]: row["pu"] for row in plan["placement"]}
    assert set(place) == set(ops), "every op is placed once"
    assert len(plan["placement"]) == len(ops)
    steps = {row["op"]: (row["start"], row["end"]) for row in plan["schedule"]}
    assert set(steps) == set(ops), "every op is scheduled once"
    flow, anti = defaultdict(set), defaultdict(set)
    for edge in graph["edges"]:
        (flow if edge["kind"] == "flow" else anti)[edge["dst"]].add(edge["src"])
    copies = [(t["op"], t["src"], t["dst"], t["start"], t["end"]) for t in plan["transfers"]]
    assert len({(c[0], c[2]) for c in copies}) == len(copies), "one copy per op and destination"

    def length(op):
        row = rows.get((op, place[op]))
        if row is None:  # an op that does no work of its own has no row
            assert ops[op]["kind"] in ("region", "source", "sink")
            return 0.0
        return pus[place[op]]["launch_seconds"] + row["seconds"]

    def copy_length(op, src, dst):
        link = links[src, dst]
        return link["latency_seconds"] + ops[op]["out_nbytes"] / link["bytes_per_second"]

    # Stated times: long enough, after their inputs, one at a time.
    makespan = max([s[1] for s in steps.values()] + [c[4] for c in copies], default=0.0)
    slack = RELATIVE * max(makespan, 1e-300)
    holds = {(op, place[op]): steps[op][1] for op in ops}
    for op, _, dst, _, end in copies:
        assert dst != place[op], "no copy to the producer's own PU"
        holds[op, dst] = end
    for op, src, dst, start, end in copies:
        assert (src, dst) in links, f"no link {src} -> {dst}"
        assert (op, src) in holds, "the source holds the value"
        assert start >= holds[op, src] - slack
        assert abs(end - start - copy_length(op, src, dst)) <= slack
    for op, (start, end) in steps.items():
        assert abs(end - start - length(op)) <= slack, (op, end - start, length(op))
        for before in flow[op]:
            assert (before, place[op]) in holds, f"{before} is not on {place[op]}"
            assert start >= holds[before, place[op]] - slack
        for before in anti[op] - flow[op]:
            assert start >= steps[before][1] - slack
    turns = defaultdict(list)
    for op in steps:
        resource = pus[place[op]].get("resource")
        turns["resource", resource if resource else ("own", place[op])].append((*steps[op], ("op", op)))
    for op, src, dst, start, end in copies:
        shared = links[src, dst].get("shared")
        turns["link", shared if shared else (src, dst)].append((start, end, ("copy", op, dst)))
    for tasks in turns.values():
        tasks.sort(key=lambda t: (t[0], t[1]))
        for (_, end, _), (start, _, _) in itertools.pairwise(tasks):
            assert start >= end - slack, "they take turns"
    early = _replayed(ops, place, flow, anti, copies, turns, length, copy_length)
    fits_early = _fits(ops, place, flow, copies, early, rows, pus)
    if not fits_early:
        stated = {("op", op): steps[op] for op in ops} | {("copy", c[0], c[2]): (c[3], c[4]) for c in copies}
        assert _fits(ops, place, flow, copies, stated, rows, pus), "memory"
        assert plan["makespan_seconds"] == makespan
        return makespan
    replay = max((end for _, end in early.values()), default=0.0)
    assert abs(replay - makespan) <= slack, (replay, makespan)
    assert abs(plan["makespan_seconds"] - makespan) <= slack
    assert plan["lower_bound_seconds"] <= replay + slack
    return makespan


def _replayed(ops, place, flow, anti, copies, turns, length, copy_length):
    """Everything as early as the turns allow; a cycle of turns and values is a CycleError."""
    before = defaultdict(list)
    for tasks in turns.values():
        for (_, _, one), (_, _, other) in itertools.pairwise(tasks):
            before[other].append(one)
    source = {(c[0], c[2]): c[1] for c in copies}

    def holder(op, pu):
        return ("op", op) if place[op] == pu else ("copy", op, pu)

    for op in ops:
        before["op", op] += [holder(p, place[op]) for p in flow[op]] + [("op", p) for p in anti[op] - flow[op]]
    for op, dst in source:
        before["copy", op, dst].append(holder(op, source[op, dst]))
    lengths = {("op", op): length(op) for op in ops} | {("copy", c[0], c[2]): copy_length(*c[:3]) for c in copies}
    times = {}
    for task in graphlib.TopologicalSorter({task: before[task] for task in lengths}).static_order():
        start = max((times[one][1] for one in before[task]), default=0.0)
        times[task] = (start, start + lengths[task])
    return times


def _fits(ops, place, flow, copies, times, rows, pus):
    return all(
        peak <= pus[pu]["memory_nbytes"] for pu, peak in peaks(ops, place, flow, copies, times, rows, pus).items()
    )


def peaks(ops, place, flow, copies, times, rows, pus):
    """The most bytes alive at once on each PU."""
    until = defaultdict(lambda: None)

    def reads(op, pu, end):
        until[op, pu] = end if until[op, pu] is None else max(until[op, pu], end)

    for op in ops:
        for p in flow[op]:
            reads(p, place[op], times["op", op][1])
    for op, src, dst, *_ in copies:
        reads(op, src, times["copy", op, dst][1])
    spans = defaultdict(list)
    for op in ops:
        start, end = times["op", op]
        last = until[op, place[op]]
        spans[place[op]].append((start, end if last is None else last, ops[op]["out_nbytes"]))
        spans[place[op]].append((start, end, rows.get((op, place[op]), {}).get("scratch_nbytes", 0)))
    for op, _, dst, *_ in copies:
        start, end = times["copy", op, dst]
        last = until[op, dst]
        spans[dst].append((start, end if last is None else last, ops[op]["out_nbytes"]))
    found = dict.fromkeys(pus, 0)
    for pu, alive in spans.items():
        moments = sorted({start for start, _, _ in alive})
        for moment in moments:
            found[pu] = max(found[pu], sum(n for start, end, n in alive if start <= moment < end))
    return found
