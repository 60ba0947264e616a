"""Pictures of Pillow as arrays of bytes, so that processes can keep them for each other.

What is packed is the size, the mode, the facts that Pillow read from the file (`info`, if they are plain) and the
pixels as Pillow gives and takes them.  A picture made from it cannot be told from a copy of the original.
"""

from __future__ import annotations

import ast
import struct
import sys
from dataclasses import dataclass
from functools import lru_cache
from io import BufferedReader
from typing import Any

_MODES = frozenset({"L", "RGB", "RGBA", "CMYK", "YCbCr", "HSV"})  # without a palette
_HEAD = struct.Struct("<8s8sqqq")
_MARK = b"picture\0"
_ATOMS = (int, float, bool, str, bytes, type(None))


@dataclass(frozen=True, slots=True)
class Packed:
    """Where a packed picture lies."""

    lying: Any


def is_picture(kind: type) -> bool:
    """Whether this is Pillow's own class of pictures that no file is open for."""
    module = sys.modules.get("PIL.Image")
    return module is not None and kind is module.Image and sys.modules.get("numpy") is not None


def packed(picture: Any) -> Any:
    """A picture as an array of bytes, or None if it has something that could not be made again."""
    if picture.mode not in _MODES or picture.palette is not None or not _is_plain(tuple(picture.info.items())):
        return None
    facts = repr(picture.info).encode("utf-8", "surrogatepass")
    head = _HEAD.pack(_MARK, picture.mode.encode(), *picture.size, len(facts))
    return sys.modules["numpy"].frombuffer(bytearray(head + facts + picture.tobytes()), "uint8")


def unpacked(array: Any) -> Any:
    """The picture that was packed; ValueError if it was none."""
    content = memoryview(array)
    mark, mode, width, height, size = _HEAD.unpack_from(content)
    if mark != _MARK:
        raise ValueError("not a packed picture")
    first = _HEAD.size + size
    picture = sys.modules["PIL.Image"].frombytes(mode.rstrip(b"\0").decode(), (width, height), content[first:])
    picture.info = dict(_facts(bytes(content[_HEAD.size : first])))
    return picture


@lru_cache(maxsize=64)
def _facts(content: bytes) -> dict[Any, Any]:
    found: dict[Any, Any] = ast.literal_eval(content.decode("utf-8", "surrogatepass"))
    return found


def _is_plain(value: Any) -> bool:
    """Whether a value is written out whole by its words, and nobody can change it."""
    if type(value) is tuple:
        return all(map(_is_plain, value))
    return type(value) in _ATOMS and (type(value) is not float or abs(value) < float("inf"))


def opens(function: Any, rest: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Whether Pillow opens the picture that begins where a file does that was opened just before."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and function is pillow.open and not keywords and [*map(type, rest)] == [BufferedReader]
