"""What the user asked of `codedag run`."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from codedag.backends.registry import EXACT, Equivalence
from codedag.ir import Plan
from codedag.migrate.placement.requests import Requests

MAX_OVERHEAD = 0.05  # share of the time that observing may take


class Options(msgspec.Struct, frozen=True):
    """The requests of one run; what is not said is as careful as possible."""

    plan: Plan | None = None
    requests: Requests | None = None  # functions that the plan places on units
    observe_only: bool = False
    fresh: bool = False  # plans of earlier runs are ignored
    allow: tuple[Equivalence, ...] = (EXACT,)
    budget_nbytes: int | None = None  # that may be kept in memory; None: a share of what is free
    disk_nbytes: int = 0  # that may be kept on disk beside it
    max_overhead: float = MAX_OVERHEAD
    synchronous: bool = False  # plan and build at once, and let no clock decide: slower, but repeatable
    announce: Callable[[str], object] | None = None  # hears once, while the program runs, that it is faster now
    samples: bool = True  # some inputs are kept, on which code to adopt is tried
    begun: float | None = None  # when our first module was loaded, by the clock of `perf_counter`

    @property
    def looser(self) -> list[str]:
        """The classes of equivalence beyond EXACT that are allowed."""
        return [one.value for one in self.allow if one.value != "exact"]
