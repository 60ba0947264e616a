"""Refusals of a file: every failure to read is a BadFile that names the file, the field and what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from codedag.ir.errors import BadFile

VERSION = 1

MAKE_AGAIN = "Make the file again with the command that wrote it, or correct this field (docs/files.md)."
INCOMPLETE = "The file is incomplete or damaged: copy it again, or make it again with the command that wrote it."
NOT_OURS = "Give a file that CodeDAG wrote (run.json, graph.json, costs.json, machine.json, plan.json, report.json)."
OTHER_VERSION = "Read it with the CodeDAG that wrote it, or make it again with this one."
UNREADABLE = "Check the path and its permissions."

_AT = re.compile(r"(?s)(?P<what>.*) - at `\$(?P<field>.*)`")
_MISSING = re.compile(r"Object missing required field `(?P<name>[^`]*)`")
_OWN_FIELD = re.compile(r"(?P<field>[A-Za-z_][\w.\[\]]*): (?P<what>.*)", re.DOTALL)


class Unreadable(Exception):  # noqa: N818 - never leaves this room: `reading` turns it into BadFile
    """What is wrong, in which field, and what to do; the file's name is added by `reading`."""

    def __init__(self, what: str, *, field: str = "", hint: str = MAKE_AGAIN) -> None:
        super().__init__(what)
        self.what, self.field, self.hint = what, field, hint


def bad_file(path: Path, what: str, *, field: str = "", hint: str) -> BadFile:
    """The error that names the file, the field if there is one, and what to do."""
    return BadFile(": ".join(part for part in (str(path), field, what) if part), hint=hint)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """A block in which whatever goes wrong with the file is a BadFile."""
    try:
        yield
    except Unreadable as error:
        raise bad_file(path, error.what, field=error.field, hint=error.hint) from error
    except FileNotFoundError as error:
        raise bad_file(path, "there is no such file", hint=UNREADABLE) from error
    except OSError as error:
        raise bad_file(path, f"cannot be read ({error.strerror or error})", hint=UNREADABLE) from error
    except MemoryError as error:
        raise bad_file(path, "does not fit into memory", hint="Use a machine with more memory.") from error


Decoded = TypeVar("Decoded")


def decode(raw: bytes, decoder: msgspec.json.Decoder[Decoded], prefix: str = "") -> Decoded:
    """What the bytes say, as the decoder's type; else raises Unreadable with the field below `prefix`."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise _explain(str(error), prefix) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_json(raw, error, prefix) from error


_ANYTHING: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


def check_header(kind: str, key: str, raw: bytes) -> None:
    """Nothing if this top-level field fits a file of this kind; unknown fields only have to be JSON."""
    value = decode(raw, _ANYTHING, key)
    if key == "format" and value != f"codedag/{kind}":
        raise Unreadable(f"expected `codedag/{kind}`, got `{_short(value)}`", field=key, hint=NOT_OURS)
    if key == "version" and (value != VERSION or value is True):
        got = f"the text `{_short(value)}`, not a number" if isinstance(value, str) else f"`{_short(value)}`"
        raise Unreadable(f"this CodeDAG reads version {VERSION}, got {got}", field=key, hint=OTHER_VERSION)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _explain(message: str, prefix: str) -> Unreadable:
    """The words and the field of a message of msgspec, in the words of our pages."""
    what, field = message, ""
    if at := _AT.fullmatch(message):
        what, field = at["what"], at["field"]
    if missing := _MISSING.fullmatch(what):
        what, field = "is missing", f"{field}.{missing['name']}"
    elif own := _OWN_FIELD.fullmatch(what):  # a rule of ours that looks at several rows names its own field
        what, field = own["what"], f"{field}.{own['field']}"
    return Unreadable(_lower_first(what), field=joined(prefix, field))


def joined(prefix: str, field: str) -> str:
    """The path of a field below a prefix, without a leading dot."""
    return f"{prefix}{field}".lstrip(".")


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _not_json(raw: bytes, error: Exception, prefix: str) -> Unreadable:
    if isinstance(error, RecursionError):
        return Unreadable("is nested too deeply", field=prefix, hint=NOT_OURS)
    if (found := _find_non_number(raw)) is not None:
        field, word = found
        return Unreadable(f"{word} is not a number that JSON allows", field=joined(prefix, field))
    if "truncated" in str(error):
        return Unreadable("ends too early", field=prefix, hint=INCOMPLETE)
    return Unreadable(f"is not valid JSON ({error})", field=prefix, hint=INCOMPLETE)


class _NonNumber(str):
    """NaN or Infinity, as the standard library's reader met it."""

    __slots__ = ()


def _find_non_number(raw: bytes) -> tuple[str, str] | None:
    """The field and the word if the only fault is that Python's `json.dump` wrote NaN or Infinity."""
    try:
        return next(_non_numbers(json.loads(raw, parse_constant=_NonNumber), ""), None)
    except (ValueError, RecursionError):
        return None


def _non_numbers(value: Any, field: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, _NonNumber):
        yield field, str(value)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _non_numbers(part, f"{field}.{key}")
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield from _non_numbers(part, f"{field}[{at}]")
