"""The tensors of a batch side by side: each item is copied to its place by the thread that made it.

torch's own collate function copies all items at the end, in one thread.  Where it is the one in use, and as torch wrote
it, large tensors are copied while other items are still being made; it then finds them done, and does the rest.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache, partial
from math import prod
from typing import Any, NamedTuple

from codedag.migrate.guard import attempt

COLLATE = "torch.utils.data._utils.collate"
SMALLEST = 1 << 16  # bytes of an item's tensor from which copying is work
_DTYPES = ("float32", "float64", "uint8", "int64", "int32", "int16")
Key = int | str | None  # where in an item a tensor is; None: it is the item
_OPEN = object()  # what no item holds


class Like(NamedTuple):
    """What an item's tensor or array is like: those that are alike are copied in the same way."""

    kind: type
    shape: tuple[int, ...]
    dtype: str  # as torch and numpy both call it
    strides: tuple[int, ...] | None  # in bytes; None: its elements lie one behind the other

    @property
    def nbytes(self) -> int:
        """The bytes of one of them."""
        return prod(self.shape) * getattr(sys.modules["torch"], self.dtype).itemsize  # type: ignore[no-any-return]


class Block:
    """The place for one tensor of every item."""

    def __init__(self, like: Like, count: int) -> None:
        torch = sys.modules["torch"]
        self.tensor = torch.empty((count, *like.shape), dtype=getattr(torch, like.dtype))
        self.like = like
        self.items: list[Any] = [_OPEN] * count
        self._address, self._nbytes = self.tensor.data_ptr(), like.nbytes

    def put(self, number: int, item: Any) -> None:
        """Copies the tensor of one item to its place, if it is as the others were."""
        if like(item) != self.like:
            return
        # not through numpy: torch would note for ever that somebody has seen the memory
        source = item.ctypes.data if self.like.kind is not type(self.tensor) else item.data_ptr()
        target = self._address + number * self._nbytes
        if self.like.strides is None:
            ctypes.memmove(target, source, self._nbytes)
        else:
            sys.modules["numpy"].copyto(self._seen(target, None), self._seen(source, self.like.strides))
        self.items[number] = item

    def _seen(self, address: int, strides: tuple[int, ...] | None) -> Any:
        """Memory as an array."""
        memory = (ctypes.c_char * self._nbytes).from_address(address)
        return sys.modules["numpy"].ndarray(self.like.shape, self.like.dtype, memory, strides=strides)

    def holds(self, items: Any) -> bool:
        """Whether it is made of exactly these."""
        return len(items) == len(self.items) and all(map(_is, items, self.items))

    def taken(self) -> Any:
        """The tensor of all items; nothing of ours holds it any more."""
        tensor, self.tensor = self.tensor, None
        return tensor


