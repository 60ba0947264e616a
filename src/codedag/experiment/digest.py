"""Digests of what programs pass around: equal digests mean equal bits, types, shapes and order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

# Deeper than any batch; what nests deeper, or contains itself, is not looked into.
DEEPEST = 24


class Sink:
    """Takes in the bytes of a value and gives their digest."""

    def __init__(self) -> None:
        self._found = blake2b(digest_size=16)

    def __call__(self, part: bytes | bytearray | memoryview) -> None:
        """Takes in some bytes."""
        self._found.update(part)

    def digest(self) -> str:
        """The digest of what was taken in."""
        return self._found.hexdigest()

    def keeps(self, dtype: str) -> bool:
        """Whether numbers of this type are kept beside the digest, and only their number and type are part of it."""
        return False

    def keep(self, dtype: str, flat: Any) -> None:
        """Keeps the numbers of an array of numpy with one dimension."""
        raise NotImplementedError


def digest(value: Any) -> str:
    """The digest of a value: arrays, tensors and pictures by their bytes, collections by what they hold.

    The value is only read; what cannot be looked into counts by its type alone.
    """
    found = Sink()
    take_in(value, found)
    return found.digest()


def take_in(value: Any, sink: Sink) -> None:
    """Gives a sink all bytes of a value."""
    _feed(value, sink, 0)


def _feed(value: Any, feed: Sink, depth: int) -> None:
    kind = type(value)
    feed(f"<{kind.__module__}.{kind.__qualname__}>".encode(errors="backslashreplace"))
    if depth > DEEPEST:
        return
    if kind is float and feed.keeps("float") and "numpy" in sys.modules:
        feed.keep("float", sys.modules["numpy"].asarray([value]))
    elif isinstance(value, _SCALARS):
        feed(repr(value).encode(errors="backslashreplace"))
    elif isinstance(value, bytes | bytearray):
        feed(value)
    elif isinstance(value, Mapping):
        _feed_all([part for pair in value.items() for part in pair], feed, depth)
    elif isinstance(value, list | tuple):
        _feed_all(value, feed, depth)
    elif isinstance(value, set | frozenset):
        feed("".join(sorted(digest(each) for each in value)).encode())
    else:
        _feed_object(value, feed, depth)


_SCALARS = (type(None), bool, int, float, complex, str)


def _feed_all(values: Any, feed: Sink, depth: int) -> None:
    feed(f"{len(values)}:".encode())
    for each in values:
        _feed(each, feed, depth + 1)


def _feed_object(value: Any, feed: Sink, depth: int) -> None:
    """Feeds an object of a library that the program has loaded, or else its attributes."""
    for name, feeder in _LIBRARIES:
        library = sys.modules.get(name)
        if library is not None and feeder(library, value, feed, depth):
            return
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict) and not isinstance(value, type):
        _feed_all([part for name in sorted(attributes) for part in (name, attributes[name])], feed, depth)


def _tensor(torch: Any, value: Any, feed: Sink, depth: int) -> bool:
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.is_quantized:
        return False
    feed(f"{value.dtype}{tuple(value.shape)}".encode())
    flat = value.detach().cpu().contiguous().resolve_conj().resolve_neg().reshape(-1)
    dtype = str(value.dtype).removeprefix("torch.")
    if feed.keeps(dtype):
        feed.keep(dtype, (flat if value.dtype.is_complex else flat.double()).numpy())
    elif flat.numel():
        feed(memoryview(flat.view(torch.uint8).numpy()))
    return True


def _eager(tensorflow: Any, value: Any, feed: Sink, depth: int) -> bool:
    if not isinstance(value, tensorflow.Tensor | tensorflow.Variable) or not hasattr(value, "numpy"):
        return False
    _feed(value.numpy(), feed, depth + 1)
    return True


def _array(numpy: Any, value: Any, feed: Sink, depth: int) -> bool:
    if not isinstance(value, numpy.ndarray | numpy.generic):
        return False
    feed(f"{value.dtype.str}{value.shape}".encode())
    if feed.keeps(value.dtype.name):
        feed.keep(value.dtype.name, value.reshape(-1))
    elif value.dtype.hasobject:
        _feed(value.tolist(), feed, depth + 1)
    else:
        feed(value.tobytes())
    return True


def _picture(image: Any, value: Any, feed: Sink, depth: int) -> bool:
    if not isinstance(value, image.Image):
        return False
    feed(f"{value.mode}{value.size}".encode())
    feed(value.tobytes())
    return True


def _table(pandas: Any, value: Any, feed: Sink, depth: int) -> bool:
    if isinstance(value, pandas.DataFrame):
        parts = [value.index, *(part for name in value.columns for part in (str(name), value[name]))]
        _feed_all(parts, feed, depth)
        return True
    if isinstance(value, pandas.Series | pandas.Index):
        feed(f"{value.dtype}".encode())
        _feed(value.to_numpy(), feed, depth + 1)
        return True
    return False


_LIBRARIES: tuple[tuple[str, Callable[[Any, Any, Sink, int], bool]], ...] = (
    ("torch", _tensor),
    ("tensorflow", _eager),
    ("numpy", _array),
    ("PIL.Image", _picture),
    ("pandas", _table),
)
