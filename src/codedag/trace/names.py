"""Names of operations: the importable dotted name of whatever was called."""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class that was made at run time
_MOST_NAMES = 4_096  # objects whose name is remembered; classes and their methods are as many as the program has


def bound_to(function: Any) -> Any:
    """What a method is bound to; None for a plain function, a class, or an object that is called."""
    return None if isinstance(function, (types.FunctionType, type)) else _asked(function, "__self__")


def name_of(function: Any) -> str | None:
    """The name that a callable gives itself."""
    name = _asked(function, "__name__")
    return name if isinstance(name, str) else None


def _asked(thing: Any, attribute: str) -> Any:
    try:
        return getattr(thing, attribute, None)
    except Exception:  # noqa: BLE001 - the program's own __getattr__ may raise anything
        return None


class Names:
    """Remembers the dotted name of each callable it was asked about, without keeping it alive."""

    def __init__(self) -> None:
        self._of_method: weakref.WeakKeyDictionary[type, dict[str, str]] = weakref.WeakKeyDictionary()
        self._of_class_method: weakref.WeakKeyDictionary[type, dict[str, str]] = weakref.WeakKeyDictionary()
        self._of_object: dict[int, tuple[Any, str]] = {}

    def of(self, function: Any, iterates: bool = False) -> str:
        """The dotted name: `numpy.clip`, `numpy.ndarray.astype`, `operator.truediv`, `random.Random.uniform`."""
        if iterates:
            return self._method(type(function), "__next__")
        own = bound_to(function)
        if own is not None and not isinstance(own, types.ModuleType):
            name = name_of(function)
            if name is not None and isinstance(own, type):
                return _kept(self._of_class_method, own, name) or self._class_method(own, name, function)
            if name is not None:
                return self._method(type(own), name)
        return self._object(function)

    def _method(self, owner: type, name: str) -> str:
        return _kept(self._of_method, owner, name) or _keep(self._of_method, owner, name, _method_name(owner, name))

    def _class_method(self, owner: type, name: str, function: Any) -> str:
        return _keep(self._of_class_method, owner, name, _dotted(function))

    def _object(self, function: Any) -> str:
        known = self._of_object.get(id(function))
        if known is None or known[0]() is not function:
            if len(self._of_object) >= _MOST_NAMES:
                self._of_object.clear()
            known = (_reference(function), _dotted(function))
            if known[0] is not None:
                self._of_object[id(function)] = known
        return known[1]


_ByClass = weakref.WeakKeyDictionary[type, dict[str, str]]


def _kept(names: _ByClass, owner: type, name: str) -> str | None:
    found = names.get(owner)
    return None if found is None else found.get(name)


def _keep(names: _ByClass, owner: type, name: str, dotted: str) -> str:
    return names.setdefault(owner, {}).setdefault(name, dotted)


def _reference(thing: Any) -> Callable[[], Any] | None:
    """A weak reference, a strong one to what libraries define in C (numpy's functions), or else None."""
    try:
        return weakref.ref(thing)
    except TypeError:
        return None if type(thing).__flags__ & _HEAP_TYPE else lambda: thing


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
    if not isinstance(qualname, str) or _is_named_by_class(function, qualname):
        return f"{_public(type(function), _qualname_of(type(function)))}.__call__"
    if "<locals>" in qualname and _is_held_by_its_module(function):
        qualname = function.__name__  # made by another function, as torch.nn.functional.max_pool2d is
    return _public(function, qualname)


def _is_held_by_its_module(function: Any) -> bool:
    plain = isinstance(function, types.FunctionType)
    return plain and _holds(sys.modules.get(function.__module__), function.__name__, function)


def _qualname_of(owner: type) -> str:
    """The name of a class in its module; some in C say the module there too."""
    return owner.__qualname__.removeprefix(f"{owner.__module__}.")


def _is_named_by_class(function: Any, qualname: str) -> bool:
    """Whether an object that is called tells the name of another: of what it wraps (numpy.vectorize), or its class."""
    of = type(function)
    if qualname == of.__qualname__:
        return True
    called = isinstance(getattr(of, "__call__", None), types.FunctionType)  # noqa: B004 - which it is, not whether
    return called and "__module__" not in getattr(function, "__dict__", {"__module__": ""})


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
    """Module and name of a callable that does not say where it lives (cv2's functions, torch's): where it is found.

    An installed module goes before one of the program, which may have imported the name from there.
    """
    name = qualname.rpartition(".")[2]
    found = [p for p in _homes if _holds(sys.modules.get(p), name, thing)]
    if not found:
        places = [p for p in list(sys.modules) if "." not in p and not p.startswith("_")]
        found = [p for p in places if _holds(sys.modules.get(p), name, thing)]
        found.sort(key=lambda place: not _is_installed(sys.modules[place]))
    if found:
        if _is_installed(sys.modules[found[0]]):
            _homes[found[0]] = None
        return found[0], name
    own = getattr(thing, "__self__", None)
    if isinstance(own, type):  # a class method
        return own.__module__, f"{own.__qualname__}.{name}"
    return type(thing).__module__, qualname


_homes: dict[str, None] = {}  # where such callables were found before: there are few such modules


def _holds(module: Any, name: str, thing: Any) -> bool:
    return getattr(module, "__dict__", {}).get(name) is thing


def _is_installed(module: Any) -> bool:
    file = getattr(module, "__file__", None)
    return file is None or "site-packages" in file or "dist-packages" in file
