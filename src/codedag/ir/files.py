"""Atomic writing: a reader sees the old file or the new one, never half of either."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from codedag.ir.errors import CannotWrite


def write_atomically(path: Path, chunks: bytes | Iterable[bytes]) -> None:
    """Writes through a temporary neighbour and a rename; raises CannotWrite and leaves nothing behind."""
    parts = (chunks,) if isinstance(chunks, bytes) else chunks
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as out:
            for part in parts:
                out.write(part)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
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
            Path(temporary).unlink()
        except OSError:
            pass
