"""Who made this value?  Flow by identity of objects and of the buffers behind them.

Only data objects carry flow: arrays, tensors, images, and scalars that came out of a data operation.  Containers and
user objects are transparent: their leaves are followed.  A hit in a map counts only if its weak reference still gives
this very object, so a reused id is harmless; nothing is kept alive except small immutable scalars.
No method that the program itself defines is called on the way: containers and arrays are asked by their base class.
"""

from __future__ import annotations

import re
import sys
import types
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

IGNORED, ARRAY, TENSOR, SEQUENCE, MAPPING, OBJECT, SCALAR, USER, LIBRARY, FLAT = range(10)
HELD_SCALARS = 8_192  # the newest ones, up to twice as many
_WIDEST = 256  # elements looked at per container
_SHORT = 32  # containers up to this length are looked through; of longer ones four elements show whether they hold data
_WIDEST_OBJECT = 64  # attributes looked at per user object
_MOST = 4_096  # values looked at per operation
_DEEPEST = 3
_FEW = 16  # elements of an array that is often unpacked
_RECENT = 4  # such arrays whose elements are remembered
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class that was made at run time

_PLAIN: tuple[type, ...] = (
    int, bool, str, bytes, complex, set, frozenset, slice, range, type(None), type(Ellipsis), type,
    types.FunctionType, types.ModuleType, types.BuiltinFunctionType, types.MethodType,
)  # fmt: skip
_INTS = frozenset({int})
_REFUSALS = (AttributeError, TypeError, ValueError, RuntimeError)  # of objects that are asked for what they lack

Leaf = tuple[Any, int]


