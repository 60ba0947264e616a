"""Runs other projects' own test-suites plain and under an EXACT plan, and compares which tests fail.

python bench/suites.py librosa=DIR albumentations=DIR [--files tests/test_filters.py ...] [--learn | --keep] [-o FILE]

DIR is a checkout of the tag of the installed version; `import NAME` is the installed one.  The plan names every
registered exact substitution; what becomes of the calls is printed: intercepted, answered by a substitute, compared.
With --learn the suite runs twice under a plan, as a program does that is run again: the first run has all of it, the
second only what the first left in use and found faster.  A function is left in use unless it failed, differed, was not
faster, or took longer to decline calls than it saved; faster means a measured gain of at least WORTH.
Tests use small inputs, on which much is demoted for being no faster; with --keep it stays, so that more is compared.
With --pass-through no plan is in force: every function of the package runs with pass-through sites, so that whatever
differs is a fault of the sites (--prepare MODULE is imported before the package is, in both runs).
A file that is named runs alone; without names all files of DIR/tests do.  Exits with 1 if a test fails under the plan
that passes without it.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from codedag.backends.registry import EXACT, all_substitutions

OUTCOMES = ("failure", "error")
WORTH = 1.05  # the gain below which a trial is ended too


def plan() -> dict[str, Any]:
    """The plan that asks for every exact substitution on the CPU."""
    exact = [one for one in all_substitutions() if one.equivalence is EXACT and one.pu == "cpu"]
    return {"context_device_map": {one.source: "cpu" for one in exact}}


def learned(stats: dict[str, Any]) -> dict[str, Any]:
    """The plan for the next run: what this one left in use, used, and found faster."""
    used = {source: one for source, one in stats["functions"].items() if one["active"] and one["fast"] + one["checked"]}
    return {"context_device_map": {source: "cpu" for source, one in used.items() if one["gain"] >= WORTH}}


def run(folder: Path, files: list[str], scratch: Path, options: list[str]) -> dict[str, str]:
    """The outcome of every test: passed, skipped, failure or error."""
    report = scratch / "junit.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "codedag.plugins.pytest_plan"]
    command += [
        "-o",
        "addopts=",
        "-o",
        "filterwarnings=default",
        f"--junitxml={report}",
        "--continue-on-collection-errors",
    ]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run([*command, *options, *files], cwd=folder, capture_output=True, text=True, env=environment)
    if not report.exists():
        sys.exit(done.stdout[-3000:] + done.stderr[-3000:])
    return outcomes(report)


def outcomes(report: Path) -> dict[str, str]:
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = [child.tag for child in case if child.tag in (*OUTCOMES, "skipped")]
        found[f"{case.get('classname')}::{case.get('name')}"] = kinds[0] if kinds else "passed"
    return found


def failing(found: dict[str, str]) -> set[str]:
    return {name for name, outcome in found.items() if outcome in OUTCOMES}


def under_plan(folder: Path, files: list[str], wanted: dict[str, Any], options: list[str]) -> tuple[Any, Any]:
    """The outcome of every test with a plan in force, and what became of the calls."""
    with tempfile.TemporaryDirectory() as made:
        scratch = Path(made)
        (scratch / "plan.json").write_text(json.dumps(wanted))
        options = [
            "--codedag-plan",
            str(scratch / "plan.json"),
            "--codedag-stats",
            str(scratch / "stats.json"),
            *options,
        ]
        return run(folder, files, scratch, options), json.loads((scratch / "stats.json").read_text())


def compare(name: str, folder: Path, files: list[str], keep: bool, learn: bool) -> dict[str, Any]:
    """What fails plain and under the plan, and what became of the calls."""
    with tempfile.TemporaryDirectory() as made:
        before = run(folder, files, Path(made), [])
    under, stats = under_plan(folder, files, plan(), ["--codedag-keep"] if keep else [])
    first, tried = failing(under), stats["functions"]
    if learn:
        under, stats = under_plan(folder, files, learned(stats), [])
    functions = {source: one for source, one in stats["functions"].items() if one["calls"]}
    return {
        "suite": name,
        "version": importlib.metadata.version(name),
        "files": files,
        "kept": keep,
        "learned": learn,
        "tests": len(before),
        "passed": sum(outcome == "passed" for outcome in before.values()),
        "failing": sorted(failing(before)),
        "new_failures": sorted((failing(under) | first) - failing(before)),
        "no_longer_failing": sorted(failing(before) - failing(under)),
        "verdict": stats["verdict"],
        "functions": functions,
        "first_run": {source: one for source, one in tried.items() if learn and one["calls"]},
    }


def pass_through(name: str, folder: Path, files: list[str], prepare: str) -> dict[str, Any]:
    """What fails plain and with every function of the package on pass-through sites."""
    here = str(Path(__file__).resolve().parent / "plugins")  # alone: bench/profile.py would hide a module of Python
    path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
    found = {}
    with tempfile.TemporaryDirectory() as made:
        stats = Path(made) / "stats.json"
        variables = {
            "PYTHONPATH": path,
            "CODEDAG_PASS_THROUGH_PREPARE": prepare,
            "CODEDAG_PASS_THROUGH_STATS": str(stats),
        }
        for package in ("", name):
            os.environ.update(variables, CODEDAG_PASS_THROUGH=package)
            found[package] = run(folder, files, Path(made), ["-p", "pass_through"])
        opened = json.loads(stats.read_text())
    before, after = found[""], found[name]
    return {
        "suite": name,
        "files": files,
        "tests": len(before),
        "passed": sum(outcome == "passed" for outcome in before.values()),
        "failing": sorted(failing(before)),
        "new_failures": sorted((failing(after) - failing(before)) | (before.keys() - after.keys())),
        "no_longer_failing": sorted(failing(before) - failing(after)),
        **opened,
    }


def shown_pass_through(result: dict[str, Any]) -> str:
    functions = ", ".join(f"{count} {kind}" for kind, count in sorted(result["functions"].items()))
    lines = [
        f"{result['suite']}: {result['tests']} tests, {result['passed']} pass, {len(result['failing'])} fail plain; "
        f"new failures with every function on pass-through sites: {len(result['new_failures'])}, "
        f"no longer failing: {len(result['no_longer_failing'])}",
        f"  functions: {functions}",
    ]
    return "\n".join([*lines, *(f"  NEW FAILURE {name}" for name in result["new_failures"])])


def shown(result: dict[str, Any]) -> str:
    calls, fast, checked = (
        sum(one[key] for one in result["functions"].values()) for key in ("calls", "fast", "checked")
    )
    share = (fast + checked) / calls if calls else 0.0
    late = sum(one["declined"].get(one["reason"], 0) for one in result["functions"].values() if not one["active"])
    rest = (fast + checked) / (calls - late) if calls > late else 0.0
    lines = [
        f"{result['suite']} {result['version']}: {result['tests']} tests, {result['passed']} pass, "
        f"{len(result['failing'])} fail plain; new failures under the plan: {len(result['new_failures'])}, "
        f"no longer failing: {len(result['no_longer_failing'])}",
        f"  {calls} calls intercepted, {fast} answered by a substitute alone and {checked} beside the original "
        f"({share:.0%} together), {result['verdict']['mismatches']} different",
        f"  {late} of them came when their function's interception had ended; of the others {rest:.0%} were taken",
    ]
    for source, one in sorted(result["functions"].items(), key=lambda item: -item[1]["calls"]):
        reasons = "; ".join(f"{count} {reason}" for reason, count in list(one["declined"].items())[:2])
        lines.append(f"  {source}: {one['calls']} calls, {one['fast']} fast, {one['checked']} checked; {reasons}")
    return "\n".join([*lines, *(f"  NEW FAILURE {name}" for name in result["new_failures"])])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("suites", nargs="+", metavar="NAME=DIR")
    parser.add_argument("--files", nargs="*", default=["tests"])
    parser.add_argument("--learn", action="store_true", help="run twice: the second plan has what the first run kept")
    parser.add_argument("--keep", action="store_true", help="keep substitutes that are not faster here")
    parser.add_argument("--pass-through", action="store_true", help="no plan: every function on pass-through sites")
    parser.add_argument("--prepare", default="", metavar="MODULE", help="imported before the package is")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    results = []
    for suite in options.suites:
        name, _, folder = suite.partition("=")
        if options.pass_through:
            results.append(pass_through(name, Path(folder).resolve(), options.files, options.prepare))
            print(shown_pass_through(results[-1]), flush=True)
            continue
        results.append(compare(name, Path(folder).resolve(), options.files, options.keep, options.learn))
        print(shown(results[-1]), flush=True)
    if options.output:
        options.output.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(any(result["new_failures"] for result in results))


if __name__ == "__main__":
    main()
