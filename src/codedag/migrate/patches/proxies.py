"""What is the proxy of a function of a library: it answers as the function in everything but what a call runs.

A proxy has the function's hash and equals it, so it finds and is found in sets and dicts that know the function;
attributes are the function's own, read and written; pickles name the function.
"""

from __future__ import annotations

import copyreg
import sys
import types
from typing import Any

from codedag.ir.verdict import No, Verdict, Yes
from codedag.migrate import _no_patch

# Protocols that a proxy does not pass on: an object that has one is used as more than a function.
_MORE = ("__getitem__", "__iter__", "__len__", "__next__", "__enter__", "__add__", "__bool__", "__await__", "__index__")
_OF_C_TYPES = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
)


def _choose() -> tuple[Any, str]:
    try:
        from codedag.migrate import _patch
    except ImportError as error:
        return _no_patch, f"the C extension codedag.migrate._patch is not there ({error})"
    return _patch, ""


native, why_missing = _choose()


def is_proxy(value: Any) -> bool:
    """Whether a value is the proxy of a function."""
    return type(value) in (native.Proxy, native.BindingProxy, native.HardProxy, native.HardBindingProxy)


def behind(value: Any) -> Any:
    """The function behind a proxy, a bound method with the function behind its own, or the value itself."""
    if type(value) is types.MethodType and is_proxy(value.__func__):
        return types.MethodType(behind(value.__func__), value.__self__)
    return value.__wrapped__ if is_proxy(value) else value


def make(original: Any) -> Any:
    """A proxy for a function, without layers: it passes calls through; the function where there are no proxies."""
    if why_missing:
        return original
    name = "BindingProxy" if hasattr(type(original), "__get__") else "Proxy"
    name = name if type(original).__weakrefoffset__ else f"Hard{name}"
    return getattr(native, name)(original)


def possible(original: Any) -> Verdict:
    """Yes if another function can be put in its place, else why not."""
    if why_missing:
        return No(why_missing)
    kind = type(original)
    if issubclass(kind, type):
        return No("it is a class: instances and subclasses would not be of the class in its place")
    if issubclass(kind, _OF_C_TYPES):
        return No("it is a method of a type that is written in C: the attributes of such a type cannot be set")
    if issubclass(kind, types.MethodType):
        return No("it is a bound method, made anew at each access: patch the function in the class")
    if not callable(original):
        return No(f"an object of type {kind.__name__} cannot be called")
    more = [name for name in _MORE if hasattr(kind, name)]
    return No(f"an object of type {kind.__name__} is more than a function ({more[0]})") if more else Yes


def name_of(function: Any) -> str:
    """The dotted name by which reports know a function."""
    builtin = isinstance(behind(function), types.BuiltinFunctionType)  # the qualified name may be of a hidden class
    name = None if builtin else getattr(function, "__qualname__", None)
    name = name or getattr(function, "__name__", None) or type(function).__name__
    module = getattr(function, "__module__", None) or _first_module(function, str(name))
    return f"{module}.{name}" if module else str(name)


def _first_module(function: Any, name: str) -> str:
    """The module with the shortest name that has a function which does not say where it lives."""
    found = []
    for module, value in list(sys.modules.items()):
        try:
            names = object.__getattribute__(value, "__dict__")
        except AttributeError:
            continue
        if type(names) is dict and behind(names.get(name)) is behind(function):
            found.append(module)
    return min(found, key=len, default="")


def _reduced(original: Any, protocol: int) -> Any:
    """What the function itself gives to pickle: by name, which leads to the proxy while it is in place."""
    if isinstance(original, types.FunctionType):
        return original.__qualname__
    reduce = copyreg.dispatch_table.get(type(original))
    return reduce(original) if reduce is not None else original.__reduce_ex__(protocol)


native.set_reduce(_reduced)
