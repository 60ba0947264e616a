"""Quantisation of blocks to int8 (QDQ) by ONNX Runtime's quantiser: one file that ONNX Runtime and OpenVINO run.

The clip thresholds of activations are those of the calibration method (MinMax, Percentile, Entropy) with the least
error on the inputs that calibrate; the error that is told is that on inputs that did not.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from codedag.instrument.guard import Failed, attempt
from codedag.ir import BadFile, write_atomically
from codedag.ir.verdict import No
from codedag.stages.execution.verify import nearness
from codedag.stages.measuring.calibration import Calibration
from codedag.stages.model import Arrays, Block, Stage, StagedModel
from codedag.stages.onnx_models.export import FOLDER, block_file
from codedag.stages.reference import in_onnxruntime

INT8 = "int8"
INDEX = "int8.json"  # beside the files: what each was made of, and its error
METHODS = ("MinMax", "Percentile", "Entropy")
#: Operators whose products are worth eight bits; a block with none of them stays as it is.
WORTH = ("Conv", "ConvTranspose", "Gemm", "MatMul")
#: Operators whose results are not clipped to eight bits.
FLOAT_RESULTS = ("Gemm", "MatMul")


@dataclass(frozen=True, slots=True)
class Quantised:
    """The int8 file of a block, how its thresholds were chosen, and its error on inputs that did not calibrate."""

    path: Path
    method: str
    error: float


def int8_file(model: StagedModel, block: Block, directory: str | Path) -> Path:
    """Where the int8 file of a block is: `stage6_TRANSFORM.int8.onnx`, `block1-7.int8.onnx`."""
    name = block_file(model, block, directory) if block.first == block.last else Path(f"block{block.name}.onnx")
    return Path(directory) / FOLDER / f"{name.stem}.int8.onnx"


def variant_file(model: StagedModel, block: Block, directory: str | Path, variant: str) -> Path:
    """The file of a block as it is, or of its int8 variant; raises BadFile if that was not made."""
    if not variant:
        return block_file(model, block, directory)
    path = int8_file(model, block, directory)
    if not path.is_file():
        raise BadFile(f"there is no {path}", hint="`codedag stages profile --allow int8` makes it, or plan without.")
    return path


def is_worth(block: Block, proto: Any) -> No | None:
    """None if a block has something to quantise, else a No with the reason."""
    if any(node.op_type in WORTH for node in proto.graph.node):
        return None
    return No(f"block {block.name} has nothing to quantise to int8: no {', '.join(WORTH[:-1])} or {WORTH[-1]}")


class Quantiser:
    """The int8 files of one model in one directory; what is there from the same data is kept."""

    def __init__(self, model: StagedModel, directory: Path, calibration: Calibration) -> None:
        self._model, self._directory, self._calibration = model, directory, calibration
        self._index = directory / FOLDER / INDEX

    def of(self, block: Block) -> Quantised | No:
        """The int8 file of a block, or a No with the reason why there is none."""
        import onnx

        source = block_file(self._model, block, self._directory)
        refused = is_worth(block, onnx.load(source, load_external_data=False))
        if refused is not None:
            return refused
        key, path = self._key(source), int8_file(self._model, block, self._directory)
        kept = self._kept.get(block.name, {})
        if kept.get("key") == key and kept.get("digest") == _digest(path):
            return Quantised(path, kept["method"], kept["error"])
        made = self._made(block, source)
        if isinstance(made, No):
            return made
        content, method, error = made
        write_atomically(path, content)
        self._keep(block, {"key": key, "digest": _digest(path), "method": method, "error": error})
        return Quantised(path, method, error)

    def _key(self, source: Path) -> str:
        import onnxruntime

        how = f"{METHODS} {WORTH} {FLOAT_RESULTS} {has_vnni()}"
        facts = f"{self._calibration.digest} {onnxruntime.__version__} {how}".encode()
        return hashlib.sha256(source.read_bytes() + facts).hexdigest()

    @cached_property
    def _kept(self) -> dict[str, Any]:
        found = attempt(lambda: json.loads(self._index.read_bytes()))
        return found if isinstance(found, dict) else {}

    def _keep(self, block: Block, facts: dict[str, Any]) -> None:
        self._kept[block.name] = facts
        write_atomically(self._index, json.dumps(self._kept, indent=1).encode())

    def _made(self, block: Block, source: Path) -> tuple[bytes, str, float] | No:
        """The file, the method and the error of the thresholds with the least error where they were calibrated."""
        feeds = [{name: each[name] for name in block.inputs} for each in self._calibration.calibrating_tensors]
        tried: list[tuple[float, str, bytes]] = []
        reason = ""
        for method in METHODS:
            made = attempt(self._tried, block, source, feeds, method)
            if isinstance(made, Failed):
                reason = reason or made.reason
            else:
                tried.append(made)
        if not tried:
            return No(f"block {block.name} cannot be quantised to int8: {reason}")
        _, method, content = min(tried, key=lambda one: one[0])
        return content, method, error_of(block, content, self._calibration.held_out_tensors)

    def _tried(self, block: Block, source: Path, feeds: Sequence[Arrays], method: str) -> tuple[float, str, bytes]:
        """The error of a method where it calibrated, its name and its file."""
        content = quantised(source, feeds, method)
        return error_of(block, content, self._calibration.calibrating_tensors), method, content


def quantised(source: Path, feeds: Sequence[Arrays], method: str) -> bytes:
    """A block's file in int8, with the thresholds of one calibration method; sizes stay symbolic."""
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with tempfile.TemporaryDirectory() as folder, _quiet():
        before, after = Path(folder, "before.onnx"), Path(folder, "after.onnx")
        # its symbolic shape inference asserts on attention, and the quantiser needs no sizes
        quant_pre_process(source, before, skip_symbolic_shape=True)
        quantize_static(
            before, after, _Feeds(before, feeds), quant_format=QuantFormat.QDQ, per_channel=True,
            reduce_range=not has_vnni(), activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod[method], op_types_to_quantize=operators(before),
            extra_options={"OpTypesToExcludeOutputQuantization": list(FLOAT_RESULTS)},
        )  # fmt: skip
        return after.read_bytes()


