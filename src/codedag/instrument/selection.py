"""Which modules and functions of a program are looked at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class FilterConfig:
    """Patterns of names: what is included (everything, if nothing is named), less what is excluded."""

    include_modules: tuple[str, ...] = ()
    exclude_modules: tuple[str, ...] = ()
    include_functions: tuple[str, ...] = ()
    exclude_functions: tuple[str, ...] = ()

    def wants_module(self, name: str) -> bool:
        """Whether a module is looked at."""
        return _wants(name, self.include_modules, self.exclude_modules)

    def wants_function(self, qualname: str) -> bool:
        """Whether a function is looked at, by its qualified name."""
        return _wants(qualname, self.include_functions, self.exclude_functions)


def _wants(name: str, include: Iterable[str], exclude: Iterable[str]) -> bool:
    included = not tuple(include) or any(fnmatchcase(name, pattern) for pattern in include)
    return included and not any(fnmatchcase(name, pattern) for pattern in exclude)
