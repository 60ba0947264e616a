"""How results are verified: not at all, by samples, always beside the original, or strictly."""

from __future__ import annotations

from dataclasses import dataclass

from codedag.ir.errors import CodedagError
from codedag.migrate.trial import EVERY, FIRST


class BadMode(CodedagError):  # noqa: N818 - reads as what happened
    """A mode of verification that does not exist."""

    slug = "bad-mode"


class Different(CodedagError):  # noqa: N818
    """A substitute's result that differs from the original's, raised where the user asked for that."""

    slug = "different"


@dataclass(frozen=True, slots=True)
class Mode:
    """Which of the accepted calls run beside the original, and what a difference does.

    A call that is checked always gives the program the original's result.
    """

    name: str = "sample"
    first: int = FIRST  # calls that are all checked
    every: int = EVERY  # then about one in so many

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise BadMode(f"there is no mode {self.name!r}", hint=f"Use one of {', '.join(NAMES)}.")
        if type(self.first) is not int or type(self.every) is not int or self.first < 0 or self.every < 1:
            raise BadMode("first must be at least 0 and every at least 1", hint="Both are whole numbers of calls.")

    @property
    def checks(self) -> bool:
        """Whether anything is compared at all."""
        return self.name != "off"

    @property
    def always(self) -> bool:
        """Whether every accepted call is compared."""
        return self.name in ("shadow", "strict")

    @property
    def raises(self) -> bool:
        """Whether a difference is raised where it happens."""
        return self.name == "strict"


NAMES = ("off", "sample", "shadow", "strict")


def mode_of(wanted: str | Mode) -> Mode:
    """The mode of a name; raises BadMode for one that does not exist."""
    return wanted if isinstance(wanted, Mode) else Mode(str(wanted))
