"""What a count of bytes predicts for chains that run as one kernel, and how many kernels chains that are alike share.

    python bench/fusion.py [--rounds 40] [--drawn 12] [--seed 1] [--only traffic|templates] [--json FILE]

traffic: chains of element-wise operations by size, one thread.  The prediction (codedag.plan.traffic) knows the bytes
that each operation moves, how fast bytes move in each cache and in memory, and what it costs to start an operation and
a kernel; with work also what a step costs where bytes cost nothing (in a cache), in numpy and in a kernel of that step
alone.  All of these are measured first, none is fitted to the chains.  Predicted and measured gain are printed, how
well the prediction ranks them, and in how many of the cases that it chooses the kernel really was faster.

templates: chains that differ in sizes, layouts and constants.  How many kernels are compiled, how many are saved, that
the results are numpy's bit for bit, and how a shared kernel compares with one that has the constants compiled in.
"""

from __future__ import annotations

import argparse
import json
import operator
import os
import platform
import random
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from codedag.devices.timing import LEVELS, best_of
from codedag.ir import Edge, Graph, Op
from codedag.ir.machine import Copied, Pu
from codedag.ir.verdict import No, Yes
from codedag.plan.traffic import Work, predicted, traffic
from codedag.tune import kernel_cache
from codedag.tune.compiler import find_compiler
from codedag.tune.flow import FlowKernel, compiler_for, flow_kernel, load
from codedag.tune.flow_source import SCALAR, FlowSpec, FlowStep, source

SIZES = (1_000, 10_000, 100_000, 1_000_000, 4_000_000)
WORTH = 1.1  # predicted gain from which on a chain is chosen
NAMES = {"f4": "float32", "f8": "float64", "i2": "int16"}
FUNCTIONS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "sqrt": np.sqrt,
             "square": np.square, "abs": np.absolute, "neg": operator.neg}  # fmt: skip
#: By name: type of the source, and the steps: what is done, with which number or array; `cast` has a type.
CHAINS = {
    "scale, shift": ("f4", [("mul", 0.5), ("add", 1.5)]),
    "scale, shift, float64": ("f8", [("mul", 0.5), ("add", 1.5)]),
    "normalise": ("f4", [("div", 255.0), ("sub", 0.45), ("div", 0.22)]),
    "normalise int16": ("i2", [("cast", "f4"), ("div", 32768.0), ("sub", 0.1), ("mul", 3.0)]),
    "difference of two": ("f4", [("sub", "array"), ("square", None)]),
    "weighted sum": ("f4", [("mul", 0.3), ("add", "array"), ("mul", 0.7), ("add", "array")]),
    "distance": ("f8", [("sub", "array"), ("square", None), ("add", 1e-3), ("sqrt", None)]),
    "six steps": ("f4", [("mul", 1.1), ("add", 0.1), ("square", None), ("add", 1.0), ("sqrt", None), ("sub", 1.0)]),
    "polynomial, float64": ("f8", [("mul", 0.3), ("add", 1.0), ("square", None), ("mul", 0.5), ("add", 2.0)]),
    "roots": ("f8", [("sqrt", None), ("add", 1.0), ("sqrt", None)]),
}


def drawn(count, seed):
    """Chains drawn at random, which nobody has looked at."""
    chance, found = random.Random(seed), {}
    for number in range(count):
        kind, steps = chance.choice(("f4", "f8")), []
        for _ in range(chance.randint(2, 6)):
            op = chance.choice(("add", "sub", "mul", "div", "square", "sqrt", "abs"))
            value = chance.choice((round(chance.uniform(0.5, 2.0), 2), "array"))
            steps += [("abs", None)] if op == "sqrt" else []
            steps.append((op, None if op in ("square", "sqrt", "abs") else value))
        found[f"drawn {number}: {len(steps)} {kind}"] = (kind, steps)
    return found


