"""Whole processes as written and under `codedag run`: wall, CPU, memory, results, and whether the claims are true.

    python bench/truth.py                                 every program, 5 rounds, bench/results/truth.json
    python bench/truth.py --only train_cnn sleeps --lengths 5 --rounds 2 -o FILE
    python bench/truth.py --public DIR --python PYTHON    public programs too (see truth_public.py); DIR has checkouts
    python bench/truth.py --plain-only                    only the programs as written
    python bench/truth.py --table FILE                    the table of a file of results again

A round is the program as written, a first run under `codedag run` with an empty folder (nothing is known), a second and
a third with what the earlier ones have kept; every other round begins with the runs under CodeDAG.  CPU is that of the
process and all its descendants, orphans included.  Memory is the larger of the process's own peak and the sampled sum
over the tree.  Exit code, output without its clocks and files must be those of the program as written.  The claim is
the interval in the run's report.json; the truth is the ratio of the wall seconds measured here.  Wall or CPU of a
row is void if that of the program as written moved by more than 1.3x, which one round cannot tell.  How often a
program's loop turns for so many seconds is found once and kept in data/truth/turns.json, so that later runs do the
same work.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from truth_process import STDERR_KEPT, Run, measured
from truth_public import Program, public_programs

from scripts import COUNTS

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "truth.json"
DATA = ROOT / "data" / "truth"
LENGTHS, ROUNDS, VOID = (2.0, 5.0, 20.0, 60.0), 5, 1.3
WRITES_MODULES = ("cold_modules",)
WAYS = ("plain", "first", "second", "third")
#: The goals: the least ratio, or else the most seconds more, of wall and of CPU.
GOALS = {"first": (0.95, 0.3), "second": (0.97, 0.1), "third": (0.97, 0.1)}
MEMORY, MEMORY_BYTES, INTERVALS, CLAIM_ERROR = 1.03, 30_000_000, 0.9, 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--lengths", type=lambda text: [float(each) for each in text.split(",")], default=LENGTHS)
    parser.add_argument("--only", nargs="*", default=None, help="names, or parts of names, of programs")
    parser.add_argument("--public", type=Path, help="the folder with checkouts of public programs")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of public programs")
    parser.add_argument("--source", type=Path, default=ROOT / "src", help="the folder that holds the codedag package")
    parser.add_argument("--env", nargs="*", default=[], help="NAME=VALUE for every run, such as OMP_NUM_THREADS=1")
    parser.add_argument("--plain-only", action="store_true")
    parser.add_argument("-o", "--output", type=Path, help="write the results to this file, after every row")
    parser.add_argument("--table", type=Path, help="print the table and the verdicts of this file")
    options = parser.parse_args()
    if options.table:
        said(json.loads(options.table.read_text())["rows"])
        return
    rows: list[dict[str, object]] = []
    for program in chosen(options):
        for length in options.lengths if program.turns else (0.0,):
            bench = Bench(program, length, options)
            rows.append(bench.row(options.rounds))
            shutil.rmtree(bench.scratch)
            print(words(rows[-1]), flush=True)
            write(rows, options)
    said(rows)


def write(rows: list[dict[str, object]], options: argparse.Namespace) -> None:
    """Writes the rows to the file that was named, or to the results if everything was measured often enough."""
    whole = not options.only and tuple(options.lengths) == LENGTHS and options.rounds >= ROUNDS
    target = options.output or (RESULTS if whole and not options.plain_only else None)
    if target:
        known = {"rows": rows, "cpus": os.cpu_count(), "env": options.env, "rounds": options.rounds}
        target.write_text(json.dumps(known, indent=1) + "\n")


def chosen(options: argparse.Namespace) -> list[Program]:
    """The programs that were asked for: examples, drawn ones, public ones."""
    every = [*drawn_programs(), *example_programs()]
    if options.public:
        every += public_programs(options.public, DATA / "public", options.python)
    if options.only is None:
        return every
    exact = [each for each in every if each.name in options.only]
    return exact or [each for each in every if any(part in each.name for part in options.only)]


def drawn_programs() -> list[Program]:
    """The programs of bench/truth_programs; `TURNS FOLDER` are their arguments, and some have one more."""
    folder = ROOT / "bench" / "truth_programs"
    more = {"albumentations_loader": ("0", "2")}
    cores = {"train_cnn": 2, "train_transformer": 2, "pool_processes": 2, "albumentations_loader_2": 2}
    found = []
    for script in map(placed, sorted(folder.glob("*.py"))):
        for last in more.get(script.stem, ("",)):
            name = f"{script.stem}_{last}" if last else script.stem
            arguments = ["{turns}", str(DATA / name), *([last] if last else [])]
            turns = script.stem not in ("empty", "start_only")
            found.append(
                Program(name, [str(script), *arguments], turns=turns, cores=cores.get(name, 1), waits=name == "sleeps")
            )
    return found


def placed(script: Path) -> Path:
    """Where a program is run from: one that writes modules of its own is copied to the folder that will hold them."""
    if script.stem not in WRITES_MODULES:
        return script
    (DATA / script.stem).mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy2(script, DATA / script.stem))


def example_programs() -> list[Program]:
    """The examples; their turns are epochs, and they write a digest of every batch."""
    found = []
    for name in sorted(each for each in COUNTS if not each.endswith("_ulp")):
        data = ROOT / "data" / "examples" / f"{name}_{COUNTS[name]}"
        command = [str(ROOT / "examples" / f"{name}.py"), "--count", str(COUNTS[name]), "--epochs", "{turns}"]
        command += ["--data", str(data), "--digest", "digest"]
        found.append(Program(f"example_{name}", command, timing=(r"[\d.]+ (items|images)/s.*", r"[\d.]+ s\b")))
    return found


class Bench:
    """One program of one length in its four ways."""

    def __init__(self, program: Program, length: float, options: argparse.Namespace) -> None:
        self.program, self.length, self.options = program, length, options
        self.scratch = DATA / f"scratch-{os.getpid()}"
        self.home, self.work = self.scratch / "home", self.scratch / "work"
        self.turns = self._turns() if program.turns else 0

    def row(self, rounds: int) -> dict[str, object]:
        """What all rounds gave."""
        runs: dict[str, list[Run]] = {way: [] for way in WAYS[: 1 if self.options.plain_only else None]}
        claims: dict[str, list[dict[str, object]]] = {way: [] for way in runs}
        loads = []
        for number in range(rounds):
            shutil.rmtree(self.home, ignore_errors=True)
            for way in list(runs) if number % 2 == 0 else [*list(runs)[1:], "plain"]:
                runs[way].append(self._run(way, self.turns))
                claims[way].append(self._claim() if way != "plain" else {})
                loads.append(round(os.getloadavg()[0], 1))
        name = f"{self.program.name}@{self.length:g}" if self.length else self.program.name
        failed = [run.said[-STDERR_KEPT:] for run in runs["plain"] if run.code]
        row: dict[str, object] = {"program": name, "turns": self.turns, "loads": loads, "failed": failed}
        row |= figures(runs)
        return row if self.options.plain_only else {**row, **self._compared(runs, claims)}

    def _compared(self, runs: dict[str, list[Run]], claims: dict[str, list[dict[str, object]]]) -> dict[str, object]:
        expected = [run.result(self.program.timing) for run in runs["plain"]]
        differs, crashed = [], []
        for way in WAYS[1:]:
            for number, run in enumerate(runs[way]):
                found = run.result(self.program.timing)
                if found not in expected:
                    differs.append(difference(f"{way} {number}", expected[0], found))
                if run.code != expected[0][0]:
                    crashed.append(f"{way} {number}: exit code {run.code}: {run.said[-STDERR_KEPT:]}")
        unsure = any(each != expected[0] for each in expected)
        return {"same": not differs, "plain_differs": unsure, "differs": differs, "crashed": crashed, "claims": claims}

    def _claim(self) -> dict[str, object]:
        """What the last run's report says; empty if there is none."""
        reports = sorted((self.home / "data" / "runs").glob("*/report.json"))
        if not reports:
            return {}
        report = json.loads(reports[-1].read_text())
        shutil.rmtree(reports[-1].parent)
        names = ("gain", "gain_low", "gain_high", "steady_gain", "void", "baseline_seconds", "optimised_seconds")
        changes = [f"{each.get('what')} at {each.get('where')}" for each in report.get("changes", [])]
        return {**{name: report.get(name) for name in names}, "changes": changes}

    def _run(self, way: str, turns: int, more: dict[str, str] | None = None) -> Run:
        for name in ("work", "tmp"):
            shutil.rmtree(self.scratch / name, ignore_errors=True)
            (self.scratch / name).mkdir(parents=True)
        folder = self.program.prepared(self.work)
        command = [each.replace("{turns}", str(turns)) for each in self.program.command]
        ours = ["-m", "codedag", "run"] if way != "plain" else []
        python = self.program.python or sys.executable
        return measured([python, *ours, *command], folder, self._environment() | (more or {}), self.scratch)

    def _environment(self) -> dict[str, str]:
        own = {"CODEDAG_HOME": str(self.home), "TMPDIR": str(self.scratch / "tmp"), "PYTHONHASHSEED": "0"}
        path = os.pathsep.join([str(self.options.source), *self.program.path])
        named = dict(each.split("=", 1) for each in self.options.env)
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**kept, **own, "PYTHONPATH": path, **self.program.environment, **named}

    def _turns(self) -> int:
        """How often the loop turns in so many seconds, found once for each program."""
        place = DATA / "turns.json"
        known = json.loads(place.read_text()) if place.exists() else {}
        if self.program.name not in known:
            known[self.program.name] = self._turns_per_second()
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(json.dumps(known, indent=1) + "\n")
        return max(1, round(known[self.program.name] * self.length))

    def _turns_per_second(self) -> float:
        self._run("plain", 1)  # which makes its data, and warms the files
        fixed, count = self._seconds(1), 2
        while (more := self._seconds(count) - fixed) < 1.0 and count < 1 << 20:
            count *= 2 if more > 0.1 else 8
        return float(count - 1) / more

    def _seconds(self, turns: int) -> float:
        """Seconds of a run by itself: from CPU, since others may use the cores, unless the program waits."""
        run = self._run("plain", turns, {"OMP_WAIT_POLICY": "passive"})  # threads that spin for others would count
        if run.code:
            sys.exit(f"truth: {self.program.name} ended with exit code {run.code}: {run.said[-STDERR_KEPT:]}")
        return run.wall if self.program.waits else run.cpu / self.program.cores


