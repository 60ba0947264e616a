"""Runs the model of this bundle as planned: needs numpy and the runtimes that pep.json names, nothing else.

python run.py                              checks itself on example.npz and prints its time
python run.py --input FILE.npz -o OUT.npz  also computes these inputs
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

HERE = Path(__file__).resolve().parent
Arrays = dict[str, Any]


def fail(text: str, code: int = 2) -> NoReturn:
    """Says what is wrong and ends."""
    sys.stderr.write(f"error: {text}\n")
    sys.exit(code)


class OpenvinoBlock:
    """A block compiled by OpenVINO for the shapes that come."""

    def __init__(self, facts: dict[str, Any]) -> None:
        import openvino

        self.ov, self.core = openvino, openvino.Core()
        self.facts, self.device = facts, facts["device"]
        self.model = self.core.read_model(HERE / (facts["ir"] or facts["onnx"]))
        self.requests: dict[tuple[Any, ...], Any] = {}

    def __call__(self, known: Arrays) -> Arrays:
        """The outputs of the block."""
        names = self.facts["reads"]
        shapes = tuple(known[name].shape for name in names)
        if shapes not in self.requests:
            self.requests[shapes] = self.compiled(dict(zip(names, shapes, strict=True)))
        request = self.requests[shapes]
        for name in names:
            request.set_tensor(name, self.ov.Tensor(known[name], shared_memory=known[name].size > 0))
        request.infer()
        return {name: request.get_tensor(name).data.copy() for name in self.facts["outputs"]}

    def compiled(self, shapes: dict[str, Any]) -> Any:
        """A request for these shapes, on this device and no other."""
        model = self.model.clone()
        ports = {name: port for port in model.inputs for name in port.get_names()}
        model.reshape({ports[name]: list(shape) for name, shape in shapes.items()})
        hints = {} if self.device.startswith("NPU") else {"INFERENCE_PRECISION_HINT": "f32"}
        made = self.core.compile_model(model, self.device, {**hints, "PERFORMANCE_HINT": "LATENCY"})
        said = made.get_property("EXECUTION_DEVICES")
        devices = [str(name).partition("(")[0] for name in ([said] if isinstance(said, str) else said)]
        if len(devices) != 1 or (devices[0] != self.device and devices[0].partition(".")[0] != self.device):
            fail(f"stages {self.facts['stages']}: OpenVINO runs them on {devices}, not on {self.device}", 1)
        return made.create_infer_request()


class OnnxruntimeBlock:
    """A block as a session of ONNX Runtime with one provider."""

    def __init__(self, facts: dict[str, Any]) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        wanted = facts["device"].lower()
        known = onnxruntime.get_available_providers()
        found = [name for name in known if name.removesuffix("ExecutionProvider").lower() == wanted]
        if not found:
            fail(f"ONNX Runtime has no provider `{wanted}` here (it has {', '.join(known)})", 1)
        if wanted != "cpu":
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        self.facts = facts
        self.session = onnxruntime.InferenceSession(str(HERE / facts["onnx"]), options, providers=found)

    def __call__(self, known: Arrays) -> Arrays:
        """The outputs of the block."""
        names = self.facts["outputs"]
        made = self.session.run(names, {name: known[name] for name in self.facts["reads"]})
        return dict(zip(names, made, strict=True))


KINDS: dict[str, Any] = {"openvino": OpenvinoBlock, "onnxruntime": OnnxruntimeBlock}


class Model:
    """The blocks of pep.json, one after the other over named arrays."""

    def __init__(self) -> None:
        self.pep = json.loads((HERE / "pep.json").read_text(encoding="utf-8"))
        self.blocks = []
        for facts in self.pep["blocks"]:
            try:
                self.blocks.append(KINDS[facts["runtime"]](facts))
            except ImportError as error:
                needed = f"{facts['runtime']}=={self.pep['requires'].get(facts['runtime'], '')}".removesuffix("==")
                fail(f"stages {facts['stages']} need {facts['runtime']} ({error}): pip install {needed}")

    def __call__(self, inputs: Arrays) -> Arrays:
        """The outputs of the model by name."""
        known = dict(inputs)
        for block in self.blocks:
            known.update(block(known))
        return {name: known[name] for name in self.pep["outputs"]}

    def checked(self, arrays: Arrays, name: str) -> Arrays:
        """The inputs in one piece each; ends naming the array that does not fit."""
        found: dict[str, int] = {}
        for each, (dtype, shape) in self.pep["inputs"].items():
            if each not in arrays:
                fail(f"{name}: there is no array `{each}`")
            array = arrays[each]
            if str(array.dtype) != dtype or array.ndim != len(shape):
                fail(f"{name}: `{each}` is {array.dtype}{list(array.shape)}; the model reads {dtype}{shape}")
            for have, want in zip(array.shape, shape, strict=True):
                expected = found.setdefault(want, have) if isinstance(want, str) and want.isidentifier() else want
                if isinstance(expected, int) and have != expected:
                    fail(f"{name}: `{each}` has shape {list(array.shape)}; the model reads {shape}")
        ids = self.pep["ids"]  # arrays of row numbers, by the array whose rows they number
        for each, rows in ids.items():
            if arrays[each].size and not 0 <= arrays[each].min() <= arrays[each].max() < len(arrays[rows]):
                fail(f"{name}: `{each}` has ids that are negative or beyond the {len(arrays[rows])} rows of `{rows}`")
        return {each: np.ascontiguousarray(arrays[each]) for each in self.pep["inputs"]}


def error_of(expected: Any, got: Any) -> float:
    """The largest difference by the largest value; infinite for other shapes, types or NaN."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return float("inf")
    if expected.dtype.kind != "f":
        return 0.0 if np.array_equal(expected, got) else float("inf")
    if not np.array_equal(np.isfinite(expected), np.isfinite(got)):
        return float("inf")
    real = np.isfinite(expected)
    if not real.any():
        return 0.0
    scale = float(np.abs(expected[real]).max()) or 1.0
    return float(np.abs(expected[real].astype(np.float64) - got[real]).max()) / scale


