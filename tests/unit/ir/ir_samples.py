"""Small legal objects of every kind, for the tests of this folder."""

from __future__ import annotations

from codedag.ir import (
    Alternative,
    Block,
    Change,
    Claim,
    CostRow,
    CostTable,
    Decision,
    Declined,
    DeviceValue,
    Edge,
    Event,
    Events,
    Graph,
    Heat,
    HotFunction,
    HotLine,
    HotTurn,
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
    Source,
    Speed,
    Step,
    Transfer,
)


def op(id_, name="numpy.sqrt", **more):
    facts = {"kind": "call", "file": "train.py", "line": 41, "context": f"main/{name}", "count": 2}
    facts |= {"self_seconds": 0.5, "total_seconds": 0.75, "out_nbytes": 64}
    return Op(id=id_, name=name, **(facts | more))


def flow(src, dst, nbytes=8):
    return Edge(src, dst, "flow", nbytes)


def diamond():
    ops = [
        op(0, kind="source"),
        op(1, in_sig="uint8[2,2]", effects="pure", site=3, col=7),
        op(2, parent=0),
        op(5),
    ]
    edges = [flow(0, 1), flow(0, 2), flow(1, 5), Edge(2, 5, "anti", 0), flow(2, 5)]
    return Graph.build(ops, edges, [(5, 0), (5, 5)])


RUN = RunInfo(
    command="trace",
    argv=["train.py", "--epochs", "3"],
    cwd=".",
    versions={"numpy": "2.0"},
    status="ok",
    started="2024-05-01T12:00:00+00:00",
    exit_code=0,
    script="train.py",
    notes=["one"],
)
COSTS = CostTable(
    pus=["cpu", "cuda:0"],
    rows=[
        CostRow(
            op=0,
            pu="cpu",
            variant="original",
            seconds=0.5,
            low=0.4,
            high=0.6,
            status="ok",
            alternatives=[Alternative(variant="cv2", status="failed", reason="raised")],
        ),
        CostRow(op=0, pu="cuda:0", variant="original", status="unsupported", reason="no kernel", scratch_nbytes=5),
    ],
)
MACHINE = Machine(
    pus=[
        Pu(name="cpu", resource="host", memory_nbytes=25769803776, launch_seconds=0.000001),
        Pu(name="cuda:0", memory_nbytes=1, launch_seconds=0.0, simulated=True),
    ],
    links=[
        Link(src="cpu", dst="cuda:0", latency_seconds=0.00001, bytes_per_second=1.2e10, shared="pcie0"),
        Link(src="cuda:0", dst="cpu", latency_seconds=0.0, bytes_per_second=1.0),
    ],
)
PLAN = Plan(
    sources=[Source(file="train.py", sha256="ab" * 32)],
    placement=[
        Placement(op=0, name="cv2.resize", context="a/b", file="train.py", line=41, pu="cpu", variant="original")
    ],
    moves=[
        Move(kind="widen", ops=[]),
        Move(
            kind="fuse",
            ops=[5, 6],
            id="m1",
            variant="c",
            file="train.py",
            line=4,
            end_line=6,
            function="f",
            sites=[0, 1],
            chain=["operator.truediv"],
            equivalence="EXACT",
            reason="hot",
            seconds=0.1,
            baseline_seconds=0.3,
            gain_low=2.5,
            gain_high=3.5,
        ),
    ],
    schedule=[Step(op=0, start=0.0, end=0.0038)],
    transfers=[Transfer(op=0, src="cpu", dst="cuda:0", start=0.0038, end=0.004)],
    makespan_seconds=0.01,
    lower_bound_seconds=0.009,
    baseline_seconds=0.02,
    decisions=[Decision(op=0, chosen="cpu/original", runner_up="cuda:0/kornia", why="the copy costs more")],
    truncated=True,
)
REPORT = Report(
    baseline_seconds=2.0,
    optimised_seconds=1.0,
    gain=2.0,
    gain_low=1.8,
    gain_high=2.2,
    verdict=Proof(identical=True, checked=12, mismatches=0, how="bit-equal"),
    changes=[Change(what="fuse", where="train.py:4", seconds=0.1, baseline_seconds=0.3)],
    declined=[Declined(what="remember", where="train.py:9", reason="effects unknown", seconds=0.2)],
    claim=Claim(known=True, ratio=1.8, low=1.6, high=2.0, pairs=14, clock="cpu", start_seconds=0.25),
    heat=Heat(
        sampled_seconds=9.0,
        cpu_seconds=8.0,
        functions=[HotFunction(name="Photos.__getitem__", file="train.py", line=3, total_seconds=6.0, share=0.75)],
        lines=[HotLine(file="train.py", line=4, seconds=2.0, share=0.25)],
        turn=HotTurn(file="train.py", line=20, name="main", period_seconds=0.125, turns=64),
    ),
    speed=Speed(unit="batch", blocks=[Block(start=0.5, seconds=1.0, turns=8, changed=True)]),
)
EVENTS = Events(
    seconds=1.5,
    seen=3,
    least_seconds=0.1,
    lanes=[Lane(process=7, thread=8, name="MainThread")],
    calls=[Event(0, 0, 0.25, 0.5, 1024)],
    memory=[DeviceValue(7, 0.5, 1 << 20)],
    marks=[Mark(name="switched", seconds=1.0)],
)
DOCUMENTS = {"run": RUN, "costs": COSTS, "machine": MACHINE, "plan": PLAN, "report": REPORT, "events": EVENTS}


def everything():
    return {**DOCUMENTS, "graph": diamond()}