def difference(which: str, expected: tuple[object, ...], found: tuple[object, ...]) -> str:
    """Everything in which two results differ: exit code, the first line that is printed otherwise, files."""
    parts = [] if expected[0] == found[0] else [f"exit code {found[0]} instead of {expected[0]}"]
    if expected[1] != found[1]:
        pairs = zip(str(expected[1]).splitlines(), str(found[1]).splitlines(), strict=False)
        first = next(((a, b) for a, b in pairs if a != b), ("", "other number of lines"))
        parts.append(f"printed {first[1][:200]!r} instead of {first[0][:200]!r}")
    one, other = expected[2], found[2]
    assert isinstance(one, dict)
    assert isinstance(other, dict)
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    return f"{which}: {'; '.join([*parts, *([f'files {names[:5]}'] if names else [])])}"


def figures(runs: dict[str, list[Run]]) -> dict[str, object]:
    """Wall, CPU and memory of every run, ratios against the program as written, and whether that held still."""
    found: dict[str, object] = {}
    names = ("wall", "cpu", "peak_bytes", "orphans", "orphan_seconds")
    for way, each in runs.items():
        found[way] = [{name: round(asdict(run)[name], 3) for name in names} for run in each]
        if way != "plain":
            found[f"{way}_ratios"] = {name: asdict(ratio(runs["plain"], each, name)) for name in names[:3]}
    spreads = [
        max(values) / max(1e-9, min(values)) for values in map(list, zip(*map(_times, runs["plain"]), strict=True))
    ]
    found["plain_spread"] = [round(each, 3) for each in spreads]
    found["void"] = [name for name, each in zip(("wall", "cpu"), spreads, strict=True) if each > VOID]
    return found


