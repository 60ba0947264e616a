"""What Python's own import does with a source file: its compiled code on disk, and whether it would compile."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import marshal
import os
import types
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from codedag.instrument.rewrite import unheard

_HEADER = 16
_BY_TIME = b"\0\0\0\0"  # flags of a file that is valid while the source has the same time and size


def plain_code(path: str, source: bytes, header: bytes | None) -> Callable[[], types.CodeType]:
    """How to get the code of a source that was imported: from Python's own cache, or compiled without a word.

    `header` is that of the cached code that belongs to this source.
    """
    return partial(_plain_code, path, source, header)


def cached_header(path: str) -> bytes | None:
    """The head of Python's own cached code, if an import would use that and compile nothing."""
    try:
        status = os.stat(path)  # noqa: PTH116 - import time counts
        with open(importlib.util.cache_from_source(path), "rb") as file:  # noqa: PTH123
            found = file.read(_HEADER)
    except (OSError, NotImplementedError):
        return None
    times = (int(status.st_mtime), status.st_size)
    wanted = b"".join((number & 0xFFFFFFFF).to_bytes(4, "little") for number in times)
    return found if found == importlib.util.MAGIC_NUMBER + _BY_TIME + wanted else None


def _plain_code(path: str, source: bytes, header: bytes | None) -> types.CodeType:
    try:
        data = Path(importlib.util.cache_from_source(path)).read_bytes() if header else b""
        if header and data[:_HEADER] == header:
            code = marshal.loads(memoryview(data)[_HEADER:])
            if isinstance(code, types.CodeType) and code.co_filename == path:
                return code
    except (OSError, EOFError, ValueError, TypeError):
        pass
    with unheard():
        return compile(source, path, "exec", dont_inherit=True)


def sources_of(modules: Iterable[tuple[str, object]]) -> Iterator[tuple[str, str]]:
    """Name and file of each of these modules that Python loaded from source."""
    for name, module in modules:
        spec = vars(module).get("__spec__") if isinstance(module, types.ModuleType) else None
        loader = getattr(spec, "loader", None)
        if isinstance(loader, importlib.machinery.SourceFileLoader) and spec is not None and spec.origin:
            yield name, spec.origin
