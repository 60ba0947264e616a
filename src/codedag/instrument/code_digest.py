"""Digest of a code object by everything that it does: whether a loaded function runs what its source compiles to.

Two code objects have one digest if instructions (as compiled, not as the interpreter has specialised them), constants,
names, flags, argument counts, line table and exception table are equal, those of nested code included.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

from codedag.instrument.codes import CodeKey, codes_by_place
from codedag.ir.sha256 import sha256


def code_digest(code: types.CodeType) -> bytes:
    """The digest of a code object."""
    return sha256(repr(list(_parts(code))).encode("utf-8", "surrogatepass")).digest()


def digests_by_place(code: types.CodeType) -> dict[CodeKey, bytes | None]:
    """The digests of all functions in the code of a module; None where two share a place."""
    return {place: None if each is None else code_digest(each) for place, each in codes_by_place(code).items()}


def _parts(code: types.CodeType) -> Iterator[Any]:
    yield code.co_code  # without inline caches and specialised instructions, whatever the interpreter made of it
    yield code.co_name, code.co_qualname, code.co_firstlineno, code.co_flags, code.co_stacksize
    yield code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    yield code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    yield code.co_linetable, code.co_exceptiontable
    for constant in code.co_consts:
        yield _constant(constant)


def _constant(value: Any) -> Any:
    """A constant as a value whose repr says its type and all of its bits."""
    if isinstance(value, types.CodeType):
        return code_digest(value)
    if type(value) is tuple:
        return "tuple", [_constant(each) for each in value]
    if type(value) is frozenset:
        return "frozenset", sorted(repr(_constant(each)) for each in value)
    return type(value).__name__, repr(value)
