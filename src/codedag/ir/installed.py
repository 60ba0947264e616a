"""Versions of installed libraries by the names of their folders, without a parser of mail headers.

importlib.metadata reads them from files in the format of mails, and importing what that takes costs as long as starting
Python does.  The name of the folder says the same; where it does not, importlib.metadata is asked.
"""

from __future__ import annotations

import os
import re
import sys

_listed: dict[str, tuple[int, dict[str, str]]] = {}


def version_of(distribution: str) -> str | None:
    """The version of an installed distribution, the first that Python would find; None if there is none."""
    wanted = _normal(distribution)
    for place in sys.path:
        found = _folders(os.path.abspath(place)).get(wanted)
        if found is not None:
            return found or _asked(distribution)
    return None


def _asked(distribution: str) -> str | None:
    import importlib.metadata

    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _folders(place: str) -> dict[str, str]:
    """The distributions in one place of sys.path, with their versions; "" where only their files say it."""
    try:
        changed = os.stat(place).st_mtime_ns  # noqa: PTH116 - a path of sys.path, as it is
        known = _listed.get(place)
        if known is None or known[0] != changed:
            known = _listed[place] = changed, _named(os.listdir(place))  # noqa: PTH208
        return known[1]
    except (OSError, ValueError):  # there is nothing there, or it is an archive
        return {}


def _named(names: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        stem, _, kind = name.rpartition(".")
        if kind in ("dist-info", "egg-info"):
            distribution, _, version = stem.partition("-")
            plain = kind == "dist-info" and re.fullmatch(r"\d[A-Za-z0-9.+!]*", version)
            found.setdefault(_normal(distribution), version if plain else "")
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
