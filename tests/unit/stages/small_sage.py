"""A small sage7, exported once a process, and plans of it."""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from codedag.stages.execution.execution_plan import ExecutionPlan, PlannedBlock
from codedag.stages.onnx_models.export import export, load
from codedag.stages.planning.tables import Row, Tables
from codedag.stages.torch_models.sage import sage7

SIZES = {"nodes": 30, "edges": 80}


@functools.cache
def exported() -> Path:
    """The directory of the small model."""
    folder = Path(tempfile.mkdtemp(prefix="small-sage-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    export(sage7(features=12, hidden=8), folder)
    return folder


@functools.cache
def small():
    """The small model, read from its files."""
    return load(exported())


def plan(*blocks, **options):
    """A plan of (first, last, PU) or (first, last, PUs, ratios)."""
    made = []
    for first, last, pus, *ratios in blocks:
        names = (pus,) if isinstance(pus, str) else tuple(pus)
        made.append(PlannedBlock(small().block(first, last), names, tuple(ratios[0]) if ratios else (1.0,)))
    return ExecutionPlan(tuple(made), **options)


def tables(seconds):
    """Tables with the same seconds for every stage of a PU."""
    rows = {
        (pu, str(stage)): {tuple(SIZES.values()): Row(tuple(SIZES.values()), each, 0.0, each, each)}
        for pu, each in seconds.items() for stage in range(1, 8)
    }  # fmt: skip
    return Tables(Path("tables"), tuple(SIZES), rows)
