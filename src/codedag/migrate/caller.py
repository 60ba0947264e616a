"""Calls as from the user's own line: warnings, log records and whoever else asks for the caller see that line.

A variant is a Python function, so what it calls on would otherwise name our file and line as the caller, and the
warning that Python shows once per line would be shown once for all lines that we stand for.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from codedag.instrument import sites as site_module
from codedag.instrument.sites import SiteInfo

Call = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
_MIMIC = "def mimic(function, args, keywords): return function(*args, **keywords)"


class Caller:
    """Calls functions from a frame that has the file, line, name and globals of a site."""

    __slots__ = ("_call", "_code", "_globals")

    def __init__(self, info: SiteInfo) -> None:
        module = compile("\n" * (info.line - 1) + _MIMIC, info.file, "exec", dont_inherit=True)
        code = next(constant for constant in module.co_consts if isinstance(constant, types.CodeType))
        name = info.owner.rpartition(".")[2] or "<module>"
        self._code = code.replace(co_name=name, co_qualname=info.owner or name)
        site_module.native.hide(self._code)
        self._globals: dict[str, Any] | None = None
        self._call: Call | None = None

    def in_module(self, space: dict[str, Any]) -> Call:
        """call(function, args, keywords), as from a module with these globals (those of the calling frame)."""
        call = self._call
        if call is None or self._globals is not space:
            call = self._call = types.FunctionType(self._code, space)
            self._globals = space
        return call
