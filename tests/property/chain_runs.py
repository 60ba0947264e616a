"""One random program run twice, as written and with its chains applied; all that a program can see is compared."""

from __future__ import annotations

import contextlib
import copy
import io
import random
import types
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from codedag.autopilot.moves import find
from codedag.backends.effects import Effects
from codedag.backends.same import same
from codedag.instrument import sites as site_module
from codedag.instrument.program import Program
from codedag.instrument.sites import PASS
from codedag.migrate.fuse.chain import Chain
from codedag.migrate.trial import Trial
from codedag.trace.recorder import Recorder

with warnings.catch_warnings():  # torch says this once in a process: not at the first of two runs to be compared
    warnings.simplefilter("ignore")
    torch.from_numpy(np.frombuffer(b"read only", np.uint8))


class NeverDue(Trial):
    """A trial without checks: the fused result itself is what the program gets."""

    def due(self) -> bool:
        self.calls += 1
        return False

    def stop(self, reason: str) -> None:
        self.reason = self.reason or reason  # it goes on, so that later calls are tested too


@dataclass
class Fused:
    """A module with its chains applied."""

    module: types.ModuleType
    chains: list[Chain] = field(default_factory=list)
    program: Any = None

    def calls(self) -> int:
        return sum(chain.trial.calls for chain in self.chains)

    def reasons(self) -> set[str]:
        return {chain.trial.reason for chain in self.chains if chain.trial.reason}


def kernels(view: Any, rows: Any, table: Any, out: Any) -> Any:
    """The kernel for these arrays, built at once."""
    from codedag.tune.table import kernel_for

    return kernel_for(view, rows, table.dtype, out)


def executed(code: types.CodeType) -> types.ModuleType:
    module = types.ModuleType("generated")
    exec(code, vars(module))
    return module


def plain_module(source: str) -> types.ModuleType:
    return executed(compile(source, "/generated/program.py", "exec", dont_inherit=True))


def fused_module(source: str, warm: Any, kernels: Any = kernels, trial: type[Trial] = NeverDue) -> Fused:
    """The module after `warm(module)` was recorded and every chain that was found was applied."""
    path = "/generated/program.py"
    program = Program([Path("/generated")])
    module = executed(program.load(path, source.encode()))
    recorder = Recorder(program.names)
    site_module.native.start(recorder, program.names)
    warm(module)
    site_module.native.stop()
    file = program.files[path]
    fused = Fused(module, program=program)
    for owner in sorted(file.owners()):
        program.settle(path, owner)
        for found in find.chains(file, owner, [t for t in recorder.templates if t.site.info.owner == owner]):
            between = [file.sites[i] for i in found.between if file.sites[i].mode == PASS]
            chain = Chain(found.links, between, kernels, trial("chain"), Effects())
            program.plan(path, owner, chain.variants())
            fused.chains.append(chain)
    return fused


@dataclass
class Seen:
    """What one call showed: result or exception, output, warnings, random state, arguments afterwards."""

    result: Any
    raised: tuple[str, str] | None
    printed: str
    warned: list[tuple[str, str, str, int]]
    streams: list[Any]
    arguments: list[Any]
    log: list[str]


def observed(module: types.ModuleType, call: Any, arguments: list[Any]) -> Seen:
    """One call with fresh random streams, observed."""
    random.seed(3), np.random.seed(4), torch.manual_seed(5)
    module.rng = np.random.default_rng(6)
    output, raised, result = io.StringIO(), None, None
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(output):
        warnings.simplefilter("always")
        try:
            result = call(module, *arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other run must raise it too
            raised = (type(error).__name__, str(error))
    warned = [(w.category.__name__, str(w.message), w.filename, w.lineno) for w in caught]
    streams = [
        random.getstate(),
        np.random.get_state()[1].tobytes(),
        torch.get_rng_state().numpy().tobytes(),
        str(module.rng.bit_generator.state),
    ]
    return Seen(result, raised, output.getvalue(), warned, streams, arguments, list(module.seen))


def differences(plain: Seen, fused: Seen) -> list[str]:
    found = []
    for fact in ("raised", "printed", "warned", "streams", "log"):
        if getattr(plain, fact) != getattr(fused, fact):
            found.append(f"{fact}: {str(getattr(plain, fact))[:300]} | {str(getattr(fused, fact))[:300]}")
    for what, left, right in (
        ("result", plain.result, fused.result),
        *(("argument", a, b) for a, b in zip(plain.arguments, fused.arguments, strict=True)),
    ):
        if type(left).__name__ in ("MaskedArray", "matrix"):
            left, right = np.asarray(left), np.asarray(right)
        verdict = same(left, right)
        if not verdict:
            found.append(f"{what}: {verdict.reason}")
    return found


def copied(value: Any) -> Any:
    """A copy with the same strides, offset and flags."""
    if type(value) is np.ndarray and value.base is not None:
        base = value
        while type(base.base) is np.ndarray:
            base = base.base
        block = base.copy(order="K")
        offset = value.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        flat = np.lib.stride_tricks.as_strided(block, (block.size,), (1,)) if block.itemsize == 1 else None
        if flat is not None and not any(n == 0 for n in value.shape):
            view = np.ndarray(value.shape, value.dtype, buffer=flat, offset=offset, strides=value.strides)
            view.flags.writeable = value.flags.writeable
            return view
    if type(value) is np.ndarray:
        new = value.copy(order="K")
        new.flags.writeable = value.flags.writeable
        return new
    if type(value) is torch.Tensor and not value.requires_grad:
        new = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
        new.copy_(value) if 0 not in value.stride() else None
        return new if 0 not in value.stride() else value.clone()[..., :1].expand(value.shape)
    return copy.deepcopy(value)
