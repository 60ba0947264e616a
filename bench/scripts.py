"""Every example as it is, with library threads capped, and under `codedag run`: interleaved, compared bit for bit.

    python bench/scripts.py                      all examples, 8 rounds, written to bench/results/scripts.json
    python bench/scripts.py --only images_pil    one of them; its row of the results is replaced
    python bench/scripts.py --rounds 2           a quick look; with fewer than 8 rounds nothing is written
    python bench/scripts.py --check              no timing: only whether every result is the same
    python bench/scripts.py --table              the table of docs/benchmarks.md again, from the last results

A name that ends in _ulp is the example under `codedag run --allow ulp`: its losses are compared, not its bits, and the
geometric mean leaves it out.

Rates are items per second over the epochs after the first two, where observing and proving happen.  CPU is that of the
process with its children, of the whole run and of the same epochs as the rates.  A round whose baselines are not near
their medians (so that no two of those kept differ by more than 1.3x) is void and run again; a script with too many such
rounds is void.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from bars import write_bars

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "scripts.json"
PAGE = ROOT / "docs" / "benchmarks.md"
MARKS = ("<!-- scripts: begin -->", "<!-- scripts: end -->")
WARM, EPOCHS, VOID = 2, 6, 1.3
ROUNDS = 8  # of a result that is kept
MORE = 1.75  # times as many rounds at most, until enough are not void
#: Items of each example: enough for an epoch of about a second on two quiet cores.
COUNTS = {
    "images_crop": 320,
    "images_cv2": 320, "images_pil": 256, "images_albumentations": 256, "images_workers": 320, "birds_librosa": 160,
    "xray_filters": 96, "table_pandas": 20000, "generator_loop": 320, "map_dicts": 384, "stream_shards": 320,
    "nothing_to_gain": 512, "birds_librosa_ulp": 160,
}  # fmt: skip
ULP = "_ulp"
CLOSE = 1e-3  # of a loss, where rounding may differ: digits that training itself would not keep
CAPS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
WAYS = ("plain", "capped", "codedag")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", nargs="*", choices=sorted(COUNTS), default=None)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--share", type=float, default=1.0, help="use only this share of the items")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        write_table(json.loads(RESULTS.read_text()))
        return
    with tempfile.TemporaryDirectory(prefix="codedag-scripts-") as home:
        names = options.only or sorted(COUNTS)
        found = {}
        for name in names:
            found[name] = Bench(name, Path(home), options.share).measured(0 if options.check else options.rounds)
            if not found[name]["same"]:
                sys.exit(f"scripts: a result of {name} differs")
            if not options.check:
                report = reported(found)
                print(f"geometric mean {report['geometric_mean']}, worst {report['worst']} (void runs left out)")
            if not options.check and options.rounds >= ROUNDS and options.share == 1.0:
                record({name: found[name]})


def reported(found: dict[str, dict[str, object]]) -> dict[str, object]:
    """The rows with what they come to and where they were measured."""
    return {"scripts": found, **summary(found), "versions": versions(), "cpus": os.cpu_count()}


def record(rows: dict[str, dict[str, object]]) -> None:
    """Puts rows among the results; one of another version of a library does not stay beside them."""
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"scripts": {}, "versions": versions()}
    kept = before["scripts"] if before["versions"] == versions() else {}
    report = reported(dict(sorted({**kept, **rows}.items())))
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")
    write_table(report)


class Bench:
    """One example in its three ways."""

    def __init__(self, name: str, home: Path, share: float = 1.0) -> None:
        self.name, self.home, self.count = name, home, max(32, int(COUNTS[name] * share))
        self.allowed = ["--allow", "ulp"] if name.endswith(ULP) else []
        script = name.removesuffix(ULP)
        options = f"--count {self.count} --epochs {EPOCHS} --data".split()
        self.program = [
            str(ROOT / "examples" / f"{script}.py"),
            *options,
            str(ROOT / "data" / "examples" / f"{script}_{self.count}"),
        ]

    def measured(self, rounds: int) -> dict[str, object]:
        """Rates of every round, ratios, spread, and whether all results were the same."""
        once = [self._run(way, digest=self.home / way) for way in WAYS]
        digests = [(self.home / way).read_text() for way in WAYS]
        equal = digests[0] == digests[2]
        capped = "" if digests[0] == digests[1] else " (capping threads alone changes bits: sums are ordered by them)"
        print(f"{self.name}: {len(digests[0].split())} results compared, bit-equal: {equal}{capped}", flush=True)
        runs: dict[str, list[Measure]] = {way: [] for way in WAYS}
        number = 0
        while len(steady(runs)) < rounds and number < MORE * rounds:
            for way in random.Random(f"{self.name}{number}").sample(WAYS, len(WAYS)):
                runs[way].append(self._run(way))
            number += 1
            rates = ", ".join(f"{way} {runs[way][-1].rate:.1f}" for way in WAYS)
            print(f"  round {number}: {rates} items/s (load {os.getloadavg()[0]:.1f})", flush=True)
        apart = (
            max(abs(a - b) / abs(a) for a, b in zip(once[0].losses, once[2].losses, strict=True)) if self.allowed else 0
        )
        same = {"bit_equal": equal, "losses_apart": apart, "same": apart <= CLOSE if self.allowed else equal}
        return {**same, **(ratios(runs, steady(runs)) if rounds else {})}

    def _run(self, way: str, digest: Path | None = None) -> Measure:
        command = [
            sys.executable,
            *(["-m", "codedag", "-q", "run", *self.allowed] if way == "codedag" else []),
            *self.program,
        ]
        command += ["--threads", "1"] if way == "capped" else []
        command += ["--digest", str(digest)] if digest else []
        caps = dict.fromkeys(CAPS, "1") if way == "capped" else {}
        environment = {**os.environ, **caps, "CODEDAG_HOME": str(self.home / "home")}
        return Measure.of(command, environment, self.count)


class Measure:
    """Items per second and CPU after the first epochs, CPU and wall of the whole process, and the printed losses."""

    def __init__(self, rate: float, wall: float, cpu_per_item: float, cpu_later: float, losses: list[float]) -> None:
        self.rate, self.wall, self.cpu_per_item, self.losses = rate, wall, cpu_per_item, losses
        self.cpu_later = cpu_later

    @classmethod
    def of(cls, command: list[str], environment: dict[str, str], count: int) -> Measure:
        """What one run of a command gives; the benchmark ends if the command fails."""
        said: list[tuple[str, float]] = []  # the lines with a rate, and the CPU that had been used when they came
        losses: list[float] = []
        started = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=ROOT, env={**environment, "PYTHONUNBUFFERED": "1"}, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for line in process.stdout or ():
            said += [(rate, cpu_of_session(process.pid)) for rate in re.findall(r"([\d.]+) (?:items|images)/s", line)]
            losses += [float(loss) for loss in re.findall(r"loss ([\d.]+)", line)]
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"scripts: {' '.join(command)} ended with exit code {process.returncode}")
        rates = [float(rate) for rate, _ in said[WARM:]]
        whole = (usage.ru_utime + usage.ru_stime) / (count * EPOCHS)
        later = (said[-1][1] - said[WARM - 1][1]) / (count * len(rates))
        return cls(len(rates) / sum(1 / rate for rate in rates), wall, whole, later, losses)


def cpu_of_session(session: int) -> float:
    """Seconds of the processors that a session's processes have used, with those of children that have ended."""
    ticks = 0
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = each.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if fields[3] == str(session):
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def steady(runs: dict[str, list[Measure]]) -> list[int]:
    """The rounds whose two baselines are near the medians of all: of those no two differ by more than VOID."""
    near = [
        {number for number, each in enumerate(runs[way]) if VOID**-0.5 <= each.rate / middle <= VOID**0.5}
        for way in WAYS[:2]
        for middle in [statistics.median([each.rate for each in runs[way]] or [1.0])]
    ]
    return sorted(set.intersection(*near))


