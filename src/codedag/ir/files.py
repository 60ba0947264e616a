"""Atomic writing: a reader sees the old file or the new one, never half of either."""

from __future__ import annotations

import os
from collections.abc import Iterable

# By name: a program that has ended may have left mocks on the modules.
from io import BufferedWriter, FileIO
from os import chmod, makedirs, replace, unlink, urandom
from os import open as open_descriptor
from pathlib import Path

from codedag.ir.errors import CannotWrite

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def write_atomically(path: Path, chunks: bytes | Iterable[bytes], *, parents: bool = True) -> None:
    """Writes through a temporary neighbour and a rename; raises CannotWrite and leaves nothing behind.

    With `parents`, the directories that lead there are made.
    """
    parts = (chunks,) if isinstance(chunks, bytes) else chunks
    temporary = ""
    try:
        if parents:
            makedirs(path.parent, exist_ok=True)  # noqa: PTH103
        neighbour = f"{path.parent}{os.sep}.{path.name}.{urandom(6).hex()}"
        handle, temporary = open_descriptor(neighbour, _NEW, 0o600), neighbour
        with BufferedWriter(FileIO(handle, "wb")) as out:
            for part in parts:
                out.write(part)
        chmod(temporary, 0o644)  # noqa: PTH101
        replace(temporary, path)  # noqa: PTH105
    except OSError as error:
        _forget(temporary)
        raise CannotWrite(
            f"cannot write {path}: {error.strerror or error}",
            hint="Choose another place (-o DIR, or CODEDAG_HOME) or make this one writable.",
        ) from error
    except BaseException:
        _forget(temporary)
        raise


def _forget(temporary: str) -> None:
    if temporary:
        try:
            unlink(temporary)  # noqa: PTH108
        except OSError:
            pass
