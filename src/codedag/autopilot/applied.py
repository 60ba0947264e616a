"""The facts of one change, made or not, and of one function that is observed."""

from __future__ import annotations

from dataclasses import dataclass, field

from codedag.instrument.program import InstrumentedFile
from codedag.ir.verdict import Code
from codedag.migrate.trial import Trial

PLACE = "place"  # the kind of changes that put calls on a unit
Function = tuple[str, str]  # file and qualified name


@dataclass(slots=True)
class Applied:
    """A change on trial in the running program."""

    kind: str
    path: str
    owner: str
    sites: list[int]
    names: list[str]
    trial: Trial
    variant: str
    equivalence: str = "exact"
    known: bool = False  # made because it was proven before, in another run or process

    def lines(self, file: InstrumentedFile) -> tuple[int, int]:
        """First and last source line of the change."""
        infos = [file.infos[index] for index in self.sites]
        return min(i.line for i in infos), max(i.end_line for i in infos)


@dataclass(slots=True)
class Refused:
    """A change that was considered and not made."""

    what: str
    where: str
    reason: str
    code: Code = Code.OTHER


@dataclass(slots=True)
class Watch:
    """How long one function has been observed, and whether that is over."""

    started: float
    ended: float | None = None
    seen: dict[int, int] = field(default_factory=dict)  # how often each of its sites moved data
