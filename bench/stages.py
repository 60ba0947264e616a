"""Staged models on this machine: how long a profile takes, how far it can be trusted, what plans bring as they run.

    python bench/stages.py [--only profile,repeat,left-out,placed,as-run,whole,dropin,planner] [--folder DIR] [-o FILE]

Printed and written to bench/results/stages.json. Parts:

profile   seconds of `codedag stages profile --preset seed15` at 2 + 10 calls, export included, and of a second one
repeat    a second profile of the same: contests that neither calls a tie, and how often both name the same winner
left-out  every size predicted from the others: mean error, rank correlation, time lost by choosing by prediction
placed    single stages where a plan puts them against all stages on one runtime, as executed, in turn
as-run    plans of sage7, a CNN and an encoder as executed against their prediction
whole     the chosen plan of these models against the best single runtime for the whole model, as executed, in turn
dropin    a call of `optimise`d modules against the runtime's own call and against torch
planner   seconds for 16 parts x 7 stages x 6 PUs
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:] = [place for place in sys.path if Path(place or ".").resolve() != ROOT / "bench"]  # it has a profile.py
RESULTS = ROOT / "bench" / "results" / "stages.json"
PARTS = ("profile", "repeat", "left-out", "placed", "as-run", "whole", "dropin", "planner")
MODELS = {"cnn": "examples/stages_cnn.py:resnet", "encoder": "examples/stages_transformer.py:encoder"}
SAGE_SIZES = ({"nodes": 1000, "edges": 2000}, {"nodes": 3000, "edges": 5000}, {"nodes": 10000, "edges": 10000})
BATCHES = ({"batch": 1}, {"batch": 2}, {"batch": 4})
ITEMS = 8


def command(*words: object) -> float:
    """Seconds of a codedag command; raises if it fails."""
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "codedag", *map(str, words)], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"codedag {' '.join(map(str, words))} failed:\n{done.stderr}")
    return time.perf_counter() - begun


def profile(folder: Path) -> dict[str, Any]:
    words = ("stages", "profile", "-o", folder / "sage7", "--preset", "seed15", "--warmup", 2, "--repeats", 10)
    first = command(*words)
    return {"seconds": first, "second_seconds": command(*words), "load": os.getloadavg()[0]}


# -- trust


def contests(folder: Path) -> dict[tuple[str, str], str | None]:
    """The winner of each stage at each size, None where it is a tie."""
    from codedag.stages.measuring.cells import Cells
    from codedag.stages.measuring.table_files import winner_of
    from codedag.stages.sizes import key_of

    groups: dict[tuple[str, str], list[Any]] = {}
    for cell in Cells(folder).all():
        if "-" not in cell.block and cell.status == "ok":
            groups.setdefault((key_of(cell.sizes), cell.block), []).append(cell)
    return {name: winner_of(cells) for name, cells in groups.items()}


def repeat(folder: Path) -> dict[str, Any]:
    again = folder / "sage7-again"
    command("stages", "profile", "-o", again, "--preset", "seed15", "--warmup", 2, "--repeats", 10)
    one, other = contests(folder / "sage7"), contests(again)
    decided = [name for name in one if one[name] is not None and other.get(name) is not None]
    same = sum(one[name] == other[name] for name in decided)
    middles = [middle_ms(place) for place in (folder / "sage7", again)]
    apart = [abs(math.log(middles[0][key] / middles[1][key])) for key in middles[0].keys() & middles[1].keys()]
    return {
        "contests": len(one), "decided": len(decided), "same": same, "share": same / max(len(decided), 1),
        "cells_apart": statistics.fmean(apart),  # mean difference of the same cell in two profiles, as a logarithm
    }  # fmt: skip


def middle_ms(folder: Path) -> dict[str, float]:
    """The median of each measured cell."""
    from codedag.stages.measuring.cells import Cells

    return {cell.key: statistics.median(cell.total_ms) for cell in Cells(folder).all() if cell.status == "ok"}


def left_out(folder: Path) -> dict[str, Any]:
    from codedag.stages.planning.tables import Tables

    table = json.loads((folder / "sage7" / "lookup_table.json").read_text())
    sizes = sorted({key.rsplit(",", 2)[0] for key in table})
    rows = []
    place = folder / "left-out"
    place.mkdir(exist_ok=True)
    for size in sizes:
        rest = {key: row for key, row in table.items() if not key.startswith(f"{size},")}
        (place / "lookup_table.json").write_text(json.dumps(rest))
        tables = Tables.load(place / "lookup_table.json")
        nodes, edges = map(int, size.split(","))
        for key, row in table.items():
            if key.startswith(f"{size},"):
                _, pu, stage = key.rsplit(",", 2)
                found = tables.seconds(pu=pu, stage=int(stage), nodes=nodes, edges=edges)
                if isinstance(found, float):
                    rows.append((size, stage, pu, row["compute_time_ms"] / 1e3, float(found)))
    errors = [abs(told / true - 1) for *_, true, told in rows]
    return {
        "predicted": len(rows), "mean_error": statistics.fmean(errors), "median_error": statistics.median(errors),
        "rank_correlation": rank_correlation([row[3] for row in rows], [row[4] for row in rows]),
        "choice_loss": loss(rows),
    }  # fmt: skip


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    def ranks(values: Sequence[float]) -> list[int]:
        order = sorted(range(len(values)), key=values.__getitem__)
        found = [0] * len(values)
        for rank, at in enumerate(order):
            found[at] = rank
        return found

    return statistics.correlation(ranks(one), ranks(other))


def loss(rows: Sequence[tuple[str, str, str, float, float]]) -> float:
    """The share of time that is lost when the PU of each stage is chosen by prediction."""
    by: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for size, stage, _, true, told in rows:
        by.setdefault((size, stage), []).append((told, true))
    best = sum(min(true for _, true in group) for group in by.values())
    return sum(min(group)[1] for group in by.values()) / best - 1


# -- as executed


def per_item(executor: Any, plan: Any, items: list[Any]) -> float:
    done = executor.run(plan, items)
    assert done.is_right, done.near
    assert not done.left, done.left
    return done.seconds / len(items)


def in_turn(ways: dict[str, Callable[[], float]], rounds: int = 5) -> dict[str, list[float]]:
    """Seconds of each way, round by round."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            found[name].append(way())
    return found


