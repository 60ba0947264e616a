"""The guide's files written from measured cells: lookup, block and bandwidth tables, checkpoints, raw cells, report."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median, pstdev
from typing import Any

from codedag.ir import Machine, write_atomically
from codedag.profile.figures import are_tied, interval
from codedag.stages.execution.verify import F32
from codedag.stages.measuring.cells import Cell
from codedag.stages.measuring.pus import guide_name, phase_of
from codedag.stages.model import StagedModel
from codedag.stages.sizes import key_of

MB = 1e6
FEWEST = 3  # sizes that a regression needs

Rows = dict[str, dict[str, Any]]


def lookup_row(cell: Cell) -> dict[str, Any]:
    """What the tables say of one cell: medians in ms; compute is what is left of the total without the transfer."""
    transfer = median(cell.transfer_ms)
    compute = max(0.0, median(cell.total_ms) - transfer)
    ordered = sorted(cell.compute_ms)
    low, high = interval(ordered)
    return {
        "compute_time_ms": compute, "transfer_time_ms": transfer, "total_time_ms": compute + transfer,
        "std_ms": pstdev(cell.total_ms), "best_ms": ordered[0], "low_ms": min(low, compute),
        "high_ms": max(high, compute), "repeats": len(cell.total_ms), "setup_ms": cell.setup_ms,
        "peak_nbytes": cell.peak_nbytes, "pu": cell.pu, "precision": cell.precision,
    }  # fmt: skip


def lookup_tables(cells: Iterable[Cell]) -> tuple[Rows, Rows]:
    """The rows of single stages and those of blocks; only measured cells have one."""
    stages: Rows = {}
    blocks: Rows = {}
    for cell in cells:
        if cell.status == "ok" and cell.total_ms:
            rows = blocks if "-" in cell.block else stages
            rows[f"{key_of(cell.sizes)},{guide_name(cell.pu)},{cell.block}"] = lookup_row(cell)
    for name, row in blocks.items():  # a block brings what its first stage brings, as in the guide
        place, _, block = name.rpartition(",")
        first = stages.get(f"{place},{block.partition('-')[0]}")
        if first is not None:
            row["transfer_time_ms"] = first["transfer_time_ms"]
            row["total_time_ms"] = row["compute_time_ms"] + row["transfer_time_ms"]
    return stages, blocks


def int8_table(cells: Iterable[Cell]) -> Rows:
    """The rows of int8 stages and blocks, with the error of each."""
    rows: Rows = {}
    for cell in cells:
        name = f"{key_of(cell.sizes)},{guide_name(cell.pu)},{cell.block}"
        rows.pop(name, None)  # a newer cell says how it is now
        if cell.status == "ok" and cell.total_ms:
            rows[name] = {**lookup_row(cell), "error": cell.error}
    return rows


# -- bandwidth


def guide_nbytes(model: StagedModel, number: int, sizes: Mapping[str, int]) -> int:
    """The bytes of a stage as the guide counts them: its inputs, whose element is four bytes, ids eight."""
    stage = model.stage(number)
    if stage.kind == "REDUCE_COUNT":
        names: Sequence[str] = ("aggregated", "edge_index")
        prefix = stage.outputs[0].rpartition(".")[0]
        names = [name if name in model.tensors else f"{prefix}.{name}" for name in names]
        return sum(model.tensors[name].nbytes(sizes) for name in names if name in model.tensors)
    return sum(model.tensors[name].nbytes(sizes) for name in stage.inputs)


def bandwidth_table(model: StagedModel, cells: Sequence[Cell], machine: Machine) -> dict[str, Any]:
    """MB/s of each stage on each PU by the guide's regression, its error, and the copies that were measured."""
    points: defaultdict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    for cell in cells:
        if cell.status == "ok" and "-" not in cell.block and cell.total_ms:
            number = int(cell.block)
            points[cell.pu, number].append((guide_nbytes(model, number, cell.sizes), median(cell.total_ms) / 1e3))
    table: dict[str, Any] = {}
    errors: dict[str, Any] = {}
    for (pu, number), known in points.items():
        rate, start, error = regression(known)
        name = f"{guide_name(pu)}_stage{number}"
        table[name] = rate / MB
        errors[name] = {"intercept_ms": start * 1e3, "mean_error": error, "sizes": len(known)}
    return {**table, "regression": errors, "transfers": transfers(machine)}


