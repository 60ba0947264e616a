"""What tracing costs: ratios of interleaved rounds, printed and written to bench/results/tracing.json."""

from __future__ import annotations

import argparse
import cProfile
import gc
import importlib.util
import json
import random
import statistics
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from codedag.instrument import sites
from codedag.instrument.program import Program
from codedag.trace import gather
from codedag.trace.idle import Idle
from codedag.trace.recorder import Recorder

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
PROGRAM = """
import numpy as np
import torch

def numpy_chain(a, rounds):  # 10 data operations a round, and nothing else to speak of
    for _ in range(rounds):
        b = a + 1.0
        c = b * a
        d = np.sqrt(c)
        e = d - b
        f = e.reshape(4, 4)
        g = f[1:3]
        h = np.maximum(c, d)
        h += b
        i = h.astype(np.float32)
        j = i / 2.0
    return j

def torch_chain(t, rounds):  # 6 data operations a round
    for _ in range(rounds):
        u = t + 1.0
        v = u * t
        w = v.permute(1, 0)
        x = torch.relu(w)
        x.mul_(2.0)
        y = x - u
    return y

def step(x, y):
    return x * 3 + y

def scalar_calls(rounds):  # 101 Python calls a round
    total = 0
    for i in range(rounds):
        total = inner(total, i)
    return total

def inner(total, i):
    for k in range(100):
        total = step(k, i) + (total & 1023)
    return total
"""
SOUNDS = """
import librosa
import numpy as np

def mel_features(samples, rate):
    power = librosa.feature.melspectrogram(y=samples, sr=rate, n_mels=64)
    level = librosa.power_to_db(power, ref=np.max)
    return (level - level.mean()) / (level.std() + 1e-6)
"""
#: data operations per round of each chain
OPERATIONS = {"numpy_chain": 10, "torch_chain": 6}
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
_now = CLOCKS["wall"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="wall", help="cpu: where others use the machine too")
    parser.add_argument("--sizes", type=int, nargs="*", default=[96, 160, 224])
    options = parser.parse_args()
    global _now
    _now = CLOCKS[options.clock]
    import numpy as np
    import torch

    torch.set_num_threads(1)
    found: dict[str, Any] = {"gatherer": gather.chosen.__module__, "rounds": options.rounds, "clock": options.clock}
    with tempfile.TemporaryDirectory(prefix="codedag-tracing-") as folder:
        path = Path(folder) / "chains.py"
        path.write_text(PROGRAM)
        chains = Pair(path)
        inputs = {"numpy_chain": np.ones((2, 8)), "torch_chain": torch.ones(4, 4)}
        for name, operations in OPERATIONS.items():
            found[name] = per_operation(chains, name, inputs[name], operations, options.rounds)
        found["scalar_calls"] = scalar_calls(path, options.rounds)
        found["growth"] = growth(chains, inputs["numpy_chain"])
        found["after_leaving"] = after_leaving(path, options.rounds)
        sounds = Path(folder) / "sounds.py"
        sounds.write_text(SOUNDS)
        found["mel"] = mel(sounds, options.rounds)
        for size in options.sizes:
            found[f"epoch_{size}"] = epoch(size, options.rounds)
    found["memory"] = memory()
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "tracing.json").write_text(json.dumps(found, indent=1) + "\n")
    print(f"written to {(RESULTS / 'tracing.json').relative_to(ROOT)}")


class Pair:
    """One module twice: as it is, and with every site recorded."""

    def __init__(self, path: Path) -> None:
        self.program = Program([path.parent])
        code = path.read_bytes()
        self.plain = _module(path, compile(code, str(path), "exec", dont_inherit=True))
        self.traced = _module(path, self.program.load(str(path), code))

    def recording(self, function: Callable[[], Any], gatherer: Any = None) -> Any:
        """What the function gives while every site tells a new recorder, and that recorder."""
        recorder = Recorder(self.program.names, gatherer=gatherer)
        sites.native.start(recorder, self.program.names)
        try:
            return function(), recorder
        finally:
            sites.native.stop()
            if sites.native.failure():
                raise RuntimeError(sites.native.failure())


def _module(path: Path, code: types.CodeType) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    exec(code, module.__dict__)  # noqa: S102
    return module


