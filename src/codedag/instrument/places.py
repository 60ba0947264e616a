"""Where the program's own files are: below its roots and not installed, or in packages that the user named."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

OURS = str(Path(__file__).resolve().parent.parent) + os.sep
#: Packages whose functions never get sites: CodeDAG, what it and the import system run on, and the arrays themselves.
PROTECTED_PACKAGES = frozenset({
    "codedag", "torch", "functorch", "torchgen", "tensorflow", "keras", "numpy", "msgspec", "builtins",
})  # fmt: skip
#: But these modules of them: all map-style datasets go through torch's fetch.
OPENED_MODULES = frozenset({"torch.utils.data._utils.fetch"})
#: Begins the names of the temporary files in which AutoGraph keeps what it makes of functions of the program.
_OF_AUTOGRAPH = "__autograph_generated_file"


class Places:
    """The roots of the program, and the installed packages that are looked into as if they were its own."""

    def __init__(self, roots: list[str], drill: Iterable[str] = ()) -> None:
        if isinstance(drill, str):
            raise TypeError(f"drill must be a sequence of package names, not a text: {drill!r}")
        self.roots, self.drill = roots, tuple(drill)
        self._tops = tuple(f"{name}." for name in self.drill)
        self._known: dict[str, bool] = {}  # whether a folder holds the user's own files

    def drills(self, name: str) -> bool:
        """Whether a module belongs to a named package."""
        return bool(self.drill) and (name in self.drill or name.startswith(self._tops))

    def hold(self, path: str, name: str = "") -> bool:
        """Whether a source file is the program's own, or of a named package."""
        return (self.drills(name) and not path.startswith(OURS)) or self._is_own(path)

    def may_hold(self, name: str, folders: Sequence[str] | None) -> bool:
        """Whether a module that is looked for in these folders can be one of them; None is all of `sys.path`."""
        return folders is None or self.drills(name) or any(map(self._is_own_folder, folders))

    def _is_own(self, path: str) -> bool:
        if os.path.islink(path):  # noqa: PTH114 - it belongs where it leads to
            return self._holds(os.path.dirname(os.path.realpath(path)))  # noqa: PTH120
        return self._is_own_folder(os.path.dirname(path))  # noqa: PTH120

    def _is_own_folder(self, folder: str) -> bool:
        known = self._known.get(folder)
        if known is None:
            known = self._known[folder] = self._holds(os.path.realpath(folder))
        return known

    def _holds(self, folder: str) -> bool:
        folder += os.sep
        return any(folder.startswith(root.rstrip(os.sep) + os.sep) for root in self.roots) and not is_installed(folder)


def is_of_autograph(path: str) -> bool:
    """Whether AutoGraph has written a source file: it builds TensorFlow's graph and runs once."""
    return os.path.basename(path).startswith(_OF_AUTOGRAPH)  # noqa: PTH119


def is_installed(folder: str) -> bool:
    """Whether a file or folder belongs to Python, to an installed package or to us."""
    if folder.startswith(_installed_folders()):
        return True
    return f"{os.sep}site-packages{os.sep}" in folder or f"{os.sep}dist-packages{os.sep}" in folder


def is_standard_library(path: str) -> bool:
    """Whether a file belongs to Python itself and not to a package that was installed."""
    if f"{os.sep}site-packages{os.sep}" in path or f"{os.sep}dist-packages{os.sep}" in path:
        return False
    return path.startswith(_standard_folders())


@cache
def _installed_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    found = {paths[name] + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    if sys.prefix != sys.base_prefix:
        found.add(str(Path(sys.prefix).resolve()) + os.sep)
    return (OURS, *found)


@cache
def _standard_folders() -> tuple[str, ...]:
    return tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))
