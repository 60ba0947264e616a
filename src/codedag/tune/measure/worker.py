"""The measuring process: loads candidate libraries, checks them on guarded memory, times them, proves winners.

`python -m codedag.tune.measure.worker` reads requests from stdin and answers on stdout, a JSON object a line. A crash
or an endless loop here is an answer for the parent, which starts another process.
"""

from __future__ import annotations

import ctypes
import functools
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from codedag.ir.verdict import No
from codedag.tune.measure import protocol
from codedag.tune.measure.clock import SAMPLES_MAX, SAMPLES_MIN, least_seconds
from codedag.tune.measure.inputs import arrays_for, laid_out, values
from codedag.tune.program.evaluate import evaluate
from codedag.tune.program.program import Program, decoded, loads_of
from codedag.tune.prove_kernel import Fenced, _no_core_file
from codedag.tune.runner import Runner, layout_problem, load_entry, runner_of
from codedag.tune.schedule.contraction import CONSTANT_MAX, axis_names
from codedag.tune.schedule.family import EXACT, ContractionFamily, Family, family_of
from codedag.tune.schedule.space import point_of

SAMPLE_SECONDS = 0.02
SLOW_SECONDS, WORSE = 0.005, 1.5  # where the best call takes this long, one that takes so much longer is timed once
PAIR_ROUNDS_MIN, PAIR_SECONDS = 5, 1.5  # of comparing the last few, if they are slow
CASES = 200
HARD = 3  # sets of numbers that show the order of products
ULPS = 512.0  # of the largest value: sums in another order
Array = Any


@functools.lru_cache(maxsize=4)
def _family(text: str, order: str) -> Family:
    return family_of(decoded(text), order)


@functools.lru_cache(maxsize=4)
def _case(text: str) -> tuple[list[Array], Array]:
    """Fixed arrays of a program and what numpy gives for them."""
    program = decoded(text)
    arrays = [_aligned(array) for array in arrays_for(program, 1)]
    with np.errstate(all="ignore"):
        return arrays, evaluate(program, arrays)


def _aligned(array: Array) -> Array:
    raw = np.empty(array.nbytes + 64, np.uint8)
    start = -int(raw.ctypes.data) % 64
    made = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def _runner(request: dict[str, Any]) -> tuple[Family, Runner] | No:
    family = _family(request["program"], request["order"])
    entry = load_entry(Path(request["library"]))
    if isinstance(entry, No):
        return entry
    if np.float32(1e-40) * np.float32(1) == 0:
        return No("the library makes the processor drop denormal numbers (-ffast-math?)")
    return family, runner_of(family, point_of(request["point"]), entry)


