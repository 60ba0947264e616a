"""Tells when a module has been loaded, without a frame of ours in the tracebacks of imports that fail."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from codedag.migrate.guard import Failed, attempt
from codedag.migrate.patches import proxies


class ImportWatcher:
    """Finds what the other finders find; the loader of that module tells us once it has run it."""

    def __init__(self, tell: Callable[[Any], None]) -> None:
        self._tell = tell

    def start(self) -> None:
        """Watches imports from now on."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Watches no more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec that the first of the finders after this one gives, or None: they are then asked again by Python."""
        for finder in self._after():
            find = getattr(finder, "find_spec", None)
            found = attempt(find, name, path, target) if find is not None else None
            if isinstance(found, Failed):
                return None  # Python asks that finder itself and shows its error as it is
            if found is not None:
                return self._listen(found)
        return None

    def _after(self) -> list[Any]:
        """The finders that Python would ask next; two of us that asked each other would never end."""
        finders = [*sys.meta_path]
        places = [place for place, finder in enumerate(finders) if finder is self]
        return finders[places[-1] + 1 :] if places else [each for each in finders if type(each) is not ImportWatcher]

    def _listen(self, spec: ModuleSpec) -> ModuleSpec:
        loader = spec.loader
        names = getattr(loader, "__dict__", None)
        run = None if isinstance(loader, type) else getattr(loader, "exec_module", None)
        if type(names) is dict and run is not None:
            names["exec_module"] = proxies.native.After(run, partial(self._loaded, names))
        return spec

    def _loaded(self, names: dict[str, Any], module: Any) -> None:
        names.pop("exec_module", None)
        attempt(self._tell, module)
