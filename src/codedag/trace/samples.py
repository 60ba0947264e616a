"""Arrays and tensors with what their libraries say of them: the gatherer in C learns from these what it may read."""

from __future__ import annotations

import sys
from typing import Any


def array_samples() -> list[tuple[Any, ...]]:
    """Arrays with what numpy says about each: the twin in C reads the same from their fields, and checks it first."""
    numpy: Any = sys.modules["numpy"]
    whole = numpy.arange(60, dtype=numpy.uint8).reshape(3, 4, 5)
    samples = [whole, whole[::-1], whole[1:, 2:, ::-1], whole.transpose(2, 0, 1), numpy.empty((0, 3)), numpy.array(2.5)]
    samples += [numpy.zeros(3, code) for code in "?bBhHiIlLqQefdgFDGO"]
    samples += [numpy.zeros((2, 3), code) for code in (">f4", "<i2", "S5", "U7", "M8[ns]", "i4,f8")]
    return [(a, int(a.ctypes.data), a.shape, a.strides, a.base, int(a.dtype.num), a.dtype.byteorder) for a in samples]


def tensor_samples() -> list[tuple[Any, ...]]:
    """Tensors with what torch says about each: the twin in C finds the fields that hold it.  None within a mode."""
    torch: Any = sys.modules["torch"]
    jit = torch._C
    if jit._get_tracing_state() is not None or jit._len_torch_function_stack() or jit._len_torch_dispatch_stack():
        return []
    with torch.no_grad():
        samples = _tensors(torch)
    told = []
    for t in samples:
        storage = t.untyped_storage()
        place = (int(t._cdata), int(storage._cdata), int(storage.data_ptr()), int(t.storage_offset()))
        told.append((t, *place, tuple(t.shape), t.dtype))
    return told


def _tensors(torch: Any) -> list[Any]:
    whole = torch.zeros(2 * 3 * 5 * 7 * 2 * 3, dtype=torch.uint8, device="cpu")
    samples = [whole, whole[3:], whole[17:].view(11, 113)[1:], whole[40:61].view(3, 7), whole[0]]
    samples += [whole.view(6, 35, 6), whole.view(2, 3, 35, 6), whole.view(2, 3, 5, 7, 6), whole.view(2, 3, 5, 7, 2, 3)]
    names = (
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "float32",
        "float64",
        "bool",
        "bfloat16",
        "complex64",
    )
    return samples + [torch.zeros(n, dtype=getattr(torch, d), device="cpu") for d in names for n in (4, 300)]
