"""The probing process: looks for the PUs of one family, measures them, and says so as one line of JSON.

    python -m codedag.devices.probe FAMILY [--no-links]

It is a process of its own, so that a library that crashes, hangs or prints hurts nobody.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from codedag.devices.families import FAMILIES, Found, Missing
from codedag.devices.timing import link_of, peaks_of


def findings(family: str, measure: bool) -> dict[str, list[dict[str, Any]]]:
    """What the family has here: PUs, PUs that are absent, links."""
    pus: list[dict[str, Any]] = []
    absent: list[dict[str, Any]] = []
    links: list[dict[str, Any]] = []
    for each in FAMILIES[family].find():
        if isinstance(each, Missing):
            absent.append({"name": each.name, "reason": each.reason})
            continue
        pus.append({**described(each), **(peaks_of(each) if measure else {})})
        links += link_of(each) if measure else []
    return {"pus": pus, "absent": absent, "links": links}


def described(found: Found) -> dict[str, Any]:
    """A PU as machine.json writes it; what is measured includes the launch, so none is added to it."""
    return {
        "name": found.name, "resource": found.resource, "memory_nbytes": found.memory_nbytes, "launch_seconds": 0.0,
        "runtime": found.runtime, "threads": found.threads, "capability": found.capability, "settings": found.settings,
    }  # fmt: skip


def main() -> None:
    """Writes the findings to the stdout that we were started with; what libraries print goes to stderr."""
    answer = os.dup(1)
    os.dup2(2, 1)
    found = findings(sys.argv[1], "--no-links" not in sys.argv[2:])
    os.write(answer, json.dumps(found).encode() + b"\n")


if __name__ == "__main__":
    main()
