"""Functions as dill, cloudpickle and Hugging Face's hasher see them: with the code that the program wrote.

These libraries pickle or hash a function by its code object.  While one of them looks at a function, it has its own
code again; a hash is then the same with and without us, and who unpickles the function needs nothing of ours.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from codedag.instrument.guard import attempt

OriginalOf = Callable[[types.CodeType], types.CodeType | None]
Undo = Callable[[], object]


class OriginalCode:
    """Wraps the functions by which those libraries save a function, now or when they are imported."""

    def __init__(self, original_of: OriginalOf) -> None:
        self._original_of = original_of
        self._undo: list[Undo] = []
        self._watcher = _Watcher(self._loaded)

    def start(self) -> None:
        """Wraps what is loaded already, and waits for the rest."""
        sys.meta_path.insert(0, self._watcher)
        for name in list(PATCHES):
            if name in sys.modules:
                self._loaded(sys.modules[name])

    def stop(self) -> None:
        """Puts everything back."""
        while self._undo:
            attempt(self._undo.pop())
        attempt(sys.meta_path.remove, self._watcher)  # a program may have taken it away, or the whole list

    def _loaded(self, module: types.ModuleType) -> None:
        undo = attempt(PATCHES[module.__name__], module, self._wrapped)
        if callable(undo):
            self._undo.append(undo)

    def _wrapped(self, save: Callable[..., Any]) -> Callable[..., Any]:
        """The same with a function as second argument that has its own code while it is looked at."""

        def saving(pickler: Any, function: Any, *rest: Any) -> Any:
            code = getattr(function, "__code__", None)
            own = self._original_of(code) if type(function) is types.FunctionType and code is not None else None
            if own is None:
                return save(pickler, function, *rest)
            function.__code__ = own
            try:
                return save(pickler, function, *rest)
            finally:
                if function.__code__ is own:
                    function.__code__ = code

        return saving


def _in_dispatch(module: types.ModuleType, wrapped: Callable[..., Any]) -> Undo:
    """dill: its pickler has a table of what saves which type."""
    table = vars(module)["Pickler"].dispatch
    before = table[types.FunctionType]
    table[types.FunctionType] = wrapped(before)
    return lambda: table.__setitem__(types.FunctionType, before)


def _in_class(module: types.ModuleType, wrapped: Callable[..., Any]) -> Undo:
    """cloudpickle: its pickler has a method for functions."""
    kind = vars(module).get("Pickler") or vars(module)["CloudPickler"]
    before = kind._dynamic_function_reduce
    kind._dynamic_function_reduce = wrapped(before)
    return lambda: setattr(kind, "_dynamic_function_reduce", before)


PATCHES: dict[str, Callable[[types.ModuleType, Callable[..., Any]], Undo]] = {
    "dill._dill": _in_dispatch,
    "datasets.utils._dill": _in_dispatch,
    "cloudpickle.cloudpickle": _in_class,
    "joblib.externals.cloudpickle.cloudpickle": _in_class,
}


class _Watcher(importlib.abc.MetaPathFinder):
    """Hears when one of the modules has been imported."""

    def __init__(self, loaded: Callable[[types.ModuleType], None]) -> None:
        self._heard = loaded
        self._looking = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:  # fmt: skip
        """The module's own spec, with a loader that says when it is done; None for every other module."""
        if fullname not in PATCHES or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            _tell(spec.loader, self._heard)
        return spec


def _tell(loader: Any, heard: Callable[[types.ModuleType], None]) -> None:
    """Lets a loader, which is for this module alone, say that the module is there."""
    execute = loader.exec_module

    def exec_module(module: types.ModuleType) -> None:
        execute(module)
        heard(module)

    loader.exec_module = exec_module
