"""Compiled kernels on disk: an entry appears whole and proven or not at all.

`KEY.json` is the entry: it names the library, its SHA-256 and its proof, and is written last. The library is
compiled and proven under a temporary name and its final name contains its hash, so processes that build the
same kernel at once, and processes that are killed meanwhile, leave nothing that could be taken for an entry.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codedag.ir import clock as time
from codedag.ir.errors import CannotWrite
from codedag.ir.files import write_atomically
from codedag.ir.places import cache_dir
from codedag.ir.verdict import No, Verdict
from codedag.tune.compiler import Compiler, run_compiler
from codedag.tune.machine_key import machine_key

FORMAT, VERSION = "codedag/kernel", 1
TEMPORARY = ".building-"
TOO_DEAR = "compiling its kernel would have cost more than it could save in a run of this length"
STALE_SECONDS = 3600.0  # no compiler that we start runs this long
Prove = Callable[[Path], Verdict]


@dataclass(frozen=True, slots=True)
class Built:
    """A library that may be loaded, and what the report should say about where it lies."""

    path: Path
    note: str = ""


def kernel_key(*parts: str) -> str:
    """The name of a kernel: all that its machine code and its proof depend on."""
    digest = hashlib.sha256()
    for part in (*parts, machine_key()):
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()


class NotNow(No, frozen=True):
    """A kernel that is not on the disk and may not be compiled at present."""


class _Limit(threading.local):
    may_compile: Callable[[], bool] | None = None


_limit = _Limit()


@contextmanager
def compiling_only_if(may_compile: Callable[[], bool]) -> Iterator[None]:
    """A block in which this thread compiles what is not on the disk only if that is allowed at the time."""
    before, _limit.may_compile = _limit.may_compile, may_compile
    try:
        yield
    finally:
        _limit.may_compile = before


def may_compile() -> bool:
    """Whether a kernel may be compiled in this thread now."""
    return _limit.may_compile is None or _limit.may_compile()


def build(source: str, compiler: Compiler, prove: Prove) -> Built | No:
    """The library of this source, from the cache if it is there and whole, else compiled and proven now."""
    key = kernel_key(source, compiler.version, *compiler.command, *compiler.flags)
    shared = cache_dir() / "kernels"
    why = _usable(shared)
    if not why:
        built: Built | No | None = _find(shared, key)
        if built is None:
            built = _make(shared, key, source, compiler, prove) if may_compile() else NotNow(TOO_DEAR)
        if not isinstance(built, _Unwritten):
            return built
        why = built.reason
    return _build_privately(key, source, compiler, prove, f"the kernel cache {shared} cannot be used ({why})")


def remembered_proof(key: str) -> bool:
    """True if this kernel, which has no library of its own, was proven here before."""
    entry = _read_entry(cache_dir() / "kernels", key)
    return entry is not None and entry.get("proven") is True


def remembered_fact(key: str) -> dict[str, Any] | None:
    """What was written down under this key before, such as an answer about this machine."""
    return _read_entry(cache_dir() / "kernels", key)


def remember_proof(key: str, about: dict[str, Any]) -> str:
    """Writes a proof down; the reason if that cannot be done, and then the next process proves again."""
    folder = cache_dir() / "kernels"
    why = _usable(folder)
    if not why:
        try:
            _write_entry(folder, key, about)
        except CannotWrite as error:
            why = error.message
    return f"the proof is not kept ({why})" if why else ""


class _Unwritten(No, frozen=True):
    """The folder took no file: another folder may."""


def _usable(folder: Path) -> str:
    """Why this folder cannot hold code that we will load, or nothing."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        state = folder.stat()
    except OSError as error:
        return error.strerror or str(error)
    if hasattr(os, "geteuid") and state.st_uid != os.geteuid():
        return "it belongs to another user"
    return "others may write to it" if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else ""


def _find(folder: Path, key: str) -> Built | None:
    """The library of a whole, proven entry; anything less is as good as absent."""
    entry = _read_entry(folder, key)
    if entry is None or entry.get("proven") is not True:
        return None
    path = folder / Path(str(entry.get("library"))).name
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return Built(path) if hashlib.sha256(content).hexdigest() == entry.get("sha256") else None


def _read_entry(folder: Path, key: str) -> dict[str, Any] | None:
    try:
        entry = json.loads((folder / f"{key}.json").read_bytes())
    except (OSError, ValueError):
        return None
    ours = isinstance(entry, dict) and (entry.get("format"), entry.get("version")) == (FORMAT, VERSION)
    return entry if ours else None


def _make(folder: Path, key: str, source: str, compiler: Compiler, prove: Prove) -> Built | No:
    """Compiles and proves under a temporary name, then makes the entry appear."""
    temporary: Path | None = None
    try:
        _sweep(folder)
        text = folder / f"{key}.c"
        write_atomically(text, source.encode())
        handle, name = tempfile.mkstemp(dir=folder, prefix=TEMPORARY, suffix=".so")
        os.close(handle)
        temporary = Path(name)
        refused = run_compiler(compiler, text, temporary)
        if refused is not None:
            return _Unwritten(refused.reason)  # a full disk looks like this too
        verdict = prove(temporary)
        return verdict if isinstance(verdict, No) else _commit(folder, key, temporary, compiler)
    except CannotWrite as error:
        return _Unwritten(error.message)
    except OSError as error:
        return _Unwritten(error.strerror or str(error))
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _commit(folder: Path, key: str, temporary: Path, compiler: Compiler) -> Built:
    """Names the proven library after its content, then writes the entry that makes it count."""
    digest = hashlib.sha256(temporary.read_bytes()).hexdigest()
    path = folder / f"{key}-{digest[:16]}.so"
    temporary.chmod(0o600)
    temporary.replace(path)
    about = {"library": path.name, "sha256": digest, "compiler": compiler.version.splitlines()[0]}
    _write_entry(folder, key, {**about, "flags": list(compiler.flags)})
    return Built(path)


def _write_entry(folder: Path, key: str, about: dict[str, Any]) -> None:
    entry = {"format": FORMAT, "version": VERSION, "proven": True, **about}
    write_atomically(folder / f"{key}.json", json.dumps(entry, indent=1).encode())


def _sweep(folder: Path) -> None:
    """Removes what killed processes left behind long ago."""
    for left in folder.glob(f"{TEMPORARY}*"):
        try:
            if time.time() - left.stat().st_mtime > STALE_SECONDS:
                left.unlink()
        except OSError:
            pass


def _build_privately(key: str, source: str, compiler: Compiler, prove: Prove, why: str) -> Built | No:
    folder = _private_folder()
    if isinstance(folder, No):
        return No(f"{why}, and {folder.reason}")
    built = _find(folder, key) or _make(folder, key, source, compiler, prove)
    if isinstance(built, No):
        return No(built.reason)
    return Built(built.path, f"{why}; kernels of this process lie in a temporary folder and are built again next time")


_private: dict[int, Path] = {}  # by process: a forked child must not remove its parent's


def _private_folder() -> Path | No:
    """A folder that only this user can read and that is removed when this process ends."""
    known = _private.get(os.getpid())
    if known is not None and known.is_dir():
        return known
    try:
        folder = Path(tempfile.mkdtemp(prefix="codedag-kernels-"))
    except OSError as error:
        return No(f"no temporary folder can be made: {error.strerror or error}")
    atexit.register(_remove_private, os.getpid(), folder)
    _private[os.getpid()] = folder
    return folder


def _remove_private(owner: int, folder: Path) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
