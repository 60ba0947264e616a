"""The inventory of processing units: what this machine really has, what it does not have, and why."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from codedag.devices.families import FAMILIES, Family
from codedag.devices.host import this_machine as this_machine
from codedag.ir import Machine, Pu, load
from codedag.ir.machine import Absent, Link

MOST_SECONDS = 90.0  # for one family; a first import of torch from a cold disk takes 20


def inventory(
    families: Iterable[str] = tuple(FAMILIES),
    *,
    measure: bool = True,
    most_seconds: float = MOST_SECONDS,
    told: Callable[[str], None] = lambda family: None,
) -> Machine:
    """The machine with every PU that was found, the measured links between them, and what was not found."""
    parts: dict[str, list[Any]] = {"pus": [], "absent": [], "links": []}
    for name in families:
        told(name)
        for kind, found in _findings(name, FAMILIES[name], measure, most_seconds).items():
            parts[kind] += found
    here = {pu["name"] for pu in parts["pus"]}
    parts["links"] = [link for link in parts["links"] if {link["src"], link["dst"]} <= here]
    machine = {"format": "codedag/machine", "version": 1, **parts}
    return msgspec.convert(machine, Machine)


def _findings(name: str, family: Family, measure: bool, most_seconds: float) -> dict[str, list[Any]]:
    if importlib.util.find_spec(family.library) is None:
        return _nothing(family, f"{family.library} is not installed")
    command = [sys.executable, "-P", "-m", "codedag.devices.probe", name, *([] if measure else ["--no-links"])]
    try:
        done = subprocess.run(command, capture_output=True, timeout=most_seconds, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return _nothing(family, f"its probe gave no answer in {most_seconds:.0f} seconds")
    if done.returncode != 0:
        return _nothing(family, f"its probe failed: {_ending(done.returncode, done.stderr)}")
    return _checked(family, done.stdout)


def _ending(code: int, stderr: bytes) -> str:
    last = stderr.decode(errors="replace").strip().rpartition("\n")[2].strip()[:300]
    how = f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return last if last and code > 0 else f"{how}{f' ({last})' if last else ''}"


def _checked(family: Family, answer: bytes) -> dict[str, list[Any]]:
    """The findings, if they are what a probe says."""
    try:
        found = json.loads(answer)
        msgspec.convert(found["pus"], list[Pu])
        msgspec.convert(found["links"], list[Link])
        msgspec.convert(found["absent"], list[Absent])
    except (ValueError, KeyError, TypeError) as error:
        return _nothing(family, f"its probe gave no sensible answer ({error})")
    return {kind: found[kind] for kind in ("pus", "absent", "links")}


def _nothing(family: Family, reason: str) -> dict[str, list[Any]]:
    return {"pus": [], "links": [], "absent": [{"name": name, "reason": reason} for name in family.names]}


def from_elsewhere(path: str | Path) -> Machine:
    """The machine of a file that was made on another one: every PU in it is marked as simulated."""
    machine = load(path, "machine")
    return replace(machine, pus=[replace(pu, simulated=True) for pu in machine.pus])
