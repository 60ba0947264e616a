"""An array on its way through a chain: its elements are not computed yet, only what will be done to them.

Each operation of a chain, when it is reached, is written down instead of run, and hands on a stand-in; the last one
computes everything at once.  At any moment the steps can be run as the program wrote them (`replay`).
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from codedag.backends.elementwise import KEYWORDS, MAP, PACK, PERMUTE, SLICE, Role
from codedag.ir.verdict import No, Verdict, Yes

Array = Any
_TAG = (2, 3, 5, 7, 11)  # extents that cannot be confused: the shape of a permuted tag is the permutation
_PARAMETERS = (int, float, bool)


class Declined(Exception):  # noqa: N818 - control flow inside one chain, turned into a reason by its catcher
    """A step that this chain cannot defer."""


@dataclass(frozen=True, slots=True)
class Step:
    """One operation, ready to be run on a value."""

    role: Role
    run: Callable[[Any], Any]
    key: tuple[Any, ...]  # the parameters, comparable; equal keys give equal results


@dataclass(slots=True)
class Deferred:
    """The source array, the steps so far, and what they did to its axes and memory order."""

    source: Any
    view: Array  # the uint8 elements, in the order in which the result has them
    standin: Any
    axes: tuple[int, ...]  # current axis -> axis of the source
    order: tuple[int, ...]  # axes of the source, outermost in the result's memory first
    steps: list[Step] = field(default_factory=list)
    param_axis: int = -1
    param_extent: int = 1
    is_tensor: bool = False
    value: Any = None
    done: bool = False  # the steps have been run as written; `value` is the real value of the stand-in

    def replay(self) -> Any:
        """The value that the steps give when each runs as the program wrote it."""
        value = self.source
        for step in self.steps:
            value = step.run(value)
        return value

    def add(self, role: Role, run: Callable[[Any], Any], parameters: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Writes one step down, or raises Declined."""
        if keywords and not KEYWORDS.issuperset(keywords):
            raise Declined(f"keyword {sorted(set(keywords) - KEYWORDS)[0]}")
        if role.kind == MAP:
            self._map(role, run, (*parameters, *keywords.values()))
        elif role.kind == PERMUTE:
            self._permute(role, run, (*parameters, *keywords.values()))
        elif role.kind == SLICE:
            self._slice(role, run, parameters)
        elif role.kind == PACK:
            self._pack(role, run, (*parameters, *keywords.values()))

    def _map(self, role: Role, run: Callable[[Any], Any], parameters: tuple[Any, ...]) -> None:
        if role.in_place and not self.steps:
            raise Declined("it would change its input in place")
        keys = []
        for parameter in parameters:
            keys.append(parameter_key(parameter))
            self._broadcasts(parameter)
        self.steps.append(Step(role, run, tuple(keys)))

    def _broadcasts(self, parameter: Any) -> None:
        """Notes along which axis an array parameter varies; at most one axis in a chain."""
        shape = getattr(parameter, "shape", ())
        if not isinstance(shape, tuple) or not shape:
            return
        if len(shape) > len(self.axes):
            raise Declined("a parameter with more axes than the array")
        for extent, axis in zip(reversed(shape), reversed(range(len(self.axes))), strict=False):
            if extent == 1:
                continue
            if extent != self.view.shape[axis]:
                raise Declined("a parameter whose shape does not fit")
            if self.param_axis not in (-1, self.axes[axis]):
                raise Declined("parameters that vary along two axes")
            self.param_axis, self.param_extent = self.axes[axis], extent

    def _permute(self, role: Role, run: Callable[[Any], Any], parameters: tuple[Any, ...]) -> None:
        if not all(_is_axes(p) for p in parameters):
            raise Declined("axes that are not numbers")
        numpy = sys.modules["numpy"]
        tag: Any = numpy.empty(_TAG[: len(self.axes)], numpy.uint8)
        if self.is_tensor:
            tag = sys.modules["torch"].from_numpy(tag)
        places = [_TAG.index(extent) for extent in run(tag).shape]
        if len(places) != len(self.axes):
            raise Declined("it changes the number of axes")
        self.view = self.view.transpose(places)
        self.standin = run(self.standin) if self.is_tensor else self.view
        self.axes = tuple(self.axes[p] for p in places)
        self.steps.append(Step(role, run, ("axes", *self.axes)))

    def _slice(self, role: Role, run: Callable[[Any], Any], parameters: tuple[Any, ...]) -> None:
        index = parameters[0] if isinstance(parameters[0], tuple) else parameters
        if self.is_tensor or not all(type(i) is slice or i is Ellipsis for i in index):
            raise Declined("an index that is not made of slices")
        view = run(self.view)
        if any(extent < 2 for extent in view.shape):
            raise Declined("an axis of extent 1")
        if self.param_axis >= 0 and view.shape[self.axes.index(self.param_axis)] != self.param_extent:
            raise Declined("a slice of the axis along which a parameter varies")
        self.view = self.standin = view
        self.steps.append(Step(role, run, ()))

    def _pack(self, role: Role, run: Callable[[Any], Any], parameters: tuple[Any, ...]) -> None:
        keys = tuple(parameter_key(parameter) for parameter in parameters)
        if role.order == "C":
            self.order = self.axes
        if role.makes_tensor and not self.is_tensor:
            self._become_tensor()
        self.steps.append(Step(role, run, keys))

    def _become_tensor(self) -> None:
        """From here on the value is a torch tensor; the stand-in has its methods and shape, not its memory."""
        torch = sys.modules["torch"]
        self.is_tensor = True
        self.standin = torch.empty(self.view.shape, dtype=torch.uint8)


