"""Which module has substitutes for which functions, kept on disk: a program loads only what it has a use for.

Loading every backend takes a tenth of a second, which a program with nothing to gain would pay for nothing.  What is
kept holds for these very files of this room, and as long as no plug-in is installed; else everything is loaded.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from codedag._version import __version__
from codedag.ir.errors import CannotWrite
from codedag.ir.files import write_atomically
from codedag.ir.places import cache_dir

FILE = "backends.json"
HEAD = {"format": "codedag/backends", "version": 1}
MOST_PLACES = 200
#: For each function the modules that have a substitute for it, each with the PU that this runs on.
Modules = Mapping[str, tuple[tuple[str, str], ...]]


def recall(group: str) -> Modules | None:
    """The modules with substitutes for each function, if that is known and no plug-in could add to it."""
    kept = _read()
    if kept is None or kept["state"] != _state():
        return None
    places = _places()
    unknown = {place: changed for place, changed in places.items() if kept["places"].get(place) != changed}
    if any(_has_plug_in(place, group) for place in unknown):
        return None
    if unknown:
        _write(kept["modules"], kept["places"] | unknown)
    return {source: tuple((module, pu) for module, pu in found) for source, found in kept["modules"].items()}


def keep(of: Iterable[tuple[str, str, str]]) -> None:
    """Writes which module has a substitute for which function on which PU.

    A folder that cannot be written to costs only time.
    """
    modules: dict[str, list[list[str]]] = {}
    for source, module, pu in of:
        if [module, pu] not in modules.setdefault(source, []):
            modules[source].append([module, pu])
    _write(modules, _places())


def _write(modules: Mapping[str, list[list[str]]], places: Mapping[str, int]) -> None:
    latest = dict(list(places.items())[-MOST_PLACES:])
    content = {**HEAD, "state": _state(), "modules": modules, "places": latest}
    try:
        write_atomically(cache_dir() / FILE, json.dumps(content).encode())
    except (CannotWrite, OSError, UnicodeError):
        return


def _read() -> dict[str, Any] | None:
    """What is kept, if it is ours and whole."""
    try:
        content = json.loads((cache_dir() / FILE).read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(content, dict) or any(content.get(name) != value for name, value in HEAD.items()):
        return None
    modules, places = content.get("modules"), content.get("places")
    legal = isinstance(modules, dict) and isinstance(places, dict) and all(map(_is_ours, modules.values()))
    return content if legal else None


def _is_ours(value: object) -> bool:
    """Whether these are modules of this room: a file in a cache may name nothing else to be imported."""
    return isinstance(value, list) and all(map(_is_module, value))


def _is_module(value: object) -> bool:
    is_pair = isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) for part in value)
    return is_pair and value[0].startswith(f"{__package__}.")  # type: ignore[index]


def _state() -> str:
    """What differs when a file of this room does."""
    with os.scandir(Path(__file__).parent) as entries:
        found = sorted((e.name, e.stat().st_mtime_ns, e.stat().st_size) for e in entries if e.name.endswith(".py"))
    return f"{__version__} {sys.version} {found}"


def _places() -> dict[str, int]:
    """Where Python looks for what is installed, and when something last came or went there."""
    found = {}
    for entry in sys.path:
        place = os.path.abspath(entry)
        try:
            found[place] = os.stat(place).st_mtime_ns  # noqa: PTH116 - a path of sys.path, as it is
        except (OSError, ValueError):
            continue
    return found


def _has_plug_in(place: str, group: str) -> bool:
    """Whether something installed there may offer substitutes; what cannot be looked into may."""
    if not os.path.isdir(place):  # noqa: PTH112
        return True
    try:
        names = [name for name in os.listdir(place) if name.endswith((".dist-info", ".egg-info"))]  # noqa: PTH208
    except OSError:
        return False
    return any(group.encode() in _entry_points(os.path.join(place, name)) for name in names)  # noqa: PTH118


def _entry_points(folder: str) -> bytes:
    try:
        return (Path(folder) / "entry_points.txt").read_bytes()
    except OSError:
        return b""