def read(path: Path) -> Arrays:
    """The arrays of a file; nothing in it is executed."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, AttributeError) as error:
        fail(f"{path} cannot be read as .npz: {error}")


def check(model: Model, repeats: int) -> None:
    """Compares the example's results with those of the model as given, and prints the time of a call."""
    example = read(HERE / "example.npz")
    inputs = model.checked(example, "example.npz")
    made = model(inputs)
    for name, got in made.items():
        error = error_of(example[name], got)
        if error > model.pep["tolerance"]:
            fail(f"`{name}` is off by {error:.2g} of its largest value ({model.pep['tolerance']:g} is allowed)", 1)
        how = "near" if any(block.get("variant") for block in model.pep["blocks"]) else "equal to"
        sys.stdout.write(f"{name}: {how} the model as given (largest error {error:.1e})\n")
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        model(inputs)
        times.append(time.perf_counter() - begun)
    told = model.pep.get("example_seconds")
    predicted = f", {told * 1e3:.3g} ms predicted where it was measured" if told else ""
    sys.stdout.write(f"time: {statistics.median(times) * 1e3:.3g} ms (best {min(times) * 1e3:.3g}){predicted}\n")


def main() -> None:
    """Checks the bundle, then computes what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, metavar="FILE.npz")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.npz")
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    model = Model()
    check(model, max(1, options.repeats))
    if options.input is not None:
        made = model(model.checked(read(options.input), str(options.input)))
        if options.output is not None:
            partly = options.output.with_name(f".{options.output.name}.part.npz")
            np.savez(partly, **made)
            partly.replace(options.output)
        shown = ", ".join(f"{name} {array.dtype}{list(array.shape)}" for name, array in made.items())
        sys.stdout.write(f"outputs: {shown}\n")


if __name__ == "__main__":
    main()
