"""Arrays on an accelerator that torch knows (cuda, xpu, mps, or one that a test registers), and back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
LEAST = 64
_chosen: ContextVar[str] = ContextVar("chosen", default="")


@contextmanager
def using(device: str) -> Iterator[None]:
    """Sends the substitutes of this room to a device by its torch name; without it they use the accelerator."""
    token = _chosen.set(device)
    try:
        yield
    finally:
        _chosen.reset(token)


def device() -> Any:
    """The torch device that is used, or None if there is no accelerator."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    name = _chosen.get()
    if name:
        return torch.device(name)
    accelerator = getattr(torch, "accelerator", None)
    return accelerator.current_accelerator() if accelerator is not None and accelerator.is_available() else None


def nowhere() -> str:
    """The reason to decline if there is no device."""
    return "" if device() is not None else "torch finds no accelerator"


def there(values: Array) -> Any:
    """A tensor on the device with the elements of an array in C order."""
    torch = sys.modules["torch"]
    plain = np.ascontiguousarray(values)
    return torch.from_numpy(plain if plain.flags.writeable else plain.copy()).to(device())


def back(tensor: Any) -> Array:
    """A fresh C-ordered array with the elements of a tensor."""
    return np.array(tensor.resolve_conj().cpu().numpy(), order="C")


def plain(value: Any, codes: str, least: int = LEAST) -> str:
    """The reason why a value is not a plain array of one of the dtypes, finite where it has floats."""
    if type(value) is not np.ndarray or value.dtype.char not in codes or not value.dtype.isnative:
        return "not a plain array of the dtypes that are known"
    if value.size < least or not value.flags.aligned:
        return "too small to send"
    if value.dtype.kind not in "fc":
        return ""
    parts = (value.real, value.imag) if value.dtype.kind == "c" else (value,)
    finite = all(float(part.min()) > -1e30 and float(part.max()) < 1e30 for part in parts)
    return "" if finite else "elements that are huge or not finite"
