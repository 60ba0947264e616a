"""What code can reach and read without being seen to: as it was when it ran ahead, and whether it still is so.

The values that a function is given, its globals, what it closes over, and everything inside of those.  Each thing that
can change is kept next to what is directly in it; so any change shows at the thing that was changed.  Small arrays are
kept by their bytes.  What cannot be looked into, or is too much, is a reason not to run ahead.
"""

from __future__ import annotations

import dis
import functools
import itertools
import operator
import pathlib
import sys
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from codedag.backends.known_table import bases, named_type
from codedag.instrument.places import is_installed
from codedag.ir.verdict import No
from codedag.migrate import _order
from codedag.migrate.stands import behind

MOST_THINGS, MOST_NBYTES = 20_000, 2_000_000
_ATOMS = frozenset(
    {int, float, bool, complex, str, bytes, type(None), type(Ellipsis), range, slice, types.CodeType, pathlib.PosixPath}
)
_NATIVE = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
)
_HEAP = 1 << 9  # of the flags of a type: it was not compiled into a library
_PLAIN_NBYTES = 32  # of an instance: nothing is in it but its dict
_LIBRARIES = ("numpy", "torch", "random", "cv2")
#: Methods that run only where a class is used to make something: an instance that is there does not need them.
_MAKING = frozenset({"__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__", "__class_getitem__"})
_METHODS = (types.FunctionType, staticmethod, classmethod, property)
_GLOBALS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"})
_GONE: Any = object()
_BOOKS = frozenset({"_abc_impl"})  # in the dict of a class, and nothing that its methods read

Changed = Callable[[], bool]


