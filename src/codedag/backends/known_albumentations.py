"""What albumentations' transforms do: they draw from generators of their own and keep what they drew.

A pipeline and its transforms share two generators, one of numpy and one of Python.  The called object stands for
both.  Calls must keep their order, and no two may run at once: a transform keeps the parameters of its last call.
"""

from __future__ import annotations

from typing import Any

from codedag.backends.known_table import Effect, Row, Table, bases, is_defined_in

_FIRST = (2, 0)  # before, transforms drew from the global generators
_CALLS_BACK = frozenset({"Lambda"})


def learn(table: Table, module: Any) -> None:
    """Adds the transforms and pipelines of the versions that have generators of their own."""
    version = tuple(int(part) for part in module.__version__.split(".")[:2] if part.isdigit())
    if version < _FIRST:
        return
    core = module.core
    roots = (core.transforms_interface.BasicTransform, core.composition.BaseCompose)
    row = Row(
        "albumentations", Effect.DRAWS, fresh=False, outs=(), into_self=True, stream=lambda owner, keywords: owner
    )
    table.callables.append((roots, row, lambda value: _is_all_own(value, roots)))


def _is_all_own(value: Any, roots: tuple[type, ...], depth: int = 8) -> bool:
    """Whether a transform and all transforms in it are of the library itself and call nothing that they were given."""
    kind = type(value)
    module = type.__getattribute__(kind, "__module__")
    name = type.__getattribute__(kind, "__name__")
    if not module.startswith("albumentations.") or not is_defined_in(kind, module) or name in _CALLS_BACK:
        return False
    if not any(root in bases(kind) for root in roots) or _has_callbacks(value):
        return False
    if roots[1] not in bases(kind):  # a transform may have functions of the library under that name
        return True
    return depth > 0 and all(_is_all_own(each, roots, depth - 1) for each in vars(value).get("transforms", ()))


def _has_callbacks(value: Any) -> bool:
    """Whether it was given a function of the user's: transforms read images through `read_fn` and the like."""
    return any(name.endswith("_fn") and held is not None for name, held in tuple(vars(value).items()))
