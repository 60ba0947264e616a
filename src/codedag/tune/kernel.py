"""A tuned kernel as a function of arrays: compiled code where that is sure, the program as written elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from codedag.ir.verdict import No, Verdict, Yes
from codedag.tune import kernel_cache
from codedag.tune.compiler import Compiler, find_compiler
from codedag.tune.declined import CannotTune
from codedag.tune.measure.process import MeasuringProcess
from codedag.tune.runner import Runner, layout_problem, load_entry, runner_of
from codedag.tune.schedule.family import EXACT, Family
from codedag.tune.schedule.space import Point, point_text

PROOF_SECONDS = 120.0
Array = Any


class Kernel:
    """A proven kernel; `exactness` is its class, `source` its C text."""

    def __init__(
        self, family: Family, point: Point, runner: Runner, reference: Callable[..., Any], source: str
    ) -> None:
        self.family, self.point, self.source = family, point, source
        self.exactness = family.exactness
        self.reference = reference
        self.as_written = 0  # calls that ran as written
        self.why = ""  # the last reason for that
        self.engine, self.note = "c", ""  # as for kernels of chains
        self._runner = runner

    def __call__(self, *arrays: Array) -> Array:
        """The result for these arrays."""
        if self.exactness != EXACT and layout_problem(self.family.program, arrays):
            arrays = self._in_order(arrays)
        found = self.computed(arrays)
        if not isinstance(found, No):
            return found
        self.as_written += 1
        self.why = found.reason
        return self.reference(*arrays)

    def computed(self, arrays: Sequence[Array]) -> Array | No:
        """The result by the compiled code alone, or why that is not sure to be right."""
        why = layout_problem(self.family.program, arrays)
        return No(why) if why else self.on_checked(arrays)

    def on_checked(self, arrays: Sequence[Array]) -> Array | No:
        """The same for arrays whose types and order in memory are known to be the kernel's."""
        if self.exactness == EXACT and np.geterr()["under"] != "ignore":
            return No("numpy is asked to tell of numbers that become too small")
        found = self._runner.run(arrays)
        return found[()] if type(found) is np.ndarray and not found.ndim else found

    def _in_order(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """The same arrays in the order that the kernel reads; types are not changed, since the result's would be."""
        return tuple(np.require(one, None, ["C", "A"]) if type(one) is np.ndarray else one for one in arrays)


def build_kernel(family: Family, point: Point, order: str, reference: Callable[..., Any]) -> Kernel:
    """The kernel of a point, compiled and proven in another process unless that was done before; or CannotTune."""
    compiler = find_compiler()
    if isinstance(compiler, No):
        raise CannotTune(f"kernels cannot be built: {compiler.reason}", hint="Install gcc or clang, or set CC.")
    emitted = family.emitted(point)
    own = Compiler(compiler.name, compiler.command, (*compiler.flags, *emitted.flags), compiler.version, compiler.tried)
    source = f"/* {family.program.name}: {point_text(point)} ({family.exactness}) */\n{emitted.source}"
    built = kernel_cache.build(source, own, lambda library: prove(family, point, order, library))
    if isinstance(built, No):
        raise CannotTune(f"the kernel {point_text(point)}: {built.reason}")
    entry = load_entry(built.path)
    if isinstance(entry, No):
        raise CannotTune(f"the kernel {point_text(point)}: {entry.reason}")
    return Kernel(family, point, runner_of(family, point, entry), reference, source)


def prove(family: Family, point: Point, order: str, library: Path) -> Verdict:
    """Yes if random calls in another process gave numpy's results, else how one did not."""
    request = {
        "do": "prove", "program": family.program.encoded(), "order": order, "point": point_text(point),
        "library": str(library),
    }  # fmt: skip
    with MeasuringProcess(one_thread=False) as process:
        said = process.ask(request, PROOF_SECONDS)
    if isinstance(said, No):
        return No(f"the proof: {said.reason}")
    return No(f"the kernel failed its proof: {said['why']}") if said["why"] else Yes
