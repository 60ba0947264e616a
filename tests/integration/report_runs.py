"""Runs made by hand, for pages that no short program gives: large, on several units, hostile."""

from __future__ import annotations

import random
from pathlib import Path

from codedag.ir import (
    Alternative,
    Change,
    CostRow,
    CostTable,
    Decision,
    Declined,
    DeviceValue,
    Edge,
    Event,
    Events,
    Graph,
    Lane,
    Link,
    Machine,
    Mark,
    Move,
    Op,
    Placement,
    Plan,
    Proof,
    Pu,
    Report,
    RunInfo,
    Step,
    Transfer,
    save,
)
from codedag.plan.serial import serial_plan

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>document.title='taken'</script>",
    '"><img src=x onerror=alert(1)>',
    "a\u202eb\u2028c\u0000d\u0007",
    "\U0001f4a9" * 40,
    "name" * 400,
    "{{constructor.constructor('alert(1)')()}}",
)


def info(folder: Path, **more: object) -> None:
    """Writes run.json."""
    facts: dict[str, object] = {"command": "run", "argv": ["train.py", "--epochs", "3"], "cwd": "/somewhere"}
    facts |= {"versions": {"python": "3.11.7", "numpy": "2.0"}, "status": "ok", "started": "2026-01-01T00:00:00+00:00"}
    save(RunInfo(**{**facts, "exit_code": 0, "script": "train.py", **more}), folder / "run.json")  # type: ignore[arg-type]


def op(number: int, name: str, context: str, seconds: float, **more: object) -> Op:
    """One operation."""
    facts: dict[str, object] = {"kind": "call", "file": "train.py", "line": number % 997 + 1, "count": 10}
    facts |= {"self_seconds": seconds, "total_seconds": seconds, "out_nbytes": 1000 * (number % 50)}
    return Op(id=number, name=name, context=f"{context}/{name}", **{**facts, **more})  # type: ignore[arg-type]


def graph(count: int, seed: int = 0, functions: int = 40) -> Graph:
    """A graph of so many operations in functions that call each other, mostly one after the other."""
    rng = random.Random(seed)
    ops = []
    for at in range(count):
        group = at * functions // count
        context = f"main/stage_{group // 5}/step_{group}"
        ops.append(op(at, f"library.operation_{at % 211}", context, rng.random() ** 8, line=at + 1))
    edges = [
        Edge(before, at, "flow", ops[before].out_nbytes)
        for at in range(1, count)
        for before in {max(0, at - 1), max(0, at - rng.randint(1, 9))}
    ]
    return Graph.build(ops, edges)


def branching(count: int, seed: int) -> Graph:
    """A graph in which functions are met again, data branches, and some of it is only overwritten or carried."""
    rng = random.Random(seed)
    ops, edges, carried = [], {}, set()
    for at in range(count):
        context = "main/" + rng.choice(
            ["load", "load/decode", "augment", "augment/jitter/mix", f"stage_{at * 7 // count}"]
        )
        ops.append(op(at, f"library.operation_{at}", context, rng.random() ** 5 * 1e-2, line=at + 1))
        for _ in range(min(at, rng.randint(0, 3))):
            edges[rng.randrange(max(0, at - 12), at), at] = rng.choice(["flow", "flow", "flow", "anti"])
        if rng.random() < 0.1:
            carried.add((at, rng.randrange(at + 1)))
    flows = [Edge(a, b, kind, rng.randrange(10**7) if kind == "flow" else 0) for (a, b), kind in edges.items()]
    return Graph.build(ops, flows, sorted(carried))


