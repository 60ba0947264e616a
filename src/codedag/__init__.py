"""CodeDAG makes a Python data pipeline faster without a change to its code, and proves that it computes the same.

Importing this package loads no framework, reads no file and starts no thread; names are looked up when used.
"""

from __future__ import annotations

from codedag._version import __version__

TYPE_CHECKING = False  # type checkers know this name; `typing` itself would cost more than the rest of the import
if TYPE_CHECKING:
    from codedag.ir import Graph as Graph
    from codedag.ir import Plan as Plan
    from codedag.ir import load as load

_HOMES = {"load": "codedag.ir", "Graph": "codedag.ir", "Plan": "codedag.ir"}

__all__ = ["Graph", "Plan", "__version__", "load"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'codedag' has no attribute {name!r}")
    import importlib

    found: object = getattr(importlib.import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
