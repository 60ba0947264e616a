"""Requests and answers between a tuner and its measuring process: one JSON object a line."""

from __future__ import annotations

import json
from typing import Any


def start_of(module: str) -> str:
    """The text that runs a module of this package in another interpreter, given where packages lie."""
    return (
        "import sys, json, runpy\n"
        "sys.path[:0] = [p for p in json.loads(sys.argv.pop(1)) if p not in sys.path]\n"
        f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)\n"
    )


def encoded(facts: dict[str, Any]) -> bytes:
    """One line."""
    return json.dumps(facts).encode() + b"\n"


def decoded(line: bytes) -> dict[str, Any]:
    """The object of a line."""
    found = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found
