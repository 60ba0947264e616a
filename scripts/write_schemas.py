"""Writes src/codedag/ir/schemas/*.schema.json from the types that read and write the files."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import msgspec

from codedag.ir.store import FILE_NAMES, FILE_TYPES

FOLDER = Path(__file__).resolve().parents[1] / "src" / "codedag" / "ir" / "schemas"


def schema_of(kind: str) -> dict[str, Any]:
    """The JSON schema of one kind of file."""
    schema = _described(msgspec.json.schema(FILE_TYPES[kind]))
    top = schema["$defs"][FILE_TYPES[kind].__name__]
    # Defaults spare code from repeating these two; a file without them is refused all the same.
    top["required"] = ["format", "version", *top["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"codedag/{kind}/1",
        "title": FILE_NAMES[kind],
        **schema,
    }


def _described(part: Any) -> Any:
    """The same with descriptions as Python 3.13 and later keep them: without the indentation of the source."""
    if isinstance(part, list):
        return [_described(one) for one in part]
    if not isinstance(part, dict):
        return part
    return {
        name: inspect.cleandoc(one) if name == "description" and isinstance(one, str) else _described(one)
        for name, one in part.items()
    }


def schemas() -> dict[Path, str]:
    """The text of every schema file."""
    return {
        FOLDER / f"{kind}.schema.json": json.dumps(schema_of(kind), indent=2, sort_keys=True) + "\n"
        for kind in FILE_TYPES
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in schemas().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
