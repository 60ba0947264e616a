"""Call tree of a run: the user's functions from the outside in, operations as leaves, own seconds as weights."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from codedag.ir import Graph, Heat
from codedag.view.units import function_path

SPEEDSCOPE = "https://www.speedscope.app/file-format-schema.json"
Stack = tuple[tuple[str, str, int], ...]  # frames from the outside in: name, file, line


def stacks(graph: Graph) -> Iterator[tuple[Stack, float]]:
    """The stack of each operation that took time, with the seconds of its own."""
    ops = graph.op_columns
    for row, kind in enumerate(ops.kind):
        if kind in ("region", "source") or ops.self_seconds[row] <= 0:
            continue
        outer = tuple((name, "", 0) for name in function_path(ops.context[row], ops.name[row]))
        yield (*outer, (ops.name[row], ops.file[row], ops.line[row])), ops.self_seconds[row]


def hot_stacks(heat: Heat) -> Iterator[tuple[Stack, float]]:
    """Hot functions below their package: a sampled run keeps no calls, so that is all the stack there is."""
    for each in heat.functions:
        if each.self_seconds > 0:
            yield ((each.package or "your code", "", 0), (each.name, each.file, each.line)), each.self_seconds


def speedscope(name: str, found: Iterable[tuple[Stack, float]]) -> bytes:
    """The stacks as a file that speedscope and tools like it open: one sample for each, weighted by its seconds."""
    frames: dict[tuple[str, str, int], int] = {}
    samples: list[list[int]] = []
    weights: list[float] = []
    for stack, seconds in found:
        samples.append([frames.setdefault(frame, len(frames)) for frame in stack])
        weights.append(seconds)
    document = {
        "$schema": SPEEDSCOPE,
        "exporter": "codedag",
        "name": name,
        "shared": {
            "frames": [{"name": n, **({"file": f} if f else {}), **({"line": li} if li else {})} for n, f, li in frames]
        },
        "profiles": [{
            "type": "sampled", "name": name, "unit": "seconds", "startValue": 0, "endValue": sum(weights),
            "samples": samples, "weights": weights,
        }],
    }  # fmt: skip
    return json.dumps(document).encode()