def placed(folder: Path) -> dict[str, Any]:
    """Unfused stages: each stage a block of its own."""
    from codedag.stages.execution.execute import Executor
    from codedag.stages.execution.execution_plan import ExecutionPlan, PlannedBlock
    from codedag.stages.onnx_models.export import load
    from codedag.stages.planning.tables import Tables
    from codedag.stages.reference import draw

    place, all_sizes = places(folder)["sage7"]
    model, tables = load(place), Tables.load(place)
    singles = [model.block(number, number) for number in range(1, len(model.stages) + 1)]
    rows = {}
    with Executor(model, place) as executor:
        for sizes in all_sizes:
            items = [draw(model, sizes, seed=0)] * ITEMS

            def plan(choose: Callable[[int], str], sizes: dict[str, int] = sizes) -> Any:
                return ExecutionPlan(tuple(PlannedBlock(block, (choose(block.first),)) for block in singles))

            def fastest(stage: int, sizes: dict[str, int] = sizes) -> str:
                known = {pu: tables.seconds(pu=pu, stage=stage, **sizes) for pu in tables.pus}
                return min(tables.pus, key=lambda pu: float(known[pu]) if isinstance(known[pu], float) else math.inf)

            ways = {"placed": plan(fastest)} | {pu: plan(lambda _, pu=pu: pu) for pu in tables.pus}
            found = in_turn({n: lambda p=p, i=items: per_item(executor, p, i) for n, p in ways.items()}, 3)
            best = min((min(found[pu]), pu) for pu in tables.pus)
            rows[text(sizes)] = {
                "placed_ms": min(found["placed"]) * 1e3, "best_single_ms": best[0] * 1e3, "best_single": best[1],
                "gain": best[0] / min(found["placed"]),
                "gain_of_medians": min(statistics.median(found[pu]) for pu in tables.pus)
                / statistics.median(found["placed"]),
            }  # fmt: skip
    return {"sizes": rows, **means_of(rows)}


def means_of(rows: dict[str, Any]) -> dict[str, float]:
    """The geometric means of the gains, by medians and by the best of both."""
    return {
        "geometric_mean": geometric(row["gain_of_medians"] for row in rows.values()),
        "geometric_mean_of_best": geometric(row["gain"] for row in rows.values()),
    }


