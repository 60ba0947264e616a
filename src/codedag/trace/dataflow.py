"""Who made this value?  Flow by identity of objects and of the buffers behind them.

Only data objects carry flow: arrays, tensors, images, and scalars that came out of a data operation.  Containers and
user objects are transparent: their leaves are followed.  A hit in a map counts only if its weak reference still gives
this very object, so a reused id is harmless; nothing is kept alive except small immutable scalars.
"""

from __future__ import annotations

import sys
import types
import weakref
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

IGNORED, ARRAY, TENSOR, SEQUENCE, MAPPING, OBJECT, SCALAR, USER = range(8)
_HELD_SCALARS = 65_536
_WIDEST = 256  # leaves looked at per container
_DEEPEST = 3

_PLAIN: tuple[type, ...] = (
    int, bool, str, bytes, complex, set, frozenset, slice, range, type(None), type(Ellipsis), type,
    types.FunctionType, types.ModuleType, types.BuiltinFunctionType, types.MethodType,
)  # fmt: skip

Leaf = tuple[Any, int]


@dataclass(slots=True)
class Buffer:
    """The last writer of a piece of memory and who has read it since."""

    owner: Any
    writer: int
    written: int  # when, on the clock of the dataflow
    readers: set[int] = field(default_factory=set)


class Dataflow:
    """Maps from live objects and buffers to the operation that made or last wrote them."""

    def __init__(self, user_files: set[str]) -> None:
        self._user_files = user_files
        self._clock = 0
        self._objects: dict[int, tuple[Any, int, int]] = {}  # id -> weak reference, operation, when
        self._buffers: dict[int, Buffer] = {}
        self._shared: dict[int, Any] = {}  # tensor storage pointer -> weak reference to the array that owns it
        self._scalars: OrderedDict[int, tuple[Any, int]] = OrderedDict()
        self._purge_at = 100_000
        self.kinds: dict[type, int] = {
            list: SEQUENCE, tuple: SEQUENCE, dict: MAPPING, float: SCALAR, bytearray: OBJECT,
        }  # fmt: skip
        self.kinds |= dict.fromkeys(_PLAIN, IGNORED)

    # -- what is data

    def kind(self, value: Any) -> int:
        """The kind of a value, decided once per type."""
        found = self.kinds.get(type(value))
        if found is None:
            found = self.kinds[type(value)] = self._classify(type(value))
        return found

    def _classify(self, of: type) -> int:
        numpy: Any = sys.modules.get("numpy")
        if numpy is not None and issubclass(of, numpy.generic):
            return SCALAR
        if numpy is not None and issubclass(of, numpy.ndarray):
            return ARRAY
        if hasattr(of, "untyped_storage") and hasattr(of, "data_ptr"):
            return TENSOR
        if issubclass(of, list | tuple):
            return SEQUENCE
        if issubclass(of, dict):
            return MAPPING
        if any(hasattr(of, name) for name in ("__array_interface__", "__array__", "__dlpack__", "tobytes")):
            return OBJECT
        module = sys.modules.get(of.__module__)
        if hasattr(of, "__dict__") and getattr(module, "__file__", None) in self._user_files:
            return USER
        return IGNORED

    def leaves(self, value: Any, out: list[Leaf], depth: int = _DEEPEST) -> None:
        """Adds the data objects inside a value to `out`."""
        kind = self.kind(value)
        if kind == IGNORED:
            return
        if kind in (SEQUENCE, MAPPING, USER):
            if depth and (inside := self._inside(value, kind)):
                for element in inside:
                    self.leaves(element, out, depth - 1)
        elif kind == SCALAR:
            if type(value) is not float or self._scalar_producer(value) >= 0:
                out.append((value, kind))
        else:
            out.append((value, kind))

    def _inside(self, value: Any, kind: int) -> list[Any]:
        if kind == USER:
            return list(getattr(value, "__dict__", {}).values())[:64]
        # the methods of the base types: those of the program's own containers are the program's
        reader = (
            dict.values(value)
            if kind == MAPPING
            else list.__iter__(value)
            if isinstance(value, list)
            else tuple.__iter__(value)
        )
        elements = list(islice(reader, _WIDEST))
        if len(elements) > 8 and self.kinds.get(type(elements[0])) == IGNORED:
            return []  # a long list of plain numbers or texts
        return elements

    # -- who made it

    def _scalar_producer(self, value: Any) -> int:
        held = self._scalars.get(id(value))
        return held[1] if held is not None and held[0] is value else -1

    def producer(self, leaf: Leaf, reader: int = -1) -> int:
        """The operation that made the object or last wrote its buffer (the later of the two), or -1."""
        value, kind = leaf
        if kind == SCALAR:
            return self._scalar_producer(value)
        made, when = self._made(value)
        if kind not in (ARRAY, TENSOR):
            return made
        key, owner = self._root(value, kind)
        buffer = self._buffers.get(key)
        if buffer is not None and buffer.owner() is None:
            del self._buffers[key]
            buffer = None
        if made < 0 and owner is not value:
            made, when = self._made(owner)
        if buffer is None:
            return made
        if reader >= 0:
            buffer.readers.add(reader)
        return buffer.writer if made < 0 or buffer.written > when else made

    def _made(self, value: Any) -> tuple[int, int]:
        entry = self._objects.get(id(value))
        if entry is None:
            return -1, -1
        if entry[0]() is value:
            return entry[1], entry[2]
        del self._objects[id(value)]
        return -1, -1

    def _root(self, value: Any, kind: int) -> tuple[int, Any]:
        if kind == TENSOR:
            pointer = value.untyped_storage().data_ptr()
            owner = self._shared[pointer]() if pointer in self._shared else None
            return (id(owner), owner) if owner is not None else (-pointer, value)
        array = value
        while isinstance(base := array.base, type(value)) or hasattr(base, "strides"):
            array = base
        return id(array), array

    # -- recording

    def made(self, leaf: Leaf, operation: int) -> None:
        """Notes that `operation` made this value."""
        value, kind = leaf
        if kind == SCALAR:
            self._scalars[id(value)] = (value, operation)
            if len(self._scalars) > _HELD_SCALARS:
                self._scalars.popitem(last=False)
            return
        try:
            reference = weakref.ref(value)
        except TypeError:
            return
        self._clock += 1
        self._objects[id(value)] = (reference, operation, self._clock)
        if kind in (ARRAY, TENSOR):
            key, owner = self._root(value, kind)
            if key not in self._buffers or self._buffers[key].owner() is None:
                own = reference if owner is value else weakref.ref(owner)
                self._buffers[key] = Buffer(own, operation, self._clock)
        if len(self._objects) > self._purge_at:
            self._purge()

    def written(self, leaf: Leaf, operation: int) -> set[int]:
        """Notes that `operation` wrote the buffer of this value; the operations that had read the old content."""
        value, kind = leaf
        readers: set[int] = set()
        self._clock += 1
        if kind in (ARRAY, TENSOR):
            key, owner = self._root(value, kind)
            buffer = self._buffers.get(key)
            if buffer is None or buffer.owner() is None:
                self._buffers[key] = Buffer(weakref.ref(owner), operation, self._clock)
            else:
                readers, buffer.readers = buffer.readers, set()
                buffer.writer, buffer.written = operation, self._clock
        self.made(leaf, operation)
        return readers - {operation}

    def shares(self, tensor: Any, inputs: list[Leaf]) -> None:
        """Notes that a new tensor uses the memory of an array it was made from."""
        pointer = tensor.untyped_storage().data_ptr()
        for value, kind in inputs:
            if kind == ARRAY and value.__array_interface__["data"][0] == pointer:
                self._shared[pointer] = weakref.ref(self._root(value, ARRAY)[1])

    def known(self, leaf: Leaf) -> bool:
        """Whether this very object has a producer already."""
        return (self._scalar_producer(leaf[0]) if leaf[1] == SCALAR else self._made(leaf[0])[0]) >= 0

    def _purge(self) -> None:
        self._objects = {k: v for k, v in self._objects.items() if v[0]() is not None}
        self._buffers = {k: b for k, b in self._buffers.items() if b.owner() is not None}
        self._purge_at = max(100_000, 2 * len(self._objects))


def nbytes(leaf: Leaf) -> int:
    """The size of a data object in bytes."""
    value = leaf[0]
    if type(value) is float:
        return 8
    size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        return size
    if isinstance(value, bytes | bytearray):
        return len(value)
    dimensions = getattr(value, "size", None)  # a PIL image: (width, height) and its bands
    if isinstance(dimensions, tuple) and hasattr(value, "getbands"):
        return int(dimensions[0] * dimensions[1] * len(value.getbands()))
    return 0


def signature(leaf: Leaf) -> str:
    """Type and shape of a data object as short text: `uint8[224,224,3]`."""
    value, kind = leaf
    if kind in (ARRAY, TENSOR):
        return f"{str(value.dtype).removeprefix('torch.')}[{','.join(map(str, value.shape))}]"
    return type(value).__name__
