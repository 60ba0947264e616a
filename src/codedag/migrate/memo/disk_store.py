"""Arrays that are kept on disk once memory is full, in a file that has no name and is gone with the process."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import weakref
from dataclasses import dataclass
from typing import IO, Any

from codedag.ir.places import cache_dir
from codedag.migrate.trial import FIRST, SLOWER, median


@dataclass(frozen=True, slots=True)
class Stored:
    """Where an array lies in the file, and what must be known to make it again."""

    at: int
    nbytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    owns: bool
    writeable: bool


class Disk:
    """A file to which arrays are added and from which they are read; in a forked process it is only read."""

    def __init__(self, most_nbytes: int) -> None:
        self.most_nbytes, self.nbytes, self.is_slow = most_nbytes, 0, False
        self.reason = ""  # why nothing more is written, or read
        self._ratios: list[float] = []  # of the time to make a value anew to that of reading it
        self._file: IO[bytes] | None = None
        self._process = os.getpid()
        self._lock = threading.Lock()

    def keep(self, value: Any) -> Stored | None:
        """Where a copy of the value lies now, or None if it is no array, or there is no room for it."""
        numpy: Any = sys.modules.get("numpy")
        if numpy is None or type(value) is not numpy.ndarray or value.dtype.hasobject or not value.size:
            return None
        with self._lock:
            if self.reason or os.getpid() != self._process or self.nbytes + value.nbytes > self.most_nbytes:
                return None
            try:
                return self._written(value.copy("K"), value.flags.owndata, value.flags.writeable)
            except OSError as error:  # a full disk, or none that can be written to
                self.reason = f"it takes no more: {error.strerror or error}"
                return None

    def _written(self, dense: Any, owns: bool, writeable: bool) -> Stored:
        if self._file is None:
            folder = cache_dir()
            folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - it lasts as long as this
            weakref.finalize(self, self._file.close)
        at = self.nbytes
        write_at(self._file.fileno(), array_bytes(dense), at)
        self.nbytes += dense.nbytes
        return Stored(at, dense.nbytes, dense.shape, dense.strides, dense.dtype, owns, writeable)

    def read(self, stored: Stored) -> Any:
        """The array as it was when it was kept; OSError if the disk fails."""
        assert self._file is not None
        return read_at(self._file.fileno(), stored)

    def timed(self, anew: float, read: float) -> None:
        """Takes in the seconds of one value, made anew and read; a disk that is not faster is not used any more."""
        self._ratios.append(anew / max(read, 1e-9))
        if len(self._ratios) >= FIRST and median(self._ratios[-FIRST:]) < SLOWER:
            self.reason = self.reason or f"reading from it is not faster ({median(self._ratios[-FIRST:]):.2f}x)"
            self.is_slow = True

    def notes(self) -> list[str]:
        """What the user is told: how much was kept, and why not more."""
        said = f"kept on disk: {self.nbytes / 1e6:.1f} MB, gone with this process"
        return [f"{said}; {self.reason}" if self.reason else said]


def write_at(file: int, content: memoryview, at: int) -> None:
    """Writes all of it to a place of a file."""
    while content.nbytes:
        count = os.pwrite(file, content, at)
        content, at = content[count:], at + count


def read_at(file: int, stored: Stored) -> Any:
    """The array that lies in a file; OSError if it cannot be read."""
    found = _like(stored)
    left, at = array_bytes(found), stored.at
    while left.nbytes:
        count = os.preadv(file, [left], at)
        if not count:
            raise OSError("the file of kept values ends early")
        left, at = left[count:], at + count
    found = found if stored.owns else found[...]
    if not stored.writeable:
        found.flags.writeable = False
    return found


def _like(stored: Stored) -> Any:
    """An array with the shape and dtype of one that was kept; it lies in memory as the original does."""
    numpy: Any = sys.modules["numpy"]
    shown = numpy.lib.stride_tricks.as_strided(numpy.empty(1, stored.dtype), stored.shape, stored.strides)
    return numpy.empty_like(shown)


def array_bytes(dense: Any) -> memoryview:
    """The bytes of an array without holes, in the order in which they lie in memory."""
    numpy: Any = sys.modules["numpy"]
    flat = dense.ravel("K").view(numpy.uint8)
    assert numpy.shares_memory(flat, dense)
    return memoryview(flat)
