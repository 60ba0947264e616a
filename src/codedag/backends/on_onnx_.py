"""Substitutes by ONNX Runtime on the processor: a small model per function, dtype and axis, for any shape."""

from __future__ import annotations

import functools
import threading
from typing import Any

from codedag.backends.onnx_models import model
from codedag.backends.runtimes import EXACT, ULP, Array, Runtime, binary, product, reduction, unary

PU, ONNX = "ort:cpu", "onnxruntime>=1.18"
_NAMES = {
    "add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "absolute": "Abs", "negative": "Neg",
    "sqrt": "Sqrt", "floor": "Floor", "ceil": "Ceil", "rint": "Round", "exp": "Exp", "log": "Log", "tanh": "Tanh",
    "matmul": "MatMul", "mean": "ReduceMean",
}  # fmt: skip
_making = threading.Lock()


@functools.lru_cache(maxsize=256)
def _session(name: str, code: str, operands: int) -> Any:
    """The session that computes one function; a session may be used by several threads at once."""
    import onnxruntime

    what, _, axis = name.partition(" ")
    attributes: dict[str, Any] = {"axes": [int(axis)], "keepdims": 0} if axis else {}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # it would take the program's own cores
    made = model(_NAMES[what], code * operands, code, attributes)
    with _making:
        return onnxruntime.InferenceSession(made, options, providers=["CPUExecutionProvider"])


def _compute(name: str, operands: tuple[Array, ...], made: Array) -> None:
    code = made.dtype.char
    session = _session(name, code, len(operands))
    bound = session.io_binding()
    for number, each in enumerate(operands):
        bound.bind_input(f"x{number}", "cpu", 0, each.dtype, each.shape, each.ctypes.data)
    bound.bind_output("y", "cpu", 0, made.dtype, made.shape, made.ctypes.data)
    session.run_with_iobinding(bound)


RUNTIME = Runtime(PU, ONNX, _compute, home=__name__)
for _name in ("add", "subtract", "multiply", "divide"):
    binary(RUNTIME, _name, "fd" if _name == "divide" else "fdli")
for _name in ("sqrt", "absolute", "negative", "floor", "ceil", "rint"):
    unary(RUNTIME, _name, "fd", EXACT)
for _name in ("exp", "log", "tanh"):
    unary(RUNTIME, _name, "f", ULP)
reduction(RUNTIME, "mean", "fd")
product(RUNTIME, "fd")
product(RUNTIME, "fd", "dot")
