"""Drop-in modules: `optimise` measures a torch module on every runtime here and gives a module that uses the fastest.

A plan for one PU runs in the caller's process by the runtime itself; plans for several go through the executor. What
the fast way cannot take (gradients, training, changed weights, other devices) runs by the original module.
"""

from __future__ import annotations

import copy
import functools
import os
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import torch

from codedag.devices.inventory import inventory
from codedag.instrument.guard import Failed, attempt
from codedag.ir import save
from codedag.ir.errors import CodedagError
from codedag.ir.verdict import No
from codedag.stages.execution.execute import Executor
from codedag.stages.execution.execution_plan import ExecutionPlan, planned
from codedag.stages.execution.pu_pool import Fault, is_on_host
from codedag.stages.execution.resident import DeviceValue, Run
from codedag.stages.execution.verify import nearness
from codedag.stages.measuring.calibration import Calibration, calibration_of
from codedag.stages.measuring.cells import Cells
from codedag.stages.measuring.int8_cells import PUS as INT8_PUS
from codedag.stages.measuring.int8_cells import Int8Measurer
from codedag.stages.measuring.measure import Measurer, Settings
from codedag.stages.measuring.pus import FAMILIES, chosen, families_of, joined
from codedag.stages.measuring.table_files import write_tables
from codedag.stages.model import Arrays, BadInput, StagedModel
from codedag.stages.onnx_models.export import export
from codedag.stages.planning.prices import Int8
from codedag.stages.planning.tables import INT8_TABLE, Tables
from codedag.stages.torch_models.from_torch import from_module, given_arguments

#: What a caller may allow beyond rounding.
ALLOWED = ("int8", "f16")
INT8_NOTE = "int8 is not used: it needs calibration= (inputs like the example, with more items) and max_error="
#: Shapes that are compiled for; calls of further ones run the original module.
MOST_SHAPES = 8
WARMUP, REPEATS = 3, 10
#: Inductor calls a C++ compiler: it is measured last, if there are so many seconds left of the budget.
SLOW_TO_COMPILE, SLOW_SECONDS = "inductor", 10.0
#: The drop-in is timed against the original in turn: so many rounds, or as many as fit into these seconds.
ROUNDS, ROUND_SECONDS = 15, 3.0


def optimise(
    module: Any, example: Any, allow: Sequence[str] = (), budget: float = 30.0, pus: Sequence[str] | None = None,
    calibration: Any = None, max_error: float | None = None,
) -> Optimised:  # fmt: skip
    """A drop-in for an inference module: same signature and results, on the fastest runtime of this machine.

    `example` is one tensor, a tuple of arguments or a dict of keyword arguments; `budget` are the seconds for
    measuring; `pus` names the PUs that may be used. `.restore()` gives the module back, `.report()` says what was done.
    `allow=("int8",)` also tries a quantised model: `calibration` are inputs like the example with two items or more,
    of which one half calibrates and the other measures the error, which may be `max_error` (largest difference by
    largest value). `allow=("f16",)` also uses PUs that compute in float16. Results carry no gradients: calls whose
    inputs require them, or in training mode, run the module itself.
    """
    unknown = [name for name in allow if name not in ALLOWED]
    if unknown:
        raise BadInput(f"`{unknown[0]}` cannot be allowed", hint=f"allow= takes {', '.join(ALLOWED)}.")
    if calibration is not None and ("int8" not in allow or max_error is None or not 0 < max_error < 1):
        raise BadInput("calibration= needs allow=('int8',) and max_error= between 0 and 1")
    made = Optimised(module, example, allow)
    made._prepare(float(budget), tuple(pus or ()), calibration, max_error)
    if "int8" in allow and calibration is None:
        made.facts["notes"] = [*made.facts.get("notes", ()), INT8_NOTE]
    return made