def large(folder: Path, count: int) -> None:
    """Writes a run of so many operations, with costs, a plan for one unit and events."""
    folder.mkdir(parents=True, exist_ok=True)
    made = graph(count)
    costs = CostTable(pus=["cpu"], rows=[_cost(one, "cpu", one.self_seconds) for one in made.ops])
    info(folder)
    save(made, folder / "graph.json")
    save(costs, folder / "costs.json")
    save(serial_plan(made, costs, [], []), folder / "plan.json")
    save(Machine(pus=[Pu(name="cpu", memory_nbytes=1 << 34, launch_seconds=0.0)]), folder / "machine.json")
    calls = [Event(at % count, at % 4, at * 0.001, at * 0.001 + 0.0009, 100) for at in range(20_000)]
    lanes = [Lane(process=1 + at // 2, thread=at, name=f"worker {at}") for at in range(4)]
    save(Events(seconds=20.0, seen=1_000_000, least_seconds=0.0009, lanes=lanes, calls=calls), folder / "events")


def _cost(one: Op, pu: str, seconds: float, variant: str = "original", **more: object) -> CostRow:
    return CostRow(
        op=one.id, pu=pu, variant=variant, seconds=seconds, low=0.9 * seconds, high=1.1 * seconds, status="ok", **more  # type: ignore[arg-type]
    )  # fmt: skip


NAMES = ("cv2.imread", "cv2.resize", "operator.truediv", "numpy.clip", "torch.from_numpy", "torch.nn.Conv2d.__call__")


def two_units(folder: Path) -> None:
    """Writes a run with a second, simulated unit: copies, alternatives, decisions, changes, refusals and events."""
    folder.mkdir(parents=True, exist_ok=True)
    where = ["main/Photos.__getitem__"] * 5 + ["main/Net.forward"]
    seconds = [0.04, 0.02, 0.03, 0.01, 0.005, 0.2]
    ops = [
        op(at, name, context, own, out_nbytes=4_000_000, line=10 + at)
        for at, (name, context, own) in enumerate(zip(NAMES, where, seconds, strict=True))
    ]
    info(folder, notes=["4 forked processes were not observed"])
    save(Graph.build(ops, [Edge(at, at + 1, "flow", 4_000_000) for at in range(5)], [(5, 5)]), folder / "graph.json")
    rows = [_cost(one, "cpu", one.self_seconds) for one in ops]
    rows[1] = _cost(ops[1], "cpu", 0.02, alternatives=[_other()])
    rows.append(_cost(ops[5], "cuda:0", 0.02, "torch"))
    rows.append(_cost(ops[4], "cuda:0", 0.001, "torch"))
    rows.append(CostRow(op=0, pu="cuda:0", variant="none", status="unsupported", reason="no decoder there"))
    save(CostTable(pus=["cpu", "cuda:0"], rows=rows), folder / "costs.json")
    save(
        Machine(
            pus=[
                Pu(name="cpu", resource="host", memory_nbytes=1 << 34, launch_seconds=0.0),
                Pu(name="cuda:0", memory_nbytes=1 << 33, launch_seconds=0.001, simulated=True),
            ],
            links=[
                Link(src="cpu", dst="cuda:0", latency_seconds=0.001, bytes_per_second=1e9),
                Link(src="cuda:0", dst="cpu", latency_seconds=0.001, bytes_per_second=1e9),
            ],
        ),
        folder / "machine.json",
    )
    save(_plan(ops), folder / "plan.json")
    save(_report(), folder / "report.json")
    save(_events(), folder / "events")


def _other() -> Alternative:
    return Alternative(variant="cv2.area", seconds=0.03, low=0.029, high=0.031, status="ok")


def _plan(ops: list[Op]) -> Plan:
    times = [(0.0, 0.04), (0.04, 0.06), (0.06, 0.07), (0.07, 0.07), (0.07, 0.075), (0.08, 0.101)]
    return Plan(
        sources=[],
        placement=[
            Placement(
                op=one.id, name=one.name, context=one.context, file=one.file, line=one.line,
                pu="cuda:0" if one.id == 5 else "cpu",
                variant="torch" if one.id == 5 else "table" if one.id in (2, 3) else "original",
            )
            for one in ops
        ],
        moves=[
            Move(
                kind="fuse", ops=[2, 3], variant="table", file="train.py", line=12, end_line=13, equivalence="exact",
                chain=["operator.truediv", "numpy.clip"], seconds=0.01, baseline_seconds=0.04, gain_low=3.5,
                gain_high=4.5,
            )
        ],
        schedule=[Step(op=at, start=start, end=end) for at, (start, end) in enumerate(times)],
        transfers=[Transfer(op=4, src="cpu", dst="cuda:0", start=0.075, end=0.08)],
        makespan_seconds=0.101,
        lower_bound_seconds=0.09,
        baseline_seconds=0.305,
        decisions=[
            Decision(op=5, chosen="cuda:0/torch", runner_up="cpu/original", why="ten times faster there"),
            Decision(op=4, chosen="cpu/original", runner_up="cuda:0/torch", why="its input is on cpu"),
            Decision(op=1, chosen="cpu/original", runner_up="cpu/cv2.area", why="measured faster"),
        ],
    )  # fmt: skip


def _report() -> Report:
    return Report(
        baseline_seconds=3.0,
        optimised_seconds=1.5,
        gain=2.0,
        gain_low=1.8,
        gain_high=2.2,
        verdict=Proof(identical=True, checked=40, mismatches=0, how="side by side on the first 8 calls"),
        changes=[
            Change(
                what="truediv > clip -> one table kernel", where="train.py:12-13", kind="fuse", variant="table",
                equivalence="exact", reason="4.0x on the same calls", seconds=0.01, baseline_seconds=0.04,
                gain_low=3.5, gain_high=4.5,
            )
        ],
        declined=[Declined(what="cv2.imread", where="train.py:10", reason="no exact variant is known", seconds=0.04)],
    )  # fmt: skip


def _events() -> Events:
    calls = [Event(at % 6, at % 2, 0.1 + at * 0.01, 0.1 + at * 0.01 + 0.008, 400_000) for at in range(60)]
    return Events(
        seconds=1.5,
        seen=600,
        least_seconds=0.001,
        lanes=[Lane(process=7, thread=1, name="MainThread"), Lane(process=8, thread=1, name="MainThread")],
        calls=calls,
        memory=[DeviceValue(7, at / 10, 100_000_000 + at * 10_000_000) for at in range(15)],
        marks=[Mark(name="switched", seconds=0.4)],
    )


def hostile(folder: Path) -> None:
    """Writes a run whose every text tries to be something else than text."""
    folder.mkdir(parents=True, exist_ok=True)
    ops = [op(at, name, "main", 0.1, file=name, in_sig=name, out_sig=name) for at, name in enumerate(HOSTILE)]
    info(folder, argv=list(HOSTILE), notes=list(HOSTILE), versions={HOSTILE[0]: HOSTILE[1]}, script=HOSTILE[0])
    save(Graph.build(ops, [Edge(0, 1, "flow", 5)]), folder / "graph.json")
    said = Declined(what=HOSTILE[0], where=HOSTILE[1], reason=HOSTILE[2])
    proof = Proof(identical=True, checked=1, mismatches=0, how=HOSTILE[0])
    changes = [Change(what=name, where=name, reason=name) for name in HOSTILE]
    save(
        Report(verdict=proof, declined=[said], changes=changes, gain=1.0, gain_low=1.0, gain_high=1.0),
        folder / "report.json",
    )
