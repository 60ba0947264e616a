"""What was measured on this machine: one SQLite file, written after every batch, so that a kill loses at most one.

A cell is one variant with inputs of one shape; its key holds everything that the figures depend on.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codedag.ir import CannotWrite, CodedagError, cache_dir
from codedag.profile.figures import Batches

FILE = "costs.sqlite"
_VERSION = 1
_TABLE = """
CREATE TABLE IF NOT EXISTS cells (
  key TEXT PRIMARY KEY, operation TEXT NOT NULL, shapes TEXT NOT NULL, pu TEXT NOT NULL, variant TEXT NOT NULL,
  status TEXT NOT NULL, facts TEXT NOT NULL, batches TEXT NOT NULL, measured REAL NOT NULL
)
"""


class BadStore(CodedagError):  # noqa: N818 - reads as what happened
    """The file of measured costs cannot be used."""

    slug = "bad-store"


@dataclass(slots=True)
class Cell:
    """One variant of one operation with inputs of one shape, and what is known of it so far.

    status: new, partial, ok, failed or unsupported.
    """

    key: str
    operation: str
    shapes: str
    pu: str
    variant: str
    status: str = "new"
    facts: dict[str, Any] = field(default_factory=dict)
    batches: Batches = field(default_factory=Batches)

    @property
    def done(self) -> bool:
        """Whether nothing is left to measure."""
        return self.status in ("ok", "failed", "unsupported")

    @property
    def reason(self) -> str:
        """Why there is no figure."""
        return str(self.facts.get("reason", ""))


class Store:
    """The cells of this machine."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or cache_dir() / FILE
        with self._saying_why():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Each statement is a transaction.  A killed process loses nothing that was written; only a power cut can
            # lose the newest rows, which would be measured again.
            self._base = sqlite3.connect(self.path, isolation_level=None, timeout=30)
            self._base.execute("PRAGMA synchronous=OFF")
            self._base.execute("PRAGMA busy_timeout=30000")
            self._need_version()
            self._base.execute(_TABLE)

    def close(self) -> None:
        """Closes the file."""
        self._base.close()

    def _need_version(self) -> None:
        found = self._base.execute("PRAGMA user_version").fetchone()[0]
        if found not in (0, _VERSION):
            raise BadStore(
                f"{self.path} was written by another version of CodeDAG ({found}, this one reads {_VERSION})",
                hint="Remove the file; it is made again.",
            )
        self._base.execute(f"PRAGMA user_version={_VERSION}")

    def read(self, cell: Cell) -> Cell:
        """The cell as it was kept, or as it is if it was not."""
        with self._saying_why():
            row = self._base.execute("SELECT status, facts, batches FROM cells WHERE key = ?", (cell.key,)).fetchone()
        if row is None:
            return cell
        cell.status, cell.facts = row[0], json.loads(row[1])
        cell.batches = Batches(*json.loads(row[2]))
        return cell

    def write(self, cell: Cell) -> None:
        """Keeps what is known of a cell."""
        batches = json.dumps([cell.batches.seconds, cell.batches.clean, cell.batches.page_faults])
        row = (
            cell.key, cell.operation, cell.shapes, cell.pu, cell.variant, cell.status, json.dumps(cell.facts), batches,
            time.time(),
        )  # fmt: skip
        with self._saying_why():
            self._base.execute("INSERT OR REPLACE INTO cells VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def forget(self, key: str) -> None:
        """Removes a cell, so that it is measured again."""
        with self._saying_why():
            self._base.execute("DELETE FROM cells WHERE key = ?", (key,))

    def count(self) -> int:
        """How many cells there are."""
        with self._saying_why():
            return int(self._base.execute("SELECT count(*) FROM cells").fetchone()[0])

    @contextmanager
    def _saying_why(self) -> Iterator[None]:
        """Turns what SQLite or the disk says into an error that says what is kept and what to do."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise _cannot_write(self.path, str(error)) from error
            raise BadStore(
                f"{self.path} is damaged or is no file of measured costs ({error})",
                hint="Remove the file; it is made again.",
            ) from error
        except OSError as error:
            raise _cannot_write(self.path, error.strerror or str(error)) from error


def _cannot_write(path: Path, why: str) -> CannotWrite:
    return CannotWrite(
        f"cannot write {path}: {why}; what was measured before is kept",
        hint="Make room, or name another place with CODEDAG_HOME, and run the command again: it goes on from here.",
    )