class Stacking:
    """The tensors of the items of one data set: what they were like, and the batch that is being made."""

    def __init__(self) -> None:
        self._like: dict[Key, Like] = {}
        self._checked: dict[Like, bool] = {}
        self.blocks: dict[Key, Block] = {}

    def begin(self, collate: Any, count: int) -> None:
        """Makes room for a batch of so many items; not if another collate function than torch's will see them."""
        usual = self._like and is_default(collate)
        self.blocks = {key: Block(like, count) for key, like in self._like.items()} if usual else {}

    def put(self, number: int, item: Any) -> None:
        """Copies what is known of one item."""
        for key, block in self.blocks.items():
            part = _part(item, key)
            if part is not None:
                block.put(number, part)

    def collated(self, collate: Any, items: list[Any]) -> tuple[Any] | None:
        """What torch's collate function gives for these items; None if it is to be called: it has more to do."""
        blocks, self.blocks = self.blocks, {}
        held = [block.holds([_part(item, key) for item in items]) for key, block in blocks.items()]
        if not held or not all(held):  # the items are new, or others than before
            attempt(self._learn, collate, items)
        if not any(held):
            return None
        module = sys.modules[COLLATE]

        def stacked(usual: Any, batch: Any, *, collate_fn_map: Any = None) -> Any:
            for block in blocks.values():
                if block.tensor is not None and block.holds(batch):
                    return block.taken()
            return usual(batch, collate_fn_map=collate_fn_map)

        own = module.default_collate_fn_map
        kinds = {block.like.kind for block in blocks.values()}
        functions = {kind: partial(stacked, of) if kind in kinds else of for kind, of in own.items()}
        return (module.collate(items, collate_fn_map=functions),)

    def _learn(self, collate: Any, items: list[Any]) -> None:
        """Notes which tensors of an item are worth it, and how they lie."""
        if not is_default(collate):
            return
        item = items[0]
        keys: list[Key] = [None]
        if type(item) in (tuple, list):
            keys = list(range(len(item)))
        elif type(item) is dict:
            keys = [key for key in item if type(key) is str]
        found = {key: like(_part(item, key)) for key in keys}
        self._like = {
            key: one
            for key, one in found.items()
            if one is not None and one.nbytes >= SMALLEST and self._lies_in_order(one, _part(item, key))
        }

    def _lies_in_order(self, one: Like, value: Any) -> bool:
        """Whether torch stacks such tensors one behind the other; it is asked once."""
        if one not in self._checked:
            torch = sys.modules["torch"]
            stacked = torch.stack((torch.as_tensor(value), torch.as_tensor(value)))
            usual = torch.empty(stacked.shape, dtype=stacked.dtype).stride()
            self._checked[one] = stacked.stride() == usual and stacked.dtype is getattr(torch, one.dtype)
        return self._checked[one]


def _is(one: Any, other: Any) -> bool:
    return one is other


def _part(item: Any, key: Key) -> Any:
    if key is None:
        return item
    if type(key) is int:
        return item[key] if type(item) in (tuple, list) and key < len(item) else None
    return item.get(key) if type(item) is dict else None


def like(value: Any) -> Like | None:
    """What a tensor or an array is like that is nothing but its elements, without gaps in memory; else None."""
    torch, numpy = sys.modules["torch"], sys.modules.get("numpy")
    if numpy is not None and type(value) is numpy.ndarray:
        plain = value.flags.carray and value.dtype.name in _DTYPES and value.dtype.isnative
        return Like(numpy.ndarray, value.shape, value.dtype.name, None) if plain else None
    if type(value) is not torch.Tensor or value.layout is not torch.strided or value.device.type != "cpu":
        return None
    name = _dtypes().get(value.dtype)
    if name is None or value.requires_grad or value.is_neg() or value.is_inference():
        return None
    if value.is_contiguous():
        return Like(torch.Tensor, tuple(value.shape), name, None)
    size = value.element_size()
    strides = tuple(size * step for step in value.stride())
    return Like(torch.Tensor, tuple(value.shape), name, strides) if numpy and _has_no_gaps(value) else None


def _has_no_gaps(tensor: Any) -> bool:
    """Whether the elements of a tensor lie in a row, in the order of other dimensions."""
    step = 1
    for stride, length in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if length != 1 and stride != step:
            return False
        step *= length
    return True


@cache
def _dtypes() -> dict[Any, str]:
    return {getattr(sys.modules["torch"], name): name for name in _DTYPES}


def is_default(collate: Any) -> bool:
    """Whether this is torch's own collate function, with torch's own functions for all types."""
    module = sys.modules.get(COLLATE)
    if module is None or collate is not module.default_collate:
        return False
    torch = sys.modules["torch"]
    own = module.default_collate_fn_map
    numpy = sys.modules.get("numpy")
    arrays = numpy is None or own.get(numpy.ndarray) is module.collate_numpy_array_fn
    tensors = own.get(torch.Tensor) is module.collate_tensor_fn
    return arrays and tensors and all(f.__module__ == COLLATE for f in own.values())
