"""Requests that the compiler process answers: rewriting, lean code, links, digests and names read by other compilers.

Answers are values that `marshal` knows.  Each source is read there, and must be the one that was asked about.
"""

from __future__ import annotations

import ast
import marshal
import re
import types
from collections.abc import Collection, Iterable, Iterator
from dataclasses import astuple
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec.structs import astuple as fields_of

from codedag.instrument.cache import Cache, rewriter_version
from codedag.instrument.code_digest import digests_by_place
from codedag.instrument.codes import CodeKey
from codedag.instrument.compiled import Compiled
from codedag.instrument.guard import Declined, Failed, attempt
from codedag.instrument.instrumented_file import FULL, fits, rewritten
from codedag.instrument.python import compiled_quietly
from codedag.instrument.rewrite import CannotRewrite, parsed
from codedag.instrument.rewrite import rewrite as rewrite_tree
from codedag.ir.files import write_atomically
from codedag.ir.sha256 import sha256 as digest

#: Sources without one of these words do not name a compiler that reads byte code.
_NAMES_A_COMPILER = re.compile(
    rb"numba|n?jit\b|torch\s*\.\s*compile|\.compile\(\s*\)|_dynamo|triton|taichi|pythran|jax\b"
)
_cache = Cache()
NAMES_FILES_MAX = 20_000


def rewrite(path: str, sha256: str, names: Collection[str], modules: bool, form: str = FULL) -> tuple[Any, ...]:
    """The fields of the cache entry of a rewritten file, which is put into the cache as well."""
    source, compiled = _source(path, sha256), Compiled(set(names), modules)
    sha256 = digest(source).hexdigest()
    entry = _cache.load(path, sha256, form)
    if entry is None or not fits(entry, compiled):
        try:
            entry = rewritten(path, source, compiled, form)
        except (CannotRewrite, RecursionError) as error:
            raise Declined(f"{path} cannot be rewritten: {error}") from error
        _cache.store(path, sha256, form, entry)
    return fields_of(entry)


def lean(path: str, sha256: str, names: Collection[str], modules: bool, keep: Collection[int]) -> types.CodeType:
    """The code of a file with only these sites in it, as placeholders."""
    tree = parsed(_source(path, sha256), path)
    return rewrite_tree(tree, path, keep=set(keep), compiled=Compiled(set(names), modules)).code


def links(path: str, sha256: str, names: Collection[str], modules: bool, main: bool) -> tuple[Any, ...]:
    """The single-use links of a file as (source, target, operand)."""
    return links_in(_source(path, sha256), path, Compiled(set(names), modules), main, "links")


def opened(path: str, sha256: str, names: Collection[str], modules: bool, main: bool) -> tuple[Any, ...]:
    """The links from what `with` statements of a file open, as (source, target, operand)."""
    return links_in(_source(path, sha256), path, Compiled(set(names), modules), main, "opened")


def uses(path: str, sha256: str, names: Collection[str], modules: bool, main: bool) -> tuple[Any, ...]:
    """The sites that take the value of each site of a file, as (source, targets)."""
    return links_in(_source(path, sha256), path, Compiled(set(names), modules), main, "uses")


def called(path: str, sha256: str, names: Collection[str], modules: bool, main: bool) -> tuple[Any, ...]:
    """The last name of what each call of a file calls, as (line, column, end line, end column, name)."""
    return links_in(_source(path, sha256), path, Compiled(set(names), modules), main, "called")


def links_in(source: bytes, path: str, compiled: Compiled, main: bool, kind: str) -> tuple[Any, ...]:
    """The links of one kind in a source, or what its calls call."""
    from codedag.instrument import links as found

    tree = _numbered(source, path, tuple(sorted(compiled.names)), compiled.modules)
    if kind == "called":
        return tuple(_called_in(tree))
    if kind == "uses":
        return tuple(found.uses(tree, main=main).items())
    return tuple(astuple(link) for link in (found.opened if kind == "opened" else found.links)(tree, main=main))


@lru_cache(maxsize=1)  # one after the other is asked about each file
def _numbered(source: bytes, path: str, names: tuple[str, ...], modules: bool) -> ast.Module:
    from codedag.instrument.numbering import number

    tree = parsed(source, path)
    number(tree, path, Compiled(set(names), modules))
    return tree


def _called_in(tree: ast.Module) -> Iterator[tuple[int, int, int | None, int | None, str]]:
    other = {a.asname: a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names if a.asname}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            yield node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, other.get(name, name)


def digests(path: str, sha256: str) -> dict[CodeKey, bytes | None]:
    """The digest of the plain code of each function of a file."""
    return digests_by_place(compiled_quietly(path, _source(path, sha256))[0])


def compiled_names(paths: Iterable[str]) -> tuple[tuple[str, tuple[str, ...], bool], ...]:
    """For each source that names another compiler: path, names this reads, whether it compiles torch modules."""
    known = NamesCache(_cache.folder)
    found = [(path, *answer) for path in paths if (answer := known.names_in(path)) is not None]
    known.write()
    return tuple((path, names, whole) for path, names, whole in found if names or whole)


class NamesCache:
    """What other compilers read in source files, on disk by path, size and time: parsing a package takes seconds."""

    def __init__(self, folder: Path | None) -> None:
        self._file = (
            None if folder is None else folder / f"names-{digest(rewriter_version().encode()).hexdigest()[:16]}"
        )
        self._rows: dict[str, tuple[int, int, tuple[str, ...], bool]] = {}
        self._is_changed = False
        read = attempt(self._read)
        self._rows = {} if isinstance(read, Failed) else read

    def _read(self) -> dict[str, tuple[int, int, tuple[str, ...], bool]]:
        rows = marshal.loads(self._file.read_bytes()) if self._file is not None and self._file.exists() else {}
        return {path: (int(a), int(b), tuple(names), bool(whole)) for path, (a, b, names, whole) in rows.items()}

    def names_in(self, path: str) -> tuple[tuple[str, ...], bool] | None:
        """The names in one source, and whether it compiles whole torch modules; None if it cannot be read."""
        try:
            status = Path(path).stat()
        except OSError:
            return None
        row = self._rows.get(path)
        if row is not None and row[:2] == (status.st_size, status.st_mtime_ns):
            return row[2:]
        compiled = attempt(_compiled_in, path)
        if isinstance(compiled, Failed):
            return None
        names = tuple(sorted(compiled.names))
        self._rows[path] = (status.st_size, status.st_mtime_ns, names, compiled.modules)
        self._is_changed = True
        return names, compiled.modules

    def write(self) -> None:
        """Keeps what was found; another process sees all of it or nothing."""
        if self._file is not None and self._is_changed:
            rows = dict(list(self._rows.items())[-NAMES_FILES_MAX:])
            attempt(write_atomically, self._file, marshal.dumps(rows))


def _compiled_in(path: str) -> Compiled:
    source, compiled = Path(path).read_bytes(), Compiled()
    if _NAMES_A_COMPILER.search(source):
        compiled.mark(parsed(source, path))
    return compiled


def _source(path: str, sha256: str) -> bytes:
    source = Path(path).read_bytes()
    if sha256 and digest(source).hexdigest() != sha256:
        raise Declined(f"{path} has changed since it was asked about")
    return source