def regression(points: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Bytes per second, the seconds at no bytes, and the mean share by which sizes are missed; none is negative."""
    from codedag.devices.timing import line

    if len({nbytes for nbytes, _ in points}) < FEWEST:
        fastest = max(points, key=lambda point: point[0] / point[1])
        return fastest[0] / fastest[1], 0.0, 0.0
    start, rate = line(points)
    missed = [abs((start + nbytes / rate) / seconds - 1) for nbytes, seconds in points]
    return rate, start, fmean(missed)


def transfers(machine: Machine) -> dict[str, Any]:
    """Copies from PU to PU, through the host's memory, as measured; `cpu` is the host itself."""
    links = {(link.src, link.dst): link for link in machine.links}
    names = [pu.name for pu in machine.pus]
    found: dict[str, Any] = {}
    for src in names:
        for dst in names:
            way = [links.get(pair) for pair in ((src, dst),)] if "cpu" in (src, dst) else [
                links.get((src, "cpu")), links.get(("cpu", dst))
            ]  # fmt: skip
            if src != dst and all(way):
                found[f"{src}->{dst}"] = _joined([link for link in way if link is not None])
    return found


def _joined(way: Sequence[Any]) -> dict[str, Any]:
    measured = [{each.nbytes: each.seconds for each in (link.measured or [])} for link in way]
    sizes = sorted(set.intersection(*(set(each) for each in measured)))
    return {
        "latency_seconds": sum(link.latency_seconds for link in way),
        "bytes_per_second": 1 / sum(1 / link.bytes_per_second for link in way),
        "measured": [{"nbytes": size, "seconds": sum(each[size] for each in measured)} for size in sizes],
    }


# -- raw cells and checkpoints


def raw_cells(model: StagedModel, cells: Iterable[Cell], absent: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every cell of a stage with every single call; a PU that is absent has one entry with its reason."""
    found = [_raw(model, cell) for cell in cells if "-" not in cell.block]
    nothing: dict[str, Any] = {**dict.fromkeys(model.sizes), "stage": None, "total_ms": [], "transfer_ms": []}
    for name, reason in absent.items():
        found.append({
            **nothing, "pu": guide_name(name), "name": name, "status": "unsupported", "reason": reason,
            "absent": reason, "ran_on": "",
        })  # fmt: skip
    return found


def _raw(model: StagedModel, cell: Cell) -> dict[str, Any]:
    number = int(cell.block)
    stage = model.stage(number)
    return {
        **cell.sizes, "pu": guide_name(cell.pu), "name": cell.pu, "stage": number, "status": cell.status,
        "reason": cell.reason, "ran_on": cell.ran_on, "precision": cell.precision, "error": cell.error,
        "total_ms": cell.total_ms, "transfer_ms": cell.transfer_ms,
        "setup_ms": cell.setup_ms, "peak_nbytes": cell.peak_nbytes,
        "guide_bytes": guide_nbytes(model, number, cell.sizes),
        "in_nbytes": sum(model.tensors[name].nbytes(cell.sizes) for name in stage.inputs),
        "out_nbytes": sum(model.tensors[name].nbytes(cell.sizes) for name in stage.outputs),
    }  # fmt: skip


def write_tables(
    model: StagedModel, directory: Path, cells: Sequence[Cell], machine: Machine, absent: Mapping[str, str],
    measured: Mapping[str, float] | None = None,
) -> None:  # fmt: skip
    """Writes all of the guide's files, and the table of int8 cells where there are any; each is whole at any moment."""
    int8, cells = [cell for cell in cells if cell.variant], [cell for cell in cells if not cell.variant]
    stages, blocks = lookup_tables(cells)
    raw = raw_cells(model, cells, absent)
    npu = [row for row in raw if phase_of(row["name"]) == "NPU"]
    files: dict[str, Any] = {
        "lookup_table.json": stages,
        "block_table.json": blocks,
        "bandwidth_table.json": {**bandwidth_table(model, cells, machine), **(measured or {})},
        "raw_measurements.json": raw,
        "checkpoint_cpugpu.json": [row for row in raw if row not in npu],
        "checkpoint_npu.json": npu,
    }
    if int8:
        files["int8_table.json"] = int8_table(int8)
    for name, content in files.items():
        write_atomically(directory / name, [json.dumps(content, indent=1).encode()])
    lines = report_lines(model, cells, files["bandwidth_table.json"], absent)
    report = "\n".join([*lines, *int8_lines(model, int8, {**stages, **blocks})])
    write_atomically(directory / "profiling_report.txt", [report.encode()])


# -- report


def report_lines(
    model: StagedModel, cells: Sequence[Cell], bandwidth: Mapping[str, Any], absent: Mapping[str, str]
) -> list[str]:
    """The report for people: what was measured, who is fastest where, compute times, bandwidth, what is absent."""
    singles = [cell for cell in cells if "-" not in cell.block]
    good = [cell for cell in singles if cell.status == "ok"]
    pus = list(dict.fromkeys(cell.pu for cell in good))
    sizes = list(dict.fromkeys(key_of(cell.sizes) for cell in singles))
    lines = [
        f"Profile of {model.name}: {len(model.stages)} stages, {len(sizes)} sizes, {len(pus)} PUs",
        f"  PUs: {', '.join(f'{guide_name(pu)} ({pu})' if guide_name(pu) != pu else pu for pu in pus)}",
        f"  sizes ({', '.join(model.sizes) or 'fixed'}): {'; '.join(sizes)}",
        f"  cells: {len(good)} measured, {len(singles) - len(good)} not", *_precision_lines(good), "",
        "Fastest PU of each stage (sizes at which it is; ties are no win)",
        *_winner_lines(model, good), "", "Compute time in ms (mean, std, range over the sizes)",
    ]  # fmt: skip
    for stage in model.stages:
        for pu in pus:
            values = [lookup_row(c)["compute_time_ms"] for c in good if c.pu == pu and c.block == str(stage.number)]
            if values:
                lines.append(
                    f"  {stage.number} {stage.name:<14} {guide_name(pu):<14} {fmean(values):10.3f} "
                    f"{pstdev(values):10.3f}  {min(values):.3f} .. {max(values):.3f}"
                )
    lines += ["", "Bandwidth in MB/s (slope of time against bytes; mean error of the line)"]
    for name, error in bandwidth["regression"].items():
        lines.append(f"  {name:<24} {bandwidth[name]:12.1f}   {error['mean_error']:.0%}")
    return [*lines, *_not_measured(singles, absent), ""]


def _precision_lines(cells: Sequence[Cell]) -> list[str]:
    """The PUs that do not compute in float32, with their largest error: plans use them only if they are allowed to."""
    short = [cell for cell in cells if cell.precision != F32]
    errors = {(cell.pu, cell.precision): 0.0 for cell in short}
    for cell in short:
        errors[cell.pu, cell.precision] = max(errors[cell.pu, cell.precision], cell.error or 0.0)
    return [
        f"  {guide_name(pu)} computes in {precision}, not in float32: error {error:.2g} of the largest value"
        for (pu, precision), error in errors.items()
    ]


def int8_lines(model: StagedModel, cells: Sequence[Cell], rows: Rows) -> list[str]:
    """What is known of int8: of each stage, and of the whole, the measured error and the speed against float32."""
    if not cells:
        return []
    lines = ["Int8 (error = largest difference / largest value, on inputs that did not calibrate)"]
    for name in dict.fromkeys(cell.block for cell in cells):
        what = "whole" if name == f"1-{len(model.stages)}" else f"stages {name}" if "-" in name else f"stage {name}"
        for pu in dict.fromkeys(cell.pu for cell in cells):
            known = [cell for cell in cells if cell.block == name and cell.pu == pu]
            lines += [f"  {what:<12} {guide_name(pu):<10} {_int8_words(known, rows)}"] if known else []
    return [*lines, ""]


def _int8_words(cells: Sequence[Cell], rows: Rows) -> str:
    table = int8_table(cells)
    if not table:
        return f"{cells[-1].status}: {cells[-1].reason}"
    times = [
        rows[name]["compute_time_ms"] / row["compute_time_ms"]
        for name, row in table.items() if name in rows and row["compute_time_ms"]
    ]  # fmt: skip
    speed = f", {min(times):.2f} to {max(times):.2f} times as fast as float32" if times else ""
    return f"error {max(row['error'] for row in table.values()):.2g}{speed}"


def _winner_lines(model: StagedModel, cells: Sequence[Cell]) -> list[str]:
    found = []
    for stage in model.stages:
        wins, ties = winners([cell for cell in cells if cell.block == str(stage.number)])
        counts = ", ".join(f"{guide_name(pu)} {n}" for pu, n in sorted(wins.items(), key=lambda one: -one[1]))
        found.append(f"  {stage.number} {stage.name:<14} {counts or '-'}{f', ties {ties}' if ties else ''}")
    return found


def winners(cells: Sequence[Cell]) -> tuple[dict[str, int], int]:
    """At how many sizes each PU is clearly the fastest, and at how many nobody is."""
    by_size: defaultdict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        by_size[key_of(cell.sizes)].append(cell)
    wins: defaultdict[str, int] = defaultdict(int)
    ties = 0
    for contest in by_size.values():
        winner = winner_of(contest)
        if winner is None:
            ties += 1
        else:
            wins[winner] += 1
    return dict(wins), ties


def winner_of(contest: Sequence[Cell]) -> str | None:
    """The PU that is clearly faster than all others at one size, or None."""
    best, *others = sorted(contest, key=lambda cell: median(cell.compute_ms))
    return None if any(are_tied(best.batches(), other.batches()) for other in others) else best.pu


def _not_measured(cells: Sequence[Cell], absent: Mapping[str, str]) -> list[str]:
    reasons: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    for cell in cells:
        if cell.status != "ok":
            reasons[cell.pu, cell.status, f"stage {cell.block}: {cell.reason}"] += 1
    lines = [f"  {pu}: {status}, {reason} ({n} sizes)" for (pu, status, reason), n in reasons.items()]
    lines += [f"  {pu}: absent, {reason}" for pu, reason in absent.items()]
    return ["", "Not measured (`--again PU` tries a PU once more)", *lines] if lines else []