def operators(path: Path) -> list[str] | None:
    """The operators of a file that are quantised: all that the quantiser knows beside convolutions, else products only.

    Convolutions hand eight bits on to each other. The results of other products stay float32: clipping them cost an
    encoder 3.8 % error instead of 0.5 %, and a quarter more time.
    """
    import onnx

    known = {node.op_type for node in onnx.load(path, load_external_data=False).graph.node}
    return None if known & {"Conv", "ConvTranspose"} else list(WORTH)


class _Feeds:
    """Inputs as the quantiser reads them, one batch after the other; without those that the file does not read."""

    def __init__(self, path: Path, feeds: Sequence[Arrays]) -> None:
        import onnx

        read = {each.name for each in onnx.load(path, load_external_data=False).graph.input}
        self._left = iter([{name: each[name] for name in each if name in read} for each in feeds])

    def get_next(self) -> Arrays | None:
        """The next batch; None at the end."""
        return next(self._left, None)


def error_of(block: Block, content: bytes, tensors: Sequence[Arrays]) -> float:
    """The largest difference by the largest value of what an int8 block makes of the reference's tensors."""
    import onnx

    like = Stage(block.first, block.name, block.inputs, block.outputs)
    compute = in_onnxruntime(onnx.load_from_string(content), like)
    if isinstance(compute, No):
        raise RuntimeError(compute.reason)
    worst = 0.0
    for each in tensors:
        made = compute([each[name] for name in block.inputs])
        worst = max(worst, *(nearness(each[name], got).worst for name, got in zip(block.outputs, made, strict=True)))
    return worst


@contextmanager
def _quiet() -> Iterator[None]:
    """A block in which the quantiser's prints, warnings and advice are not shown."""
    log = logging.getLogger()
    before = log.level
    with redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log.setLevel(logging.ERROR)
        try:
            yield
        finally:
            log.setLevel(before)


def has_vnni() -> bool:
    """Whether the CPU multiplies eight bits without overflow in between; no where nobody says.

    Without it, weights get seven bits (reduce_range).
    """
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return False
    return "vnni" in text


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
