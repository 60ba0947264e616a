"""Samples of what goes into operations, kept while a program is traced so that they can be measured afterwards.

They are the user's data: the folder is private, has a size cap and an expiry, and holds JSON and .npy files only.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from dataclasses import dataclass, field
from os import stat_result
from pathlib import Path
from typing import Any

from codedag.instrument.guard import Failed, attempt
from codedag.instrument.sites import CALL, ITERATE, SETITEM
from codedag.instrument.table import info_of
from codedag.ir import CannotWrite
from codedag.ir import clock as time
from codedag.ir.files import write_atomically
from codedag.trace.gathered import shown_path
from codedag.trace.names import bound_to
from codedag.trace.plain import NotPlain, Packer, saved

FOLDER = "samples"
HEAD = {"format": "codedag/samples", "version": 1}
INDEX = "samples.json"
MOST_NBYTES = 256 << 20  # of one run
MOST_SAMPLES = 2_000
LARGEST_NBYTES = 32 << 20  # of one call: writing a megabyte takes about a millisecond
MOST_SECONDS = 3.0  # of writing, in one process
LOOKS_EVERY = 32  # samples after which the folder is looked at again: other processes write there too
KEPT_SECONDS = 7 * 24 * 3600
_PRIVATE = 0o700


@dataclass(slots=True)
class Spool:
    """Keeps what went into the first execution of each operation; nothing that it does may disturb the program."""

    folder: Path
    most_nbytes: int = MOST_NBYTES
    largest_nbytes: int = LARGEST_NBYTES
    most_seconds: float = MOST_SECONDS
    failure: str = ""  # why something was not kept
    stopped: bool = False  # nothing more can be kept
    _seconds: float = 0.0
    _nbytes: int = 0
    _seen: set[str] = field(default_factory=set)

    def begin(self) -> None:
        """Makes the private folder, and says in it until when it is kept; one from an earlier run is taken away."""
        try:
            forget(self.folder)
            os.makedirs(self.folder, _PRIVATE)  # noqa: PTH103 - by name: see ir.files
            os.chmod(self.folder, _PRIVATE)  # noqa: PTH101 - whatever the umask says
            about = {**HEAD, "expires": time.time() + KEPT_SECONDS, "most_nbytes": self.most_nbytes}
            write_atomically(self.folder / INDEX, json.dumps(about).encode())
        except (OSError, CannotWrite) as error:
            self.failure, self.stopped = str(error), True

    def take(self, template: Any, kind: int, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Keeps what went into a call, if there is room."""
        if self.stopped or self._seconds > self.most_seconds or "numpy" not in sys.modules:
            return
        begun = time.perf_counter()
        done = attempt(self._take, template, kind, function, args, keywords)
        self._seconds += time.perf_counter() - begun
        if isinstance(done, Failed):
            self.failure = done.reason

    def _take(self, template: Any, kind: int, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        if kind != CALL and not template.in_sig.count("["):
            return  # arithmetic with plain numbers, of which there may be very much
        info = info_of(template.site)
        place = {"file": shown_path(info.file), "line": info.line, "col": info.column, "in_sig": template.in_sig}
        self.keep(template.name, _as_function(kind, function, args), keywords, **place)

    def keep(
        self, name: str, args: tuple[Any, ...] | str, keywords: dict[str, Any], *, file: str = "", line: int = 0,
        col: int = 0, in_sig: str = "",
    ) -> Path:  # fmt: skip
        """The file of a call, written unless it is there; a text in place of arguments says why there are none."""
        key = key_of(name=name, file=file, line=line, col=col, in_sig=in_sig)
        path = self.folder / f"{key}.json"
        if key not in self._seen and len(self._seen) < MOST_SAMPLES:
            self._seen.add(key)
            about = {"name": name, "file": file, "line": line, "col": col, "in_sig": in_sig}
            self._write(path, about, args, keywords)
        return path

    def _write(self, path: Path, about: dict[str, Any], args: tuple[Any, ...] | str, keywords: dict[str, Any]) -> None:
        try:
            path.touch(0o600, exist_ok=False)  # so that of several processes one keeps it
        except FileExistsError:
            return
        written: list[Path] = []
        try:
            call = self._packed(path, args, keywords, written)
            write_atomically(path, json.dumps({**HEAD, **about, **call}).encode())
        except (OSError, CannotWrite) as error:  # a full disk: what is there stays, nothing more is tried
            for part in (*written, path):
                part.unlink(missing_ok=True)
            self.failure, self.stopped = f"samples are not kept any more: {_why(error, self.folder)}", True

    def _packed(
        self, path: Path, args: tuple[Any, ...] | str, keywords: dict[str, Any], written: list[Path]
    ) -> dict[str, Any]:
        """The call as plain data, with its arrays written; or why it was left out."""
        packer = Packer()
        try:
            if isinstance(args, str):
                raise NotPlain(args)
            nodes = {"args": packer.several(args), "keywords": {name: packer.pack(v) for name, v in keywords.items()}}
            self._need_room(packer.nbytes)
        except NotPlain as error:
            return {"left_out": str(error)}
        for number, array in enumerate(packer.arrays):
            written.append(path.with_name(f"{path.stem}-{number}.npy"))
            saved(array, written[-1])
        return {**nodes, "arrays": len(packer.arrays), "nbytes": packer.nbytes}

    def _need_room(self, nbytes: int) -> None:
        if nbytes > self.largest_nbytes:
            most = self.largest_nbytes >> 20
            raise NotPlain(f"its inputs are too large to be kept ({nbytes >> 20} MB, at most {most})")
        if len(self._seen) % LOOKS_EVERY == 1:
            self._nbytes = sum(entry.stat().st_size for entry in os.scandir(self.folder))
        self._nbytes += nbytes
        if self._nbytes > self.most_nbytes:
            raise NotPlain(f"the samples of a run may take {self.most_nbytes >> 20} MB, which are full")


def _why(error: OSError | CannotWrite, folder: Path) -> str:
    """What stopped the writing, in one line; on a full disk numpy says how many values it "requested" and "written"."""
    if isinstance(error, CannotWrite):
        return error.message
    return f"cannot write to {folder}: {error.strerror or f'is the disk full? ({error})'}"


def key_of(*, name: str, file: str, line: int, col: int, in_sig: str) -> str:
    """The key of the samples of one operation at one place with one signature, whatever led there."""
    return hashlib.sha256(f"{file}:{line}:{col}:{name}:{in_sig}".encode(errors="surrogateescape")).hexdigest()[:24]


def _as_function(kind: int, function: Any, args: tuple[Any, ...]) -> tuple[Any, ...] | str:
    """The arguments as the named function takes them: a method's own object first; a text if there are none."""
    if kind == ITERATE:
        return "it is a step of an iterator, which cannot be repeated"
    if kind == SETITEM:
        return (args[1], args[2], args[0])  # a site passes value, object, index
    own = bound_to(function)
    if own is None or isinstance(own, (type, type(sys))):
        return args
    return (own, *args)


def forget(folder: Path) -> None:
    """Removes a folder of samples, of which there may be none."""
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)


def forget_expired(runs: Path, now: float) -> int:
    """How many runs had samples that were past their time, and have none now."""
    gone = 0
    for index in runs.glob(f"*/{FOLDER}/{INDEX}"):
        if expires(index.parent, index.stat()) < now:
            forget(index.parent)
            gone += 1
    return gone


def expires(folder: Path, made: stat_result) -> float:
    """The time until which samples are kept; of a folder that does not say, so long after it was made."""
    try:
        return float(json.loads((folder / INDEX).read_bytes())["expires"])
    except (OSError, ValueError, KeyError, TypeError):
        return made.st_mtime + KEPT_SECONDS