def ratios(every: dict[str, list[Measure]], rounds: list[int]) -> dict[str, object]:
    """Ratios of the steady rounds, their median, best and spread; void if too few are, by their baselines."""
    found: dict[str, object] = {way: [vars(each) for each in measures] for way, measures in every.items()}
    found["void_rounds"] = [number for number in range(len(every["plain"])) if number not in rounds]
    runs = {way: [measures[number] for number in rounds or range(len(measures))] for way, measures in every.items()}
    void = len(rounds) < len(every["plain"]) / MORE
    for way in WAYS[:2]:
        pairs = [b.rate / a.rate for a, b in zip(runs[way], runs["codedag"], strict=True)]
        spread = max(a.rate for a in runs[way]) / min(a.rate for a in runs[way])
        best = max(each.rate for each in runs["codedag"]) / max(each.rate for each in runs[way])
        found[f"against_{way}"] = {
            "median": round(statistics.median(pairs), 3), "low": round(min(pairs), 3), "high": round(max(pairs), 3),
            "best": round(best, 3), "baseline_spread": round(spread, 3), "void": void,
        }  # fmt: skip
        words = ", void" if void else f", {len(rounds)} rounds of {len(every['plain'])}"
        print(f"  against {way}: median {statistics.median(pairs):.2f}x [{min(pairs):.2f} .. {max(pairs):.2f}]{words}")
    return found