def difference(family: Family, found: Array, expected: Array) -> str:
    """How a result is wrong, or nothing."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"shape {found.shape} and type {found.dtype} instead of {expected.shape} and {expected.dtype}"
    if family.exactness == EXACT:
        if any(n > 1 and a != b for n, a, b in zip(found.shape, found.strides, expected.strides, strict=True)):
            return "the result lies in another order"
        return "" if found.tobytes() == expected.tobytes() else "it differs from numpy"
    scale = float(np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected)))
    info = np.finfo(found.dtype)
    limit = ULPS * max(float(info.eps) * scale, float(info.smallest_subnormal))
    with np.errstate(all="ignore"):
        near = np.abs(found - expected) <= limit
        beyond = ~(np.abs(found) <= info.max / 4) & ~(np.abs(expected) <= info.max / 4)  # which sum overflows is open
    return "" if (near | (found == expected) | beyond).all() else "it differs from numpy"


def _fenced(array: Array, at_end: bool) -> tuple[Array, Fenced]:
    memory = Fenced(max(array.nbytes, 1))
    place = memory.place(array.nbytes, at_end)
    made = place.view(array.dtype).reshape(array.shape)
    made[...] = array
    return made, memory


def check(family: Family, runner: Runner, arrays: list[Array], expected: Array, at_end: bool) -> str:
    """What is wrong with one call on arrays that touch forbidden pages, or nothing."""
    held = [_fenced(array, at_end) for array in arrays]
    found = runner.run([array for array, _ in held])
    if any(array.tobytes() != before.tobytes() for (array, _), before in zip(held, arrays, strict=True)):
        return "it wrote into an argument"
    if isinstance(found, No):
        return f"it declined: {found.reason}"
    return difference(family, found, expected)


def _timed(runner: Runner, arrays: list[Array], seconds: float) -> float:
    """The least thread time of a call, from samples of at least a tenth of a millisecond."""
    clock = time.thread_time
    start = clock()
    runner.run(arrays)
    once = max(clock() - start, 1e-7)
    turns = max(1, int(1e-4 / once))
    best, spent, samples = (once, once, 1) if once > SLOW_SECONDS else (float("inf"), 0.0, 0)
    while samples < SAMPLES_MIN or (spent < seconds and samples < SAMPLES_MAX):
        start = clock()
        for _ in range(turns):
            runner.run(arrays)
        took = clock() - start
        best, spent, samples = min(best, took / turns), spent + took, samples + 1
    return best


def do_measure(request: dict[str, Any]) -> dict[str, Any]:
    """Checks and times one candidate."""
    made = _runner(request)
    if isinstance(made, No):
        return {"seconds": None, "why": made.reason}
    family, runner = made
    arrays, expected = _case(request["program"])
    best = float(request.get("best") or 0.0)
    for at_end in (True, False):
        wrong = check(family, runner, arrays, expected, at_end)
        if wrong:
            return {"seconds": None, "why": wrong}
        if best <= SLOW_SECONDS:
            continue
        once = _once(runner, arrays)
        if once > WORSE * best:
            return {"seconds": once, "why": "", "beside": _beside()}
        break  # a slow one that is chosen is compared at both ends of its memory when it is proven
    before = _beside()
    seconds = _timed(runner, arrays, float(request.get("seconds", SAMPLE_SECONDS)))
    return {"seconds": seconds, "why": "", "beside": min(before, _beside())}


def _once(runner: Runner, arrays: list[Array]) -> float:
    start = time.thread_time()
    runner.run(arrays)
    return time.thread_time() - start


def _beside() -> float:
    """Seconds of a fixed piece of work: what the machine gives at this moment."""
    clock = time.thread_time
    best = float("inf")
    for _ in range(3):
        start = clock()
        _FIXED @ _FIXED
        best = min(best, clock() - start)
    return best


_FIXED = np.full((64, 64), 0.5, np.float32)


def do_pairs(request: dict[str, Any]) -> dict[str, Any]:
    """Thread times of some candidates in turns, in random order: who wins is decided pair by pair."""
    draw = np.random.default_rng(0)
    runners = []
    for one in request["candidates"]:
        made = _runner({**request, **one})
        if isinstance(made, No):
            return {"why": made.reason}
        runners.append(made[1])
    arrays, _ = _case(request["program"])
    times: list[list[float]] = [[] for _ in runners]
    start = time.monotonic()
    for turn in range(int(request["rounds"])):
        if turn >= PAIR_ROUNDS_MIN and time.monotonic() - start > PAIR_SECONDS:
            break
        for k in draw.permutation(len(runners)):
            once = _once(runners[int(k)], arrays)
            times[int(k)].append(once if once > SLOW_SECONDS else _timed(runners[int(k)], arrays, 0.0))
    return {"times": times, "why": ""}


def do_baselines(request: dict[str, Any]) -> dict[str, Any]:
    """Thread time of numpy's own evaluation, and of a copy of the bytes that the program reads and writes."""
    program = decoded(request["program"])
    arrays, expected = _case(request["program"])
    nbytes = sum(array.nbytes for array in arrays) + expected.nbytes
    source = np.zeros(max(nbytes // 2, 1), np.uint8)
    target = np.empty_like(source)
    with np.errstate(all="ignore"):
        numpy_seconds = least_seconds(lambda: evaluate(program, arrays))
    return {"numpy": numpy_seconds, "copy": least_seconds(lambda: np.copyto(target, source)), "why": ""}


def do_peak(request: dict[str, Any]) -> dict[str, Any]:
    """Fused multiply-adds a second that one thread reaches, in units of 10^9 operations."""
    function = getattr(ctypes.CDLL(request["library"]), f"codedag_peak_{request['dtype']}")
    function.restype, function.argtypes = ctypes.c_double, (ctypes.c_long,)
    best = 0.0
    for _ in range(12):
        clock = time.thread_time
        start = clock()
        flops = function(40_000)
        best = max(best, flops / max(clock() - start, 1e-9) / 1e9)
    return {"peak": best, "why": ""}


def do_prove(request: dict[str, Any]) -> dict[str, Any]:
    """Random calls of a kernel against numpy; `sure` counts those that it did not leave to numpy."""
    made = _runner(request)
    if isinstance(made, No):
        return {"why": made.reason}
    family, runner = made
    draw, sure = np.random.default_rng(int(request.get("seed", 0))), 0
    for case in range(int(request.get("cases", CASES))):
        arrays = [laid_out(array, draw) for array in _drawn(family, draw, wild=case % 4 == 3)]
        if layout_problem(family.program, arrays):
            continue
        with np.errstate(all="ignore"):
            expected = evaluate(family.program, arrays)
        found = runner.run(arrays)
        if isinstance(found, No):
            continue
        sure += 1
        wrong = difference(family, found, expected)
        if wrong:
            return {"why": f"{wrong} (case {case})"}
    arrays, expected = _case(request["program"])
    wrong = ""
    for at_end in (True, False) if expected.size else ():
        wrong = wrong or check(family, runner, arrays, expected, at_end)
    return {"why": wrong, "sure": sure}


def _drawn(family: Family, draw: Any, wild: bool) -> list[Array]:
    program = family.program
    if isinstance(family, ContractionFamily) and family.exactness != EXACT:
        return _resized(family, draw, wild)
    return [values(program.buffers[name], draw, wild) for name in program.inputs]


def _resized(family: ContractionFamily, draw: Any, wild: bool) -> list[Array]:
    """Arrays of other extents where the kernel takes them: 0, 1, primes and the task's own."""
    sizes = dict(family.program.statements[0].axes)
    for axis in family.contraction.axes:
        if axis.extent > CONSTANT_MAX:
            sizes |= {name: int(draw.choice((0, 1, 2, 17, 65, 67, 97, 131))) for name in axis.parts or (axis.name,)}
    names = [axis_names(load) for load in loads_of(family.program.statements[0].expr)]
    return [
        values(family.program.buffers[name], draw, wild, tuple(sizes[axis] if axis else 1 for axis in axes))
        for name, axes in zip(family.program.inputs, names, strict=True)
    ]


MODES = {"unfused": 0, "fused": 1, "lanes": 2}


def do_order(request: dict[str, Any]) -> dict[str, Any]:
    """How numpy adds products up for exactly these shapes, one of MODES, or nothing."""
    program: Program = decoded(request["program"])
    library = ctypes.CDLL(request["library"])
    family = family_of(program)
    assert isinstance(family, ContractionFamily)
    left = [name for name in MODES if name != "lanes" or family.contraction.adds_lines]
    for seed in range(HARD + 1):
        arrays = _hard(program, seed) if seed < HARD else _tiny(program)
        with np.errstate(all="ignore"):
            expected = evaluate(program, arrays)
        left = [name for name in left if _is_added(library, family, arrays, name, expected)]
    if "fused" in left and len(left) > 1:  # too few numbers to tell; a single product is the same both ways
        left = ["fused"] if all(axis.extent == 1 for axis in family.contraction.inner) else []
    return {"order": left[0] if left else "", "why": ""}


def _is_added(library: Any, family: ContractionFamily, arrays: list[Array], name: str, expected: Array) -> bool:
    found = _added(library, family, arrays, MODES[name])
    if name == "fused":  # kernels say when they end with a negative zero
        found, expected = found + 0.0, expected + 0.0
    return bool(found.tobytes() == expected.tobytes())


def _hard(program: Program, seed: int) -> list[Array]:
    from codedag.tune.program.orders import hard_numbers

    return [
        hard_numbers(program.buffers[name].shape, program.buffers[name].dtype, 7 * seed + k)
        for k, name in enumerate(program.inputs)
    ]


def _tiny(program: Program) -> list[Array]:
    """Numbers whose products are too small for their type."""
    return [array * array.dtype.type(1e-29 if array.dtype == np.float32 else 1e-170) for array in _hard(program, HARD)]


def _added(library: Any, family: ContractionFamily, arrays: list[Array], mode: int) -> Array:
    """The sums of products in one of the orders, by a plain loop."""
    c = family.contraction
    axes = [c.axis(name) for name in c.c] + list(c.inner)
    a, b = reversed(arrays) if c.swapped else arrays
    out = np.empty([c.axis(name).extent for name in c.c], c.dtype)
    numbers = [[axis.extent, c.step(c.a, axis.name), c.step(c.b, axis.name)] for axis in axes]
    table = np.array(numbers, np.int64)
    function = getattr(library, f"codedag_added_{c.dtype}")
    function.argtypes = (ctypes.c_void_p,) * 4 + (ctypes.c_long,) * 3
    function(a.ctypes.data, b.ctypes.data, out.ctypes.data, table.ctypes.data, len(c.c), len(axes), mode)
    return out


REQUESTS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "measure": do_measure, "pairs": do_pairs, "baselines": do_baselines, "peak": do_peak, "prove": do_prove,
    "order": do_order,
}  # fmt: skip


def _end_with_parent() -> None:
    """Has the system end this process with its parent, however that ends: a candidate may never return."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    except (OSError, AttributeError):
        return  # another system: this process ends when it has no more requests


def main() -> None:
    """Answers requests until there are no more."""
    _no_core_file()
    _end_with_parent()
    for line in sys.stdin.buffer:
        request = protocol.decoded(line)
        sys.stdout.buffer.write(protocol.encoded(REQUESTS[request["do"]](request)))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