class Reach:
    """What could be read from some roots, as it was when this was made."""

    def __init__(
        self, roots: Iterable[Any], space: Any = None, bound: Collection[str] = (), beside: bool = False
    ) -> None:
        """`bound` are the names in `space` that what runs ahead binds for itself, and nobody else may read.

        What runs `beside` the program could read something that is changed and then changed back.
        """
        self._space, self._bound, self._beside = space, bound, beside
        self.changeable: set[str] = set()  # names of lists, sets and arrays: a change that is taken back does not show
        self.why: No | None = None  # why it cannot be told whether it changed
        self.names: set[str] = set()  # that functions on the way look up, as attributes or otherwise
        self.globals: set[str] = set()  # those that are globals
        self._seen: set[int] = set()
        self._kinds: dict[int, type] = {}  # classes of the program on the way; to hash one could run its code
        self._spaces: dict[int, _Space] = {}  # globals and modules in which names are looked up
        self._held: list[Any] = []  # so that the numbers in `_seen` stay their own
        self._changed: list[Changed] = []
        self._left, self._nbytes = MOST_THINGS, MOST_NBYTES
        self._waiting = list(roots)
        self._look_on()
        if not self.names.isdisjoint(("type", "__class__")):  # what is there may make another of its kind
            for kind in list(self._kinds.values()):
                self._making(kind)
            self._look_on()

    def _look_on(self) -> None:
        while self._waiting and self.why is None:
            self._look(self._waiting.pop())

    def is_same(self) -> bool:
        """Whether nothing of it has changed since."""
        return self.why is None and not any(changed() for changed in self._changed)

    def _look(self, value: Any) -> None:
        value = behind(value)  # a patch of ours reads nothing of the program's
        kind = type(value)
        if kind in _ATOMS or isinstance(value, _NATIVE) or id(value) in self._seen:
            return
        self._seen.add(id(value))
        self._held.append(value)
        if kind in (list, tuple, set, frozenset):
            self._row(value)
        elif kind is dict:
            self._dict(value)
        elif kind is types.FunctionType:
            self._function(value)
        elif kind is types.MethodType:
            self._waiting += [value.__func__, value.__self__]
        elif kind is functools.partial:
            self._waiting += [value.func, value.args, value.keywords]
        elif not any(look(value) for look in (self._is_of_a_library, self._array, self._table, self._instance)):
            self.why = No(f"a {named_type(value)} may be read, and whether it changes cannot be seen")

    def _spend(self, count: int) -> bool:
        self._left -= count
        if self._left < 0:
            self.why = No(f"more than {MOST_THINGS} values may be read, too many to see whether they change")
        return self._left >= 0

    def _row(self, value: Any) -> None:
        if not self._spend(len(value)):
            return
        before = tuple(value)
        self._waiting += [each for each in before if type(each) not in _ATOMS]
        if type(value) in (list, set):  # a set that nobody changes keeps its order
            self._changed.append(lambda: len(value) != len(before) or not all(map(operator.is_, value, before)))

    def _dict(self, value: dict[Any, Any]) -> None:
        if self._entries(value):
            self._waiting += [each for each in (*value, *value.values()) if type(each) not in _ATOMS]

    def _entries(self, value: Mapping[Any, Any]) -> bool:
        """Keeps what is directly in a dict or a class; False if that is too much."""
        if not self._spend(2 * len(value)):
            return False
        keys, values = tuple(value), tuple(value.values())
        if self._beside:
            rows = (key for key, each in zip(keys, values, strict=True) if type(each) not in _ATOMS and _is_a_row(each))
            self.changeable.update(key for key in rows if type(key) is str)
        version = _order.version(value) if self._beside else 0

        def changed() -> bool:
            if version and _order.version(value) != version:
                return True
            if len(value) != len(keys) or not all(map(operator.is_, value, keys)):
                return True
            return not all(map(operator.is_, value.values(), values))

        self._changed.append(changed)
        return True

    def _function(self, value: types.FunctionType) -> None:
        """A function of a library is known by its name; one of the program's reads its globals and what is around."""
        if is_installed(value.__code__.co_filename):
            return
        for cell in value.__closure__ or ():
            held = _held_by(cell)
            self._waiting += held
            self._changed.append(lambda cell=cell, held=held: not all(map(operator.is_, _held_by(cell), held)))  # type: ignore[misc]
        self._waiting += [value.__defaults__, value.__kwdefaults__, value.__dict__]
        before = _parts_of(value)
        self._changed.append(lambda: _parts_of(value) != before)
        names, shared = names_in(value.__code__), globals_in(value.__code__)
        self.names |= names
        self.globals |= shared
        if value.__globals__ is self._space and not shared.isdisjoint(self._bound):
            self.why = No(f"a function reads {min(shared.intersection(self._bound))}, which the loop binds")
        self._names(value.__globals__, shared, names)

    def _names(self, space: dict[str, Any], names: frozenset[str], attributes: frozenset[str]) -> None:
        """Keeps what names mean in a module; in modules of the program that are among them, names are attributes."""
        kept = self._spaces.get(id(space))
        if kept is None:
            kept = self._spaces[id(space)] = _Space(space)
            self._changed.append(kept.changed)
        for value in kept.look_up(names):
            if type(value) is not types.ModuleType:
                self._waiting.append(value)
        self.changeable |= {name for name in names & kept.there.keys() if _is_a_row(kept.there[name])}
        for value in [kept.there[name] for name in names & kept.there.keys()]:
            inside = type(value) is types.ModuleType and _is_of_the_program(value)
            if inside and self._has_more(vars(value), attributes):
                self._names(vars(value), attributes, attributes)

    def _has_more(self, space: dict[str, Any], names: frozenset[str]) -> bool:
        known = self._spaces.get(id(space))
        return known is None or not names <= known.there.keys() | known.absent

    def _is_of_a_library(self, value: Any) -> bool:
        """Modules, classes and functions of libraries, dtypes, generators: known where they are used."""
        if isinstance(value, type):
            self._class(value)
            self._making(value)
            return True
        if isinstance(value, staticmethod | classmethod):
            self._waiting.append(value.__func__)
            return True
        if type(value) is property:
            self._waiting += [each for each in (value.fget,) if each is not None]
            return True
        kind, top = type(value).__name__, str(type(value).__module__).partition(".")[0]
        return type(value) is types.ModuleType or (top in _LIBRARIES and kind in _KNOWN)

    def _class(self, kind: type) -> None:
        """What can be read of a class of the program, and of those that it comes from and is an instance of."""
        for each in (*bases(kind), *bases(type(kind))):
            if id(each) in self._kinds or not _is_of_the_program(sys.modules.get(_module_of(each))):
                continue
            self._kinds[id(each)] = each
            if not self._entries(vars(each)):
                return
            for name, value in list(vars(each).items()):
                special = name.startswith("__")
                if not (name in _BOOKS or name in _MAKING or (special and not isinstance(value, _METHODS))):
                    self._waiting.append(value)

    def _making(self, kind: type) -> None:
        """What is read where something of this class is made."""
        for each in bases(kind):
            if id(each) in self._kinds:
                self._waiting += [value for name, value in list(vars(each).items()) if name in _MAKING]

    def _array(self, value: Any) -> bool:
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        if numpy is not None and isinstance(value, numpy.generic):
            return True
        if numpy is not None and type(value) is numpy.ndarray and not value.dtype.hasobject:
            return self._bytes(value, value.nbytes, lambda: (_lies(value), value.tobytes()))
        if numpy is not None and type(value) is numpy.ndarray and self._spend(value.size):
            rows, lies = value.ravel("K").tolist(), _lies(value)
            self._waiting += [each for each in rows if type(each) not in _ATOMS]
            self._changed.append(
                lambda: _lies(value) != lies or not all(map(operator.is_, value.ravel("K").tolist(), rows))
            )
            return True
        if torch is not None and type(value) is torch.Tensor and value.device.type == "cpu" and not value.requires_grad:
            return self._bytes(value, value.nbytes, lambda: (value._version, value.numpy().tobytes()))
        return False

    def _table(self, value: Any) -> bool:
        """A table of pandas is the arrays that it is made of; those of Arrow cannot change, only be exchanged."""
        pandas = sys.modules.get("pandas")
        if pandas is None or type(value) not in (pandas.DataFrame, pandas.Series, pandas.Index, pandas.RangeIndex):
            return False
        if isinstance(value, pandas.Index):
            return True
        before = value._mgr
        parts = [(array, getattr(array, "_pa_array", None)) for array in before.arrays]
        self._waiting += [getattr(array, "_ndarray", array) for array, inner in parts if inner is None]
        self._changed.append(lambda: value._mgr is not before or not _are_same(before.arrays, parts))
        return True

    def _bytes(self, value: Any, nbytes: int, now: Callable[[], Any]) -> bool:
        self._nbytes -= nbytes
        if self._nbytes < 0:
            self.why = No(f"arrays of more than {MOST_NBYTES} bytes may be read, too many to see whether they change")
            return True
        before = now()
        self._changed.append(lambda: now() != before)
        return True

    def _instance(self, value: Any) -> bool:
        """An object of a class written in Python has nothing but its dict."""
        kind = type(value)
        plain = all(each.__flags__ & _HEAP and not vars(each).get("__slots__") for each in bases(kind)[:-1])
        found = getattr(value, "__dict__", None) if plain and kind.__basicsize__ <= _PLAIN_NBYTES else None
        if type(found) is not dict:
            return False
        self._waiting.append(found)
        self._changed.append(lambda: type(value) is not kind or value.__dict__ is not found)
        self._class(kind)
        if any(isinstance(each, classmethod) for each in tuple(vars(kind).values())):
            self._making(kind)
        return True


