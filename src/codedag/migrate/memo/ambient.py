"""Ambient state that a kept result depends on: warning filters, settings, floating-point mode, library code."""

from __future__ import annotations

import builtins
import gc
import hashlib
import sys
from types import FunctionType, ModuleType
from typing import Any

from codedag.instrument.floating_point import float_mode
from codedag.instrument.warned import filters_now
from codedag.migrate.patches import proxies
from codedag.migrate.patches.proxies import behind

#: Settings by which a library reads the same file otherwise, or not at all.
_SETTINGS = {"PIL.Image": ("MAX_IMAGE_PIXELS",), "PIL.ImageFile": ("LOAD_TRUNCATED_IMAGES", "MAXBLOCK")}

MOST_NAMES = 1000  # of a module or class that is looked at; torch has more, and looking takes 30 ns for each
_BUILTINS = vars(builtins)
_CAN_BE_WRITTEN = 1 << 9  # of `type.__flags__`: a class that was made by a class statement


def settings_now() -> tuple[Any, ...]:
    """The settings of the libraries that are loaded, numpy's error states, torch's modes, the floating-point mode."""
    names = ((getattr(sys.modules.get(module), "__dict__", {}), each) for module, each in _SETTINGS.items())
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    errors = tuple(numpy.geterr().values()) if numpy is not None else ()
    modes = _modes(torch) if hasattr(torch, "are_deterministic_algorithms_enabled") else ()
    return (float_mode(), errors, modes, *(space.get(name) for space, each in names for name in each))


def _modes(torch: Any) -> tuple[Any, ...]:
    """What decides how torch computes and what its tensors are."""
    return (
        torch.is_grad_enabled(), torch.is_inference_mode_enabled(), str(torch.get_default_dtype()),
        torch.get_num_threads(), torch.is_autocast_enabled(), torch._C._len_torch_function_stack(),
        torch.are_deterministic_algorithms_enabled(),
    )  # fmt: skip


def around_now() -> tuple[Any, ...]:
    """Filters and settings, the ambient part of every key: what was kept under others may be another, warn or fail."""
    return (filters_now(), settings_now())


class LibraryCode:
    """The functions and classes that a call can look up by name: the program may replace any of them.

    For each function that is written in Python these are the names of its module and of the classes defined there, for
    a value those of its classes and their modules: `convert` of a picture calls `load` of the class that opened it.
    """

    def __init__(self) -> None:
        self._seen: dict[int, _Space] = {}  # by the identity of a module or class
        self._noted: set[Any] = set()
        self._names: bytes = b""
        self._now: tuple[dict[str, Any], ...] = ()
        self._before: tuple[tuple[Any, ...], ...] = ()

    def note(self, step: Any) -> None:
        """Remembers what a function, or the class of a value, can look up now."""
        if step in self._noted:
            return
        self._noted.add(step)
        for each in _spaces(step):
            self._seen.setdefault(id(each), _Space(each))
        self._list()

    def heed(self) -> bool:
        """Whether all of it is as it was; from now on as it is."""
        return bool(proxies.native.same_values(self._now, self._before)) or not self._read()

    def is_replaced(self) -> bool:
        """Whether a function or class there is not what it was; other values and new names do not count."""
        if proxies.native.same_values(self._now, self._before):
            return False
        return any(each.is_replaced(before) for each, before in self._read())

    def _read(self) -> list[tuple[_Space, dict[str, Any]]]:
        """Takes in what has changed; each with what it was."""
        changed = [(each, each.names) for each in tuple(self._seen.values()) if not each.is_same()]
        for each, _ in changed:
            each.read()
        self._list()
        return changed

    def _list(self) -> None:
        every = tuple(self._seen.values())
        self._now, self._before, self._names = tuple(s.space for s in every), tuple(s.values for s in every), b""

    def names(self) -> bytes:
        """The same bytes in all processes that have the same code there."""
        if not self._names:
            every = [(_name(space.owner), value) for space in self._seen.values() for value in space.values]
            names = sorted(f"{owner} {_name(value)}" for owner, value in every if callable(value))
            self._names = hashlib.blake2b("\n".join(names).encode(), digest_size=16).digest()
        return self._names


class _Space:
    """The names of a module or class, and what they held when they were last read."""

    __slots__ = ("names", "owner", "space", "values")

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.space: dict[str, Any] = gc.get_referents(vars(owner))[0] if isinstance(owner, type) else vars(owner)
        self.read()

    def read(self) -> None:
        """Takes in what the names hold now."""
        self.names = dict(self.space)
        self.values = tuple(self.names.values())

    def is_same(self) -> bool:
        """Whether each name holds what it held."""
        return bool(proxies.native.same_values((self.space,), (self.values,)))

    def is_replaced(self, before: dict[str, Any]) -> bool:
        """Whether a name holds another function than before, or one where lookup went on to other names."""
        hides = _BUILTINS if type(self.owner) is ModuleType else self.names
        for name, value in self.names.items():
            old = before.get(name, before)
            if behind(value) is not behind(old) and (callable(old) or (old is before and name in hides)):
                return True
        return any(callable(value) for name, value in before.items() if name not in self.names)


def _name(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '') or getattr(value, '__name__', '')}"


def _spaces(step: Any) -> list[Any]:
    """The modules and classes whose names a step can look up, as far as somebody can replace what they hold."""
    classes: list[Any] = []
    if isinstance(step, type):
        classes = [each for each in type.mro(step) if each.__flags__ & _CAN_BE_WRITTEN]
        modules = [each.__module__ for each in classes]
    else:
        modules = [getattr(_written_in_python(step), "__module__", "")]
    for module in {name: sys.modules.get(name) for name in modules}.values():
        if type(module) is ModuleType and len(vars(module)) <= MOST_NAMES:
            own = [each for each in list(vars(module).values()) if isinstance(each, type)]
            classes += [module, *(each for each in own if each.__module__ == module.__name__)]
    return [each for each in classes if len(vars(each)) <= MOST_NAMES]


def _written_in_python(function: Any) -> Any:
    function = getattr(behind(function), "__func__", behind(function))
    return function if type(function) is FunctionType else None
