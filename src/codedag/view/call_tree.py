"""Call tree of a run: functions from the outside in, own seconds as weights; of recorded or of sampled calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator

from codedag.ir import Graph, Heat, HotCall
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
    """The stacks of a sampled run, of its workers below a frame of their own; of a run without any, its functions."""
    for calls, outer in ((heat.calls, ()), (heat.worker_calls, (("workers", "", 0),))):
        tree = Tree(calls)
        for number, call in enumerate(calls):
            if call.self_seconds > 0:
                frames = (calls[each] for each in reversed([*tree.callers(number)]))
                yield (*outer, *(_frame(frame) for frame in frames)), call.self_seconds
    for each in heat.functions if not heat.calls else ():
        if each.self_seconds > 0:
            yield ((each.package or "your code", "", 0), (each.name, each.file, each.line)), each.self_seconds


def _frame(call: HotCall) -> tuple[str, str, int]:
    return call.name, call.file, call.line


class Tree:
    """Sums over the nodes of a sampled call tree."""

    def __init__(self, calls: list[HotCall]) -> None:
        self.calls = calls
        self.cpu, self.waiting = [c.self_seconds for c in calls], [c.waiting_seconds for c in calls]
        for number in reversed(range(len(calls))):  # callers stand before what they call
            if 0 <= (parent := calls[number].parent) < number:
                self.cpu[parent] += self.cpu[number]
                self.waiting[parent] += self.waiting[number]

    def callers(self, number: int) -> Iterator[int]:
        """The node itself and its callers, the nearest first."""
        while number >= 0:
            yield number
            parent = self.calls[number].parent
            number = parent if parent < number else -1

    def tops(self, test: Callable[[HotCall], bool]) -> list[int]:
        """The outermost nodes that pass the test."""
        inside: list[bool] = []
        found = []
        for number, call in enumerate(self.calls):
            below = 0 <= call.parent < number and inside[call.parent]
            hit = test(call)
            if hit and not below:
                found.append(number)
            inside.append(hit or below)
        return found


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
