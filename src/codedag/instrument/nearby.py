"""The live functions of a file: all of them, or those that its modules and the classes in them hold.

The former takes some 20 ms where a large library is loaded, since all objects are looked at.  And a forked process that
does so takes a reference to each, and gets a copy of nearly all memory that it shared with its parent: that takes
longer than many batches.
"""

from __future__ import annotations

import gc
import sys
import types
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

try:
    from codedag.instrument import _bind
except ImportError:  # no C compiler where it was installed
    _bind = None  # type: ignore[assignment]

Functions = Mapping[str, list[types.FunctionType]]
_MAIN = ("__main__", "__mp_main__")


def functions_near(path: str) -> list[types.FunctionType]:
    """The functions whose code came from this file, as they are or decorated; not those that only values hold."""
    spaces = [space for name, module in list(sys.modules.items()) if (space := _space(name, module, path))]
    waiting = [value for space in spaces for value in list(space.values())]
    found: list[types.FunctionType] = []
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            waiting += _inside(each, path)
            if type(each) is types.FunctionType and each.__code__.co_filename == path:
                found.append(each)
    return found


def _space(name: str, module: Any, path: str) -> dict[str, Any]:
    """The names of a module, if it comes from this file."""
    space = getattr(module, "__dict__", None) if type(module) is types.ModuleType else None
    return space if space is not None and (name in _MAIN or space.get("__file__") == path) else {}


def _inside(thing: Any, path: str) -> list[Any]:
    """What a function, class or descriptor holds where functions may be; nothing of the program's runs for that."""
    if type(thing) is types.FunctionType:
        return gc.get_referents(*thing.__closure__) if thing.__closure__ else []
    if type(thing) in (staticmethod, classmethod):
        return [thing.__func__]
    if type(thing) is property:
        return [thing.fget, thing.fset, thing.fdel]
    if not issubclass(type(thing), type):
        return []
    name = type.__getattribute__(thing, "__module__")
    own = type(name) is str and _space(name, sys.modules.get(name), path)
    return list(type.__getattribute__(thing, "__dict__").values()) if own else []


def functions_of(path: str) -> list[types.FunctionType]:
    """Every live function whose code came from this file."""
    return functions_by_file().get(path, [])


def functions_by_file() -> Functions:
    """Every live function, by the file its code came from."""
    return functions_in_python() if _bind is None else _bind.functions()


def functions_in_python() -> Functions:
    """What `_bind.functions` finds, where that was not built; it may disturb a tuple that another thread is making."""
    found: defaultdict[str, list[types.FunctionType]] = defaultdict(list)
    for candidate in gc.get_objects():
        if type(candidate) is types.FunctionType:
            found[candidate.__code__.co_filename].append(candidate)
    return found
