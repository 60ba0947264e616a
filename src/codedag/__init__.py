"""CodeDAG makes a Python data pipeline faster without a change to its code, and proves that it computes the same.

Importing this package loads no framework, reads no file and starts no thread; names are looked up when used.
"""

from __future__ import annotations

from codedag._version import __version__

TYPE_CHECKING = False  # type checkers know this name; `typing` itself would cost more than the rest of the import
if TYPE_CHECKING:
    from codedag.api.enhanced_tracer import EnhancedTracer as EnhancedTracer
    from codedag.api.filters import FunctionFilter as FunctionFilter
    from codedag.api.monitors import MemoryProfiler as MemoryProfiler
    from codedag.api.monitors import PerformanceMonitor as PerformanceMonitor
    from codedag.api.optimizer import GraphCoarsening as GraphCoarsening
    from codedag.api.optimizer import IterativeOptimizer as IterativeOptimizer
    from codedag.api.optimizer import KWayPartitioner as KWayPartitioner
    from codedag.api.optimizer import OptimizerManager as OptimizerManager
    from codedag.api.optimizer import Partition as Partition
    from codedag.api.run import Run as Run
    from codedag.api.tracing import trace as trace
    from codedag.instrument.selection import FilterConfig as FilterConfig
    from codedag.ir import Graph as Graph
    from codedag.ir import Plan as Plan
    from codedag.ir import load as load

_HOMES = {
    "load": "codedag.ir",
    "Graph": "codedag.ir",
    "Plan": "codedag.ir",
    "Run": "codedag.api.run",
    "GraphCoarsening": "codedag.api.optimizer",
    "IterativeOptimizer": "codedag.api.optimizer",
    "KWayPartitioner": "codedag.api.optimizer",
    "OptimizerManager": "codedag.api.optimizer",
    "Partition": "codedag.api.optimizer",
    "EnhancedTracer": "codedag.api.enhanced_tracer",
    "FilterConfig": "codedag.instrument.selection",
    "FunctionFilter": "codedag.api.filters",
    "MemoryProfiler": "codedag.api.monitors",
    "PerformanceMonitor": "codedag.api.monitors",
}

__all__ = [
    "EnhancedTracer",
    "FilterConfig",
    "FunctionFilter",
    "Graph",
    "GraphCoarsening",
    "IterativeOptimizer",
    "KWayPartitioner",
    "MemoryProfiler",
    "OptimizerManager",
    "Partition",
    "PerformanceMonitor",
    "Plan",
    "Run",
    "__version__",
    "load",
    "trace",
]


def __getattr__(name: str) -> object:
    import importlib

    if name == "trace":  # the package of that name, which can be called: importing any part of it gives the same
        return importlib.import_module("codedag.trace")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'codedag' has no attribute {name!r}")
    found: object = getattr(importlib.import_module(home), name)
    return found


def _trace(*args: object, **keywords: object) -> object:
    import importlib

    face = importlib.import_module("codedag.api.tracing").trace
    return face(*args, **keywords)


def __dir__() -> list[str]:
    return sorted(__all__)
