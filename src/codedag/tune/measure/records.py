"""Records of measurements on disk: one line each, appended in one write, bounded, safe for processes side by side."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from codedag.ir.errors import CannotWrite
from codedag.ir.files import write_atomically
from codedag.ir.places import cache_dir
from codedag.tune.machine_key import machine_key

FORMAT = "codedag/tuning-record"
NBYTES_MAX = 8 << 20


def place() -> Path:
    """The file of this machine's records."""
    digest = hashlib.sha256(machine_key().encode()).hexdigest()[:16]
    return cache_dir() / "tuning" / f"records-{digest}.jsonl"


def append(records: list[dict[str, Any]], path: Path | None = None) -> str:
    """Adds records at the end of the file; the reason if they cannot be kept."""
    path = path or place()
    lines = b"".join(json.dumps({"format": FORMAT, **one}).encode() + b"\n" for one in records)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, lines)  # one write: lines of other processes do not come between
            size = os.fstat(handle).st_size
        finally:
            os.close(handle)
        if size > NBYTES_MAX:
            _halve(path)
    except (OSError, CannotWrite) as error:
        return f"the records are not kept ({error})"
    return ""


def _halve(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    write_atomically(path, [b"".join(lines[len(lines) // 2 :])])


def read(path: Path | None = None) -> Iterator[dict[str, Any]]:
    """The records that can be read; a line that was cut off or damaged is passed over."""
    try:
        lines = (path or place()).read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and found.get("format") == FORMAT:
            yield found