class Leaves(list[Leaf]):
    """The data objects found in the values of one operation, and how many values may still be looked at."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        super().__init__()
        self.left = _MOST


@dataclass(slots=True)
class Buffer:
    """The last writer of a piece of memory and who has read it since."""

    owner: Any
    writer: int
    written: int  # when, on the clock of the dataflow
    begun: int  # when this piece of memory was first seen
    readers: set[int] = field(default_factory=set)
    heir: Any = None  # another tensor on it, which stands for it when the owner is gone


def classify(of: type, user_files: set[str]) -> int:
    """The kind of the values of a type."""
    if of in _PLAIN:
        return IGNORED
    if of is float:
        return SCALAR
    if of is bytearray:
        return OBJECT
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and issubclass(of, getattr(numpy, "generic", ())):
        return _kind_of_scalar(of, numpy)
    if numpy is not None and issubclass(of, getattr(numpy, "ndarray", ())):
        return ARRAY
    if numpy is not None and of is getattr(numpy, "flatiter", None):
        return FLAT
    if hasattr(of, "storage_offset") and hasattr(of, "data_ptr"):
        return TENSOR if _has_memory(of) else IGNORED
    if issubclass(of, list | tuple):
        return SEQUENCE
    if issubclass(of, dict):
        return MAPPING
    if any(hasattr(of, name) for name in ("__array_interface__", "__array__", "__dlpack__", "tobytes")):
        return OBJECT
    module = sys.modules.get(of.__module__)
    if getattr(module, "__file__", None) in user_files:
        return USER
    if module is None or issubclass(of, type | BaseException | types.FunctionType):
        return IGNORED
    return LIBRARY if of.__dictoffset__ else IGNORED


def _has_memory(of: type) -> bool:
    """Whether tensors of this class are what they seem: fake and functional ones stand for others, and are let be."""
    plain = getattr(sys.modules.get("torch"), "Tensor", of)
    return getattr(of, "__torch_dispatch__", None) is getattr(plain, "__torch_dispatch__", None)


def _kind_of_scalar(of: type, numpy: Any) -> int:
    """A numpy scalar is held if that keeps nothing else alive: a record of an array holds the whole array."""
    if issubclass(of, numpy.flexible):
        return IGNORED
    return OBJECT if of.__dictoffset__ or hasattr(of, "__del__") else SCALAR


class Dataflow:
    """Maps from live objects and buffers to the operation that made or last wrote them."""

    def __init__(self, user_files: set[str]) -> None:
        self._user_files = user_files
        self._clock = 0
        self._objects: dict[int, tuple[Any, int, int, int]] = {}  # id -> weak reference, operation, when, memory
        self._buffers: dict[int, Buffer] = {}
        self._shared: dict[int, tuple[Any, int]] = {}  # tensor storage pointer -> the array that owns it, its memory
        self._young: dict[int, tuple[Any, int]] = {}  # id -> scalar, operation
        self._old: dict[int, tuple[Any, int]] = {}
        self._small: deque[tuple[str, bytes, int, int]] = deque(
            maxlen=_RECENT
        )  # type, elements, size of one, operation
        self._purge_at = 4096
        self._kinds: dict[type, int] = {}

    # -- what is data

    def kind(self, value: Any) -> int:
        """The kind of a value, decided once per type."""
        found = self._kinds.get(type(value))
        if found is None:
            found = self._kinds[type(value)] = classify(type(value), self._user_files)
        return found

    def leaves(self, value: Any, out: Leaves, depth: int = _DEEPEST) -> None:
        """Adds the data objects inside a value to `out`."""
        out.left -= 1
        kind = self.kind(value)
        if kind in (IGNORED, LIBRARY) or out.left < 0:
            return
        if kind in (SEQUENCE, MAPPING, USER):
            if depth and self._may_hold_data(value, kind, depth):
                for element in self._inside(value, kind):
                    self.leaves(element, out, depth - 1)
        elif kind == FLAT:
            self.leaves(array_behind(value), out, depth)
        elif type(value) is not float or self._scalar_producer(value) >= 0:
            out.append((value, kind))

    def held(self, value: Any, out: Leaves, depth: int = 0) -> None:
        """Adds the data that an object of a library holds, and below it (`depth`) what such objects in it hold."""
        for element in self._inside(value, LIBRARY):
            if depth and self.kind(element) == LIBRARY:
                out.left -= 1
                if out.left >= 0:
                    self.held(element, out, depth - 1)
            elif self.kind(element) != USER:  # what user code does with its own is seen there
                self.leaves(element, out, min(depth, 1))

    def _inside(self, value: Any, kind: int) -> list[Any]:
        if kind in (USER, LIBRARY):
            try:
                return list(islice(object.__getattribute__(value, "__dict__").values(), _WIDEST_OBJECT))
            except _REFUSALS:
                return []  # it has slots only
        base: Any = list if isinstance(value, list) else tuple
        return list(islice(dict.values(value) if kind == MAPPING else base.__iter__(value), _WIDEST))

    def _may_hold_data(self, value: Any, kind: int, depth: int) -> bool:
        if kind == USER:
            return True
        base: Any = dict if kind == MAPPING else list if isinstance(value, list) else tuple
        n = base.__len__(value)
        if n <= _SHORT:
            return True
        sample = (
            list(islice(dict.values(value), 4))
            if kind == MAPPING
            else [base.__getitem__(value, i) for i in (0, 1, n // 2, n - 1)]
        )
        found = Leaves()
        for element in sample:
            self.leaves(element, found, depth - 1)
        return bool(found)

    def now(self) -> int:
        """The time on the clock that counts what is made and written."""
        return self._clock

    # -- who made it

    def _scalar_producer(self, value: Any) -> int:
        held = self._young.get(id(value)) or self._old.get(id(value))
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
        buffer = self._buffer(key, value)
        if made < 0 and owner is not value:
            made, when = self._made(owner)
        if buffer is None:
            return made
        if made < 0 and owner is value:  # `p.data`: another tensor on the memory of p
            made, when = self._made(buffer.owner())
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

    def _buffer(self, key: int, value: Any) -> Buffer | None:
        """The memory with this key, if it lives: its owner does, or this value, which has used it since it began."""
        buffer = self._buffers.get(key)
        if buffer is None or buffer.owner() is not None:
            return buffer
        if buffer.heir is not None and buffer.heir() is not None:
            buffer.owner, buffer.heir = buffer.heir, None
            return buffer
        entry = self._objects.get(id(value))
        if entry is not None and entry[0]() is value and entry[3] == key and entry[2] >= buffer.begun:
            buffer.owner = entry[0]
            return buffer
        return None

    def _root(self, value: Any, kind: int) -> tuple[int, Any]:
        """The key of the memory behind an array or a tensor, and the object that stands for it."""
        if kind == TENSOR:
            pointer = storage_of(value)
            if not pointer:
                return id(value), value  # no memory of its own that another tensor could share (sparse, meta, empty)
            reference, key = self._shared.get(pointer, (None, 0))
            owner = reference() if reference is not None else None
            return (key, owner) if owner is not None else (-pointer, value)
        ndarray = sys.modules["numpy"].ndarray
        array = value
        while (base := _behind(ndarray.base.__get__(array))) is not None:
            if isinstance(base, ndarray):
                array = base
            elif self.kind(base) == TENSOR:
                return self._root(base, TENSOR)
            else:
                return id(base), array  # memory of another kind: whoever uses it keeps it
        return id(array), array

    def shares_memory(self, leaf: Leaf, other: Leaf) -> bool:
        """Whether two arrays or tensors are parts of one piece of memory."""
        return leaf[1] in (ARRAY, TENSOR) and self._root(*leaf)[0] == self._root(*other)[0]

    # -- recording

    def made(self, leaf: Leaf, operation: int) -> None:
        """Notes that `operation` made this value."""
        value, kind = leaf
        if kind == SCALAR:
            self._hold(value, operation)
            return
        try:
            reference = weakref.ref(value)
        except TypeError:
            return
        self._clock += 1
        key, owner = self._root(value, kind) if kind in (ARRAY, TENSOR) else (0, None)
        buffer = self._buffer(key, value) if owner is not None else None
        if owner is not None and buffer is None:
            own = reference if owner is value else weakref.ref(owner)
            self._buffers[key] = Buffer(own, operation, self._clock, self._clock)
        elif buffer is not None and kind == TENSOR and buffer.owner is not reference:
            buffer.heir = buffer.heir if buffer.heir is not None and buffer.heir() is not None else reference
        self._objects[id(value)] = (reference, operation, self._clock, key)
        if kind == ARRAY and (elements := elements_of(value)) is not None:
            self._small.append((*elements, operation))
        if len(self._objects) + len(self._shared) > self._purge_at:
            self._purge()

    def _hold(self, value: Any, operation: int) -> None:
        """Keeps a scalar alive: it has no weak references, and its id must not be reused while it is known."""
        self._young[id(value)] = (value, operation)
        if len(self._young) >= HELD_SCALARS:
            self._old, self._young = self._young, {}

    def written(self, leaf: Leaf, operation: int) -> set[int]:
        """Notes that `operation` wrote the buffer of this value; the operations that had read the old content."""
        value, kind = leaf
        readers: set[int] = set()
        self._clock += 1
        if kind in (ARRAY, TENSOR):
            key, owner = self._root(value, kind)
            buffer = self._buffer(key, value)
            if buffer is None:
                self._buffers[key] = Buffer(weakref.ref(owner), operation, self._clock, self._clock)
            else:
                readers, buffer.readers = buffer.readers, set()
                buffer.writer, buffer.written = operation, self._clock
        self.made(leaf, operation)
        return readers - {operation}

    def renewed(self, leaf: Leaf, operation: int, when: int) -> None:
        """Notes that `operation` wrote this at the time `when`, unless another has done so since."""
        buffer = self._buffer(self._root(*leaf)[0], leaf[0])
        if max(self._made(leaf[0])[1], buffer.written if buffer is not None else -1) <= when:
            self.written(leaf, operation)

    def shares(self, tensor: Any, inputs: list[Leaf]) -> None:
        """Notes that a new tensor uses the memory of an array it was made from."""
        pointer = storage_of(tensor)
        for value, kind in inputs:
            if kind == ARRAY and pointer and address_of(value) == pointer:
                key, owner = self._root(value, ARRAY)
                if key > 0:  # else the array itself is memory of a tensor
                    self._shared[pointer] = (weakref.ref(owner), key)

    def unpacked(self, leaf: Leaf) -> int:
        """The operation behind the only small array of late that has this number among its elements, or -1.

        `low, high = np.percentile(...)` takes numbers out where no site is, and the array is gone at once.
        """
        value = leaf[0]
        if type(value).__flags__ & _HEAP_TYPE or type(value) is float:
            return -1
        name, raw = type(value).__name__, value.tobytes()
        found = {
            made
            for of, elements, size, made in self._small
            if of == name and any(elements[at : at + size] == raw for at in range(0, len(elements), size))
        }
        if len(found) != 1:
            return -1
        self._hold(value, *found)
        return found.pop()

    def maker(self, leaf: Leaf) -> int:
        """The operation that made this very object, or -1."""
        return self._scalar_producer(leaf[0]) if leaf[1] == SCALAR else self._made(leaf[0])[0]

    def known(self, leaf: Leaf) -> bool:
        """Whether this very object has a producer already."""
        return self.maker(leaf) >= 0

    def _purge(self) -> None:
        self._objects = {k: v for k, v in self._objects.items() if v[0]() is not None}
        for reference, _, _, key in list(self._objects.values()):
            if key in self._buffers:
                self._buffer(key, reference())  # memory whose first owner is gone goes to one that lives
        self._buffers = {k: b for k, b in self._buffers.items() if b.owner() is not None}
        self._shared = {k: shared for k, shared in self._shared.items() if shared[0]() is not None}
        self._purge_at = max(4096, 2 * (len(self._objects) + len(self._shared)))


# -- facts about one data object


def _behind(base: Any) -> Any:
    """What owns the memory that the base of an array stands for."""
    if type(base).__name__ == "DummyArray":  # between an array and what as_strided made of it
        return getattr(base, "base", None)
    return base.obj if type(base) is memoryview else base


def array_behind(flat: Any) -> Any:
    """The array that a `numpy.flatiter` goes through, whose elements it reads and writes."""
    return flat.base


def storage_of(tensor: Any) -> int:
    """Where the memory of a tensor begins; 0 if it has none (sparse, meta, empty)."""
    layout = layout_of(tensor, TENSOR)
    try:
        first = int(tensor.data_ptr())
        return first - int(tensor.storage_offset()) * layout[2] if first and layout is not None else 0
    except _REFUSALS:
        return 0


def address_of(array: Any) -> int:
    """Where the first element of an array lies."""
    interface = sys.modules["numpy"].ndarray.__array_interface__.__get__(array)
    return int(interface["data"][0])


def elements_of(array: Any) -> tuple[str, bytes, int] | None:
    """Type, elements and size of each of a few floating-point numbers in a row in memory of numpy, else None."""
    ndarray = sys.modules["numpy"].ndarray
    base = array.base if type(array) is ndarray else array
    if base is not None and (base is array or type(base) is not ndarray or base.base is not None):
        return None
    named = array.ndim == 1 and 0 < len(array) <= _FEW and array.dtype.isnative and array.dtype.name
    return (named, array.tobytes(), array.dtype.itemsize) if named in ("float16", "float32", "float64") else None


def layout_of(value: Any, kind: int) -> tuple[str, Sequence[int], int] | None:
    """Name of the element type, shape and bytes per element of an array or tensor; None if it does not say."""
    try:
        if kind == ARRAY:
            ndarray = sys.modules["numpy"].ndarray
            dtype, shape = ndarray.dtype.__get__(value), ndarray.shape.__get__(value)
        else:
            dtype, shape = value.dtype, _shape_of(value)
        if _INTS.issuperset(map(type, shape)):
            return _element_name(dtype), shape, int(dtype.itemsize)
    except _REFUSALS:
        pass  # a nested tensor has no shape
    return None


def _shape_of(tensor: Any) -> Any:
    """The shape, asked so that `torch.jit.trace` does not take the question for a part of the program."""
    jit: Any = getattr(sys.modules.get("torch"), "_C", None)
    state = jit._get_tracing_state() if jit is not None else None
    if state is None:
        return tensor.shape
    jit._set_tracing_state(None)
    try:
        return tensor.shape
    finally:
        jit._set_tracing_state(state)


def _element_name(dtype: Any) -> str:
    """`uint8`; numpy takes some microseconds to say so, and torch's types are few and live for ever."""
    name = _element_names.get(dtype)
    if name is None:
        name = str(dtype).removeprefix("torch.")
        if getattr(dtype, "isbuiltin", 1) == 1:
            _element_names[dtype] = name
    return name


