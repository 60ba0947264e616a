"""Digests of what programs pass around: equal digests mean equal bits, types, shapes and order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

# Deeper than any batch; what nests deeper, or contains itself, is not looked into.
DEEPEST = 24

Feed = Callable[[bytes | bytearray | memoryview], None]


def digest(value: Any) -> str:
    """The digest of a value: arrays, tensors and pictures by their bytes, collections by what they hold.

    The value is only read; what cannot be looked into counts by its type alone.
    """
    found = blake2b(digest_size=16)
    _feed(value, found.update, 0)
    return found.hexdigest()


def _feed(value: Any, feed: Feed, depth: int) -> None:
    kind = type(value)
    feed(f"<{kind.__module__}.{kind.__qualname__}>".encode(errors="backslashreplace"))
    if depth > DEEPEST:
        return
    if isinstance(value, _SCALARS):
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


def _feed_all(values: Any, feed: Feed, depth: int) -> None:
    feed(f"{len(values)}:".encode())
    for each in values:
        _feed(each, feed, depth + 1)


def _feed_object(value: Any, feed: Feed, depth: int) -> None:
    """Feeds an object of a library that the program has loaded, or else its attributes."""
    for name, feeder in _LIBRARIES:
        library = sys.modules.get(name)
        if library is not None and feeder(library, value, feed, depth):
            return
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict) and not isinstance(value, type):
        _feed_all([part for name in sorted(attributes) for part in (name, attributes[name])], feed, depth)


def _tensor(torch: Any, value: Any, feed: Feed, depth: int) -> bool:
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.is_quantized:
        return False
    feed(f"{value.dtype}{tuple(value.shape)}".encode())
    flat = value.detach().cpu().contiguous().resolve_conj().resolve_neg().reshape(-1)
    if flat.numel():
        feed(memoryview(flat.view(torch.uint8).numpy()))
    return True


def _eager(tensorflow: Any, value: Any, feed: Feed, depth: int) -> bool:
    if not isinstance(value, tensorflow.Tensor | tensorflow.Variable) or not hasattr(value, "numpy"):
        return False
    _feed(value.numpy(), feed, depth + 1)
    return True


def _array(numpy: Any, value: Any, feed: Feed, depth: int) -> bool:
    if not isinstance(value, numpy.ndarray | numpy.generic):
        return False
    feed(f"{value.dtype.str}{value.shape}".encode())
    if value.dtype.hasobject:
        _feed(value.tolist(), feed, depth + 1)
    else:
        feed(value.tobytes())
    return True


def _picture(image: Any, value: Any, feed: Feed, depth: int) -> bool:
    if not isinstance(value, image.Image):
        return False
    feed(f"{value.mode}{value.size}".encode())
    feed(value.tobytes())
    return True


def _table(pandas: Any, value: Any, feed: Feed, depth: int) -> bool:
    if isinstance(value, pandas.DataFrame):
        parts = [value.index, *(part for name in value.columns for part in (str(name), value[name]))]
        _feed_all(parts, feed, depth)
        return True
    if isinstance(value, pandas.Series | pandas.Index):
        feed(f"{value.dtype}".encode())
        _feed(value.to_numpy(), feed, depth + 1)
        return True
    return False


_LIBRARIES: tuple[tuple[str, Callable[[Any, Any, Feed, int], bool]], ...] = (
    ("torch", _tensor),
    ("tensorflow", _eager),
    ("numpy", _array),
    ("PIL.Image", _picture),
    ("pandas", _table),
)
