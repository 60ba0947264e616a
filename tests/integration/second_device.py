"""A second device without hardware: a torch device of its own, in Python, that logs copies and refuses to mix."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree
from torch.utils import backend_registration as registration

NAME = "fakepu"
LOG: list[str] = []


class OnDevice(torch.Tensor):
    """A tensor whose data only operations on the device can see."""

    raw: torch.Tensor

    @staticmethod
    def __new__(cls, data: torch.Tensor) -> OnDevice:
        made = torch.Tensor._make_wrapper_subclass(
            cls, data.shape, dtype=data.dtype, device=torch.device(NAME), strides=data.stride()
        )
        made.raw = data
        return made

    def __repr__(self) -> str:
        return f"OnDevice({tuple(self.shape)})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        tensors = [leaf for leaf in _pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if func is torch.ops.aten._to_copy.default:
            device = kwargs.pop("device", None)
            LOG.append("to host" if device is not None and device.type == "cpu" else "copy")
            result = func(args[0].raw, **kwargs)
            return result if device is not None and device.type == "cpu" else cls(result)
        if any(not isinstance(one, OnDevice) and one.dim() for one in tensors):
            raise RuntimeError("tensors are on different devices")
        LOG.append(str(func))
        kwargs.pop("device", None)
        result = func(*_pytree.tree_map(_data, args), **_pytree.tree_map(_data, kwargs))
        return _pytree.tree_map(lambda one: cls(one) if isinstance(one, torch.Tensor) else one, result)


def _data(value: Any) -> Any:
    return value.raw if isinstance(value, OnDevice) else value


def start() -> Any:
    """Registers the device with torch, once per process; what must be kept alive."""
    registration._setup_privateuseone_for_python_backend(NAME)
    library = torch.library.Library("aten", "IMPL")

    def upload(tensor: torch.Tensor, **options: Any) -> Any:
        LOG.append("to device")
        return OnDevice(tensor.clone())

    library.impl("_to_copy", upload, "PrivateUse1")
    return library
