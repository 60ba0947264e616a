"""The plain-Python twin of `_patch`: the same answers, but its frames are visible and it is slower.

It cannot swap a reference in one step, nor exchange an item of a tuple or the function of a bound method.
"""

from __future__ import annotations

import gc
import threading
import types
from collections.abc import Callable
from operator import is_
from typing import Any

DECLINED = object()
_OWN = frozenset({"__wrapped__", "__call__", "__reduce__", "__reduce_ex__", "__copy__", "__deepcopy__"})


class _Running(threading.local):
    """The identities of the proxies that run a replacement in this thread."""

    def __init__(self) -> None:
        self.proxies: list[int] = []


_running = _Running()
_reduced: list[Callable[[Any, int], Any]] = []
_get = object.__getattribute__


class Layer:
    """One replacement and its counts."""

    __slots__ = ("calls", "checked", "declined", "fast", "run")

    def __init__(self, run: Callable[..., Any] | None, /) -> None:
        self.run = run
        self.calls = self.fast = self.checked = self.declined = 0


class Then:
    """The answer of a replacement that wants to see the original's result."""

    __slots__ = ("after",)

    def __init__(self, after: Callable[[Any], None], /) -> None:
        self.after = after


class After:
    """A callable that runs another one and tells somebody."""

    __slots__ = ("callback", "function")

    def __init__(self, function: Callable[..., Any], callback: Callable[[Any], None], /) -> None:
        self.function, self.callback = function, callback

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """The result of the function."""
        result = self.function(*args, **keywords)
        self.callback(args[0] if args else None)
        return result


class HardProxy:
    """is the proxy of a function that takes no weak references."""

    __slots__ = ("__wrapped__", "_layers")

    def __init__(self, original: Any, /) -> None:
        object.__setattr__(self, "__wrapped__", original)
        object.__setattr__(self, "_layers", ())

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        """The result of the newest replacement that takes the call, else the original's."""
        original, layers = _get(self, "__wrapped__"), _get(self, "_layers")
        busy = _running.proxies
        for layer in () if id(self) in busy else reversed(layers):
            layer.calls += 1
            run = layer.run
            if run is None:
                continue
            result = _inside(busy, self, run, args, keywords)
            if type(result) is Then:
                layer.checked += 1
                value = original(*args, **keywords)
                _inside(busy, self, result.after, (value,), {})
                return value
            if result is not DECLINED:
                layer.fast += 1
                return result
            layer.declined += 1
        return original(*args, **keywords)

    def __getattribute__(self, name: str) -> Any:
        if name in _OWN or (name == "__get__" and issubclass(type(self), HardBindingProxy)):
            return _get(self, name)
        return getattr(_get(self, "__wrapped__"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_get(self, "__wrapped__"), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_get(self, "__wrapped__"), name)

    def __repr__(self) -> str:
        return repr(_get(self, "__wrapped__"))

    def __str__(self) -> str:
        return str(_get(self, "__wrapped__"))

    def __hash__(self) -> int:
        return hash(_get(self, "__wrapped__"))

    def __eq__(self, other: object) -> bool:
        return bool(_behind(self) == _behind(other))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _reduced[0](_get(self, "__wrapped__"), protocol)

    def __reduce__(self) -> Any:
        return _reduced[0](_get(self, "__wrapped__"), 0)

    def __copy__(self) -> HardProxy:
        return self

    def __deepcopy__(self, memo: Any) -> HardProxy:
        return self


class Proxy(HardProxy):
    """is the proxy of a function."""

    __slots__ = ("__weakref__",)


class HardBindingProxy(HardProxy):
    """is the proxy of a function that becomes a method where a class holds it, and takes no weak references."""

    __slots__ = ()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)


class BindingProxy(HardBindingProxy):
    """is the proxy of a function that becomes a method where a class holds it."""

    __slots__ = ("__weakref__",)


def _behind(value: Any) -> Any:
    return _get(value, "__wrapped__") if issubclass(type(value), HardProxy) else value


def _inside(busy: list[int], proxy: HardProxy, run: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    busy.append(id(proxy))
    try:
        return run(*args, **keywords)
    finally:
        busy.pop()


def same_values(spaces: tuple[dict[str, Any], ...], values: tuple[tuple[Any, ...], ...], /) -> bool:
    """Whether dictionaries hold these very values, in this order."""
    return len(spaces) == len(values) and all(map(_holds, spaces, values))


def _holds(space: dict[str, Any], values: tuple[Any, ...]) -> bool:
    return len(space) == len(values) and all(map(is_, space.values(), values))


def alive(ids: set[int], /) -> list[Any]:
    """The tracked objects that have one of these identities."""
    return [one for one in gc.get_objects() if id(one) in ids]


def holders(more: list[Any], targets: tuple[Any, ...], originals: bool, /) -> list[Any]:
    """The tracked objects that refer to a target; dicts and tuples unknown to the collector are not found."""
    wanted = tuple(map(_behind, targets)) if originals else targets
    ours = {id(more), id(targets), id(wanted)}
    found = gc.get_referrers(*wanted) if wanted else []
    return [one for one in found if id(one) not in ours and not issubclass(type(one), HardProxy)]


def swap(holder: Any, key: Any, old: Any, new: Any, /) -> bool:
    """Whether the old reference was there and is now the new."""
    if type(holder) is types.CellType:
        same = holder.cell_contents is old
        if same:
            holder.cell_contents = new
        return same
    kind: Any = dict if isinstance(holder, dict) else list
    if not isinstance(holder, kind):
        raise TypeError(f"a {type(holder).__name__} can only be edited where the C extension is there")
    if (kind is list and key >= len(holder)) or kind.__getitem__(holder, key) is not old:
        return False
    kind.__setitem__(holder, key, new)
    return True


def layers(proxy: HardProxy, /) -> tuple[Layer, ...]:
    """What the calls of a proxy go through."""
    found: tuple[Layer, ...] = _get(proxy, "_layers")
    return found


def set_layers(proxy: HardProxy, layers: tuple[Layer, ...], /) -> None:
    """Changes what the calls of a proxy go through, last one first."""
    object.__setattr__(proxy, "_layers", layers)


def set_reduce(function: Callable[[Any, int], Any], /) -> None:
    """Sets how a proxy is pickled."""
    _reduced[:] = [function]