def summary(found: dict[str, dict[str, object]]) -> dict[str, object]:
    """The geometric mean and the worst of the ratios that are not void, for each baseline."""
    mean, worst = {}, {}
    for way in WAYS[:2]:
        exact = {name: each[f"against_{way}"] for name, each in found.items() if not name.endswith(ULP)}
        valid = {name: each for name, each in exact.items() if not each["void"]}  # type: ignore[index]
        medians = {name: float(each["median"]) for name, each in valid.items()}  # type: ignore[index]
        mean[way] = round(math.exp(statistics.fmean(map(math.log, medians.values()))), 3) if medians else None
        worst[way] = min(medians, key=medians.__getitem__) if medians else None
    return {"geometric_mean": mean, "worst": worst}


def write_table(report: dict[str, object]) -> None:
    """Puts the table of the results between the marks of docs/benchmarks.md."""
    scripts: dict[str, dict[str, object]] = report["scripts"]  # type: ignore[assignment]
    text = PAGE.read_text()
    before, after = text.index(MARKS[0]) + len(MARKS[0]), text.index(MARKS[1])
    plot = "![items per second under codedag run against the script as written](images/scripts.svg)"
    PAGE.write_text(f"{text[:before]}\n{table(report)}\n\n{plot}\n{text[after:]}")
    rows = [
        (name, *(each["against_plain"][key] for key in ("median", "low", "high"))) for name, each in scripts.items()
    ]  # type: ignore[index]
    write_bars(PAGE.parent / "images" / "scripts.svg", "codedag run against the script as written", rows)  # type: ignore[arg-type]
    print(f"written to {PAGE.relative_to(ROOT)}")


def table(report: dict[str, object]) -> str:
    """The results as a table, one row for each example."""
    rows = [
        "| example | against as written | against threads capped | CPU per item | after two epochs | same results |",
        "|---|---|---|---|---|---|",
    ]
    scripts: dict[str, dict[str, object]] = report["scripts"]  # type: ignore[assignment]
    for name, each in scripts.items():
        whole, later = (_processor(each, key) for key in ("cpu_per_item", "cpu_later"))
        cells = [_cell(each[f"against_{way}"]) for way in WAYS[:2]]  # type: ignore[arg-type]
        same = "yes" if each["bit_equal"] else f"losses within {each['losses_apart']:.0e}" if each["same"] else "NO"
        rows.append(f"| {name} | {cells[0]} | {cells[1]} | {whole} | {later} | {same} |")
    mean: dict[str, object] = report["geometric_mean"]  # type: ignore[assignment]
    exact = sum(not name.endswith(ULP) for name in scripts)
    what = f"geometric mean of the {exact} that are bit-equal (void left out)"
    rows.append(f"| {what} | {mean['plain']}x | {mean['capped']}x | | | |")
    return "\n".join(rows)


def _processor(each: dict[str, object], key: str) -> str:
    """Milliseconds of CPU for an item, as written and under us; rows of earlier versions do not have all."""
    every = [[run[key] for run in each[way] if key in run] for way in ("plain", "codedag")]  # type: ignore[attr-defined]
    return " -> ".join(f"{1e3 * statistics.median(found):.2f}" for found in every) + " ms" if all(every) else "-"


def _cell(against: dict[str, object]) -> str:
    void = " void: the baseline moved too much" if against["void"] else ""
    return f"{against['median']}x [{against['low']} .. {against['high']}]{void}"


def versions() -> dict[str, str]:
    """The versions that were measured."""
    names = (
        "codedag",
        "numpy",
        "torch",
        "opencv-python-headless",
        "pillow",
        "scipy",
        "librosa",
        "albumentations",
        "pandas",
    )
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


if __name__ == "__main__":
    main()
