"""The journal of edits: which reference was changed, where, from what to what.

It keeps no holder alive: an entry knows its holder by identity and type only, so the program's objects end when they
would without us.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Edit:
    """One changed reference."""

    kind: str
    where: str
    key: str
    function: str
    function_id: int
    to_proxy: bool
    holder_id: int
    holder_type: str

    @property
    def before(self) -> str:
        """What was there."""
        return self.function if self.to_proxy else f"the proxy of {self.function}"

    @property
    def after(self) -> str:
        """What is there now."""
        return f"the proxy of {self.function}" if self.to_proxy else self.function

    def __str__(self) -> str:
        return f"{self.kind} {self.where}[{self.key}]: {self.before} -> {self.after}"


@dataclass(frozen=True, slots=True)
class Left:
    """A reference that could not be changed, and why."""

    where: str
    function: str
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """What one apply or restore did; all zeros if there was nothing to do."""

    edits: tuple[Edit, ...] = ()
    left: tuple[Left, ...] = ()
    changed: tuple[Edit, ...] = ()  # holders that the program changed meanwhile: left as it set them
    notes: tuple[str, ...] = ()  # what a program could tell the patched functions by
    seconds: float = field(default=0.0, compare=False)

    @property
    def kinds(self) -> dict[str, int]:
        """How many references of each kind were changed."""
        return dict(Counter(edit.kind for edit in self.edits))

    def __len__(self) -> int:
        return len(self.edits)


def changed(done: Iterable[Edit], undone: Iterable[Edit], alive: dict[int, Any]) -> tuple[Edit, ...]:
    """The edits of holders that live on and of which fewer references came back than had been changed."""
    back = Counter((edit.holder_id, edit.function_id) for edit in undone)
    missing = []
    for edit in done:
        same = (edit.holder_id, edit.function_id)
        if back[same]:
            back[same] -= 1
        elif type(alive.get(edit.holder_id)).__name__ == edit.holder_type:
            missing.append(edit)
    return tuple(missing)
