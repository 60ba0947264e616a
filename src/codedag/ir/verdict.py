"""Yes and No(reason): a refusal is a value that carries its reason."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Accepted(msgspec.Struct, frozen=True):
    """The answer of a guard that takes a call."""

    def __bool__(self) -> bool:
        return True


class Code(StrEnum):
    """What programs ask a reason for; its words are for people, and may be put otherwise at any time."""

    OTHER = ""
    NOT_LOADED = "not-loaded"  # the function's library is not imported yet
    NOT_USED = "not-used"  # the program has not loaded the library through which a unit would be used
    NOT_ALLOWED = "not-allowed"  # its class of equivalence is not among those that the user allows
    ENDED = "ended"  # the program ended before it was known


class No(msgspec.Struct, frozen=True):
    """The answer of a guard that declines, with the reason that the report will print and a code to decide by."""

    reason: str
    code: Code = Code.OTHER

    def __bool__(self) -> bool:
        return False


class Unknown(No, frozen=True):
    """The answer of a comparison that could show neither: a No, but no difference."""


Yes = Accepted()
Verdict = Accepted | No
