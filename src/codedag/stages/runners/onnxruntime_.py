"""ONNX Runtime: a block as a session with one provider, no fallback to the CPU, and arrays bound to its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codedag.stages.runners import Program, RanElsewhere
from codedag.stages.sizes import Sizes


class Runner:
    """Makes sessions of one provider."""

    def __init__(self, pu: str, threads: int) -> None:
        import onnxruntime

        self._ort = onnxruntime
        self._threads = threads
        self.version = str(onnxruntime.__version__)
        self._provider = provider_of(pu, onnxruntime.get_available_providers())

    def load(self, program: Program, sizes: Sizes, inputs: dict[str, Any], outputs: dict[str, Any]) -> _Loaded:
        """The block as a session; its sizes stay dynamic."""
        options = self._ort.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        if self._provider != "CPUExecutionProvider":
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        session = self._ort.InferenceSession(program.onnx, options, providers=[self._provider])
        return _Loaded(session, self._provider, inputs, outputs)


def provider_of(pu: str, available: list[str]) -> str:
    """The provider that a PU's name means: `ort:cpu`, `ort:dml`, `ort:openvino`, ..."""
    kind = pu.partition(":")[2].lower()
    for name in available:
        if name.removesuffix("ExecutionProvider").lower() == kind:
            return name
    raise ImportError(f"ONNX Runtime has no provider `{kind}` here (it has {', '.join(available)})")


class _Loaded:
    def __init__(self, session: Any, provider: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        self._session, self._provider = session, provider
        self._binding = session.io_binding()
        read = {one.name for one in session.get_inputs()}
        self._inputs = {name: array for name, array in inputs.items() if name in read}
        for name, array in outputs.items():
            self._binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        self._outputs = outputs  # their memory is bound

    def call(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Fresh results of other inputs of the same shapes."""
        names = list(self._outputs)
        return dict(zip(names, self._session.run(names, {name: arrays[name] for name in self._inputs}), strict=True))

    def bring(self) -> None:
        for name, array in self._inputs.items():
            self._binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)

    def run(self) -> None:
        self._session.run_with_iobinding(self._binding)

    def fetch(self) -> None:
        self._binding.synchronize_outputs()

    precision = "f32"

    def ran_on(self) -> str:
        parts = self._session.get_provider_graph_assignment_info()
        names = sorted({part.ep_name for part in parts})
        if names and names != [self._provider]:
            raise RanElsewhere(f"ONNX Runtime assigned nodes to {', '.join(names)}, not only to {self._provider}")
        return self._provider
