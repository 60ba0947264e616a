"""The tensors of a batch side by side: each item is copied to its place by the thread that made it.

torch's own collate function copies all items at the end, in one thread.  Where it is the one in use, and as torch wrote
it, large tensors are copied while other items are still being made; it then finds them done, and does the rest.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

from codedag.migrate.guard import attempt

COLLATE = "torch.utils.data._utils.collate"
SMALLEST = 1 << 16  # bytes of an item's tensor from which copying is work
_DTYPES = ("float32", "float64", "uint8", "int64", "int32", "int16")
Key = int | str | None  # where in an item a tensor is; None: it is the item
_OPEN = object()  # what no item holds


class Block:
    """The place for one tensor of every item."""

    def __init__(self, tensor: Any, count: int) -> None:
        self.tensor = sys.modules["torch"].empty((count, *tensor.shape), dtype=tensor.dtype)
        self.like = tensor
        self.items: list[Any] = [_OPEN] * count
        self._address, self._nbytes = self.tensor.data_ptr(), tensor.nbytes

    def put(self, number: int, item: Any) -> None:
        """Copies the tensor of one item to its place, if it is as the others were."""
        if is_simple(item) and item.shape == self.like.shape and item.dtype is self.like.dtype:
            # not through numpy: torch would note for ever that somebody has seen the memory
            ctypes.memmove(self._address + number * self._nbytes, item.data_ptr(), self._nbytes)
            self.items[number] = item

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
        self._like: dict[Key, Any] = {}  # empty tensors, for shapes and dtypes
        self._checked: set[Any] = set()
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

        def stacked(batch: Any, *, collate_fn_map: Any = None) -> Any:
            for block in blocks.values():
                if block.tensor is not None and block.holds(batch):
                    return block.taken()
            return module.collate_tensor_fn(batch, collate_fn_map=collate_fn_map)

        functions = {**module.default_collate_fn_map, sys.modules["torch"].Tensor: stacked}
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
        self._like = {
            key: sys.modules["torch"].empty_like(part)
            for key in keys
            if is_simple(part := _part(item, key)) and part.nbytes >= SMALLEST and self._lies_in_order(part)
        }

    def _lies_in_order(self, tensor: Any) -> bool:
        """Whether torch stacks such tensors one behind the other; it is asked once."""
        kind = (tensor.shape, tensor.dtype)
        if kind not in self._checked:
            stacked = sys.modules["torch"].stack((tensor, tensor))
            if stacked.stride() != sys.modules["torch"].empty_like(stacked, memory_format=_contiguous()).stride():
                return False
            self._checked.add(kind)
        return True


def _contiguous() -> Any:
    return sys.modules["torch"].contiguous_format


def _is(one: Any, other: Any) -> bool:
    return one is other


def _part(item: Any, key: Key) -> Any:
    if key is None:
        return item
    if type(key) is int:
        return item[key] if type(item) in (tuple, list) and key < len(item) else None
    return item.get(key) if type(item) is dict else None


def is_simple(tensor: Any) -> bool:
    """Whether a value is a tensor that is nothing but its elements, one behind the other in memory."""
    torch = sys.modules["torch"]
    if type(tensor) is not torch.Tensor or tensor.layout is not torch.strided or tensor.device.type != "cpu":
        return False
    plain = not (tensor.requires_grad or tensor.is_neg() or tensor.is_inference()) and tensor.is_contiguous()
    return plain and tensor.dtype in _dtypes()


@cache
def _dtypes() -> frozenset[Any]:
    return frozenset(getattr(sys.modules["torch"], name) for name in _DTYPES)


def is_default(collate: Any) -> bool:
    """Whether this is torch's own collate function, with torch's own functions for all types."""
    module = sys.modules.get(COLLATE)
    if module is None or collate is not module.default_collate:
        return False
    torch = sys.modules["torch"]
    own = module.default_collate_fn_map
    return own.get(torch.Tensor) is module.collate_tensor_fn and all(f.__module__ == COLLATE for f in own.values())