def opening(source: Any, smallest: int) -> Deferred | No:
    """A deferred array for a value that enters a chain, or why it cannot be one."""
    verdict = _can_open(source, smallest)
    if not verdict:
        return verdict
    is_tensor = type(source).__module__ == "torch"
    view = source.numpy() if is_tensor else source
    strides = view.strides
    order = tuple(sorted(range(view.ndim), key=lambda a: -abs(strides[a])))
    return Deferred(source, view, source, tuple(range(view.ndim)), order, is_tensor=is_tensor)


def _can_open(source: Any, smallest: int) -> Verdict:
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and type(source) is numpy.ndarray:
        if source.dtype != numpy.uint8:
            return No(f"input is {source.dtype}, not uint8")
    elif torch is not None and type(source) is torch.Tensor:
        if source.dtype != torch.uint8 or source.device.type != "cpu" or source.layout != torch.strided or source.is_neg():
            return No(f"input is a {source.dtype} tensor on {source.device.type}, not uint8 on cpu")
    else:
        return No(f"input is {type(source).__name__}, not a uint8 array")
    shape = tuple(source.shape)
    if not 1 <= len(shape) <= 5 or any(extent < 2 for extent in shape):
        return No(f"input has shape {shape}: an axis of extent 1 or none")
    size = 1
    for extent in shape:
        size *= extent
    return Yes if size >= smallest else No(f"input has only {size} elements")


def parameter_key(value: Any) -> tuple[Any, ...]:
    """A key that is equal only for parameters that give the same results; raises Declined for what is not a parameter."""
    kind = type(value)
    if kind is float:
        return ("float", struct.pack("d", value))
    if kind in (int, bool, str, type(None)):
        return (kind.__name__, value)
    numpy, torch = sys.modules["numpy"], sys.modules.get("torch")
    if kind is numpy.ndarray or isinstance(value, numpy.generic):
        if value.size > 4096 or value.dtype.hasobject or value.dtype.kind not in "biuf":
            raise Declined("a large parameter" if value.size > 4096 else f"a parameter of type {value.dtype}")
        return ("array" if kind is numpy.ndarray else "scalar", value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, numpy.dtype) or (isinstance(value, type) and (issubclass(value, numpy.generic) or value in _PARAMETERS)):
        return ("dtype", numpy.dtype(value).str)
    if torch is not None and kind is torch.dtype:
        return ("torch dtype", str(value))
    if torch is not None and kind is torch.Tensor:
        if value.numel() > 4096 or value.device.type != "cpu" or value.requires_grad or value.layout != torch.strided:
            raise Declined("a tensor parameter that is large, elsewhere or differentiable")
        return ("tensor", str(value.dtype), tuple(value.shape), value.numpy().tobytes())
    raise Declined(f"a parameter of type {kind.__name__}")


def _is_axes(value: Any) -> bool:
    return type(value) is int or (isinstance(value, tuple | list) and all(type(v) is int for v in value))