def _interleaved(runs: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name in random.Random(number).sample(sorted(runs), len(runs)):
            gc.collect()
            taken = runs[name]()
            if number:  # the first round warms everything up
                seconds[name].append(taken)
    return seconds


def _timed(pair: Pair, name: str, args: tuple[Any, ...], traced: bool, gatherer: Any = None) -> float:
    if not traced:
        started = _now()
        getattr(pair.plain, name)(*args)
        return _now() - started

    def run() -> float:
        started = _now()
        getattr(pair.traced, name)(*args)
        return _now() - started

    return float(pair.recording(run, gatherer)[0])


def per_operation(pair: Pair, name: str, value: Any, operations: int, rounds: int) -> dict[str, Any]:
    """Microseconds that recording adds to each data operation, for the gatherer in C and in Python."""
    repeats = 2000
    runs = {
        "plain": lambda: _timed(pair, name, (value, repeats), False),
        "traced": lambda: _timed(pair, name, (value, repeats), True),
        "python": lambda: _timed(pair, name, (value, repeats), True, gather.Gatherer),
    }
    seconds = _interleaved(runs, rounds)
    scale = 1e6 / (repeats * operations)
    each = {
        kind: {"best": (min(seconds[kind]) - min(seconds["plain"])) * scale,
               "median": (statistics.median(seconds[kind]) - statistics.median(seconds["plain"])) * scale}
        for kind in ("traced", "python")
    }  # fmt: skip
    print(
        f"{name}: recording adds {each['traced']['best']:.3f} us per operation (best; median "
        f"{each['traced']['median']:.3f}), the Python gatherer {each['python']['best']:.2f}; "
        f"the operations themselves take {min(seconds['plain']) * scale:.3f} us{_moved(seconds['plain'])}",
        flush=True,
    )
    return {"microseconds": each, "seconds": seconds}


def scalar_calls(path: Path, rounds: int) -> dict[str, Any]:
    """Code that moves no data: always recorded, and once it has its plain code back; with the peers beside it."""
    other = path.with_name("resting.py")  # functions are found by their file
    other.write_text(PROGRAM)
    always, resting = Pair(path), Pair(other)
    idle = Idle(resting.program, Recorder(resting.program.names))

    def rested() -> float:
        sites.native.idle_by(idle)
        try:
            return _timed(resting, "scalar_calls", (3000,), True)
        finally:
            sites.native.idle_by(None)

    runs = {"plain": lambda: _timed(always, "scalar_calls", (3000,), False), "resting": rested,
            "traced": lambda: _timed(always, "scalar_calls", (3000,), True)}  # fmt: skip
    peers = with_peers(lambda: always.plain.scalar_calls(3000))
    seconds = _interleaved({**runs, **peers}, rounds)
    return {kind: _told(f"call-heavy scalar code, {kind}", seconds, kind) for kind in seconds if kind != "plain"}


def with_peers(job: Callable[[], Any]) -> dict[str, Callable[[], float]]:
    """The same job under the call profilers that are installed here."""

    def timed() -> float:
        started = _now()
        job()
        return _now() - started

    def profiled() -> float:
        profile = cProfile.Profile()
        profile.enable()
        try:
            return timed()
        finally:
            profile.disable()

    found = {"cProfile": profiled}
    try:
        from viztracer import VizTracer
    except ImportError:
        return found

    def viztraced() -> float:
        tracer = VizTracer(verbose=0, tracer_entries=4_000_000)
        tracer.start()
        try:
            return timed()
        finally:
            tracer.stop()
            tracer.clear()

    return {**found, "VizTracer": viztraced}


def mel(path: Path, rounds: int) -> dict[str, Any]:
    """Mel features of four seconds of sound with librosa, traced and under the peers."""
    import numpy as np

    pair = Pair(path)
    samples = np.random.default_rng(0).standard_normal(4 * 22050).astype(np.float32)

    def run(module: Any) -> float:
        started = _now()
        for _ in range(10):
            module.mel_features(samples, 22050)
        return _now() - started

    runs = {"plain": lambda: run(pair.plain), "traced": lambda: float(pair.recording(lambda: run(pair.traced))[0])}
    seconds = _interleaved({**runs, **with_peers(lambda: run(pair.plain))}, rounds)
    return {kind: _told(f"mel features, {kind}", seconds, kind) for kind in seconds if kind != "plain"}


def after_leaving(path: Path, rounds: int) -> dict[str, Any]:
    """Functions that were traced and given back, as a multiple of what they took before."""
    import numpy as np

    from codedag.trace.live import Live

    module, untouched = Pair(path).plain, Pair(path).plain
    code = module.numpy_chain.__code__
    sys.modules[path.stem] = module
    with Live(roots=[path.parent]):
        module.numpy_chain(np.ones((2, 8)), 10)
    if module.numpy_chain.__code__ is not code:
        raise RuntimeError("the code was not given back")

    def timed(of: Any) -> float:
        started = _now()
        of.numpy_chain(np.ones((2, 8)), 4000)
        of.scalar_calls(1000)
        return _now() - started

    runs = {"plain": lambda: timed(untouched), "traced": lambda: timed(module)}
    return _told("after leaving", _interleaved(runs, rounds))


def _told(what: str, seconds: dict[str, list[float]], kind: str = "traced") -> dict[str, Any]:
    best = min(seconds[kind]) / min(seconds["plain"])
    median = statistics.median(seconds[kind]) / statistics.median(seconds["plain"])
    each = [t / p for t, p in zip(seconds[kind], seconds["plain"], strict=True)]
    print(
        f"{what}: {best:.3f}x (best/best), {median:.3f}x (medians), rounds {min(each):.3f}..{max(each):.3f}; "
        f"plain {min(seconds['plain']) * 1e3:.2f} ms{_moved(seconds['plain'])}",
        flush=True,
    )
    return {"best": best, "median": median, "ratios": each, "seconds": seconds[kind], "plain": seconds["plain"]}


def _moved(plain: list[float]) -> str:
    spread = max(plain) / min(plain)
    return f"; the baseline moved by {spread:.2f}x" + ("" if spread < 1.3 else ": more than 1.3x, this line is void")


def growth(pair: Pair, value: Any) -> dict[str, Any]:
    """Time of ten times as many operations, as a multiple."""
    seconds = _interleaved(
        {str(n): (lambda n=n: _timed(pair, "numpy_chain", (value, n), True)) for n in (1000, 10_000, 100_000)}, 3
    )  # type: ignore[misc]
    best = {n: min(s) for n, s in seconds.items()}
    seconds["1000000"] = [_timed(pair, "numpy_chain", (value, 1_000_000), True)]
    best["1000000"] = seconds["1000000"][0]
    steps = [best[f"{n}0"] / best[str(n)] for n in (1000, 10_000, 100_000)]
    print(f"ten times the operations take {steps[0]:.2f}x (10 k to 100 k), {steps[1]:.2f}x (100 k to 1 M) and "
          f"{steps[2]:.2f}x (1 M to 10 M) the time")  # fmt: skip
    return {"steps": steps, "seconds": seconds}


def epoch(size: int, rounds: int) -> dict[str, Any]:
    """One pass of a DataLoader over the Dataset of examples/images_cv2.py, in this process."""
    import cv2
    import torch

    cv2.setNumThreads(1)
    pair = Pair(ROOT / "examples" / "images_cv2.py")
    folder = Path(tempfile.gettempdir()) / "codedag-bench-pictures"
    pair.plain.make_pictures(str(folder), 64)

    def run(module: Any) -> float:
        random.seed(1)
        loader = torch.utils.data.DataLoader(module.Photos(str(folder), size), batch_size=16)
        started = _now()
        for images, _ in loader:
            images.mean()
        return _now() - started

    runs = {
        "plain": lambda: run(pair.plain),
        "traced": lambda: float(pair.recording(lambda: run(pair.traced))[0]),
    }
    seconds = _interleaved({**runs, **with_peers(lambda: run(pair.plain))}, rounds)
    kinds = [kind for kind in seconds if kind != "plain"]
    return {kind: _told(f"DataLoader epoch at {size} px, {kind}", seconds, kind) for kind in kinds}


def memory() -> dict[str, float]:
    """Bytes per template and per edge, once there are many of them."""
    import numpy as np

    if gather.why_python:
        return {}
    from codedag.instrument.sites import CALL, SiteInfo
    from codedag.trace import _gather
    from codedag.trace.names import Names

    gatherer = _gather.Gatherer(set(), Names())
    info = SiteInfo(0, CALL, "", "f", 1, 0, 1, 0, "")
    arrays = [np.zeros(1) for _ in range(4)]
    before = None
    for _ in range(200_000):
        site = sites.make(info)
        path = gatherer.path(-1, site)
        made = np.empty(1)
        inputs = (arrays[0], before) if before is not None else (arrays[0],)
        gatherer.operation(path, site, np.sqrt, inputs, {}, made, 1, 1, None)
        before = made
    sizes = gatherer.sizes()
    node = sizes["template_nbytes"] / sizes["templates"]
    edge = sizes["edge_nbytes"] / sizes["edges"]
    counts = f"{sizes['templates']} and {sizes['edges']} of them"
    print(f"memory: {node:.1f} B per template, {edge:.1f} B per edge ({counts})")
    return {"template_nbytes": node, "edge_nbytes": edge}


if __name__ == "__main__":
    main()
