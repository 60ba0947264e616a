"""Arrays that the worker processes of a program keep for each other, in memory that has no name and is gone with them.

A worker lives for an epoch, or sees one of two items: what it keeps for itself helps little.  So they write to one file
in memory, inherited from the program.  It is divided into chunks; a worker claims one by a lock that ends with it, and
only adds to it: the array first, then its entry, then the count of entries.  Nobody waits for anybody, and a worker
that is killed half-way leaves nothing that others could see.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
import weakref
from dataclasses import dataclass
from typing import Any

from codedag.migrate.memo.disk_store import Stored, array_bytes, read_at, write_at

CHUNKS = 64
LEAST_NBYTES = CHUNKS << 20  # of all chunks, below which it is not worth it
MOST_DIMENSIONS = 4
_HEADER = 4096
_ENTRY = struct.Struct("<16sqq8sbbbx4x4q4q")
_COUNTS = struct.Struct(f"<{CHUNKS}q")
_KINDS = frozenset("?biufc")


@dataclass(frozen=True, slots=True)
class Lying(Stored):
    """Where an array lies in the common file."""


class Common:
    """The file that a program shares with the workers that it forks."""

    def __init__(self, most_nbytes: int) -> None:
        self.chunk_nbytes = (most_nbytes - _HEADER) // CHUNKS
        self._file = os.memfd_create("codedag-kept")
        self._known: dict[bytes, Lying] = {}
        self._counts = (0,) * CHUNKS
        self._process, self._chunk, self._used, self._count = 0, -1, 0, 0
        self._is_full = False  # for this process: no chunk that it may write to has had room
        self._lock = threading.Lock()
        self._identity = _identity(self._file)
        os.pwrite(self._file, _COUNTS.pack(*self._counts), 0)
        weakref.finalize(self, _close, self._file, self._identity)

    # -- writing

    def keep(self, key: bytes, value: Any) -> bool:
        """Whether a copy of the value lies there now; it must be one that can, and there must be room for it."""
        if not can_keep(value) or value.nbytes + _ENTRY.size > self.chunk_nbytes:
            return False
        with self._lock:
            try:
                if self.find(key) is not None:
                    return True
                return self._has_room(value.nbytes) and self._write(key, value)
            except OSError:  # no memory: others may have taken it
                self._is_full = True
                return False

    def check(self) -> None:
        """Raises OSError if the program has closed the file: its number may be another one's by now."""
        if _identity(self._file) != self._identity:
            raise OSError("what workers keep was closed")

    def _has_room(self, nbytes: int) -> bool:
        """Whether this process has a chunk with room for so much."""
        if self._process != os.getpid():  # locks are not inherited
            self._process, self._chunk, self._is_full = os.getpid(), -1, False
        if self._chunk >= 0 and self._fits(nbytes):
            return True
        if not self._is_full:
            self._is_full = not any(self._claim(chunk) and self._fits(nbytes) for chunk in range(CHUNKS))
        return not self._is_full

    def _claim(self, chunk: int) -> bool:
        """Whether this process is the one that writes to a chunk from now on."""
        import fcntl  # where there are such files, there are such locks

        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, chunk)
        except OSError:
            return False
        self._chunk = chunk
        self._count = _COUNTS.unpack(os.pread(self._file, _COUNTS.size, 0))[chunk]
        last = self._entry(chunk, self._count - 1)[1] if self._count else None
        self._used = last.at + last.nbytes - self._base(chunk) if last is not None else 0
        return True

    def _fits(self, nbytes: int) -> bool:
        return self._used + nbytes + (self._count + 1) * _ENTRY.size <= self.chunk_nbytes

    def _write(self, key: bytes, value: Any) -> bool:
        dense, at = value.copy("K"), self._base(self._chunk) + self._used
        write_at(self._file, array_bytes(dense), at)
        shape, strides = (_filled(each) for each in (dense.shape, dense.strides))
        flags = (dense.ndim, value.flags.owndata, value.flags.writeable)
        entry = _ENTRY.pack(key, at, dense.nbytes, dense.dtype.str.encode(), *flags, *shape, *strides)
        write_at(self._file, memoryview(entry), self._place(self._chunk, self._count))
        self._used += dense.nbytes
        self._count += 1
        write_at(self._file, memoryview(struct.pack("<q", self._count)), 8 * self._chunk)
        return True

    # -- reading

    def find(self, key: bytes) -> Lying | None:
        """Where the array of a key lies, if any process has kept it."""
        if key not in self._known:
            self.check()
            counts = _COUNTS.unpack(os.pread(self._file, _COUNTS.size, 0))
            for chunk, (before, now) in enumerate(zip(self._counts, counts, strict=True)):
                for number in range(before, now):
                    self._known.setdefault(*self._entry(chunk, number))
            self._counts = counts
        return self._known.get(key)

    def read(self, lying: Lying) -> Any:
        """The array as it was when it was kept; OSError if it cannot be read."""
        self.check()
        return read_at(self._file, lying)

    def nbytes(self) -> int:
        """The memory that it takes."""
        return os.fstat(self._file).st_blocks * 512

    def _entry(self, chunk: int, number: int) -> tuple[bytes, Lying]:
        content = os.pread(self._file, _ENTRY.size, self._place(chunk, number))
        key, at, nbytes, dtype, ndim, owns, writeable, *rest = _ENTRY.unpack(content)
        shape, strides = tuple(rest[:ndim]), tuple(rest[MOST_DIMENSIONS : MOST_DIMENSIONS + ndim])
        kind = sys.modules["numpy"].dtype(dtype.rstrip(b"\0").decode())
        return key, Lying(at, nbytes, shape, strides, kind, bool(owns), bool(writeable))

    def _base(self, chunk: int) -> int:
        return _HEADER + chunk * self.chunk_nbytes

    def _place(self, chunk: int, number: int) -> int:
        """Where an entry lies: from the end of its chunk backwards."""
        return self._base(chunk + 1) - (number + 1) * _ENTRY.size


def _identity(file: int) -> tuple[int, int]:
    found = os.fstat(file)
    return found.st_dev, found.st_ino


def _close(file: int, identity: tuple[int, int]) -> None:
    try:
        if _identity(file) == identity:
            os.close(file)
    except OSError:  # the program has closed it
        return


def can_keep(value: Any) -> bool:
    """Whether a value is an array that is nothing but its elements."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or type(value) is not numpy.ndarray or not value.size or value.ndim > MOST_DIMENSIONS:
        return False
    return value.dtype.isbuiltin == 1 and value.dtype.kind in _KINDS


def _filled(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return (*numbers, *(0,) * (MOST_DIMENSIONS - len(numbers)))


def common(most_nbytes: int) -> Common | None:
    """A file for workers of at most this size; None where there is no such thing, or it would be too small."""
    if not hasattr(os, "memfd_create") or most_nbytes < LEAST_NBYTES:
        return None
    return Common(most_nbytes)
