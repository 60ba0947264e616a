"""State of a file by which a change of it is noticed: stamps, size, inode, and content where stamps do not tell.

A program that has mapped a file to share its changes writes into it as into memory.  The system stamps the file when a
page is written for the first time, not at the next ones, and never stamps files that lie in memory only.  So a file
that this process has mapped to write has no state any more, and a file in memory is known by its content.
"""

from __future__ import annotations

import errno
import hashlib
import os
import struct
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

try:
    import fcntl
except ImportError:  # no such system
    fcntl = None  # type: ignore[assignment]

IN_MEMORY = frozenset({"tmpfs", "ramfs", "hugetlbfs", "devtmpfs"})  # file systems that do not stamp mapped writes
LARGEST_DIGEST = 1 << 24  # bytes of a file whose content is read to know its state
_MAPS, _SIZES, _MOUNTS = "/proc/self/maps", "/proc/self/statm", "/proc/self/mountinfo"


class FileState(NamedTuple):
    """What differs once a file was changed or replaced."""

    stamp_ns: int
    nbytes: int
    inode: int
    device: int
    digest: bytes = b""


def file_state(path: Any) -> FileState | None:
    """The state of a file now, or None if it can change without being noticed; OSError if there is no such file."""
    found = os.stat(path)  # noqa: PTH116 - the path as the program wrote it, which may be bytes
    if found.st_ino in _mappings.written():
        return None
    digest = b""
    if found.st_dev in _in_memory():
        if found.st_size > LARGEST_DIGEST:
            return None
        digest = hashlib.blake2b(_content(path, LARGEST_DIGEST), digest_size=16).digest()
    return FileState(max(found.st_mtime_ns, found.st_ctime_ns), found.st_size, found.st_ino, found.st_dev, digest)


def _content(path: Any, most_nbytes: int) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, most_nbytes)
    finally:
        os.close(file)


@cache
def _in_memory() -> frozenset[int]:
    """The devices whose files lie in memory only."""
    found = set()
    for line in _lines(_MOUNTS):
        before, _, after = line.partition(b" - ")
        if after.split(b" ", 1)[0].decode() in IN_MEMORY:
            major, _, minor = before.split()[2].partition(b":")
            found.add(os.makedev(int(major), int(minor)))
    return frozenset(found)


class Mappings:
    """The inodes of the files that this process was seen to have mapped to write; one that is stays one.

    By inode alone: file systems that lie above others give files another device here than there.
    """

    def __init__(self) -> None:
        self._sizes, self._process = -1, 0
        self._written: set[int] = set()

    def written(self) -> set[int]:
        """The files; all mappings are looked through only if their size in all is another one (1 ms against 10 us).

        It is another one whenever a thread's arena has grown: in a pool of threads, before nearly every call.
        """
        sizes = _shared_pages()
        if sizes != self._sizes or self._process != os.getpid():
            self._sizes, self._process = sizes, os.getpid()
            self._written |= _written_now()
        return self._written


_mappings = Mappings()


def _shared_pages() -> int:
    """The pages of all mappings that are not private memory to write; they change when a shared mapping is made."""
    try:
        sizes = _content(_SIZES, 4096).split()
    except OSError:  # a system that does not tell
        return 0
    return int(sizes[0]) - int(sizes[5])


def _written_now() -> set[int]:
    """The inode of each file that is mapped now such that what is written there is written to the file."""
    found = _asked() if _can_ask else None
    return _read() if found is None else found


def _read() -> set[int]:
    """The same, from the text about all mappings."""
    rows = (line.split(None, 5) for line in _lines(_MAPS))
    return {int(row[4]) for row in rows if row[1][1:2] == b"w" and row[1][3:4] == b"s"} - {0}


# PROCMAP_QUERY of linux/fs.h, since 6.11: the next mapping of a file that is writable and shared, without the text
_QUERY, _QUERY_NBYTES, _QUERY_FLAGS = 0xC0686611, 104, 0x02 | 0x08 | 0x10 | 0x20
_END_AT, _INODE_AT = 32, 64  # in what is answered
_NOTHING_MORE = errno.ENOENT
_can_ask = fcntl is not None


def _asked() -> set[int] | None:
    """The same, by asking the system for just these mappings; None where it cannot be asked."""
    global _can_ask
    found, address = set[int](), 0
    try:
        maps = os.open(_MAPS, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        while True:
            query = bytearray(_QUERY_NBYTES)
            query[:24] = struct.pack("=QQQ", _QUERY_NBYTES, _QUERY_FLAGS, address)
            fcntl.ioctl(maps, _QUERY, query, True)
            (address,) = struct.unpack_from("=Q", query, _END_AT)
            found.update(struct.unpack_from("=Q", query, _INODE_AT))
    except OSError as error:
        if error.errno == _NOTHING_MORE:
            return found - {0}
        _can_ask = False
        return None
    finally:
        os.close(maps)


def _lines(path: str) -> list[bytes]:
    """The lines of a file of the system; none where there is no such file."""
    try:
        return Path(path).read_bytes().splitlines()
    except OSError:
        return []
