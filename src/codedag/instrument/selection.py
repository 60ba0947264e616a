"""Which modules and functions of the program are observed: the user's patterns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase

#: What the code of a module outside its functions is called.
MODULE_LEVEL = "<module>"


@dataclass(frozen=True, slots=True)
class FilterConfig:
    """Patterns of modules and functions, as in the shell; nothing included means everything, and exclusion wins."""

    include_modules: Sequence[str] = ()
    exclude_modules: Sequence[str] = ()
    include_functions: Sequence[str] = ()
    exclude_functions: Sequence[str] = ()

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, _patterns(field.name, getattr(self, field.name)))

    def wants_module(self, name: str) -> bool:
        """Whether the module of this dotted name is observed; a pattern that fits a package covers what is in it."""
        return _chosen(_prefixes(name), self.include_modules, self.exclude_modules)

    def wants_function(self, qualname: str) -> bool:
        """Whether a function is observed, by its name or qualified name; a class or function covers what is in it."""
        names = _prefixes(qualname.replace(".<locals>", "") or MODULE_LEVEL)
        return _chosen(names | {n.rpartition(".")[2] for n in names}, self.include_functions, self.exclude_functions)

    @property
    def all_functions(self) -> bool:
        """Whether no function is left out."""
        return not self.include_functions and not self.exclude_functions


def _patterns(field: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise TypeError(f"{field} must be a sequence of patterns, not {type(value).__name__}: {value!r}")
    for pattern in value:
        if not isinstance(pattern, str):
            raise TypeError(f"{field} must hold text only, not {type(pattern).__name__}: {pattern!r}")
    return tuple(value)


def _prefixes(name: str) -> set[str]:
    parts = name.split(".")
    return {".".join(parts[: i + 1]) for i in range(len(parts))}


def _chosen(names: set[str], include: Sequence[str], exclude: Sequence[str]) -> bool:
    if any(fnmatchcase(name, pattern) for name in names for pattern in exclude):
        return False
    return not include or any(fnmatchcase(name, pattern) for name in names for pattern in include)