_element_names: dict[Any, str] = {}


def nbytes(leaf: Leaf) -> int:
    """The size of a data object in bytes; of a sparse tensor, as if it were dense."""
    value, kind = leaf
    if type(value) is float:
        return 8
    if kind == ARRAY:
        return int(sys.modules["numpy"].ndarray.nbytes.__get__(value))
    if kind == TENSOR:
        layout = layout_of(value, kind)
        if layout is None:
            return 0
        size = layout[2]
        for extent in layout[1]:
            size *= extent
        return size
    return _size_of_object(value)


def _size_of_object(value: Any) -> int:
    if isinstance(value, bytearray):
        return len(value)
    try:
        size = getattr(value, "nbytes", None)
        if isinstance(size, int):
            return int(size)
        elements = getattr(value, "_num_elements", None)  # a tensor of TensorFlow that is computed
        if elements is not None:
            return int(elements() * value.dtype.size)
        dimensions = getattr(value, "size", None)  # a PIL image: (width, height) and its bands
        if isinstance(dimensions, tuple) and hasattr(value, "getbands"):
            return int(dimensions[0] * dimensions[1] * len(value.getbands()))
    except _REFUSALS:
        pass
    return 0


def signature(leaf: Leaf) -> str:
    """Type and shape of a data object as short text: `uint8[224,224,3]`."""
    value, kind = leaf
    layout = layout_of(value, kind) if kind in (ARRAY, TENSOR) else None
    if layout is None:
        return type(value).__name__
    return f"{layout[0]}[{','.join(map(str, layout[1]))}]"


def open_shapes(text: str) -> str:
    """A signature without its extents: `uint8[*,*,*]` for `uint8[224,224,3]`."""
    return _EXTENT.sub("*", text)


_EXTENT = re.compile(r"(?<=[\[,])\d+(?=[,\]])")
