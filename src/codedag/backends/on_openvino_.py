"""Substitutes by OpenVINO on the processor: one compiled model per function and shape, in float32 alone.

Its processor plug-in computes float64 as float32, so float64 is not offered.  It may use bfloat16 where the processor
has it, unless told not to.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

from codedag.backends.runtimes import EXACT, ULP, Array, Runtime, binary, product, reduction, unary

PU, OPENVINO = "ov:cpu", "openvino>=2024.4"
_NAMES = {
    "absolute": "abs", "rint": "round", "ceil": "ceiling", "mean": "reduce_mean", "sum": "reduce_sum",
}  # fmt: skip
_local = threading.local()


@functools.lru_cache(maxsize=64)
def _compiled(name: str, shapes: tuple[tuple[int, ...], ...]) -> Any:
    """The compiled model of one function for arrays of these shapes."""
    import numpy as np
    import openvino
    from openvino import opset13 as ops

    what, _, axis = name.partition(" ")
    values = [ops.parameter(shape, np.float32) for shape in shapes]
    function = getattr(ops, _NAMES.get(what, what))
    if axis:
        made = function(values[0], int(axis), False)
    elif what == "matmul":
        made = ops.matmul(values[0], values[1], False, False)
    else:
        made = function(*values, "half_to_even") if what == "rint" else function(*values)
    settings = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    return _core().compile_model(openvino.Model([made], values, what), "CPU", settings)


@functools.lru_cache(maxsize=1)
def _core() -> Any:
    import openvino

    return openvino.Core()


def _request(name: str, shapes: tuple[tuple[int, ...], ...]) -> Any:
    """The request of this thread: two threads must not use one at the same time."""
    known = _local.__dict__.setdefault("requests", {})
    key = (name, shapes)
    if key not in known:
        if len(known) >= 64:
            known.clear()
        known[key] = _compiled(name, shapes).create_infer_request()
    return known[key]


def _compute(name: str, operands: tuple[Array, ...], made: Array) -> None:
    import openvino

    request = _request(name, tuple(each.shape for each in operands))
    for number, each in enumerate(operands):
        request.set_input_tensor(number, openvino.Tensor(each, shared_memory=True))
    request.set_output_tensor(0, openvino.Tensor(made, shared_memory=True))
    request.infer()


RUNTIME = Runtime(PU, OPENVINO, _compute, home=__name__)
for _name in ("add", "subtract", "multiply"):
    binary(RUNTIME, _name, "f")
# No division: it multiplies by the inverse, which overflows where the quotient does not.
for _name in ("sqrt", "absolute", "negative", "floor", "ceil", "rint"):
    unary(RUNTIME, _name, "f", EXACT)
for _name in ("exp", "log", "tanh"):
    unary(RUNTIME, _name, "f", ULP)
for _name in ("sum", "mean"):
    reduction(RUNTIME, _name, "f")
product(RUNTIME, "f")
product(RUNTIME, "f", "dot")
