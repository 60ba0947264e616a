"""The source of a function of the program's, as a syntax tree, if it is certain that this is what runs."""

from __future__ import annotations

import ast
import functools
import os
import types
from pathlib import Path
from typing import Any

from codedag.instrument.places import is_installed
from codedag.instrument.warned import unheard

Definition = ast.FunctionDef | ast.Lambda
LARGEST = 1 << 20  # bytes of source


class Unfit(Exception):  # noqa: N818 - a reason, turned into a refusal by the guard
    """Why a function is left as it is."""


def definition_of(function: types.FunctionType) -> Definition:
    """The definition of a function; its source must be that which was loaded."""
    code = function.__code__
    if _is_foreign(code.co_filename):
        raise Unfit("a function of a library")
    try:
        state = os.stat(code.co_filename)  # noqa: PTH116 - the name as the code has it
    except OSError:
        raise Unfit("a function without a source file") from None
    if state.st_size > LARGEST:
        raise Unfit("a very long source file")
    changed = max(state.st_mtime_ns, state.st_ctime_ns)
    plain, definitions = _definitions(code.co_filename, changed, state.st_size)
    if code not in plain and changed > _started_ns():  # code with sites cannot be compared: the file must be older
        raise Unfit("its source file was changed while the program runs")
    found = definitions.get((code.co_firstlineno, code.co_name), [])
    if len(found) > 1:  # lambdas on one line, perhaps one in the other
        found = sorted((node for node in found if _covers(node, code)), key=lambda node: -node.col_offset)[:1]
    if len(found) != 1:
        raise Unfit("several functions begin on its line")
    if _parameters(found[0]) != code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        raise Unfit("its source has other parameters")
    return found[0]


def _covers(node: Definition, code: types.CodeType) -> bool:
    """Whether all instructions of a code stand in a definition."""
    first, last = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    places = [place for place in code.co_positions() if None not in place and place[2] != place[3]]
    return bool(places) and all(first <= (line, at) and (to_line, to) <= last for line, to_line, at, to in places)


@functools.lru_cache(maxsize=256)
def _is_foreign(path: str) -> bool:
    """Whether a file is a library's; what our own proofs use is here."""
    return is_installed(path) and Path(path).parent != Path(__file__).parent


def _parameters(node: Definition) -> tuple[str, ...]:
    args = node.args
    return tuple(each.arg for each in (*args.posonlyargs, *args.args, *args.kwonlyargs))


Place = tuple[int, str]


@functools.lru_cache(maxsize=32)
def _definitions(path: str, changed: int, size: int) -> tuple[set[Any], dict[Place, list[Definition]]]:
    """The code objects of a file as Python compiles it, and its definitions by first line and name."""
    source = Path(path).read_bytes()
    found: dict[Place, list[Definition]] = {}
    with unheard():
        tree, code = ast.parse(source, path), compile(source, path, "exec", dont_inherit=True)
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            found.setdefault((node.lineno, "<lambda>"), []).append(node)
        elif isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            found.setdefault((first, node.name), []).append(node)
    return _codes(code), found


def _codes(code: types.CodeType) -> set[Any]:
    """A code object and all inside it."""
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return {code}.union(*map(_codes, inner))


@functools.lru_cache(maxsize=1)
def _started_ns() -> int:
    """When this process was started; nothing of the program was loaded before."""
    import psutil

    return int(psutil.Process().create_time() * 1e9)
