"""CodeDAG makes a Python data pipeline faster without a change to its code, and proves that it computes the same.

Importing this package loads no framework, reads no file and starts no thread; names are looked up when used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codedag._version import __version__

if TYPE_CHECKING:
    from codedag.ir import Graph as Graph
    from codedag.ir import Plan as Plan
    from codedag.ir import load as load

_HOMES = {"load": "codedag.ir", "Graph": "codedag.ir", "Plan": "codedag.ir"}

__all__ = ["Graph", "Plan", "__version__", "load"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'codedag' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
