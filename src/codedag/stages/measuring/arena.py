"""Tensors in memory that several processes map: one file per array in a private folder, in RAM where there is one."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Any

from codedag.ir import CannotWrite

PREFIX = "codedag-stages-"

Reference = dict[str, Any]  # of an array: file, dtype, shape; JSON can carry it


class Arena:
    """The arrays of one command; leaving it removes them. A process that maps them sees what others write."""

    def __init__(self) -> None:
        ram = Path("/dev/shm")  # a folder in memory on Linux; elsewhere the temporary folder will do
        place = ram if ram.is_dir() and os.access(ram, os.W_OK) else None
        _remove_orphans(place or Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=place))
        self._count = 0

    def __enter__(self) -> Arena:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Removes the folder; what is still mapped stays until its process ends."""
        shutil.rmtree(self.path, ignore_errors=True)

    def empty(self, dtype: str, shape: Iterable[int]) -> tuple[Any, Reference]:
        """A new array of zeros and how another process finds it."""
        self._count += 1
        path = self.path / f"{self._count}.bin"
        reference = {"file": str(path), "dtype": str(dtype), "shape": list(shape)}
        try:
            with path.open("wb") as file:
                _allocate(file, max(_nbytes(reference), 1))
        except OSError as error:
            why = f"no room for {_nbytes(reference):,} bytes in {self.path.parent}: {error.strerror or error}"
            raise CannotWrite(why, hint="Make room there: tensors between processes are kept there.") from error
        return attached(reference), reference

    def put(self, array: Any) -> tuple[Any, Reference]:
        """A copy of an array and how another process finds it."""
        made, reference = self.empty(str(array.dtype), array.shape)
        made[...] = array
        return made, reference

    def drop(self, references: Iterable[Reference]) -> None:
        """Removes arrays that nobody will ask for any more."""
        for reference in references:
            try:
                Path(reference["file"]).unlink(missing_ok=True)
            except OSError:  # Windows: it is still mapped, and goes with the folder
                continue


def attached(reference: Reference) -> Any:
    """The array that a reference means, mapped into this process."""
    import numpy as np

    with Path(reference["file"]).open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    count = prod(reference["shape"])
    offset = reference.get("offset", 0)  # of a part of an array
    return np.frombuffer(memory, dtype=reference["dtype"], count=count, offset=offset).reshape(reference["shape"])


def _allocate(file: Any, nbytes: int) -> None:
    """Makes a file of so many bytes whose room is really there: a mapping without it ends the process at a write."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, nbytes)
    else:
        file.truncate(nbytes)


def _remove_orphans(place: Path) -> None:
    """Removes the folders of processes that were killed before they could."""
    import psutil

    for path in place.glob(f"{PREFIX}*"):
        owner = path.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdecimal() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(path, ignore_errors=True)


def _nbytes(reference: Reference) -> int:
    import numpy as np

    return int(prod(reference["shape"])) * int(np.dtype(reference["dtype"]).itemsize)
