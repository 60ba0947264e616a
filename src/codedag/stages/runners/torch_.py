"""torch in eager inference mode: a block as an exported program, on the CPU or on any device that torch knows."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

from codedag.stages.runners import Loaded, Program, RanElsewhere, Unsupported
from codedag.stages.sizes import Sizes


class Runner:
    """Runs blocks in this process by torch."""

    def __init__(self, pu: str, threads: int) -> None:
        import torch

        self._torch = torch
        self.version = str(torch.__version__)
        family, _, resource = pu.partition(":")
        self._device = torch.device(resource or "cpu") if family in ("torch", "inductor") else torch.device(pu)
        if self._device.type == "cpu":
            torch.set_num_threads(threads)
        elif self._device.index is not None and hasattr(getattr(torch, self._device.type, None), "set_device"):
            getattr(torch, self._device.type).set_device(self._device)  # waiting is for the current device
        self._modules: dict[bytes, Any] = {}

    def load(self, program: Program, sizes: Sizes, inputs: dict[str, Any], outputs: dict[str, Any]) -> Loaded:
        """The block on the device."""
        if not program.torch:
            raise Unsupported("the model has no form that torch can run (it came from an ONNX file)")
        if program.torch not in self._modules:
            module = unpacked(self._torch, program.torch).to(self._device)
            self._modules[program.torch] = self.compiled(module)
        run = self._modules[program.torch]
        if self._device.type == "cpu":
            return _InPlace(self._torch, run, inputs, outputs)
        return _OnDevice(self._torch, run, self._device, list(inputs.values()), list(outputs.values()))

    def compiled(self, module: Any) -> Callable[..., Any]:
        """The module as it is: eager mode."""
        if self._device.type == "cpu":
            store_results(self._torch, module)
        made: Callable[..., Any] = module
        return made


def unpacked(torch: Any, packed: bytes) -> Any:
    """The module of an exported program, which takes its tensors one by one and gives a tuple."""
    module = torch.export.load(io.BytesIO(packed)).module(check_guards=False)
    module.graph.set_codegen(torch.fx.CodeGen())
    return torch.fx.GraphModule(module, module.graph)  # without the hook that checks each call


def store_results(torch: Any, module: Any, *, by_operators: bool = True) -> None:
    """Makes a module take the arrays for its results as further arguments.

    The operator that makes a result writes there (`out=`), where it can; else the result is copied. A fresh result of
    200 MB costs five times its computation in page faults.
    """
    graph = module.graph
    ends = next(node for node in graph.nodes if node.op == "output")
    results = list(ends.args[0]) if isinstance(ends.args[0], tuple | list) else [ends.args[0]]
    last = [node for node in graph.nodes if node.op == "placeholder"][-1:]
    for at, result in enumerate(results):
        with graph.inserting_after(last[0]) if last else graph.inserting_before(next(iter(graph.nodes))):
            last = [graph.placeholder(f"result_{at}")]
        writing = _writing(torch, result) if by_operators and results.count(result) == 1 else None
        if writing is not None:
            result.target, result.kwargs = writing, {**result.kwargs, "out": last[0]}
        else:
            with graph.inserting_before(ends):
                graph.call_function(torch.ops.aten.copy_.default, (last[0], result))
    module.recompile()


def _writing(torch: Any, node: Any) -> Any:
    """The form of a node's operator that writes into a given array, or None."""
    target = getattr(node, "target", None)
    if not isinstance(target, torch._ops.OpOverload) or target._schema.is_mutable:
        return None
    wanted = [(each.name, str(each.type)) for each in target._schema.arguments]
    for name in target.overloadpacket.overloads():
        found = getattr(target.overloadpacket, name)
        given = [(each.name, str(each.type)) for each in found._schema.arguments]
        if given == [*wanted, ("out", "Tensor")]:
            return found
    return None


class _InPlace:
    """A block on the CPU: arrays and tensors share their memory."""

    def __init__(
        self, torch: Any, run: Callable[..., Any], inputs: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> None:
        self._torch, self._run = torch, run
        self._reads, self._names = list(inputs), list(outputs)
        self._arrays, self._results = list(inputs.values()), [torch.from_numpy(array) for array in outputs.values()]
        self._there: list[Any] = []

    def call(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Fresh results of other inputs of the same shapes."""
        made = {name: self._torch.empty_like(result) for name, result in zip(self._names, self._results, strict=True)}
        with self._torch.inference_mode():
            self._run(*(self._torch.from_numpy(arrays[name]) for name in self._reads), *made.values())
        return {name: result.numpy() for name, result in made.items()}

    def bring(self) -> None:
        self._there = [self._torch.from_numpy(array) for array in self._arrays]

    def run(self) -> None:
        with self._torch.inference_mode():
            self._run(*self._there, *self._results)

    def fetch(self) -> None:
        return

    precision = "f32"

    def ran_on(self) -> str:
        return "cpu"


class _OnDevice:
    """A block on a device with memory of its own: inputs and results are copied."""

    def __init__(self, torch: Any, run: Callable[..., Any], device: Any, inputs: list[Any], outputs: list[Any]) -> None:
        self._torch, self._run, self._device = torch, run, device
        self._host = [torch.from_numpy(array) for array in inputs]
        self._targets = [torch.from_numpy(array) for array in outputs]
        self._there: list[Any] = []
        self._results: tuple[Any, ...] = ()
        self._wait = getattr(getattr(torch, device.type, None), "synchronize", lambda: None)

    def bring(self) -> None:
        self._there = [tensor.to(self._device) for tensor in self._host]
        self._wait()

    def run(self) -> None:
        with self._torch.no_grad():  # a device that is written in Python may not know inference tensors
            results = self._run(*self._there)
        self._results = tuple(results) if isinstance(results, tuple | list) else (results,)
        self._wait()

    def fetch(self) -> None:
        for target, result in zip(self._targets, self._results, strict=True):
            target.copy_(result.cpu())

    precision = "f32"

    def ran_on(self) -> str:
        places = {str(result.device) for result in self._results} or {str(self._device)}
        number = str(self._device.index or 0)
        wrong = {
            place for place in places
            if place.partition(":")[0] != self._device.type or (place.partition(":")[2] or number) != number
        }  # fmt: skip
        if wrong:
            raise RanElsewhere(f"torch left results on {', '.join(sorted(wrong))}, not on {self._device}")
        return ", ".join(sorted(places))
