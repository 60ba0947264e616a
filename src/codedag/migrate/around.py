"""What a kept result depends on beside what was given: filters of warnings, settings of libraries, methods."""

from __future__ import annotations

import sys
from typing import Any

from codedag.instrument.warned import filters_now
from codedag.migrate.stands import behind

#: Settings by which a library reads the same file otherwise, or not at all.
_SETTINGS = {"PIL.Image": ("MAX_IMAGE_PIXELS",), "PIL.ImageFile": ("LOAD_TRUNCATED_IMAGES", "MAXBLOCK")}


def settings_now() -> tuple[Any, ...]:
    """The settings of the libraries that are loaded."""
    names = ((getattr(sys.modules.get(module), "__dict__", {}), each) for module, each in _SETTINGS.items())
    return tuple(space.get(name) for space, each in names for name in each)


def around_now() -> tuple[Any, ...]:
    """Filters and settings: what was kept under others may have to warn or to fail now."""
    return (filters_now(), settings_now())


class Methods:
    """The functions behind the methods that were called, by class and name: the program may replace them."""

    def __init__(self) -> None:
        self._seen: dict[tuple[type, str], Any] = {}

    def note(self, kind: type, name: str) -> None:
        """Remembers what the method of a class is now."""
        self._seen.setdefault((kind, name), _function(kind, name))

    def heed(self) -> bool:
        """Whether all of them are as they were; from now on as they are."""
        changed = [key for key, function in self._seen.items() if _function(*key) is not function]
        for key in changed:
            self._seen[key] = _function(*key)
        return not changed

    def names(self) -> list[str]:
        """What they are called, for other processes."""
        return sorted(
            f"{getattr(each, '__module__', '')}.{getattr(each, '__qualname__', '')}" for each in self._seen.values()
        )


def _function(kind: type, name: str) -> Any:
    return behind(next((vars(each)[name] for each in type.mro(kind) if name in vars(each)), None))
