"""Names of operations: the importable dotted name of whatever was called."""

from __future__ import annotations

import sys
import types
from typing import Any


class Names:
    """Remembers the dotted name of each callable it was asked about."""

    def __init__(self) -> None:
        self._of_type_and_name: dict[tuple[type, str], str] = {}
        self._of_object: dict[int, tuple[Any, str]] = {}

    def of(self, function: Any, iterates: bool = False) -> str:
        """The dotted name: `numpy.clip`, `numpy.ndarray.astype`, `operator.truediv`, `random.Random.uniform`."""
        if iterates:
            return self._method(type(function), "__next__")
        own = getattr(function, "__self__", None)
        name = getattr(function, "__name__", None)
        if own is not None and not isinstance(own, type | types.ModuleType) and isinstance(name, str):
            return self._method(type(own), name)
        known = self._of_object.get(id(function))
        if known is None or known[0] is not function:
            known = self._of_object[id(function)] = (function, _dotted(function))
        return known[1]

    def _method(self, owner: type, name: str) -> str:
        key = (owner, name)
        found = self._of_type_and_name.get(key)
        if found is None:
            found = self._of_type_and_name[key] = _method_name(owner, name)
        return found


def _method_name(owner: type, name: str) -> str:
    shown = _shown_class(owner, name)
    return f"{_public(shown, shown.__qualname__)}.{name}"


def _shown_class(owner: type, name: str) -> type:
    """The class to name a method by: the most derived one of its package (torch.Tensor, not the C base)."""
    definer = next((c for c in owner.__mro__ if name in vars(c)), owner)
    package = definer.__module__.partition(".")[0]
    return next((c for c in owner.__mro__ if c.__module__.partition(".")[0] == package), definer)


def _dotted(function: Any) -> str:
    if isinstance(function, type):
        return _public(function, function.__qualname__)
    qualname = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    if not isinstance(qualname, str):
        return f"{_public(type(function), type(function).__qualname__)}.__call__"
    return _public(function, qualname)


def _public(thing: Any, qualname: str) -> str:
    """The shortest module path below which the thing is found under its own name."""
    module = getattr(thing, "__module__", None)
    own = getattr(thing, "__self__", None)
    if isinstance(own, types.ModuleType):
        module = own.__name__
    if not module or not isinstance(module, str) or isinstance(own, type):
        module, qualname = _home(thing, qualname)
    if module == "_operator":
        module = "operator"
    parts = module.split(".")
    head, last = qualname.partition(".")[0], qualname.rpartition(".")[2]
    for length in range(1, len(parts) + 1):
        place = ".".join(parts[:length])
        if getattr(sys.modules.get(place), last, None) is thing:
            return f"{place}.{last}" if place != "builtins" else last
        held = getattr(sys.modules.get(place), head, None)
        if held is thing or (held is not None and "." in qualname and _follow(held, qualname) is thing):
            module = place
            break
    return qualname if module in ("builtins", "") else f"{module}.{qualname}"


def _follow(start: Any, qualname: str) -> Any:
    for part in qualname.split(".")[1:]:
        start = getattr(start, part, None)
    return start


def _home(thing: Any, qualname: str) -> tuple[str, str]:
    """Module and name of a callable that does not say where it lives (cv2's functions, torch's): where it is found."""
    name = qualname.rpartition(".")[2]
    for place, module in list(sys.modules.items()):
        if "." not in place and not place.startswith("_") and vars(module).get(name) is thing:
            return place, name
    own = getattr(thing, "__self__", None)
    if isinstance(own, type):  # a class method
        return own.__module__, f"{own.__qualname__}.{name}"
    return type(thing).__module__, qualname
