"""Yes and No(reason): a refusal is a value that carries its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer of a guard that takes a call."""

    def __bool__(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class No:
    """The answer of a guard that declines, with the reason that the report will print."""

    reason: str

    def __bool__(self) -> bool:
        return False


Yes = Accepted()
Verdict = Accepted | No
