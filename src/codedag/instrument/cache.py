"""Rewritten code on disk: a file that was rewritten once is neither parsed nor compiled again.

An entry is what Python's own .pyc is, code of the user's in a folder of the user's, so it is trusted as far: the folder
and the file must belong to the user and be writable by nobody else.  Whatever is wrong with an entry, or with the disk,
means only that the file is rewritten again.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import stat
import sys
import types
import zlib
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import astuple

from codedag.instrument.codes import CodeKey
from codedag.instrument.python import uncollected
from codedag.ir.sha256 import sha256 as digest

LARGEST_NBYTES = 512 * 2**20
_MAGIC = b"codedag code 1\n\0"
_HEADER = len(_MAGIC) + 4
#: The modules that decide what rewritten code looks like: entries made by others of them are not used.
_DECIDE = (
    "cache", "code_digest", "codes", "compiled", "instrumented_file", "numbering", "python", "rewrite", "sites",
    "stable", "table",
)  # fmt: skip


#: Requests to the compiler process whose second argument is the digest of the one source that they are about.
_ABOUT_ONE_SOURCE = frozenset({"lean", "links", "opened", "uses", "called", "digests"})


class Entry(msgspec.Struct, frozen=True):
    """One rewritten file: code with placeholders, its sites, and what it took from and gave to other files."""

    code: types.CodeType
    columns: tuple[Any, ...]
    loops: int
    defined: frozenset[str]  # names of its definitions: which of them other compilers read decides how it is rewritten
    read_before: frozenset[str]  # those that were known to be read when it was rewritten,
    modules_before: bool  # and whether whole torch modules were known to be compiled
    read_after: frozenset[str]  # names that it added to those
    modules_after: bool
    warns: bool  # whether compiling the source as it stands warns: then Python's import is asked each time
    digests: dict[CodeKey, bytes | None]  # of the plain code of each function: None where two share a place
    left: frozenset[str]  # functions (by qualified name) that another compiler reads: they have no sites
    loop_lines: tuple[tuple[int, int, bool], ...]  # first and last line of each loop, and whether its body is doubled


class Cache:
    """The folder of rewritten code; a failure in it costs only time."""

    def __init__(self, folder: Path | None = None, largest_nbytes: int = LARGEST_NBYTES) -> None:
        self._folder, self._largest = folder, largest_nbytes
        self._written = largest_nbytes  # bytes since the whole folder was looked at: the first entry looks at it

    @cached_property
    def folder(self) -> Path | None:
        """The folder, made if need be; None where there is none that only the user can write to."""
        try:
            folder = self._folder or _default()
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return folder if _is_private(folder.lstat(), stat.S_ISDIR) else None
        except (OSError, ImportError, RuntimeError):
            return None

    def _place(self, path: str, sha256: str, form: str) -> str:
        name = digest(f"{rewriter_version()}\0{form}\0{sha256}\0{path}".encode("utf-8", "surrogatepass")).hexdigest()
        return f"{self.folder}/{name}"

    def load(self, path: str, sha256: str, form: str) -> Entry | None:
        """What was stored for this very source in this form (all sites, or only those in loops), or None."""
        if self.folder is None:
            return None
        try:
            body = _checked(_read(self._place(path, sha256, form)))
            with uncollected():
                return None if body is None else Entry(*marshal.loads(body))
        except (OSError, EOFError, ValueError, TypeError):
            return None

    def store(self, path: str, sha256: str, form: str, entry: Entry) -> None:
        """Keeps an entry; another process sees all of it or nothing."""
        if self.folder is None:
            return
        try:
            place = self._place(path, sha256, form)
        except OSError:  # our own sources cannot be read
            return
        self._store(place, astuple(entry))

    def _store(self, place: str, content: bytes | tuple[Any, ...]) -> None:
        part = f"{place}.{os.getpid()}"
        try:
            body = content if isinstance(content, bytes) else marshal.dumps(content)
            with open(part, "xb", opener=_privately) as file:
                file.write(_MAGIC + zlib.crc32(body).to_bytes(4, "little") + body)
            Path(part).replace(place)
            self._bound(len(body))
        except (OSError, ValueError):
            _drop(part)

    def load_answer(self, kind: str, arguments: tuple[Any, ...]) -> bytes | None:
        """What the compiler process answered to this very request about these very sources, or None."""
        place = self._place_of_answer(kind, arguments)
        try:
            body = None if place is None else _checked(_read(place))
            return None if body is None else bytes(body)
        except OSError:
            return None

    def store_answer(self, kind: str, arguments: tuple[Any, ...], answer: bytes) -> None:
        """Keeps an answer of the compiler process."""
        place = self._place_of_answer(kind, arguments)
        if place is not None:
            self._store(place, answer)

    def _place_of_answer(self, kind: str, arguments: tuple[Any, ...]) -> str | None:
        stamps = _stamps(kind, arguments)
        if self.folder is None or stamps is None:
            return None
        try:
            facts = f"{answers_version()}\0{kind}\0{arguments!r}\0{stamps!r}"
        except OSError:  # our own sources cannot be read
            return None
        return f"{self.folder}/{digest(facts.encode('utf-8', 'surrogatepass')).hexdigest()}"

    def _bound(self, nbytes: int) -> None:
        """Drops the oldest entries once there is too much; the folder is looked at only now and then."""
        self._written += nbytes
        if self._written < self._largest // 8 or self.folder is None:
            return
        self._written = 0
        found = sorted((s.st_mtime_ns, s.st_size, e.path) for e in os.scandir(self.folder) if (s := _stat(e)))
        total = sum(size for _, size, _ in found)
        enough = self._largest if total <= self._largest else self._largest * 3 // 4
        for _, size, path in found:
            if total <= enough:
                break
            _drop(path)
            total -= size


def _default() -> Path:
    from codedag.ir.places import cache_dir

    return cache_dir() / "code"


@cache
def rewriter_version() -> str:
    """What else decides about the code than the source and its place: the rewriter, and this Python."""
    ours = digest()
    for name in _DECIDE:
        ours.update(Path(__file__).with_name(f"{name}.py").read_bytes())
    python = (importlib.util.MAGIC_NUMBER.hex(), sys.implementation.cache_tag, sys.flags.optimize, sys.byteorder)
    return f"{ours.hexdigest()} {python}"


@cache
def answers_version() -> str:
    """What else decides about an answer of the compiler process than the sources: all of this room, and this Python."""
    ours = digest()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        ours.update(path.read_bytes())
    return f"{ours.hexdigest()} {rewriter_version()}"


def _stamps(kind: str, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """What tells whether the sources of a request are the same as before; None: that cannot be told."""
    if kind == "compiled_names":
        try:
            return tuple((s.st_size, s.st_mtime_ns) for s in map(os.stat, arguments[0]))
        except OSError:
            return None
    return () if kind in _ABOUT_ONE_SOURCE and len(arguments) > 1 and arguments[1] else None


def _is_private(status: os.stat_result, kind: Callable[[int], bool]) -> bool:
    mine = not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o022)
    return mine and kind(status.st_mode)


def _privately(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _read(place: str) -> bytes:
    """The bytes of an entry; none if somebody else could have written it."""
    descriptor = os.open(place, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    try:
        status = os.fstat(descriptor)
        return os.read(descriptor, status.st_size + 1) if _is_private(status, stat.S_ISREG) else b""
    finally:
        os.close(descriptor)


def _checked(data: bytes) -> memoryview | None:
    if data[: len(_MAGIC)] != _MAGIC:
        return None
    body = memoryview(data)[_HEADER:]
    return body if zlib.crc32(body) == int.from_bytes(data[len(_MAGIC) : _HEADER], "little") else None


def _stat(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:
        return None


def _drop(path: str) -> None:
    try:
        Path(path).unlink(missing_ok=True)
    except OSError:
        pass
