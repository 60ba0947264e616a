"""A pytest plugin that gives every function of one package pass-through sites, for bench/suites.py --pass-through.

Modules that tests load later get theirs before the next test.  All bodies with sites run: the switches of loops are on.
CODEDAG_PASS_THROUGH names the package, CODEDAG_PASS_THROUGH_STATS the file for what was opened and what was refused.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from codedag.instrument.codes import codes_by_place
from codedag.instrument.instrumented_file import owner_of
from codedag.instrument.opening import Opened
from codedag.instrument.program import Program
from codedag.instrument.python import compiled_quietly, sources_of
from codedag.instrument.sites import PASS

PACKAGE = os.environ.get("CODEDAG_PASS_THROUGH", "")
PREPARE = os.environ.get("CODEDAG_PASS_THROUGH_PREPARE", "")
_program = Program([Path("/nowhere")])
_seen: set[str] = set()
_counts: Counter[str] = Counter()
_examples: dict[str, str] = {}
if PREPARE:  # before any conftest.py is
    importlib.import_module(PREPARE)


def pytest_runtest_setup(item: Any) -> None:
    """Opens what has been loaded since the last test."""
    loaded = [(name, m) for name, m in list(sys.modules.items()) if name.partition(".")[0] == PACKAGE]
    if PACKAGE and len(loaded) != len(_seen):
        _open([(name, path) for name, path in sources_of(loaded) if name not in _seen])
        _seen.update(name for name, _ in loaded)


def _open(found: list[tuple[str, str]]) -> None:
    wanted = [(path, _owners(path)) for _, path in found if f"{os.sep}tests{os.sep}" not in path]
    for (path, owner), done in _program.open(wanted, mode=PASS).items():
        kind = "opened" if isinstance(done, Opened) else str(done.code)
        _counts[kind] += 1
        _examples.setdefault(kind, f"{path}: {owner}: {getattr(done, 'reason', '')}")
    for path, _ in wanted:
        for switch in _program.files[path].switches if path in _program.files else ():
            switch.on = True


def _owners(path: str) -> set[str]:
    code, _ = compiled_quietly(path, Path(path).read_bytes())
    owners = {owner_of(place[0]) for place in codes_by_place(code)}
    return {owner for owner in owners if not owner.endswith(("comp>", "<genexpr>"))}


def pytest_sessionfinish(session: Any) -> None:
    """Says what became of the functions."""
    place = os.environ.get("CODEDAG_PASS_THROUGH_STATS")
    if place:
        Path(place).write_text(json.dumps({"functions": dict(_counts), "examples": _examples}))
