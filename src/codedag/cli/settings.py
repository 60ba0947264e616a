"""`[tool.codedag]` in pyproject.toml: what a project always asks of `codedag run`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from codedag.ir.errors import CodedagError

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_CLASSES = ("exact", "ulp", "level1")


class BadSettings(CodedagError):  # noqa: N818 - reads as what happened
    """A setting, in pyproject.toml or on the command line, that is not what it should be."""

    slug = "bad-settings"


def settings(start: Path) -> dict[str, Any]:
    """The settings of the project that a directory belongs to, checked; empty if there are none."""
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            return _read(file)
    return {}


def _read(file: Path) -> dict[str, Any]:
    import tomllib  # most programs are in no project

    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSettings(f"{file}: it cannot be read ({error})", hint="Correct it, or run from elsewhere.") from error
    tool = table.get("tool", {})
    found = tool.get("codedag", {}) if isinstance(tool, dict) else {}
    if not isinstance(found, dict):
        raise BadSettings(f"{file}: tool.codedag is not a table", hint="Write [tool.codedag] and settings below it.")
    return {_known(file, name): _value(file, name, value) for name, value in found.items()}


def _known(file: Path, name: str) -> str:
    if name not in SETTINGS:
        known = ", ".join(sorted(SETTINGS))
        raise BadSettings(f"{file}: tool.codedag.{name} is not a setting", hint=f"There are: {known}.")
    return name


def _value(file: Path, name: str, value: Any) -> Any:
    try:
        return SETTINGS[name](value)
    except BadSettings as error:
        raise BadSettings(f"{file}: tool.codedag.{name}: {error.message}", hint=error.hint) from error


def classes(value: Any) -> tuple[str, ...]:
    """The classes of equivalence that are allowed, from `"ulp,level1"` or a list; exact always is."""
    words = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    named = [str(word).strip().lower() for word in words]
    for word in named:
        if word not in _CLASSES:
            hint = "Name ulp (rounding), level1 (one grey level), or both."
            raise BadSettings(f"{word!r} is no class of equivalence", hint=hint)
    return tuple(name for name in _CLASSES if name == "exact" or name in named)


def nbytes(value: Any) -> int:
    """A number of bytes, from a number or a text such as 512M or 2G."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", str(value).lower())
    if isinstance(value, bool) or found is None:
        raise BadSettings(f"{value!r} is no amount of bytes", hint="Write bytes, or a number with K, M, G or T.")
    return int(float(found[1]) * _UNITS[found[2]])


def share(value: Any) -> float:
    """A share between 0 and 1, from a number or a text such as 5%."""
    text = str(value).strip()
    try:
        found = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        found = -1.0
    if isinstance(value, bool) or not 0 <= found <= 1:
        raise BadSettings(f"{value!r} is no share of the time", hint="Write a number from 0 to 1, or a percentage.")
    return found


def yes_or_no(value: Any) -> bool:
    """True or false, and nothing else."""
    if not isinstance(value, bool):
        raise BadSettings(f"{value!r} is neither true nor false", hint="Write true or false.")
    return value


def file_name(value: Any) -> str:
    """The name of a file."""
    if not isinstance(value, str) or not value:
        raise BadSettings(f"{value!r} is not the name of a file", hint="Write it in quotes.")
    return value


SETTINGS: dict[str, Callable[[Any], Any]] = {
    "allow": classes,
    "budget-ram": nbytes,
    "budget-disk": nbytes,
    "max-overhead": share,
    "fresh": yes_or_no,
    "observe-only": yes_or_no,
    "plan": file_name,
}