def _times(run: Run) -> tuple[float, float]:
    return run.wall, run.cpu


@dataclass
class Ratio:
    """The program as written over a way, round by round."""

    median: float
    best: float  # the best of one over the best of the other
    low: float
    high: float
    added: float  # the median of what the way takes more


def ratio(plain: list[Run], ours: list[Run], name: str) -> Ratio:
    """How a figure of one way compares with that of the program as written."""
    one, other = ([float(getattr(run, name)) for run in runs] for runs in (plain, ours))
    pairs = [a / max(b, 1e-9) for a, b in zip(one, other, strict=True)]
    added = statistics.median(b - a for a, b in zip(one, other, strict=True))
    values = (statistics.median(pairs), min(one) / max(min(other), 1e-9), min(pairs), max(pairs), added)
    return Ratio(*(round(each, 3) for each in values))


def words(row: dict[str, object]) -> str:
    """A row in one line."""
    plain = row["plain"]
    seconds = [statistics.median(run[name] for run in plain) for name in ("wall", "cpu")]  # type: ignore[attr-defined]
    text = f"{row['program']:32} plain {seconds[0]:6.2f} s, CPU {seconds[1]:6.2f}"
    for way in WAYS[1:]:
        if f"{way}_ratios" in row:
            each = row[f"{way}_ratios"]
            text += f" | {way} {each['wall']['median']:.2f}x, CPU {each['cpu']['median']:.2f}x"  # type: ignore[index]
    marks = [name for name in ("void", "differs", "crashed", "plain_differs", "failed") if row.get(name)]
    return f"{text} | load {max(row['loads'])} {' '.join(marks).upper()}"  # type: ignore[type-var]