class Chain:
    """A chain for arrays of one size: as numpy runs it, as a graph, and as a kernel."""

    def __init__(self, kind, steps, shape):
        rng = np.random.default_rng(0)
        self.kind, self.steps, self.shape = kind, steps, shape
        self.source = (rng.random(shape) * 100 + 1).astype(kind)
        self.values, dtype, plan = [], kind, []
        for op, value in steps:
            dtype = value if op == "cast" else dtype
            if value == "array":
                value = rng.random(shape).astype(dtype)
            elif isinstance(value, float):
                value = np.dtype(dtype).type(value).item()
            self.values.append(value)
            given = () if op == "cast" or value is None else (dtype,) if isinstance(value, np.ndarray) else (SCALAR,)
            plan.append(FlowStep(op, dtype, given))
        self.spec, self.out = FlowSpec(kind, tuple(plan)), dtype
        arrays = [value for value in self.values if isinstance(value, np.ndarray)]
        self.inputs = [(array, array.strides, 0) for array in (self.source, *arrays)]
        self.scalars = [value for value in self.values if isinstance(value, float)]

    def plain(self):
        """The result as a program computes it."""
        found = self.source
        for (op, _), value in zip(self.steps, self.values, strict=True):
            if op == "cast":
                found = found.astype(value)
            elif value is None:
                found = FUNCTIONS[op](found)
            else:
                found = FUNCTIONS[op](found, value)
        return found

    def fused(self, kernel):
        """The same by a kernel."""
        out = np.empty(self.shape, self.out)
        said = kernel.apply(self.inputs, self.scalars, out)
        assert said is None, said
        return out

    def graph(self):
        """The operations as a trace records them."""
        extents, kind, ops = ",".join(map(str, self.shape)), self.kind, []
        for number, ((op, _), value, step) in enumerate(zip(self.steps, self.values, self.spec.steps, strict=True)):
            taken = [f"{NAMES[kind]}[{extents}]"] + [f"{NAMES[step.dtype]}[{extents}]"] * isinstance(value, np.ndarray)
            kind = step.dtype
            given = f"{NAMES[kind]}[{extents}]"
            ops.append(Op(number, op, "operator", "", 0, op, 1, 0.0, 0.0, 0, in_sig=",".join(taken), out_sig=given))
        return Graph.build(ops, [Edge(k, k + 1, "flow", 0) for k in range(len(ops) - 1)])


