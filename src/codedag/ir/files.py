"""Atomic writing: a reader sees the old file or the new one, never half of either."""

from __future__ import annotations

import os
from collections.abc import Iterable

# By name: a program that has ended may have left mocks on the modules.
from io import BufferedWriter, FileIO
from os import chmod, makedirs, replace, stat, unlink, urandom
from os import open as open_descriptor
from os.path import islink, realpath
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from codedag.ir.errors import CannotWrite

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def write_atomically(path: Path, chunks: bytes | Iterable[bytes], *, parents: bool = True) -> None:
    """Writes through a temporary neighbour and a rename; raises CannotWrite and leaves nothing behind.

    With `parents`, the directories that lead there are made.  A link stays, and what it leads to is replaced; a device
    or a pipe (/dev/null, /dev/stdout) is written to, never replaced.
    """
    parts = (chunks,) if isinstance(chunks, bytes) else chunks
    temporary = ""
    try:
        if parents:
            makedirs(path.parent, exist_ok=True)  # noqa: PTH103
        if _is_special(path):
            _write_through(path, parts)
            return
        path = Path(realpath(path)) if islink(path) else path  # noqa: PTH114
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


def _is_special(path: Path) -> bool:
    """Whether there is something that is neither a file nor a directory: it is not ours to take away."""
    try:
        mode = stat(path).st_mode  # noqa: PTH116
    except OSError:
        return False
    return not (S_ISREG(mode) or S_ISDIR(mode))


def _write_through(path: Path, parts: Iterable[bytes]) -> None:
    with BufferedWriter(FileIO(open_descriptor(path, os.O_WRONLY), "wb")) as out:
        for part in parts:
            out.write(part)


def _forget(temporary: str) -> None:
    if temporary:
        try:
            unlink(temporary)  # noqa: PTH108
        except OSError:
            pass
