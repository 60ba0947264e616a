"""Version ranges of installed libraries: `scipy>=1.11,<2`, answered from metadata without an import."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

from codedag.ir.installed import version_of
from codedag.ir.verdict import No, Verdict, Yes

# One library under several distribution names.
_KINDS = ("python-headless", "python", "contrib-python-headless", "contrib-python")
_OPENCV = tuple(f"opencv-{kind}" for kind in _KINDS)
ALIASES = dict.fromkeys(_OPENCV, _OPENCV)
Version = tuple[tuple[int, ...], int]
_COMPARE: dict[str, Callable[[Version, Version], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}


def satisfied(requirement: str) -> Verdict:
    """Yes if the library is installed in the range, else what is missing."""
    name, ranges = parse(requirement)
    installed = installed_version(name)
    if installed is None:
        return No(f"{name} is not installed")
    for compare, bound in ranges:
        if not _COMPARE[compare](_version(installed), _version(bound)):
            return No(f"{name} {installed} is installed, {requirement} is needed")
    return Yes


def installed_version(name: str) -> str | None:
    """The version of an installed library under any of its distribution names, or None."""
    found = (version_of(distribution) for distribution in ALIASES.get(name, (name,)))
    return next((version for version in found if version is not None), None)


def parse(requirement: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The name and the (comparison, version) pairs of a requirement."""
    match = re.fullmatch(r"\s*([A-Za-z0-9][\w.-]*)\s*(.*)", requirement)
    if not match:
        raise ValueError(f"not a requirement: {requirement!r}")
    parts = [part.strip() for part in match[2].split(",") if part.strip()]
    return match[1], tuple(_range(part, requirement) for part in parts)


def _range(part: str, requirement: str) -> tuple[str, str]:
    match = re.fullmatch(r"(>=|<=|==|!=|>|<)\s*(\d[\w.+!-]*)", part)
    if not match:
        raise ValueError(f"not a version range: {part!r} in {requirement!r}")
    return match[1], match[2]


def _version(text: str) -> Version:
    """A comparable version: the release without trailing zeros, and 0 for one that came before it."""
    match = re.match(r"v?(\d+(?:\.\d+)*)(.*)", text)
    if not match:
        return (), 0
    release = [int(part) for part in match[1].split(".")]
    while release and release[-1] == 0:
        release.pop()
    early = re.match(r"[._-]?(a|b|c|rc|alpha|beta|pre|preview|dev)", match[2])
    return tuple(release), 0 if early else 1