def machine():
    """The processor as the prediction sees it: what starting an operation costs, and bytes per second by level."""
    levels = []
    for nbytes in LEVELS:
        here, there = np.ones(nbytes // 2, np.uint8), np.empty(nbytes // 2, np.uint8)
        levels.append(Copied(nbytes=nbytes, seconds=best_of(lambda a=here, b=there: np.copyto(b, a), 0.05)))
    tiny = np.ones(1, np.float32)
    return Pu(
        name="cpu", memory_nbytes=0, launch_seconds=best_of(lambda: tiny * 2.0), stream_levels=levels,
        stream_bytes_per_second=levels[-1].nbytes / levels[-1].seconds,
    )  # fmt: skip


class Steps:
    """Seconds per element of single steps whose arrays are in a cache: in numpy, and in a kernel of that step alone."""

    CACHED = 16_384  # elements

    def __init__(self):
        self._known = {}

    def of(self, kind, step):
        """The two figures of a step on arrays of this type; nothing for a cast, which moves bytes and no more."""
        op, value = step
        key = (kind, op, type(value))
        if key not in self._known:
            one, tiny = Chain(kind, [step], (self.CACHED,)), Chain(kind, [step], (1,))
            kernel = flow_kernel(one.spec)
            plain = best_of(one.plain) - best_of(tiny.plain)
            fused = best_of(lambda: one.fused(kernel)) - best_of(lambda: tiny.fused(kernel))
            self._known[key] = max(plain, 0.0) / self.CACHED, max(fused, 0.0) / self.CACHED
        return self._known[key]

    def work(self, chain):
        """What a chain computes: each step by itself, and together what each takes more than the cheapest one."""
        kinds = [chain.kind, *(step.dtype for step in chain.spec.steps)]
        found = [self.of(kind, step) for kind, step in zip(kinds, chain.steps, strict=False)]
        count, base = chain.source.size, min(fused for _, fused in found)
        together = base + sum(fused - base for _, fused in found)
        return Work(tuple(plain * count for plain, _ in found), together * count)


def seconds_of(calls, rounds):
    """Seconds of each round by name, in a new order each round, each after a call to warm up."""
    found, names = {name: [] for name in calls}, list(calls)
    for _ in range(rounds):
        random.shuffle(names)
        for name in names:
            calls[name]()
            begun = time.perf_counter()
            calls[name]()
            found[name].append(time.perf_counter() - begun)
    return found


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    return [order.index(at) for at in range(len(values))]


def part_traffic(chains, rounds):
    """Predicted against measured gain, by chain and size."""
    pu, known = machine(), Steps()
    print(f"an operation starts in {pu.launch_seconds * 1e6:.2f} us; GB/s:", end=" ")
    print(", ".join(f"{one.nbytes / one.seconds / 1e9:.1f} up to {one.nbytes >> 10} kB" for one in pu.stream_levels))
    print(f"{'chain':24} {'elements':>9} {'fewer':>8} {'by bytes':>9} {'and work':>9} {'measured':>9}  quartiles")
    rows = []
    for name, (kind, steps) in chains.items():
        kernel = flow_kernel(Chain(kind, steps, (8,)).spec)
        if isinstance(kernel, No):
            print(f"{name}: {kernel.reason}")
            continue
        tiny = Chain(kind, steps, (1,))
        start = best_of(lambda tiny=tiny, kernel=kernel: tiny.fused(kernel))
        for size in SIZES:
            chain = Chain(kind, steps, (size,))
            moved = traffic(chain.graph(), range(len(steps)))
            assert chain.plain().tobytes() == chain.fused(kernel).tobytes(), name
            some = max(5, rounds // (1 + size // 500_000))
            took = seconds_of({"plain": chain.plain, "fused": lambda c=chain, k=kernel: c.fused(k)}, some)
            gains = [a / b for a, b in zip(took["plain"], took["fused"], strict=True)]
            low, _, high = statistics.quantiles(gains, n=4)
            gain = statistics.median(took["plain"]) / statistics.median(took["fused"])
            row = {"chain": name, "elements": size, "measured": gain, "quartiles": [low, high]}
            row["bytes_saved"] = moved.unfused_nbytes / moved.fused_nbytes
            row["by_bytes"] = predicted(moved, pu, start)
            row["predicted"] = predicted(moved, pu, start, known.work(chain))
            rows.append(row)
            words = f"{name:24} {size:9} {row['bytes_saved']:7.1f}x {row['by_bytes']:8.1f}x {row['predicted']:8.1f}x"
            print(f"{words} {gain:8.1f}x  {low:.1f} - {high:.1f}")
    return rows


def summary(rows, which):
    """How good a prediction was: its errors, its ranks, and what it chose."""
    off = [max(row[which] / row["measured"], row["measured"] / row[which]) for row in rows]
    for size in SIZES:
        some = [row for row in rows if row["elements"] == size]
        said, seen = (statistics.median(row[name] for row in some) for name in (which, "measured"))
        print(f"  {size:9} elements: predicted {said:.1f}x, measured {seen:.1f}x in the middle")
    a, b = ranks([row[which] for row in rows]), ranks([row["measured"] for row in rows])
    rank = statistics.correlation(a, b) if len(rows) > 1 else 1.0
    chosen, left = ([row for row in rows if (row[which] >= WORTH) is choice] for choice in (True, False))
    faster, missed = sum(row["measured"] > 1 for row in chosen), sum(row["measured"] > WORTH for row in left)
    print(f"  off by {statistics.median(off):.2f}x in the middle, {max(off):.1f}x at most; rank correlation {rank:.2f}")
    share = f"{faster / max(len(chosen), 1):.0%}"
    print(
        f"  {len(chosen)} of {len(rows)} chosen, {faster} of them faster ({share}); {missed} of the {len(left)} others"
    )
    return {"rank_correlation": rank, "chosen": len(chosen), "faster": faster, "missed": missed}


def alike():
    """Chains of three patterns with other sizes, layouts and constants."""
    chance = random.Random(0)
    shapes = [(224, 224, 3), (65_536,), (300, 400), (64, 32, 32), (128, 128, 3), (9, 5_000), (40_000,), (480, 640)]
    for name in ("scale, shift", "normalise", "distance"):
        kind, steps = CHAINS[name]
        for shape in shapes:
            own = [(op, chance.uniform(0.1, 3.0) if isinstance(value, float) else value) for op, value in steps]
            yield name, Chain(kind, own, shape)


def dedicated(chain, compiler):
    """A kernel with the numbers of one chain compiled in."""
    numbers = chain.scalars
    text = re.sub(r"scalars\[(\d+)\];", lambda at: f"({float(numbers[int(at[1])]).hex()});", source(chain.spec))
    built = kernel_cache.build(text, compiler_for(chain.spec, compiler), lambda library: Yes)
    return FlowKernel(chain.spec, load(built.path))


def part_templates(rounds):
    """How many kernels are compiled for chains that are alike, and what sharing them costs."""
    compiler = find_compiler()
    if isinstance(compiler, No):
        print(f"templates: {compiler.reason}")
        return {}
    kernels, ratios, equal, chains = {}, [], 0, list(alike())
    begun = time.perf_counter()
    for _, chain in chains:
        if chain.spec not in kernels:
            kernels[chain.spec] = flow_kernel(chain.spec)
    shared = time.perf_counter() - begun
    begun = time.perf_counter()
    own = [dedicated(chain, compiler) for _, chain in chains]
    alone = time.perf_counter() - begun
    for (_, chain), kernel in zip(chains, own, strict=True):
        equal += chain.plain().tobytes() == chain.fused(kernels[chain.spec]).tobytes()
        calls = {"shared": lambda c=chain: c.fused(kernels[c.spec]), "own": lambda c=chain, k=kernel: c.fused(k)}
        took = seconds_of(calls, rounds)
        ratios.append(statistics.median(took["own"]) / statistics.median(took["shared"]))
    low, middle, high = statistics.quantiles(ratios, n=4)
    many, saved = len(chains), len(chains) - len(kernels)
    print(f"{many} chains, {len(kernels)} kernels compiled and proven in {shared:.1f} s, {saved} compilations saved")
    print(f"  (one for each chain, without any proof: {alone:.1f} s)")
    print(
        f"{equal} of {many} results are numpy's bit for bit; a shared kernel is {middle:.2f}x as fast as one with its"
    )
    print(f"  numbers compiled in ({low:.2f} - {high:.2f})")
    return {"chains": len(chains), "kernels": len(kernels), "equal": equal, "speed": [low, middle, high]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--drawn", type=int, default=12, help="chains that are drawn at random")
    parser.add_argument("--seed", type=int, default=1, help="of the chains that are drawn")
    parser.add_argument("--only", choices=("traffic", "templates"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(f"python {platform.python_version()}, numpy {np.__version__}")
    found = {"versions": {"python": platform.python_version(), "numpy": np.__version__}}
    if options.only != "templates":
        for name, chains in (("looked at", CHAINS), ("drawn", drawn(options.drawn, options.seed))):
            found[name] = rows = part_traffic(chains, options.rounds) if chains else []
            for which, words in (("by_bytes", "by bytes alone"), ("predicted", "by bytes and work")):
                print(f"chains {name}, {words}:")
                found[f"{name}, {words}"] = summary(rows, which) if rows else {}
    if options.only != "traffic":
        with tempfile.TemporaryDirectory() as home:  # a cache of its own: nothing is compiled yet
            os.environ["CODEDAG_HOME"] = home
            found["templates"] = part_templates(options.rounds)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
