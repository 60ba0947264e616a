"""OpenVINO: a block as a model that is reshaped to the sizes, with tensors that share the memory of the arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codedag.instrument.guard import Failed, attempt
from codedag.stages.execution.verify import F32, PRECISION_ERRORS
from codedag.stages.runners import Program, RanElsewhere
from codedag.stages.sizes import Sizes


class Runner:
    """Compiles blocks for one device of OpenVINO."""

    def __init__(self, pu: str, threads: int) -> None:
        import openvino

        self._ov, self._core = openvino, openvino.Core()
        self._device = pu.partition(":")[2].upper()
        self._threads = threads
        self.version = str(openvino.__version__)
        self._models: dict[str, Any] = {}

    def load(self, program: Program, sizes: Sizes, inputs: dict[str, Any], outputs: dict[str, Any]) -> _Loaded:
        """The block, compiled for exactly these sizes."""
        model = self._read(program.onnx).clone()
        by_name = {name: port for port in model.inputs for name in port.get_names()}
        model.reshape({by_name[name]: list(array.shape) for name, array in inputs.items() if name in by_name})
        compiled = self._core.compile_model(model, self._device, self._settings())
        return _Loaded(self._ov, compiled, self._device, inputs, outputs)

    def _read(self, path: str) -> Any:
        if path not in self._models:
            self._models[path] = self._core.read_model(path)
        return self._models[path]

    def _settings(self) -> dict[str, Any]:
        cpu = {"INFERENCE_NUM_THREADS": self._threads, "NUM_STREAMS": 1}
        # An NPU computes in float16 and takes no other hint: its cells are labelled so.
        precision = {} if self._device.startswith("NPU") else {"INFERENCE_PRECISION_HINT": "f32"}
        return {"PERFORMANCE_HINT": "LATENCY", **precision, **(cpu if self._device == "CPU" else {})}


class _Loaded:
    def __init__(self, ov: Any, compiled: Any, device: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        self._ov, self._compiled, self._device = ov, compiled, device
        self._request = compiled.create_infer_request()
        names = {name for port in compiled.inputs for name in port.get_names()}
        self._inputs = {name: array for name, array in inputs.items() if name in names}
        self._outputs = outputs  # their memory is bound: it must live as long as the request
        self._copied = self._bind_outputs(outputs)
        self._places = [next(name for name in port.get_names() if name in inputs) for port in compiled.inputs]
        copied = {id(array) for _, array in self._copied}
        named = {name: at for at, port in enumerate(compiled.outputs) for name in port.get_names()}
        self._ports = {name: named[name] for name, array in outputs.items() if id(array) not in copied}
        self._direct: Any = None

    def _bind_outputs(self, outputs: dict[str, Any]) -> list[tuple[Any, Any]]:
        """Binds what can be bound; the rest is copied after each run."""
        copied = []
        for name, array in outputs.items():
            port = self._compiled.output(name)
            if array.size and port.get_element_type() == self._ov.Type(array.dtype):
                self._request.set_tensor(port, self._ov.Tensor(array, shared_memory=True))
            else:
                copied.append((port, array))
        return copied

    def call(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Fresh results of other inputs of the same shapes, without a copy; by places, since names take time."""
        import numpy as np

        if self._direct is None:
            self._direct = self._compiled.create_infer_request()
        request, tensor = self._direct, self._ov.Tensor
        for at, name in enumerate(self._places):
            request.set_input_tensor(at, tensor(arrays[name], shared_memory=True))
        made = {name: np.empty(array.shape, array.dtype) for name, array in self._outputs.items()}
        bound = [name for name in made if name in self._ports]
        for name in bound:
            request.set_output_tensor(self._ports[name], tensor(made[name], shared_memory=True))
        request.infer()
        for port, array in self._copied:
            name = next(each for each, one in self._outputs.items() if one is array)
            made[name][...] = request.get_tensor(port).data
        return made

    def bring(self) -> None:
        for name, array in self._inputs.items():
            self._request.set_tensor(name, self._ov.Tensor(array, shared_memory=True))

    def run(self) -> None:
        self._request.infer()
        for port, array in self._copied:
            array[...] = self._request.get_tensor(port).data

    def fetch(self) -> None:
        return

    @property
    def precision(self) -> str:
        said = attempt(self._compiled.get_property, "INFERENCE_PRECISION_HINT")
        told = "" if isinstance(said, Failed) else said.to_string()
        return told if told in (F32, *PRECISION_ERRORS) else "f16" if self._device.startswith("NPU") else F32

    def ran_on(self) -> str:
        devices = devices_of(self._compiled)
        if not is_on(self._device, devices):
            raise RanElsewhere(f"OpenVINO says that it ran on {', '.join(devices) or 'nothing'}, not {self._device}")
        return ", ".join(devices)


def devices_of(compiled: Any) -> list[str]:
    """The devices that run a compiled model, as it says: CPU, GPU.0, NPU or NPU.3720."""
    said = compiled.get_property("EXECUTION_DEVICES")  # a plugin may say a word instead of a list
    return [str(name).partition("(")[0] for name in ([said] if isinstance(said, str) else said)]


def is_on(device: str, devices: list[str]) -> bool:
    """Whether these devices are the one that was asked for: one of its kind, and its number if that was named."""
    kind, _, number = device.partition(".")
    return len(devices) == 1 and devices[0].partition(".")[0] == kind and (not number or devices[0] == device)
