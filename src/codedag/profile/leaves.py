"""The arrays inside of values, as numpy sees them."""

from __future__ import annotations

import sys
from typing import Any


def arrays_in(value: Any, depth: int = 4) -> list[Any]:
    """The arrays in a value, tensors as the arrays that share their memory; what is held twice is there once."""
    found: dict[int, Any] = {}
    _collect(value, depth, found)
    return list(found.values())


def _collect(value: Any, depth: int, found: dict[int, Any]) -> None:
    import numpy as np

    torch = sys.modules.get("torch")
    if isinstance(value, np.ndarray):
        found[id(value)] = value
    elif torch is not None and isinstance(value, torch.Tensor):
        if value.device.type == "cpu" and value.layout is torch.strided and value.dtype is not torch.bfloat16:
            found[id(value)] = value.detach().numpy()
    elif depth and isinstance(value, (list, tuple)):
        for each in value:
            _collect(each, depth - 1, found)
    elif depth and isinstance(value, dict):
        for each in value.values():
            _collect(each, depth - 1, found)


def nbytes_of(value: Any) -> int:
    """The bytes of the arrays in a value."""
    return sum(int(array.nbytes) for array in arrays_in(value))


def moved_nbytes(args: Any, keywords: Any, result: Any) -> int:
    """The bytes that a call must read and write: those of its arguments and its result; none for a view."""
    import numpy as np

    given, made = arrays_in((args, keywords)), arrays_in(result)
    if made and all(any(np.may_share_memory(new, old) for old in given) for new in made):
        return 0
    return sum(int(array.nbytes) for array in (*given, *made))
