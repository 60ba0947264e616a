"""CodeDAG makes a Python data pipeline faster without a change to its code, and proves that it computes the same.

Importing this package loads no framework, reads no file and starts no thread; names are looked up when used.

PYTEST_DONT_REWRITE: it may be loaded before pytest, as under `codedag run -m pytest`, which else would warn of that.
"""

from __future__ import annotations

from codedag._version import __version__

TYPE_CHECKING = False  # type checkers know this name; `typing` itself would cost more than the rest of the import
if TYPE_CHECKING:
    from codedag.api.enhanced_tracer import EnhancedTracer as EnhancedTracer
    from codedag.api.filters import FunctionFilter as FunctionFilter
    from codedag.api.migrator import PatchInjector as PatchInjector
    from codedag.api.migrator import PipelineMigrator as PipelineMigrator
    from codedag.api.migrator import UniversalWrapper as UniversalWrapper
    from codedag.api.migrator import apply as apply
    from codedag.api.migrator import create_custom_migrator as create_custom_migrator
    from codedag.api.monitors import MemoryProfiler as MemoryProfiler
    from codedag.api.monitors import PerformanceMonitor as PerformanceMonitor
    from codedag.api.optimizer import GraphCoarsening as GraphCoarsening
    from codedag.api.optimizer import IterativeOptimizer as IterativeOptimizer
    from codedag.api.optimizer import KWayPartitioner as KWayPartitioner
    from codedag.api.optimizer import OptimizerManager as OptimizerManager
    from codedag.api.optimizer import Partition as Partition
    from codedag.api.planning import optimise as optimise
    from codedag.api.run import Run as Run
    from codedag.api.tracing import trace as trace
    from codedag.api.visualizer import GraphvizDataflowVisualizer as GraphvizDataflowVisualizer
    from codedag.experiment import ExperimentMonitor as ExperimentMonitor
    from codedag.experiment import MetricsLogger as MetricsLogger
    from codedag.experiment import ResourceMonitor as ResourceMonitor
    from codedag.experiment import Timer as Timer
    from codedag.instrument.selection import FilterConfig as FilterConfig
    from codedag.ir import Graph as Graph
    from codedag.ir import Plan as Plan
    from codedag.ir import load as load

_HOMES = {
    "load": "codedag.ir",
    "Graph": "codedag.ir",
    "Plan": "codedag.ir",
    "Run": "codedag.api.run",
    "optimise": "codedag.api.planning",
    "GraphCoarsening": "codedag.api.optimizer",
    "IterativeOptimizer": "codedag.api.optimizer",
    "KWayPartitioner": "codedag.api.optimizer",
    "OptimizerManager": "codedag.api.optimizer",
    "Partition": "codedag.api.optimizer",
    "EnhancedTracer": "codedag.api.enhanced_tracer",
    "ExperimentMonitor": "codedag.experiment",
    "FilterConfig": "codedag.instrument.selection",
    "FunctionFilter": "codedag.api.filters",
    "GraphvizDataflowVisualizer": "codedag.api.visualizer",
    "MemoryProfiler": "codedag.api.monitors",
    "MetricsLogger": "codedag.experiment",
    "PerformanceMonitor": "codedag.api.monitors",
    "ResourceMonitor": "codedag.experiment",
    "Timer": "codedag.experiment",
    "PatchInjector": "codedag.api.migrator",
    "PipelineMigrator": "codedag.api.migrator",
    "UniversalWrapper": "codedag.api.migrator",
    "apply": "codedag.api.migrator",
    "create_custom_migrator": "codedag.api.migrator",
}

__all__ = [
    "EnhancedTracer",
    "ExperimentMonitor",
    "FilterConfig",
    "FunctionFilter",
    "Graph",
    "GraphCoarsening",
    "GraphvizDataflowVisualizer",
    "IterativeOptimizer",
    "KWayPartitioner",
    "MemoryProfiler",
    "MetricsLogger",
    "OptimizerManager",
    "Partition",
    "PatchInjector",
    "PerformanceMonitor",
    "PipelineMigrator",
    "Plan",
    "ResourceMonitor",
    "Run",
    "Timer",
    "UniversalWrapper",
    "__version__",
    "apply",
    "create_custom_migrator",
    "load",
    "optimise",
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


def load_ipython_extension(shell: object) -> None:
    """What `%load_ext codedag` calls: the cell magic `%%codedag` is there from now on."""
    import importlib

    importlib.import_module("codedag.plugins.notebook").load(shell)


def __dir__() -> list[str]:
    return sorted(__all__)
