"""Where the elements of a deferred value would lie: followed on an empty array of the same shape and strides.

The program can see the strides, flags and base of what it gets.  They are not computed here by rules of ours: an
array without contents goes through the same views as the value, and numpy and torch say how a copy of it would lie.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from codedag.backends.elementwise import Role
from codedag.migrate.guard import Declined


class Layout:
    """The memory of the value so far: the last block that a step allocated, and the views taken of it since."""

    __slots__ = ("block", "ghost", "views")

    def __init__(self, source: Any) -> None:
        self.ghost = self.block = source  # replaced at the first step, which always allocates:
        self.views: list[Callable[[Any], Any]] = [lambda value: value]  # the source is the program's own

    def allocated(self, order: str = "K") -> None:
        """Notes that a step gave new memory, in the order of the value (K) or of its axes (C)."""
        if order == "K":
            self.ghost = sys.modules[_library(self.ghost)].empty_like(self.ghost)
        elif not (_contiguous(self.ghost) and not self.views):
            self.ghost = sys.modules[_library(self.ghost)].empty(tuple(self.ghost.shape), dtype=self.ghost.dtype)
        self.block, self.views = self.ghost, []

    def viewed(self, view: Callable[[Any], Any]) -> None:
        """Notes a step that only looks at the memory from another side."""
        self.ghost = view(self.ghost)
        self.views.append(view)

    def packed(self, role: Role, run: Callable[[Any], Any], converts: bool) -> None:
        """Notes a step that copies if it has to: always, for another dtype, or for another order."""
        is_tensor = _library(self.ghost) == "torch"
        if role.makes_tensor and not is_tensor:
            self.ghost = sys.modules["torch"].from_numpy(self.ghost)  # raises where the original would
            self.views.append(run)
        if converts or role.always or (role.order == "C" and not _contiguous(self.ghost)):
            self.allocated(role.order)

    def make(self, dtype: Any) -> Any:
        """A new value of this dtype that lies exactly as the steps as written would have it; its contents are open."""
        numpy = sys.modules["numpy"]
        if type(self.block) is numpy.ndarray:
            value = numpy.empty_like(self.block, dtype=dtype)
        else:
            torch = sys.modules["torch"]
            template = torch.from_numpy(numpy.empty(0, dtype)).dtype
            value = torch.empty_strided(self.block.shape, self.block.stride(), dtype=template)
        shape = tuple(self.block.shape)
        for view in self.views:
            value = view(value)
        if sorted(value.shape) != sorted(shape):
            raise Declined("the result is a part of a larger array")
        return value


def _library(value: Any) -> str:
    return "numpy" if type(value) is sys.modules["numpy"].ndarray else "torch"


def _contiguous(value: Any) -> bool:
    return bool(value.flags.c_contiguous) if _library(value) == "numpy" else bool(value.is_contiguous())
