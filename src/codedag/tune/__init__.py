"""Loop nests made for this machine: generated, compiled, proven elsewhere, then used."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """`Task`, `CostModel` and `Record`, which need numpy, once somebody asks for them."""
    if name in ("CostModel", "Record"):
        from codedag.tune import cost_model

        return getattr(cost_model, name)
    if name == "Task":
        from codedag.tune.task import Task

        return Task
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
