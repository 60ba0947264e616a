"""Staged models over several processing units: profile, plan, run, prove, ship."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "StagedModel": "codedag.stages.model",
    "Tables": "codedag.stages.planning.tables",
    "optimise": "codedag.stages.execution.dropin",
    "sage7": "codedag.stages.torch_models.sage",
}
__all__ = ["StagedModel", "Tables", "optimise", "sage7"]  # looked up when they are used


def __getattr__(name: str) -> Any:
    """The public names, loaded when they are used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
