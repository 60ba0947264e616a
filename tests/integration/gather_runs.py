"""Runs one program under each kind of site and each gatherer, and brings graphs into a form that can be compared."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from codedag.instrument import _site, _twin
from codedag.instrument import sites as site_module
from codedag.instrument.program import Program
from codedag.ir import Graph, check
from codedag.trace import _gather, gather
from codedag.trace.recorder import Recorder

SITES = {"c": _site, "twin": _twin}
_COMPARED = ("name", "kind", "file", "line", "col", "context", "count", "out_nbytes", "in_sig", "out_sig", "site")
GATHERERS = {"c": _gather.Gatherer, "python": gather.Gatherer}


class Loaded:
    """A file of the program, rewritten with one kind of site."""

    def __init__(self, path: Path, native: Any) -> None:
        self.native = native
        before = site_module.native
        site_module.use(native)
        try:
            self.program = Program([path.parent])
            name = path.stem
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None
            self.module: Any = importlib.util.module_from_spec(spec)
            sys.modules[name] = self.module
            exec(self.program.load(str(path), path.read_bytes()), self.module.__dict__)
        finally:
            site_module.use(before)

    def recorded(self, name: str, *args: Any, gatherer: Any = _gather.Gatherer, on_operation: Any = None) -> Recorder:
        """The recorder after a call of one function."""
        recorder = Recorder(self.program.names, on_operation, gatherer)
        self.native.start(recorder, self.program.names)
        try:
            getattr(self.module, name)(*args)
        finally:
            self.native.stop()
        assert self.native.failure() is None, self.native.failure()
        return recorder


def canonical(graph: Graph) -> tuple[Counter[Any], Counter[Any], Counter[Any]]:
    """Operations, edges and carried dependences without their ids and times."""
    check(graph)
    key = {op.id: tuple(getattr(op, name) for name in _COMPARED) for op in graph.ops}
    return (
        Counter(key.values()),
        Counter((key[e.src], key[e.dst], e.kind, e.nbytes) for e in graph.edges),
        Counter((key[c.src], key[c.dst]) for c in graph.carried),
    )


def same_everywhere(path: Path, names: list[str], *args: Any) -> dict[str, Graph]:
    """The graph of each function, after all four pairs of sites and gatherers were found to agree on it."""
    graphs: dict[str, Graph] = {}
    for kind, native in SITES.items():
        loaded = Loaded(path, native)
        for name in names:
            for gatherer in GATHERERS.values():
                graph = loaded.recorded(name, *args, gatherer=gatherer).graph()
                first = graphs.setdefault(name, graph)
                expected, found = canonical(first), canonical(graph)
                for what, e, f in zip(("operations", "edges", "carried"), expected, found, strict=True):
                    assert e == f, f"{name} ({kind}, {gatherer.__module__}): {what}\n- {e - f}\n+ {f - e}"
    return graphs
