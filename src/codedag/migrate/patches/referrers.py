"""Finds who holds a function, and puts its proxy there, or the function back: one walk over the heap for many."""

from __future__ import annotations

import functools
import gc
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from codedag.migrate.patches import proxies

_FRAMES = (types.FrameType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
_TRUE_OWNERS = (type, types.FunctionType)  # their dicts and defaults are theirs, whoever else has got hold of them
_CONTAINERS = (dict, tuple, list, types.MethodType)


def space(module: Any) -> dict[str, Any] | None:
    """The names of a module, without waking a module that loads itself at first use."""
    try:
        found = object.__getattribute__(module, "__dict__")
    except AttributeError:
        return None
    return found if type(found) is dict else None


def class_of(source: str) -> type | None:
    """The class of a loaded module that defines a function of this dotted name, as `PIL.Image.Image.transpose`."""
    path, _, name = source.rpartition(".")
    outer, _, kind = path.rpartition(".")
    names = space(sys.modules.get(outer))
    found = names.get(kind) if names is not None else None
    return found if isinstance(found, type) and name in vars(found) else None


class Owners:
    """Who owns the containers that were found: modules and classes by their dicts, functions by their defaults."""

    def __init__(self, more: list[Any], found: list[Any]) -> None:
        modules = ((name, space(module)) for name, module in list(sys.modules.items()))
        self.modules = {id(names): name for name, names in modules if names is not None}
        self.of: dict[int, Any] = {}
        self.keyed: set[int] = set()
        asked = tuple(one for one in found if issubclass(type(one), _CONTAINERS) and id(one) not in self.modules)
        self._asked = set(map(id, asked))
        for owner in proxies.native.holders(more, asked, False) if asked else ():
            self._add(owner)

    def _add(self, owner: Any) -> None:
        if type(owner) is types.MappingProxyType:
            return  # a view, perhaps of the dict of a type
        if issubclass(type(owner), (set, frozenset, tuple)):
            self.keyed.update(map(id, gc.get_referents(owner)))
        elif issubclass(type(owner), dict):
            self.keyed.update(map(id, dict.keys(owner)))
        for one in gc.get_referents(owner):
            if id(one) in self._asked and (id(one) not in self.of or issubclass(type(owner), _TRUE_OWNERS)):
                self.of[id(one)] = owner

    @functools.cached_property
    def of_static_types(self) -> set[int]:
        """The dicts of types that the collector does not know; they must not be written to."""
        todo: list[type] = [object]
        ids: set[int] = set()
        seen: set[type] = set()
        while todo:
            kind = todo.pop()
            if kind in seen:
                continue
            seen.add(kind)
            todo.extend(type.__subclasses__(kind))
            if not gc.is_tracked(kind):
                ids.update(map(id, gc.get_referents(type.__dict__["__dict__"].__get__(kind))))
        return ids


class Sweep:
    """One pass that changes every reference it can reach: function to proxy, or proxy to function."""

    def __init__(self, every: tuple[Any, ...], to_proxy: bool) -> None:
        self.to_proxy = to_proxy
        self.changed = 0  # references
        self._by_id = {id(proxy.__wrapped__ if to_proxy else proxy): proxy for proxy in every}
        self._proxies = every

    def run(self) -> int:
        """How many references it changed."""
        more: list[Any] = []  # beside all that the collector lists; that list itself is nothing to hold on to
        if gc.get_freeze_count():  # what the program froze is not listed; its modules are known all the same
            more.extend(filter(None, map(space, list(sys.modules.values()))))
        found = proxies.native.holders(more, self._proxies, self.to_proxy)
        self._owners = Owners(more, found)
        for holder in found:
            if not self._ours(holder):
                self._visit(holder)
        return self.changed

    def module(self, names: dict[str, Any]) -> None:
        """Changes the references in the names of one module only."""
        for key, value in list(names.items()):
            self._swap(names, key, value)

    def _new(self, value: Any) -> Any:
        proxy = self._by_id.get(id(value))
        return proxy if proxy is None or self.to_proxy else proxy.__wrapped__

    def _ours(self, holder: Any) -> bool:
        if holder is self._by_id or _is_ours(type(holder)):
            return True
        if self._owners.modules.get(id(holder), "").partition(".")[0] == "codedag":
            return True
        owner = self._owners.of.get(id(holder))
        return owner is not None and (_is_ours(type(owner)) or (type(owner) is types.FunctionType and _is_ours(owner)))

    def _visit(self, holder: Any) -> None:
        if type(holder) in _FRAMES:  # a variable of a function that runs: it ends with the call
            return
        for base in type(holder).__mro__:
            if base in _HANDLERS:
                _HANDLERS[base](self, holder)
                break
        if type(holder) not in _HANDLERS:
            self._instance(holder)

    def _swap(self, holder: Any, key: Any, value: Any) -> None:
        new = self._new(value)
        if new is not None and proxies.native.swap(holder, key, value, new):
            self.changed += 1

    def _set(self, change: Callable[[Any], object], value: Any) -> None:
        """Makes a change that only the holder itself can make; one that refuses is left."""
        new = self._new(value)
        if new is None:
            return
        try:
            change(new)
        except (TypeError, AttributeError, ValueError):
            return
        self.changed += 1

    def _dict(self, holder: dict[Any, Any]) -> None:
        owner = self._owners.of.get(id(holder))
        if owner is not None and issubclass(type(owner), type):
            self._class(owner, holder)
            return
        if owner is None and id(holder) not in self._owners.modules and id(holder) in self._owners.of_static_types:
            return
        for key, value in list(dict.items(holder)):
            self._swap(holder, key, value)

    def _class(self, owner: type, names: dict[str, Any]) -> None:
        # through the type, so that the interpreter forgets what it looked up before
        for key, value in list(names.items()):
            self._set(functools.partial(type.__setattr__, owner, key), value)

    def _list(self, holder: list[Any]) -> None:
        for _ in range(3):  # other threads may move items meanwhile
            hits = [(index, value) for index, value in enumerate(list.copy(holder)) if id(value) in self._by_id]
            for index, value in hits:
                self._swap(holder, index, value)
            if not hits:
                return

    def _deque(self, holder: deque[Any]) -> None:
        for index, value in enumerate(tuple(deque.__iter__(holder))):
            self._set(functools.partial(deque.__setitem__, holder, index), value)

    def _tuple(self, holder: tuple[Any, ...]) -> None:
        for index, value in enumerate(tuple.__iter__(holder)):
            self._swap(holder, index, value)

    def _cell(self, holder: types.CellType) -> None:
        self._swap(holder, 0, holder.cell_contents)

    def _method(self, holder: types.MethodType) -> None:
        if id(holder) not in self._owners.keyed:
            self._swap(holder, 0, holder.__func__)

    def _static(self, holder: Any) -> None:
        init = classmethod.__init__ if issubclass(type(holder), classmethod) else staticmethod.__init__
        self._set(functools.partial(init, holder), holder.__func__)

    def _partial(self, holder: functools.partial[Any]) -> None:
        def change(new: Any) -> None:
            state = (new, holder.args, holder.keywords, holder.__dict__ or None)
            functools.partial.__setstate__(holder, state)  # type: ignore[attr-defined]

        self._set(change, holder.func)

    def _set_members(self, holder: set[Any] | frozenset[Any]) -> None:
        hits = [value for value in tuple(_iterate(holder)) if id(value) in self._by_id]
        for value in hits:
            self._swap(holder, 0, value)

    def _instance(self, holder: Any) -> None:
        names = space(holder)
        for key, value in list(names.items()) if names is not None else ():
            self._swap(names, key, value)
        for base in type(holder).__mro__:
            for member in list(vars(base).values()):
                if type(member) is types.MemberDescriptorType:
                    self._slot(holder, member)

    def _slot(self, holder: Any, member: types.MemberDescriptorType) -> None:
        try:
            value = member.__get__(holder)
        except AttributeError:
            return
        self._set(functools.partial(member.__set__, holder), value)


def _iterate(members: set[Any] | frozenset[Any]) -> Iterator[Any]:
    """The members themselves, whatever a subclass makes of iteration."""
    return set.__iter__(members) if isinstance(members, set) else frozenset.__iter__(members)


def _is_ours(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).partition(".")[0] == "codedag"


_HANDLERS: dict[type, Callable[[Sweep, Any], None]] = {
    dict: Sweep._dict,
    list: Sweep._list,
    tuple: Sweep._tuple,
    deque: Sweep._deque,
    set: Sweep._set_members,
    frozenset: Sweep._set_members,
    types.CellType: Sweep._cell,
    types.MethodType: Sweep._method,
    staticmethod: Sweep._static,
    classmethod: Sweep._static,
    functools.partial: Sweep._partial,
}
