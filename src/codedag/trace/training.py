"""What training does behind the arguments of its calls: gradients are left by `backward`, parameters written by `step`.

Both gatherers ask here: there are few such calls.  Only plain tensors and parameters are asked; nothing is kept alive.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

from codedag.trace.habits import CLIPS, STEPS

_MOST = 4_096  # parameters of one optimiser
_MOST_READ = 64  # parameters looked at per call of a module
_DEEPEST = 16  # modules in modules


class Training:
    """Knows the optimiser that was used last."""

    def __init__(self) -> None:
        self._optimiser: Any = lambda: None

    def moved(self, own: Any, args: tuple[Any, ...], bits: int) -> tuple[list[Any], list[Any]]:
        """The gradients that a call reads, and the tensors that it writes; nothing where torch is watched."""
        torch: Any = sys.modules.get("torch")
        if torch is None or _is_watched(torch):
            return [], []
        if bits & STEPS:
            parameters = _plain(torch, _parameters_of(own))
            self._optimiser = _reference(own) if parameters else self._optimiser
        else:
            parameters = _plain(torch, self._clipped(args))
        if bits & CLIPS or parameters:
            gradients = _plain(torch, [p.grad for p in parameters if p.is_leaf])
            return gradients, (gradients if bits & CLIPS else parameters)
        return [], []

    def _clipped(self, args: tuple[Any, ...]) -> list[Any]:
        """The parameters whose gradients are clipped: a generator is used up, so those of the optimiser at hand."""
        given: Any = args[0] if args else None
        if type(given) in (list, tuple):
            return list(given)
        return _parameters_of(self._optimiser()) if hasattr(type(given), "__next__") else [given]


def _reference(optimiser: Any) -> Any:
    try:
        return weakref.ref(optimiser)
    except TypeError:
        return lambda: None


def _is_watched(torch: Any) -> bool:
    jit = torch._C
    modes = jit._len_torch_function_stack() or jit._len_torch_dispatch_stack()
    return bool(modes) or jit._get_tracing_state() is not None


def _plain(torch: Any, values: list[Any]) -> list[Any]:
    return [v for v in values[:_MOST] if type(v) is torch.Tensor or type(v) is torch.nn.Parameter]


def _attributes(thing: Any) -> dict[str, Any]:
    try:
        found = object.__getattribute__(thing, "__dict__")
    except (AttributeError, TypeError):
        return {}
    return found if type(found) is dict else {}


def _parameters_of(optimiser: Any) -> list[Any]:
    groups = _attributes(optimiser).get("param_groups")
    found: list[Any] = []
    for group in groups if type(groups) is list else ():
        members = group.get("params") if type(group) is dict else None
        found += members if type(members) is list else ()
    return found


def read_by(module: Any) -> list[Any]:
    """The first parameters of a torch module and those in it, which its call reads."""
    torch: Any = sys.modules.get("torch")
    found: list[Any] = []
    if torch is not None and not _is_watched(torch):
        _collect(module, found, _DEEPEST)
    return _plain(torch, found) if found else found


def _collect(module: Any, found: list[Any], depth: int) -> None:
    attributes = _attributes(module)
    parameters, modules = attributes.get("_parameters"), attributes.get("_modules")
    if type(parameters) is dict:
        found += list(parameters.values())
    if type(modules) is dict and depth:
        for inner in list(modules.values()):
            if len(found) < _MOST_READ:
                _collect(inner, found, depth - 1)
