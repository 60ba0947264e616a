"""What Python's own import does with a source file: its compiled code on disk, and whether it would compile."""

from __future__ import annotations

import gc
import importlib.machinery
import importlib.util
import marshal
import os
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from codedag.instrument.warned import unheard

_HEADER = 16
_BY_TIME = b"\0\0\0\0"  # flags of a file that is valid while the source has the same time and size


class Plain(msgspec.Struct, frozen=True):
    """A source file as Python's import has it; `ask` asks that import, which may compile and warn."""

    path: str
    source: bytes
    ask: Callable[[], types.CodeType | None] | None = None

    def now(self) -> types.CodeType:
        """The code, with the warnings that Python's import gives; a module that is loaded already has given them."""
        return (self.ask() if self.ask else None) or self.later()

    def later(self) -> types.CodeType:
        """The code without a word: from Python's own cache if that is of this source, or compiled."""
        try:
            unchanged = Path(self.path).read_bytes() == self.source
            code = _cached(self.path) if unchanged else None
        except (OSError, EOFError, ValueError, TypeError):
            code = None
        if code is not None and code.co_filename == self.path:
            return code
        with unheard():
            return compile(self.source, self.path, "exec", dont_inherit=True)


def _cached(path: str) -> types.CodeType | None:
    """The code that an import would take from Python's own cache, if there is any for the source as it is."""
    status = Path(path).stat()
    try:
        data = Path(importlib.util.cache_from_source(path)).read_bytes()
    except NotImplementedError:
        return None
    if data[:_HEADER] != importlib.util.MAGIC_NUMBER + _BY_TIME + _time_and_size(status):
        return None
    code = marshal.loads(memoryview(data)[_HEADER:])
    return code if isinstance(code, types.CodeType) else None


def was_edited(path: str) -> bool:
    """Whether a source is newer than the code that Python's import keeps of it; unknown counts as no."""
    try:
        status = Path(path).stat()
        header = Path(importlib.util.cache_from_source(path)).read_bytes()[:_HEADER]
    except (OSError, NotImplementedError):
        return False
    return header[4:8] == _BY_TIME and header[8:] != _time_and_size(status)


def _time_and_size(status: os.stat_result) -> bytes:
    numbers = (int(status.st_mtime), status.st_size)
    return b"".join((number & 0xFFFFFFFF).to_bytes(4, "little") for number in numbers)


def compiled_quietly(path: str, source: bytes) -> tuple[types.CodeType, bool]:
    """The code of a source, and whether compiling it gives any warning, shown or not."""
    try:
        with unheard("error"):
            return compile(source, path, "exec", dont_inherit=True), False
    except (SyntaxError, Warning):
        with unheard():
            return compile(source, path, "exec", dont_inherit=True), True


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage is collected in here: what we make must not start what the program's own objects would not."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def sources_of(modules: Iterable[tuple[str, object]]) -> Iterator[tuple[str, str]]:
    """Name and file of each of these modules that Python loaded from source."""
    for name, module in modules:
        spec = vars(module).get("__spec__") if isinstance(module, types.ModuleType) else None
        loader = getattr(spec, "loader", None)
        if isinstance(loader, importlib.machinery.SourceFileLoader) and spec is not None and spec.origin:
            yield name, spec.origin
