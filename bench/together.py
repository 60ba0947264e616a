"""Prints what running things side by side was said to take, and what it takes.

python bench/together.py [--rounds N] [-o RESULTS.json]

1. Pairs: the slowdowns of four calls beside each other, what that table says each pair takes, what the other pairs say
   of it, and what it took; in how many pairs the table changes the choice, and in how many that is right.
2. Pipelined: items that are copied by one thread and worked on by another, with a queue of some items between them. The
   times of the same items one after the other say what this takes, without and with the slowdowns of the two.

Everything is measured in turn, round by round: medians, with the interval of each. Nothing overlaps
without a free core.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import threading
import time
from importlib.metadata import version
from pathlib import Path
from queue import Queue
from statistics import median
from typing import Any

import numpy as np

from codedag.cli.paired import facts, lines
from codedag.ir import Op
from codedag.plan.line import line
from codedag.profile.lanes import rates
from codedag.profile.process import PuProcess
from codedag.profile.sample import Samples
from codedag.profile.together import Meter, Spread
from codedag.trace.spool import Spool

ITEMS = 24
SHARES = ((1, 1), (1, 3), (3, 1))  # of copying and of work
DEPTHS = (1, 4)


def calls() -> list[tuple[str, tuple[Any, ...]]]:
    """Calls that differ in what they hold: a core, memory, the lock of the interpreter."""
    source = np.random.default_rng(0)
    text = json.dumps([{"name": str(at), "value": at / 3} for at in range(1_000)])
    return [
        ("numpy.sort", (source.random(100_000),)),
        ("numpy.add", (source.random(2_000_000), source.random(2_000_000))),
        ("numpy.matmul", (source.random((256, 256)), source.random((256, 256)))),
        ("json.loads", (text,)),
    ]


def pairs(rounds: int) -> Any:
    with tempfile.TemporaryDirectory() as home:
        spool = Spool(Path(home) / "samples", most_nbytes=1 << 30)
        spool.begin()
        ops = []
        for at, (name, args) in enumerate(calls()):
            spool.keep(name, args, {}, line=at)
            ops.append(Op(at, name, "call", "", at, name, 1, 1.0, 1.0, 0, col=0))
        process = PuProcess("cpu")
        try:
            return Meter(process, 60.0, rounds=rounds).measure(ops, Samples(Path(home)), 600.0)
        finally:
            process.close()


class Piece:
    """Some work on one item that other threads need not wait for."""

    calls = 1

    def __init__(self, work: Any, times: int) -> None:
        self.work, self.times = work, times

    def run(self, calls: int) -> None:
        for _ in range(calls * self.times):
            self.work()


def pieces(shares: tuple[int, int]) -> list[Piece]:
    """A copy of 8 MB, and a sort of about the same length, each some times."""
    source = np.random.default_rng(1).random(1_000_000)
    target, part = np.empty_like(source), source[:40_000]
    copy, work = (lambda: np.copyto(target, source)), (lambda: np.sort(part))
    each = [median(timed(function) for _ in range(9)) for function in (copy, work)]
    unit = 4 * max(each)
    return [Piece(f, max(1, round(unit * n / t))) for f, n, t in zip((copy, work), shares, each, strict=True)]


def timed(function: Any) -> float:
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


def in_turn(both: list[Piece]) -> list[list[float]]:
    """The seconds of each item in each of the two, one after the other."""
    times: list[list[float]] = [[], []]
    for _ in range(ITEMS):
        for own, piece in zip(times, both, strict=True):
            own.append(timed(lambda piece=piece: piece.run(1)))
    return times


def pipelined(both: list[Piece], depth: int) -> float:
    """The seconds of all items with a thread that is ahead by some of them."""
    queue: Queue[int] = Queue(depth)

    def ahead() -> None:
        for item in range(ITEMS):
            both[0].run(1)
            queue.put(item)

    begun = time.perf_counter()
    thread = threading.Thread(target=ahead)
    thread.start()
    for _ in range(ITEMS):
        queue.get()
        both[1].run(1)
    thread.join()
    return time.perf_counter() - begun


def slowed(times: list[list[float]], both: list[Piece]) -> list[list[float]]:
    """The same items, each as much longer as the other stage costs it for the share of time that it runs."""
    alone = [rates([piece], 0.05)[0].seconds for piece in both]
    beside = [one.seconds for one in rates(both, 0.05)]
    own = [sum(each) for each in times]
    share = [min(own[1 - at] / max(own), 1.0) for at in (0, 1)]
    factor = [1 + (beside[at] / alone[at] - 1) * share[at] for at in (0, 1)]
    return [[each * factor[at] for each in times[at]] for at in (0, 1)]


def overlapped(rounds: int) -> list[dict[str, Any]]:
    found = []
    for shares in SHARES:
        both = pieces(shares)
        figures: dict[int, list[tuple[float, ...]]] = {depth: [] for depth in DEPTHS}
        for _ in range(rounds):
            times = in_turn(both)
            longer = slowed(times, both)
            for depth in DEPTHS:
                said = line(times, [depth]).seconds, line(longer, [depth]).seconds
                figures[depth].append((sum(map(sum, times)), *said, pipelined(both, depth)))
        found += [{"shares": shares, "depth": depth, **_spreads(rows)} for depth, rows in figures.items()]
    return found


def _spreads(rows: list[tuple[float, ...]]) -> dict[str, Any]:
    names = ("in_turn", "predicted", "predicted_with_slowdowns", "measured")
    spreads = {name: Spread.of(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    ratios = {
        "measured_by_predicted": Spread.of([row[3] / row[1] for row in rows]),
        "measured_by_predicted_with_slowdowns": Spread.of([row[3] / row[2] for row in rows]),
    }
    return {name: [one.median, one.low, one.high] for name, one in (spreads | ratios).items()}


def shown(row: dict[str, Any]) -> str:
    cells = [
        f"{row[name][0] * 1e3:8.1f} ms" for name in ("in_turn", "predicted", "predicted_with_slowdowns", "measured")
    ]
    ratio, low, high = row["measured_by_predicted_with_slowdowns"]
    plain = row["measured_by_predicted"][0]
    copy, work = row["shares"]
    return (
        f"{copy}:{work}  {row['depth']:>5} " + " ".join(cells) + f"  {plain:5.2f}  {ratio:5.2f} ({low:.2f}..{high:.2f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("-o", "--output", type=Path)
    chosen = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"python {platform.python_version()}, numpy {version('numpy')}, {os.cpu_count()} processors, load {load:.1f}")
    together = pairs(chosen.rounds)
    print("\n".join([*lines(together), *(f"note: {note}" for note in together.notes)]))
    rows = overlapped(chosen.rounds)
    print(
        f"\n{ITEMS} items, copied by one thread and sorted by another; the last columns are measured by predicted, "
        "without and with slowdowns"
    )
    print(f"copy:work queue {'in turn':>11} {'alone':>11} {'slowed':>11} {'measured':>11}")
    print("\n".join(map(shown, rows)))
    if chosen.output:
        content = {"load": load, "rounds": chosen.rounds, "pairs": _plain(facts(together)), "pipelined": rows}
        chosen.output.write_text(json.dumps(content, indent=1) + "\n")


def _plain(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value)


if __name__ == "__main__":
    main()
