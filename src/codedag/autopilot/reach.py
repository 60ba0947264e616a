"""What code can reach and read without being seen to: as it was when it ran ahead, and whether it still is so.

The values that a function is given, its globals, what it closes over, and everything inside of those.  Each thing that
can change is kept next to what is directly in it; so any change shows at the thing that was changed.  Small arrays are
kept by their bytes.  What cannot be looked into, or is too much, is a reason not to run ahead.
"""

from __future__ import annotations

import operator
import pathlib
import sys
import types
from collections.abc import Callable, Collection, Iterable
from typing import Any

from codedag.backends.known_table import bases, named_type
from codedag.instrument.places import is_installed
from codedag.ir.verdict import No
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

Changed = Callable[[], bool]


class Reach:
    """What could be read from some roots, as it was when this was made."""

    def __init__(self, roots: Iterable[Any], space: Any = None, bound: Collection[str] = ()) -> None:
        """`bound` are the names in `space` that what runs ahead binds for itself, and nobody else may read."""
        self._space, self._bound = space, bound
        self.why: No | None = None  # why it cannot be told whether it changed
        self.names: set[str] = set()  # that functions on the way look up
        self._seen: set[int] = set()
        self._held: list[Any] = []  # so that the numbers in `_seen` stay their own
        self._changed: list[Changed] = []
        self._left, self._nbytes = MOST_THINGS, MOST_NBYTES
        self._waiting = list(roots)
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
        if not self._spend(2 * len(value)):
            return
        keys, values = tuple(value), tuple(value.values())
        self._waiting += [each for each in (*keys, *values) if type(each) not in _ATOMS]

        def changed() -> bool:
            if len(value) != len(keys) or not all(map(operator.is_, value, keys)):
                return True
            return not all(map(operator.is_, value.values(), values))

        self._changed.append(changed)

    def _function(self, value: types.FunctionType) -> None:
        """A function of a library is known by its name; one of the program's reads its globals and what is around."""
        if is_installed(value.__code__.co_filename):
            return
        for cell in value.__closure__ or ():
            held = _held_by(cell)
            self._waiting += held
            self._changed.append(lambda cell=cell, held=held: not all(map(operator.is_, _held_by(cell), held)))  # type: ignore[misc]
        self._waiting += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        names = names_in(value.__code__)
        self.names |= names
        self._names(value.__globals__, names)

    def _names(self, space: dict[str, Any], names: set[str]) -> None:
        if space is self._space and not names.isdisjoint(self._bound):
            self.why = No(f"a function reads {min(names.intersection(self._bound))}, which the loop binds")
        for name in names & space.keys():
            value = space[name]
            self._changed.append(lambda name=name, value=value: space.get(name, space) is not value)  # type: ignore[misc]
            if type(value) is types.ModuleType and not _is_of_the_program(value):
                continue
            if type(value) is types.ModuleType:
                if id(value) not in self._seen:
                    self._seen.add(id(value))
                    self._names(vars(value), names)
            else:
                self._waiting.append(value)

    def _is_of_a_library(self, value: Any) -> bool:
        """Modules, classes and functions of libraries, dtypes, generators: known where they are used."""
        if isinstance(value, type):
            if _is_of_the_program(sys.modules.get(str(type.__getattribute__(value, "__module__")))):
                self._waiting += [each for name, each in list(vars(value).items()) if not name.startswith("__")]
            return True
        if isinstance(value, staticmethod | classmethod):
            self._waiting.append(value.__func__)
            return True
        if type(value) is property:
            self._waiting += [each for each in (value.fget,) if each is not None]
            return True
        kind, top = type(value).__name__, str(type(value).__module__).partition(".")[0]
        return type(value) is types.ModuleType or (top in _LIBRARIES and kind in _KNOWN)

    def _array(self, value: Any) -> bool:
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        if numpy is not None and isinstance(value, numpy.generic):
            return True
        if numpy is not None and type(value) is numpy.ndarray and not value.dtype.hasobject:
            return self._bytes(value, value.nbytes, lambda: value.tobytes())
        if numpy is not None and type(value) is numpy.ndarray and self._spend(value.size):
            rows = value.ravel("K").tolist()
            self._waiting += [each for each in rows if type(each) not in _ATOMS]
            self._changed.append(lambda: not all(map(operator.is_, value.ravel("K").tolist(), rows)))
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
        self._waiting += [found, kind]
        return True


#: Kinds of values of libraries that hold nothing a program changes, and generators, whose draws are watched for.
_KNOWN = frozenset({"dtype", "ufunc", "device", "RandomState", "Generator", "Random", "SystemRandom"})


def _are_same(arrays: Any, parts: list[tuple[Any, Any]]) -> bool:
    if len(arrays) != len(parts):
        return False
    return all(
        now is array and getattr(now, "_pa_array", None) is inner
        for now, (array, inner) in zip(arrays, parts, strict=True)
    )


def names_in(code: types.CodeType) -> set[str]:
    """The names that some code may look up, that of functions inside it included."""
    inner = [names_in(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*inner)


def _held_by(cell: Any) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # nothing yet
        return []


def _is_of_the_program(module: Any) -> bool:
    file = getattr(module, "__file__", None)
    return getattr(module, "__name__", "") == "__main__" or (file is not None and not is_installed(file))