def places(folder: Path) -> dict[str, tuple[Path, Sequence[dict[str, int]]]]:
    """The profiles of the three models with all their blocks, made if they are not there."""
    sources = {"sage7": ("sage7", SAGE_SIZES, ())} | {
        name: (source, BATCHES, ("--pus", "CPU,ort:cpu,torch:cpu", "--stages", 4)) for name, source in MODELS.items()
    }
    for name, (source, sizes, more) in sources.items():
        cases = folder / f"{name}.json"
        cases.write_text(json.dumps({"test_cases": list(sizes)}))
        place = folder / f"{name}-blocks"
        made = () if (place / "stages.json").exists() else (source, *more[2:])
        command("stages", "profile", *made, "-o", place, "--warmup", 2, "--repeats", 10, "--cases", cases, *more[:2])
    return {name: (folder / f"{name}-blocks", sizes) for name, (_, sizes, _) in sources.items()}


def as_run(folder: Path) -> dict[str, Any]:
    """The best plan and the best plan over two PUs of each model and size."""
    from codedag.stages.execution.execute import Executor
    from codedag.stages.execution.execution_plan import of_pep
    from codedag.stages.onnx_models.export import load
    from codedag.stages.planning.peps import plans
    from codedag.stages.planning.tables import Tables
    from codedag.stages.reference import draw

    rows = {}
    for name, (place, sizes) in places(folder).items():
        model, tables = load(place), Tables.load(place)
        with Executor(model, place) as executor:
            for size in sizes:
                found = plans(tables, size, top=20)
                mixed = next(((p, s) for p, s in zip(found.best, found.seconds, strict=True) if len(p.pus) > 1), None)
                items = [draw(model, size, seed=0)] * ITEMS
                for kind, chosen in (("best", (found.best[0], found.seconds[0])), ("several PUs", mixed)):
                    if chosen is not None:
                        plan = of_pep(model, chosen[0], chosen[1], found.goal, size)
                        ran = statistics.median(per_item(executor, plan, items) for _ in range(3))
                        rows[f"{name} {text(size)} {kind}"] = {
                            "predicted_ms": chosen[1] * 1e3, "ran_ms": ran * 1e3, "off": ran / chosen[1] - 1,
                            "plan": str(plan),
                        }  # fmt: skip
    off = sorted(abs(row["off"]) for row in rows.values())
    return {"plans": rows, "median_off": statistics.median(off), "worst_off": off[-1]}


def whole(folder: Path) -> dict[str, Any]:
    """The chosen plan against each single runtime for the whole model."""
    from codedag.stages.execution import execution_plan
    from codedag.stages.execution.execute import Executor
    from codedag.stages.onnx_models.export import load
    from codedag.stages.planning.tables import Tables
    from codedag.stages.reference import draw

    rows = {}
    for name, (place, sizes) in places(folder).items():
        model, tables = load(place), Tables.load(place)
        with Executor(model, place) as executor:
            for size in sizes:
                items = [draw(model, size, seed=0)] * ITEMS
                ways = {pu: execution_plan.whole(model, pu) for pu in tables.pus}
                plan = execution_plan.planned(model, tables, size)
                same = next((pu for pu, way in ways.items() if str(way) == str(plan)), None)
                if same is None:
                    ways["chosen"] = plan
                found = in_turn({n: lambda p=p, i=items: per_item(executor, p, i) for n, p in ways.items()}, 5)
                best = min(tables.pus, key=lambda pu: statistics.median(found[pu]))
                found.setdefault("chosen", found[same or best])  # the same plan is not run twice
                rows[f"{name} {text(size)}"] = {
                    "plan": str(plan), "best_single": best,
                    "slower": statistics.median(found["chosen"]) / statistics.median(found[best]) - 1,
                    "slower_best": min(found["chosen"]) / min(found[best]) - 1,
                    "chosen_ms": [s * 1e3 for s in found["chosen"]], "single_ms": [s * 1e3 for s in found[best]],
                }  # fmt: skip
    return {"models": rows, **worst_of(rows)}


