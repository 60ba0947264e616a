"""Attributes in checked twins: which of them can be read without running code that is not followed."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from codedag.backends.known import knowledge
from codedag.backends.known_operators import static
from codedag.migrate.memo.reads import ABSENT, ARRAY_NBYTES_MAX, is_array, weakly

if TYPE_CHECKING:
    from codedag.migrate.memo.checker import Checker

_FLAT = frozenset({int, float, bool, str, bytes, type(None)})
_PICTURE = frozenset({"size", "width", "height", "mode", "format", "readonly"})
_NATIVE = frozenset(
    {"getset_descriptor", "member_descriptor", "method_descriptor", "wrapper_descriptor", "builtin_function_or_method"}
)
_METHODS = frozenset({"method_descriptor", "cython_function_or_method"})
_SLOTS = frozenset({"member_descriptor", "_tuplegetter"})
_PLAIN_KINDS = frozenset({str, bytes, int, float, bool, list, tuple, dict, set, frozenset, range})
_FUNCTIONS = frozenset({FunctionType, MethodType})


class Parent:
    """What `super()` gives in a method of a class for an object."""

    __slots__ = ("holder", "kind")

    def __init__(self, kind: type, holder: Any) -> None:
        self.kind, self.holder = kind, holder


class Members:
    """Reads attributes for a checker, and notes what was read."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker

    def member(self, holder: Any, name: str) -> Any:
        """An attribute, if reading it runs no code that is not followed."""
        if self._checker.reason:
            self._checker.refuse(self._checker.reason)
        kind = type(holder)
        if kind is Parent:
            return self._of_parent(holder.kind, holder.holder, name)
        if kind is ModuleType or isinstance(holder, ModuleType):
            found = self._checker.reads.name(vars(holder), name)
            return (
                found
                if found is not ABSENT
                else self._checker.refuse(f"{holder.__name__} makes {name} when it is asked for")
            )
        if kind in _FUNCTIONS:
            return self._of_function(holder, name)
        if kind in _PLAIN_KINDS:
            return getattr(holder, name)
        if isinstance(holder, type):
            return self._of_class(holder, name)
        table = knowledge()
        if kind in table.atoms or kind in table.held or table.family_of(kind) is not None:
            return self._of_value(holder, kind, name)
        return self._of_object(holder, kind, name)

    def _of_function(self, holder: Any, name: str) -> Any:
        """What the program has set at a function, or what every function has."""
        found = self._checker.reads.field(getattr(holder, "__func__", holder), name)
        if found is not ABSENT:
            return found
        value = self._checker.ran(getattr, (holder, name), {})
        self._checker.reads.again(getattr, (holder, name), value)
        return value

    def _of_parent(self, kind: type, holder: Any, name: str) -> Any:
        """What the classes that come after one in the order of an object's class define."""
        self._checker.reads.attribute(holder, name)
        order = type(holder).__mro__
        self._checker.reads.again(getattr, (type(holder), "__mro__"), order)
        after = order[order.index(kind) + 1 :] if kind in order else ()
        for each in after:
            found = self._checker.reads.defined(each, name)
            if name in vars(each):
                if type(found) is FunctionType:
                    return MethodType(found, holder)
                if type(found) is property:
                    return self._checker.call(found.fget, holder)
                break
        return self._checker.refuse(f"super().{name} of a {type(holder).__qualname__} is not followed")

    def _of_class(self, holder: Any, name: str) -> Any:
        found = self._checker.reads.defined(holder, name)
        if found is None and static(type(holder), name) is None:
            self._checker.refuse(f"{holder.__qualname__} has no plain attribute {name}")
        value = self._checker.ran(getattr, (holder, name), {})
        if type(found) is property or (
            found is not value and type(found) not in (staticmethod, classmethod, FunctionType)
        ):
            self._checker.reads.again(getattr, (holder, name), value)
        return value

    def _of_value(self, holder: Any, kind: type, name: str) -> Any:
        """An attribute of an array, tensor, picture or another value of a library."""
        defined = static(kind, name)
        is_native = type(defined).__name__ in _NATIVE
        if not is_native and not (name in _PICTURE or type(defined) is FunctionType or kind in knowledge().atoms):
            if type(defined) is not property and not isinstance(defined, functools.cached_property):
                self._checker.refuse(f"{kind.__qualname__}.{name} is not known")
            if not _is_pandas(kind):
                self._checker.refuse(f"{kind.__qualname__}.{name} is not known")
        value = self._checker.ran(getattr, (holder, name), {})
        if callable(value) and getattr(value, "__self__", None) is holder:
            return value
        if self._checker.is_own(holder):
            self._checker.make(value)
        elif id(holder) in self._checker.covered:
            self._checker.cover(value)
        elif type(value) in _FLAT or knowledge().is_atom(value):
            self._checker.reads.again(getattr, (holder, name), value)
        elif is_array(value) and value.nbytes <= ARRAY_NBYTES_MAX:  # another view each time
            self._checker.reads.again(getattr, (holder, name), value)
            self._checker.cover(value)
        else:
            self._checker.refuse(f"it looks into a {type(value).__qualname__} that it did not make")
        return value

    def _of_object(self, holder: Any, kind: type, name: str) -> Any:
        """An attribute of an object of a class that is written in Python."""
        if static(kind, "__getattribute__") is not object.__getattribute__:
            self._checker.refuse(f"{kind.__qualname__} defines __getattribute__")
        defined = self._checker.reads.attribute(holder, name)
        if type(defined) is property:
            return self._checker.call(defined.fget, holder)
        if type(defined).__name__ in _SLOTS:
            value = self._checker.ran(getattr, (holder, name), {})
            self._checker.reads.again(_slot, (weakly(holder), name), value)
            return value
        if defined is not None and static(type(defined), "__set__") is not None:
            self._checker.refuse(f"{kind.__qualname__}.{name} runs code of its own")
        if type(getattr(holder, "__dict__", None)) is not dict:
            if type(defined).__name__ in _METHODS:
                return getattr(holder, name)
            self._checker.refuse(f"{kind.__qualname__} keeps no plain attributes")
        found = self._checker.reads.field(holder, name)
        if found is not ABSENT:
            return found
        if defined is None:
            return self._registered(holder, kind, name)
        if static(type(defined), "__get__") is None or type(defined) in (FunctionType, staticmethod, classmethod):
            return self._checker.ran(getattr, (holder, name), {})
        return self._checker.refuse(f"{kind.__qualname__}.{name} runs code of its own")

    def _registered(self, holder: Any, kind: type, name: str) -> Any:
        """A parameter, buffer or part of a module of torch.nn."""
        module = sys.modules.get("torch.nn.modules.module")
        if module is not None and static(kind, "__getattr__") is vars(module.Module).get("__getattr__"):
            for place in ("_buffers", "_modules"):
                space = self._checker.reads.field(holder, place)
                if type(space) is dict and name in space:
                    return self._checker.reads.name(space, name)
        return self._checker.refuse(f"{kind.__qualname__} has no plain attribute {name}")


def _slot(holder: Callable[[], Any], name: str) -> Any:
    """What an object that is not held has in a slot."""
    return getattr(holder(), name, ABSENT)


def _is_pandas(kind: type) -> bool:
    return kind.__module__.startswith("pandas.")