def _is_a_row(value: Any) -> bool:
    return type(value) in (list, set, bytearray) or type(value).__name__ in ("ndarray", "Tensor", "deque")


#: Kinds of values of libraries that hold nothing a program changes, and generators, whose draws are watched for.
_KNOWN = frozenset({"dtype", "ufunc", "device", "RandomState", "Generator", "Random", "SystemRandom"})


class _Space:
    """Names that are looked up in one module: what they meant, and those that meant nothing there."""

    def __init__(self, space: dict[str, Any]) -> None:
        self.space = space
        self.there: dict[str, Any] = {}
        self.absent: set[str] = set()

    def look_up(self, names: frozenset[str]) -> list[Any]:
        """What names mean that were not looked up before."""
        new = names - self.there.keys() - self.absent
        found = {name: self.space[name] for name in new & self.space.keys()}
        self.there |= found
        self.absent |= new - found.keys()
        return list(found.values())

    def changed(self) -> bool:
        """Whether a name means something else, or hides what is built in."""
        now = map(self.space.get, self.there, itertools.repeat(_GONE))
        return not (all(map(operator.is_, now, self.there.values())) and self.space.keys().isdisjoint(self.absent))


def _are_same(arrays: Any, parts: list[tuple[Any, Any]]) -> bool:
    if len(arrays) != len(parts):
        return False
    return all(
        now is array and getattr(now, "_pa_array", None) is inner
        for now, (array, inner) in zip(arrays, parts, strict=True)
    )


def _lies(array: Any) -> tuple[Any, ...]:
    return array.shape, array.strides, array.dtype, array.flags.writeable


def _parts_of(function: types.FunctionType) -> tuple[Any, ...]:
    """What a function is made of; code with other sites is at the same place of the same file."""
    code = function.__code__
    return code.co_filename, code.co_firstlineno, id(function.__defaults__), id(function.__kwdefaults__)


def _module_of(kind: type) -> str:
    return str(type.__getattribute__(kind, "__module__"))


@functools.lru_cache(1024)
def names_in(code: types.CodeType) -> frozenset[str]:
    """The names that some code may look up, that of functions inside it included."""
    return frozenset(code.co_names).union(*map(names_in, _inside(code)))


@functools.lru_cache(1024)
def globals_in(code: types.CodeType) -> frozenset[str]:
    """Those of the names that are not attributes."""
    own = (each.argval for each in dis.get_instructions(code) if each.opname in _GLOBALS)
    return frozenset(own).union(*map(globals_in, _inside(code)))


def _inside(code: types.CodeType) -> list[types.CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


def _held_by(cell: Any) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # nothing yet
        return []


def _is_of_the_program(module: Any) -> bool:
    file = getattr(module, "__file__", None)
    return getattr(module, "__name__", "") == "__main__" or (file is not None and not is_installed(file))