def worst_of(rows: dict[str, Any]) -> dict[str, float]:
    """The most by which a chosen plan was slower, by medians and by the best of both."""
    return {
        "worst": max(row["slower"] for row in rows.values()),
        "worst_of_best": max(row["slower_best"] for row in rows.values()),
    }


def dropin(folder: Path) -> dict[str, Any]:
    import importlib.util

    import torch

    from codedag.stages import optimise

    rows = {}
    for name, source in MODELS.items():
        path, _, function = source.partition(":")
        spec = importlib.util.spec_from_file_location(name, ROOT / path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        original, given = getattr(module, function)()
        example = given if isinstance(given, tuple) else (given,)
        fast = optimise(original, example, budget=60)
        pu = fast.facts["uses"].rpartition(" on ")[2]
        own = own_call(original, example, pu, folder / f"own-{name}")
        with torch.inference_mode():
            found = in_turn({
                "optimised": lambda fast=fast, e=example: timed(lambda: fast(*e)),
                "own": lambda own=own: timed(own),
                "torch": lambda original=original, e=example: timed(lambda: original(*e)),
            }, 25)  # fmt: skip
        middle = {way: statistics.median(values) for way, values in found.items()}
        rows[name] = {
            "report": fast.report().splitlines()[0], "gain": min(found["torch"]) / min(found["optimised"]),
            "gain_of_medians": middle["torch"] / middle["optimised"],
            "over_own_call_us": (middle["optimised"] - middle["own"]) * 1e6,
            "over_own_call_share": middle["optimised"] / middle["own"] - 1,
        }  # fmt: skip
    return rows


def own_call(module: Any, example: tuple[Any, ...], pu: str, place: Path) -> Callable[[], Any]:
    """The runtime's own call of the whole module, its inputs and outputs bound, in this process."""
    import numpy as np
    import torch

    from codedag.stages import StagedModel
    from codedag.stages.measuring.measure import program_of
    from codedag.stages.onnx_models.export import export
    from codedag.stages.runners import runner_of

    model = StagedModel.from_module(module, example, stages=1)
    export(model, place)
    block = model.block(1, 1)
    sizes = model.sizes_of(model.example)
    inputs = {name: model.example[name] for name in block.inputs}
    outputs = {name: np.zeros(model.tensors[name].at(sizes), model.tensors[name].dtype) for name in block.outputs}
    loaded = runner_of(pu, torch.get_num_threads()).load(program_of(model, block, place), sizes, inputs, outputs)
    loaded.bring()
    return loaded.run


def timed(way: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    way()
    return time.perf_counter() - begun


def planner(folder: Path) -> dict[str, Any]:
    from codedag.stages.planning.clusters import Part, plan_parts
    from codedag.stages.planning.simulate import machine_for
    from codedag.stages.planning.tables import Tables

    table = {
        f"{n * 1000},{e * 1000},PU{pu},{stage}": {
            "compute_time_ms": n * (1 + (pu * stage) % 5) + e * (1 + stage % 3), "transfer_time_ms": 0.1 * n,
            "total_time_ms": 0.0, "std_ms": 0.0,
        }
        for n in (1, 2, 4, 8) for e in (5, 10, 20, 40) for pu in range(6) for stage in range(1, 8)
    }  # fmt: skip
    for row in table.values():
        row["total_time_ms"] = row["compute_time_ms"] + row["transfer_time_ms"]
    path = folder / "six.json"
    path.write_text(json.dumps(table))
    tables = Tables.load(path)
    machine = machine_for(tables.pus, None, simulated=True)
    parts = [Part(3000 + 31 * at, 20000 + 311 * at, 500) for at in range(16)]
    seconds = [timed(lambda: plan_parts(tables, parts, machine)) for _ in range(3)]
    return {"seconds": min(seconds), "all": seconds}


def geometric(values: Any) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def text(sizes: dict[str, int]) -> str:
    return ",".join(f"{name}={value}" for name, value in sizes.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench-stages")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    packages = ("numpy", "torch", "openvino", "onnxruntime", "numba")
    known = json.loads(options.output.read_text()) if options.output.exists() else {}
    known["versions"] = {name: version(name) for name in packages}
    for part in options.only.split(","):
        found = globals()[part.replace("-", "_")](options.folder)
        known[part] = found
        print(part, json.dumps(found, indent=1, default=str), flush=True)
        options.output.write_text(json.dumps(known, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
