"""Yes and No(reason): a refusal is a value that carries its reason."""

from __future__ import annotations

import msgspec


class Accepted(msgspec.Struct, frozen=True):
    """The answer of a guard that takes a call."""

    def __bool__(self) -> bool:
        return True


class No(msgspec.Struct, frozen=True):
    """The answer of a guard that declines, with the reason that the report will print."""

    reason: str

    def __bool__(self) -> bool:
        return False


class Unknown(No, frozen=True):
    """The answer of a comparison that could show neither: a No, but no difference."""


Yes = Accepted()
Verdict = Accepted | No
