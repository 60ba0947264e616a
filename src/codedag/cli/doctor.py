"""`codedag doctor`: what works on this machine, what does not, and why."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from codedag._version import __version__
from codedag.cli.options import tell

LIBRARIES = ("numpy", "msgspec", "torch", "opencv-python-headless", "pillow", "scipy", "numba")


@click.command("doctor", short_help="Say what works on this machine, and why not.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Say whether CodeDAG works here, and what to do where it does not; `codedag -v doctor` lists everything."""
    facts = _facts()
    problems = _problems(facts)
    if as_json:
        tell(json.dumps({**facts, "problems": problems}))
        return
    tell(*_verdict(facts, problems))
    if not (ctx.obj or {}).get("verbose"):
        return
    tell("")
    for name, value in facts.items():
        if isinstance(value, dict):
            tell(f"{name}:")
            for key, each in value.items():
                tell(f"  {key}: {each}")
        else:
            tell(f"{name}: {value}")


def _problems(facts: dict[str, Any]) -> list[str]:
    """What does not work here, a sentence each with what to do about it."""
    found = []
    if facts["recorder"] != "C extension":
        found.append("the C extension is missing, so everything is slower: install a C compiler, then CodeDAG again")
    if facts["kernels"]["compiler"].startswith("none"):
        found.append("there is no C compiler, so chains are fused by numba or not at all: install gcc or clang")
    found += [facts[name] for name in ("runs", "cache") if "cannot be written" in facts[name]]
    if facts["disabled"] not in ("no", "", "0"):
        found.append("CODEDAG_DISABLE is set, so programs run as if CodeDAG were not there: unset it")
    return found


def _verdict(facts: dict[str, Any], problems: list[str]) -> list[str]:
    """The verdict in six lines, or a line more for each problem."""
    exact = sum(each == "exact" for each in facts["substitutions"].values())
    here = sum(not each.startswith("not here") for each in facts["substitutions"].values())
    many = "1 thing" if len(problems) == 1 else f"{len(problems)} things"
    return [
        "all is well" if not problems else f"{many} to fix:",
        *(f"  {problem}" for problem in problems),
        f"codedag {facts['codedag']}, Python {platform.python_version()}, {platform.platform()}",
        f"substitutes of library functions: {here} work here, {exact} of them exact",
        f"processing units: {', '.join(facts['processing units'])}",
        f"never tried on real hardware, only on stand-ins: {', '.join(facts['never tried on real hardware'])}",
        "next: codedag run SCRIPT   (codedag -v doctor lists everything)",
    ]


def _facts() -> dict[str, Any]:
    from codedag.devices.families import NEVER_TRIED
    from codedag.devices.inventory import this_machine
    from codedag.instrument import sites
    from codedag.ir import cache_dir, data_dir
    from codedag.trace import gather

    recorder = (
        f"plain Python ({sites.why_twin}): same graphs and results, but slower, its frames are visible to the program "
        "and it uses up recursion depth"
    )
    return {
        "codedag": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})",
        "platform": platform.platform(),
        "recorder": "C extension" if not sites.why_twin else recorder,
        "gatherer": "C extension" if not gather.why_python else f"plain Python ({gather.why_python}): slower",
        "kernels": _kernels(),
        "processing units": {pu.name: f"{pu.memory_nbytes / 1e9:.1f} GB" for pu in this_machine().pus},
        "never tried on real hardware": {name: f"tested with {how}" for name, how in NEVER_TRIED.items()},
        "libraries": {name: _version(name) for name in LIBRARIES},
        "substitutions": _substitutions(),
        "runs": _writable(data_dir()),
        "cache": _writable(cache_dir()),
        "disabled": os.environ.get("CODEDAG_DISABLE") or "no",
    }


def _kernels() -> dict[str, str]:
    from codedag.ir import No
    from codedag.tune.compiler import find_compiler

    found = find_compiler()
    if isinstance(found, No):
        return {"compiler": f"none ({found.reason})", "used instead": "numba if it is installed, else numpy"}
    return {"compiler": f"{' '.join(found.command)} ({found.version.splitlines()[0]})"}


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _substitutions() -> dict[str, str]:
    from codedag.backends.registry import all_substitutions
    from codedag.ir import No

    found = {}
    for substitution in all_substitutions():
        verdict = substitution.available()
        found[substitution.name] = (
            f"not here: {verdict.reason}" if isinstance(verdict, No) else substitution.equivalence.value
        )
    return found


def _writable(folder: Path) -> str:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return str(folder)
    except OSError as error:
        return f"{folder} cannot be written ({error.strerror}): set CODEDAG_HOME to a folder that can"