def said(rows: list[dict[str, object]]) -> None:
    """Prints the table and a verdict for each goal."""
    print(table(rows))
    if any("second_ratios" in row for row in rows):
        print("\n".join(verdicts(rows)))


def table(rows: list[dict[str, object]]) -> str:
    """The results as a table: ratios above 1 are faster."""
    lines = ["| program | plain wall, CPU | first wall, CPU | second wall, CPU | third wall, CPU | memory | changed | "
             "claimed | same |", "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for row in rows:
        plain = [statistics.median(run[name] for run in row["plain"]) for name in ("wall", "cpu")]  # type: ignore[attr-defined]
        cells = [f"{plain[0]:.1f} s, {plain[1]:.1f} s"]
        for way in WAYS[1:]:
            each = row.get(f"{way}_ratios")
            cells.append(f"{each['wall']['median']:.2f}, {each['cpu']['median']:.2f}" if each else "-")  # type: ignore[index]
        if "second_ratios" in row:
            memory = row["second_ratios"]["peak_bytes"]["median"]  # type: ignore[index]
            claims = row["claims"]["second"]  # type: ignore[index]
            shown = "; ".join(sorted({_claim_words(each) for each in claims}))
            crashed, same = row["crashed"], "yes" if row["same"] else "NO"
            same = "CRASH" if crashed else f"{same} (plain differs too)" if row["plain_differs"] else same
            cells += [f"{1 / memory:.2f}x", str(max(len(each.get("changes", ())) for each in claims)), shown, same]
        void = f" (void: {', '.join(row['void'])})" if row["void"] else ""  # type: ignore[call-overload]
        lines.append(f"| {row['program']}{void} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _claim_words(claim: dict[str, object]) -> str:
    if not claim.get("gain") or claim.get("void"):
        return "none"
    return f"{claim['gain']:.2f} [{claim['gain_low']:.2f} .. {claim['gain_high']:.2f}]"


def verdicts(rows: list[dict[str, object]]) -> list[str]:
    """One line for each goal, with the programs that miss it; a figure that is void decides nothing."""
    lines = []
    for way, (least, most) in GOALS.items():
        for name in ("wall", "cpu"):
            judged = [row for row in rows if f"{way}_ratios" in row and name not in row["void"]]  # type: ignore[operator]
            bad = {str(row["program"]): row[f"{way}_ratios"][name]["median"] for row in judged  # type: ignore[index]
                   if row[f"{way}_ratios"][name]["median"] < least and row[f"{way}_ratios"][name]["added"] > most}  # type: ignore[index]  # fmt: skip
            lines.append(_verdict(f"{way} run, {name}: at least {least}x or {most} s", bad, len(judged)))
    quiet = [
        row for row in rows if "second_ratios" in row and not any(c.get("changes") for c in row["claims"]["second"])
    ]  # type: ignore[index]
    peaks = {str(row["program"]): row["second_ratios"]["peak_bytes"] for row in quiet}  # type: ignore[index]
    heavy = {name: each for name, each in peaks.items() if each["added"] > MEMORY_BYTES}
    bad = {name: round(1 / each["median"], 2) for name, each in heavy.items() if each["median"] < 1 / MEMORY}
    lines.append(_verdict(f"memory where nothing was changed: at most {MEMORY}x or 30 MB", bad, len(quiet)))
    other = {str(row["program"]): "differs" for row in rows if not row.get("same", True)}
    lines.append(_verdict("results are the same", other, len(rows)))
    return [*lines, *claims_verdict(rows)]


def _verdict(goal: str, bad: dict[str, object], count: int) -> str:
    worst = ", ".join(f"{name} {each}" for name, each in sorted(bad.items(), key=lambda item: str(item[1])))
    judged = "MISSED" if bad else "met" if count else "not judged"
    return f"{judged}: {goal} ({count - len(bad)} of {count}){': ' if bad else ''}{worst}"


def claims_verdict(rows: list[dict[str, object]]) -> list[str]:
    """How many claimed intervals hold the truth measured outside, and whether a slower run claimed a gain."""
    held, errors, boasts = [], [], {}
    for row in rows:
        if "claims" not in row or "wall" in row["void"]:  # type: ignore[operator]
            continue
        for way in WAYS[1:]:
            wall = statistics.median(run["wall"] for run in row["plain"])  # type: ignore[attr-defined]
            for claim, run in zip(row["claims"][way], row[way], strict=True):  # type: ignore[index, call-overload]
                if not claim.get("gain") or claim.get("void") or not claim.get("changes"):
                    continue
                truth = wall / run["wall"]
                held.append(claim["gain_low"] <= truth <= claim["gain_high"])
                errors.append(abs(claim["gain"] - truth) / truth)
                if claim["gain_low"] > 1.0 and truth < 1.0:
                    boasts[f"{row['program']} {way}"] = f"claimed {claim['gain']:.2f}, was {truth:.2f}"
    if not held:
        return ["no gain was claimed"]
    share, error = sum(held) / len(held), statistics.fmean(errors)
    met = share >= INTERVALS and error <= CLAIM_ERROR
    claims = f"{'met' if met else 'MISSED'}: claims: {sum(held)} of {len(held)} intervals hold, mean error {error:.1%}"
    return [claims, _verdict("no gain claimed for a slower run", boasts, len(held))]


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"{time.perf_counter() - started:.0f} s, load {os.getloadavg()}")
