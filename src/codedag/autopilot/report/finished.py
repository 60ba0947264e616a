"""The end of one `codedag run` as the command line gets it: how the program ended, and what is to be said of it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from codedag.autopilot.report.outcome import Outcome
    from codedag.instrument.launch import Ending
    from codedag.ir.report import Report
    from codedag.trace.rundir import Keeper


class Finished:
    """A program that has ended, and what became of the attempt to make it faster."""

    __slots__ = ("ending", "failure", "forked", "keeper", "outcome", "report")

    def __init__(
        self, ending: Ending, keeper: Keeper | None, outcome: Outcome | None = None, *, report: Report | None = None,
        failure: str = "", forked: bool = False,
    ) -> None:  # fmt: skip
        self.ending, self.keeper, self.outcome = ending, keeper, outcome
        self.report = outcome.report if outcome is not None else report
        self.failure, self.forked = failure, forked
