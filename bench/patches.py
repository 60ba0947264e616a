"""Prints what a patch costs per call over the direct call, and how long it takes to apply and restore.

python bench/patches.py [--rounds N] [-o RESULTS.json]

Each round times every form once, in turn; best and median over the rounds are shown.  The second
part loads torch, scipy and scikit-image where they are installed.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import operator
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from codedag.backends.registry import EXACT, Substitution
from codedag.ir.verdict import No, Yes
from codedag.migrate.patches import proxies
from codedag.migrate.patches.dispatch import Dispatcher
from codedag.migrate.patches.library_patches import Patch, Patches
from codedag.migrate.placement.contexts import Contexts
from codedag.migrate.placement.modes import Mode
from codedag.migrate.substitute import nan_check

CALLS = 50_000
PACKAGES = ("cv2", "torch", "scipy.ndimage", "scipy.signal", "skimage.filters", "skimage.transform")
FUNCTIONS = {
    "numpy": ("clip", "mean", "add", "exp"),
    "cv2": ("resize", "flip", "blur"),
    "torch": ("add", "stack"),
    "torch.nn.functional": ("relu",),
    "scipy.ndimage": ("sobel", "median_filter", "gaussian_filter"),
    "scipy.signal": ("convolve",),
}


def python_function(value: Any) -> Any:
    return value


def proxy(function: Callable[..., Any], *runs: Any) -> Any:
    made = proxies.make(function)
    proxies.native.set_layers(made, tuple(proxies.native.Layer(run) for run in runs))
    return made


def decline(value: Any) -> Any:
    return proxies.native.DECLINED


def on_trial(guard: Any, **options: Any) -> Dispatcher:
    """A substitute that does nothing, on trial: what is left is the price of the trial."""
    facts = {
        "source": "bench.nothing",
        "into": "bench",
        "equivalence": EXACT,
        "needs": "",
        "source_needs": "",
        "pu": "cpu",
    }
    made = Substitution(python_function, **facts)
    made.guard(lambda call: guard)
    return Dispatcher(made, mode=Mode("off"), **options)


def in_python(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **keywords: Any) -> Any:
        return function(*args, **keywords)

    return wrapper


def forms(function: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    return {
        "direct": function,
        "pass through": proxy(function),
        "pass through, counted": proxy(function, None),
        "declined by a Python guard, counted": proxy(function, decline),
        "a plain Python wrapper": in_python(function),
        "declined by the guard of a substitute": proxy(function, on_trial(No("bench"))),
        "declined by context": proxy(function, on_trial(Yes, contexts=Contexts({"nobody/bench.nothing": True}))),
        "answered by a substitute that does nothing": proxy(function, on_trial(Yes, demote=False)),
    }


def nanoseconds(function: Callable[..., Any]) -> float:
    start = time.perf_counter_ns()
    for _ in range(CALLS):
        function(1)
    return (time.perf_counter_ns() - start) / CALLS


def overheads(function: Callable[..., Any], rounds: int) -> dict[str, dict[str, float]]:
    """Nanoseconds per call of each form, and over the direct call of the same round."""
    made = forms(function)
    seen: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(rounds):
        for name, form in made.items():
            seen[name].append(nanoseconds(form))
    over = {name: [a - b for a, b in zip(times, seen["direct"], strict=True)] for name, times in seen.items()}
    return {
        name: {
            "best": min(times),
            "median": statistics.median(times),
            "over_best": min(times) - min(seen["direct"]),
            "over_median": statistics.median(over[name]),
        }
        for name, times in seen.items()
    }


def loaded() -> list[Any]:
    """The functions of the packages that are here."""
    for name in PACKAGES:
        try:
            importlib.import_module(name)
        except ImportError:
            print(f"  {name} is not installed")
    here = {module: names for module, names in FUNCTIONS.items() if module in sys.modules}
    return [getattr(sys.modules[module], name) for module, names in here.items() for name in names]


def scans(rounds: int) -> dict[str, Any]:
    """Seconds to apply and restore one patch, and all at once."""
    functions = loaded()
    result: dict[str, Any] = {"objects": len(gc.get_objects()), "functions": len(functions)}
    for name, some in (("one", functions[:1]), ("all", functions)):
        times = []
        for _ in range(rounds):
            patches = Patches(*map(Patch, some))
            edits: list[int] = []
            done, back = once(lambda: edits.append(patches.apply())), once(patches.restore)  # noqa: B023
            times.append((done, back, edits[0]))
        apply, restore, counts = zip(*times, strict=True)
        result[name] = {
            "apply_best": min(apply),
            "apply_median": statistics.median(apply),
            "restore_best": min(restore),
            "restore_median": statistics.median(restore),
            "edits": counts[0],
        }
    return result


def sentinel(rounds: int) -> dict[str, Any]:
    """Seconds of a filter over an image of floats, and of the sum that looks for NaN and infinity in its result."""
    import numpy

    image = numpy.random.default_rng(0).random((480, 640), numpy.float32)
    operations: dict[str, Callable[[], Any]] = {"numpy.sqrt": lambda: numpy.sqrt(image)}
    if "cv2" in sys.modules:
        operations["cv2.blur 5"] = lambda: sys.modules["cv2"].blur(image, (5, 5))
    if "scipy.ndimage" in sys.modules:
        operations["scipy.ndimage.sobel"] = lambda: sys.modules["scipy.ndimage"].sobel(image)
    found = {}
    for name, run in operations.items():
        times = [(once(run), once(lambda: nan_check.odd(image))) for _ in range(4 * rounds)]
        found[name] = {"seconds": min(a for a, _ in times), "look": min(b for _, b in times)}
    return found


def once(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    results: dict[str, Any] = {"python": platform.python_version(), "rounds": options.rounds}
    for function in (operator.truth, python_function):
        print(f"{function.__name__}: ns per call (best, median; over the direct call: best, median)")
        results[function.__name__] = overheads(function, options.rounds)
        for name, times in results[function.__name__].items():
            row = "".join(f"{times[key]:9.1f}" for key in ("best", "median", "over_best", "over_median"))
            print(f"  {name:38s}{row}")
    results["scans"] = scans(max(3, options.rounds // 3))
    print(f"{results['scans']['objects']} objects, {results['scans']['functions']} functions: seconds (best, median)")
    for name in ("one", "all"):
        row = results["scans"][name]
        times = " ".join(f"{row[key]:.3f}" for key in row if key != "edits")
        print(f"  {name:5s} apply, restore: {times}  ({row['edits']} references)")
    results["sentinel"] = sentinel(options.rounds)
    for name, row in results["sentinel"].items():
        share = row["look"] / row["seconds"]
        times = f"{row['seconds'] * 1e6:.0f} us; looking for NaN: {row['look'] * 1e6:.0f} us"
        print(f"{name} on 480x640 floats: {times} ({share:.1%})")
    if options.output:
        options.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