class Optimised(torch.nn.Module):  # type: ignore[misc]
    """A module that computes what another one does, by a plan; its parameters are the other's own."""

    def __init__(self, module: Any, example: Any, allow: Sequence[str] = ()) -> None:
        super().__init__()
        set_own = functools.partial(object.__setattr__, self)
        set_own("_original", module)
        for name in ("_parameters", "_buffers", "_modules"):  # the same objects: state_dict and parameters agree
            set_own(name, getattr(module, name))
        set_own("training", module.training)
        set_own("_example", given_arguments(example))
        set_own("facts", {"uses": "original", "reason": "", "allow": list(allow), "original_calls": {}})
        set_own("_fast", None)
        set_own("forward", functools.update_wrapper(functools.partial(_forward, self), module.forward))

    # -- what callers use

    def restore(self) -> Any:
        """The module that was given, unchanged."""
        return self._original

    def report(self) -> str:
        """What was measured, what is used and why, and which calls ran the original module instead."""
        facts = self.facts
        lines = [f"uses {facts['uses']}" + (f": {facts['reason']}" if facts["reason"] else "")]
        lines += [f"  {pu}: {told}" for pu, told in facts.get("measured", {}).items()]
        if "gain" in facts:
            lines.append(
                f"  {facts['original_seconds'] * 1e3:.3g} ms as given, {facts['seconds'] * 1e3:.3g} ms now "
                f"({facts['gain']:.2f} times as fast), results off by at most {facts['worst']:.1e} of the largest value"
            )
        lines += [f"  {pu} in int8: error {error:.2g}" for pu, error in facts.get("int8_errors", {}).items()]
        lines += [f"  note: {note}" for note in facts.get("notes", ())]
        lines += [f"  {count} calls ran the original: {why}" for why, count in facts["original_calls"].items()]
        return "\n".join(lines)

    def train(self, mode: bool = True) -> Optimised:
        """Sets the mode of the module itself, too."""
        self._original.train(mode)
        object.__setattr__(self, "training", mode)
        return self

    def _apply(self, function: Any, recurse: bool = True) -> Optimised:
        """Moves the module itself: from then on it is what runs."""
        self._original._apply(function, recurse)
        self._give_up("the module was moved or converted")
        return self

    def __getattr__(self, name: str) -> Any:
        if name == "_original":
            raise AttributeError(name)
        return getattr(self._original, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copy.deepcopy(self._original, memo)

    def __reduce__(self) -> tuple[Any, ...]:
        return _itself, (self._original,)

    # -- how it is made

    def _prepare(self, budget: float, pus: tuple[str, ...], calibration: Any, max_error: float | None) -> None:
        """Chooses, verifies and times the fast way; whatever fails leaves the original, with the reason."""
        work = _Preparation(self._original, self._example, budget, pus, self.facts["allow"], calibration, max_error)
        made = attempt(work.fast)
        if isinstance(made, Failed):
            self.facts["reason"] = made.reason
            return
        fast, facts = made
        self.facts.update(facts)
        object.__setattr__(self, "_fast", fast)

    def _give_up(self, reason: str) -> None:
        object.__setattr__(self, "_fast", None)
        self.facts.update(uses="original", reason=reason)

    def _by_original(self, reason: str, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        counts = self.facts["original_calls"]
        counts[reason] = counts.get(reason, 0) + 1
        return self._original(*args, **keywords)


def _itself(module: Any) -> Any:
    return module


def _forward(own: Optimised, *args: Any, **keywords: Any) -> Any:
    fast = own._fast
    if fast is None:
        return own._original(*args, **keywords)
    try:
        return fast(args, keywords)
    except _Declined as reason:
        return own._by_original(str(reason), args, keywords)


class _Declined(Exception):  # noqa: N818 - control flow of one call
    """A call that the fast way does not take."""


class FastCall:
    """Calls of one model by a plan: shapes are compiled for when they first come, and verified then."""

    def __init__(
        self, module: Any, model: StagedModel, make: Callable[[dict[str, int]], Run], tolerance: float | None = None
    ) -> None:
        self._module, self._model, self._make, self._tolerance = module, model, make, tolerance
        self._names = model.inputs
        self._dtypes = [getattr(torch, model.tensors[name].dtype) for name in model.inputs]
        self._runs: dict[tuple[Any, ...], Run] = {}
        self._declined: dict[tuple[Any, ...], str] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._weights = [*module.parameters(), *module.buffers()]
        self._homes = [
            (home, name, value)
            for each in module.modules() for home in (each._parameters, each._buffers, each._modules)
            for name, value in home.items()
        ]  # fmt: skip
        self._versions = self._now()
        self._plain = _is_plain(model)

    def _now(self) -> list[Any]:
        return [(each._version, each.data_ptr()) for each in self._weights]

    def __call__(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """The module's result; raises _Declined with the reason why the module itself must compute it."""
        if self._module.training:
            raise _Declined("the module is in training mode")
        if self._versions != self._now() or any(home.get(name) is not value for home, name, value in self._homes):
            raise _Declined("the weights have changed")
        if torch.is_autocast_enabled("cpu"):
            raise _Declined("autocast is on")
        if self._process != os.getpid():
            raise _Declined("the process was forked")
        tensors = self._tensors(args, keywords)
        shapes = tuple([tensor.shape for tensor in tensors])
        with self._lock:
            run = self._runs.get(shapes)
            if run is None:
                return self._first(shapes, tensors, args, keywords)
            made = run(tensors)
        return self._result(made)

    def _tensors(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> list[Any]:
        if self._plain and not keywords and len(args) == len(self._names):
            given = args
        else:
            given = list(_bound(self._model, args, keywords).values())
        return [self._checked(each, dtype) for each, dtype in zip(given, self._dtypes, strict=True)]

    @staticmethod
    def _checked(tensor: Any, dtype: Any) -> Any:
        if tensor.__class__ is not torch.Tensor or tensor.dtype is not dtype or tensor.is_sparse:
            raise _Declined("an input is no plain tensor of the example's type")
        if tensor.requires_grad:
            raise _Declined("an input requires gradients")
        if not tensor.is_cpu:
            raise _Declined("an input is on another device")
        return tensor if tensor.is_contiguous() else tensor.contiguous()

    def _result(self, made: dict[str, Any]) -> Any:
        if self._plain:
            return made[self._model.outputs[0]]
        return self._model.programs.result(made)  # type: ignore[attr-defined]

    # -- shapes that come for the first time

    def _first(
        self, shapes: tuple[Any, ...], tensors: Sequence[Any], args: Sequence[Any], keywords: Mapping[str, Any]
    ) -> Any:
        """Compiles for new shapes and compares; the call itself gets the module's own result."""
        if shapes in self._declined:
            raise _Declined(self._declined[shapes])
        if len(self._runs) >= MOST_SHAPES:
            raise _Declined(f"more than {MOST_SHAPES} different shapes")
        made = attempt(self._compiled, tensors)
        if isinstance(made, Failed):
            raise self._decline(shapes, made.reason)
        run, results = made
        with torch.inference_mode():
            expected = self._module(*args, **keywords)
        wrong = self.worst(self._result(results), expected)[1]
        if wrong:
            raise self._decline(shapes, f"its result at these shapes is wrong: {wrong}")
        self._runs[shapes] = run
        return self._result(results)

    def _compiled(self, tensors: Sequence[Any]) -> tuple[Run, dict[str, Any]]:
        sizes = self._model.sizes_of({name: each.numpy() for name, each in zip(self._names, tensors, strict=True)})
        run = self._make(sizes)
        return run, run(tensors)

    def _decline(self, shapes: tuple[Any, ...], reason: str) -> _Declined:
        self._declined[shapes] = reason
        return _Declined(reason)

    def worst(self, got: Any, expected: Any) -> tuple[float, str]:
        """The largest error of nested results, and what is wrong with the first one that is."""
        ours, own = torch.utils._pytree.tree_flatten(got)
        theirs, other = torch.utils._pytree.tree_flatten(expected)
        if own != other:
            return float("inf"), "the result is nested otherwise"
        pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if isinstance(b, torch.Tensor)]
        near = [nearness(b.detach().cpu().numpy(), a.numpy(), self._tolerance) for a, b in pairs]
        return max((each.worst for each in near), default=0.0), next((each.wrong for each in near if each.wrong), "")


def _is_plain(model: StagedModel) -> bool:
    """Whether calls are tensors in the order of the model's inputs, and the result is one tensor."""
    names = list(model.inputs)
    marks = {name: _Mark(name) for name in names}
    bound = attempt(_bound, model, list(marks.values()), {})
    if isinstance(bound, Failed) or [each.name for each in bound.values()] != names or len(model.outputs) != 1:
        return False
    only = model.outputs[0]
    nested = attempt(model.programs.result, {only: marks[names[0]]})  # type: ignore[attr-defined]
    return isinstance(nested, _Mark)


class _Mark:
    """What stands for a tensor when it is asked how arguments are bound."""

    shape = ()

    def __init__(self, name: str) -> None:
        self.name = name


def _bound(model: StagedModel, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    try:
        found: dict[str, Any] = model.programs.arguments(args, keywords)  # type: ignore[attr-defined]
    except (CodedagError, ValueError) as error:
        raise _Declined(f"the call is not like the example: {error}") from None
    return found


class _Folder:
    """A private folder that is removed with the last object that keeps this one, or when the program ends."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="codedag-dropin-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class _Preparation:
    """Export, measurements, plan and proof of one drop-in."""

    def __init__(
        self, module: Any, example: tuple[tuple[Any, ...], dict[str, Any]], budget: float, pus: tuple[str, ...],
        allow: Sequence[str], calibration: Any, max_error: float | None,
    ) -> None:  # fmt: skip
        self._module, self._args, self._keywords = module, *example
        self._ends = time.monotonic() + budget
        self._pus, self._allow, self._calibration, self._max_error = pus, allow, calibration, max_error
        self._folder = _Folder()
        self._place = self._folder.path

    def fast(self) -> tuple[FastCall | None, dict[str, Any]]:
        """The fast way and the facts of the report; None with the reason where the original is as good."""
        model, tables, measured = self._measured()
        sizes = model.sizes_of(model.example)
        int8 = self._int8()
        plan = planned(model, tables, sizes, int8=int8)
        facts: dict[str, Any] = {"measured": measured, "plan": str(plan), "notes": list(model.notes)}
        if int8 is not None:
            facts["int8_errors"] = {pu: int8.tables.error(pu, model.blocks[-1].name) for pu in int8.tables.pus}
        if plan.pus == ("torch:cpu",):
            return None, {**facts, "uses": "original", "reason": "torch itself is the fastest here"}
        fast = FastCall(self._module, model, self._maker(model, plan, tables), plan.tolerance)
        with torch.inference_mode():
            expected = self._module(*self._args, **self._keywords)
        worst, wrong = fast.worst(fast(self._args, self._keywords), expected)
        if wrong:
            return None, {**facts, "uses": "original", "reason": f"{plan} gives other results: {wrong}"}
        facts |= {"worst": worst, **self._timed(fast)}
        if facts["gain"] <= 1.0:
            return None, {**facts, "uses": "original", "reason": f"{plan} is not faster in this process"}
        return fast, {**facts, "uses": str(plan), "reason": ""}

    def _measured(self) -> tuple[StagedModel, Tables, dict[str, str]]:
        """The model, cut for the devices that are here, with what each PU takes for its blocks."""
        args: Any = self._args if not self._keywords else self._keywords
        with ThreadPoolExecutor(len(FAMILIES)) as threads:
            probes = [threads.submit(inventory, [family], measure=False) for family in _families(self._pus)]
            model = from_module(self._module, args, stages=1)
            machine = functools.reduce(joined, [probe.result() for probe in probes])
        names = chosen(machine, self._pus)
        if not all(map(is_on_host, names)):
            model = from_module(self._module, args)
        export(model, self._place)
        absent = {one.name: one.reason for one in machine.absent or ()} | self._measure(model, names)
        write_tables(model, self._place, Cells(self._place).all(), machine, absent)
        save(machine, self._place / "machine.json")
        tables = Tables.load(self._place).within(self._allow)
        return model, tables, _told(model, tables, absent)

    def _measure(self, model: StagedModel, names: Sequence[str]) -> dict[str, str]:
        """Measures the whole model, and every block where there are devices; the PUs that are absent after all."""
        slow = [pu for pu in names if pu.startswith(SLOW_TO_COMPILE)]
        absent = self._contest(model, [pu for pu in names if pu not in slow])
        for pu in slow:
            if self._left() < SLOW_SECONDS and len(names) > 1:
                absent[pu] = f"not measured: it compiles for half a minute, and {max(0.0, self._left()):.0f} s are left"
            else:
                absent |= self._contest(model, [pu])
        if self._calibration is not None:
            able = [pu for pu in names if pu in INT8_PUS]
            absent |= {f"{pu} int8": reason for pu, reason in self._contest(model, able, self._data(model)).items()}
        return absent

    def _data(self, model: StagedModel) -> Calibration:
        """The inputs to calibrate with as the model's own."""
        args, keywords = given_arguments(self._calibration)
        arrays = {name: tensor.numpy() for name, tensor in _bound(model, args, keywords).items()}
        return calibration_of(model, arrays, "calibration=")

    def _int8(self) -> Int8 | None:
        if self._max_error is None or not (self._place / INT8_TABLE).is_file():
            return None
        return Int8(Tables.load_int8(self._place), self._max_error)

    def _contest(self, model: StagedModel, names: Sequence[str], int8: Calibration | None = None) -> dict[str, str]:
        settings = Settings(WARMUP, REPEATS, timeout_seconds=max(SLOW_SECONDS, self._left()))
        measurer = Measurer(model, self._place, Cells(self._place), settings)
        if int8 is not None:
            measurer = Int8Measurer(
                model, self._place, Cells(self._place), settings, calibration=int8, max_error=self._max_error or 0.0
            )
        with ExitStack() as stack:
            measurer.start(names, stack)
            measurer.run([model.sizes_of(model.example)], model.blocks)
        return measurer.absent

    def _left(self) -> float:
        return self._ends - time.monotonic()

    def _maker(self, model: StagedModel, plan: ExecutionPlan, tables: Tables) -> Callable[[dict[str, int]], Run]:
        if len(plan.pus) == 1 and len(plan.blocks[0].pus) == 1 and is_on_host(plan.pus[0]):
            resident = DeviceValue(model, plan.pus[0], self._place, self._folder, plan.blocks[0].variant)
            return resident.at
        executor = Executor(model, self._place, tables=tables)
        weakref.finalize(self._folder, executor.close)
        return functools.partial(_executed, executor, plan, self._folder)

    def _timed(self, fast: FastCall) -> dict[str, float]:
        """The seconds of a call as given and now, measured in turn."""
        times: dict[str, list[float]] = {"original": [], "fast": []}
        ends = time.monotonic() + ROUND_SECONDS
        ways: dict[str, Callable[[], Any]] = {
            "original": lambda: self._module(*self._args, **self._keywords),
            "fast": lambda: fast(self._args, self._keywords),
        }
        while len(times["fast"]) < ROUNDS and (time.monotonic() < ends or len(times["fast"]) < 2):
            for name, way in ways.items():
                times[name].append(_seconds(way))
        before, now = median(times["original"]), median(times["fast"])
        return {"original_seconds": before, "seconds": now, "gain": before / now}


def _families(pus: Sequence[str]) -> list[str]:
    """The families to probe: those of the PUs that may be used; our kernels are of graphs only."""
    return [family for family in families_of(pus) if family not in ("numba", "cpu")] or ["torch"]


def _seconds(way: Callable[[], Any]) -> float:
    with torch.inference_mode():
        begun = time.perf_counter()
        way()
        return time.perf_counter() - begun


def _told(model: StagedModel, tables: Tables, absent: Mapping[str, str]) -> dict[str, str]:
    """What each PU takes for the whole model, or why it does not."""
    sizes = model.sizes_of(model.example)
    name = model.block(1, len(model.stages)).name
    told = {}
    for pu in tables.pus:
        seconds = tables.seconds(pu=pu, stage=name, **sizes)
        told[pu] = seconds.reason if isinstance(seconds, No) else f"{float(seconds) * 1e3:.3g} ms"
    return told | {pu: f"absent, {reason}" for pu, reason in absent.items()}


def _executed(executor: Executor, plan: ExecutionPlan, keep: Any, sizes: dict[str, int]) -> Run:
    """A plan for several PUs, loaded: a function of tensors that passes them through its processes."""
    import numpy as np

    model = executor.model
    inputs = {name: np.zeros(model.tensors[name].at(sizes), model.tensors[name].dtype) for name in model.inputs}
    pipeline = executor.pipeline(plan, sizes)
    try:
        pipeline.load([inputs])
    except Fault as fault:
        raise BadInput(f"{plan} cannot be loaded: {fault}") from None

    def run(tensors: Sequence[Any]) -> dict[str, Any]:
        item = {name: tensor.numpy() for name, tensor in zip(model.inputs, tensors, strict=True)}
        made: dict[str, Any] = {}

        def finished(_: int, outputs: Arrays) -> None:
            made.update({name: torch.from_numpy(array.copy()) for name, array in outputs.items()})

        try:
            pipeline.run([item], finished, lambda call: None)
        except Fault as fault:
            raise _Declined(f"{fault.pu} was left: {fault.reason}") from None
        return made

    run.keep = keep  # type: ignore[attr-defined]
    return run
