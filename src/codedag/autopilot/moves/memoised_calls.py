"""Slow pure calls whose results are kept for when the same arguments come again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from codedag.autopilot.applied import Applied
from codedag.autopilot.moves import find
from codedag.autopilot.moves.items import is_repeated
from codedag.instrument.program import InstrumentedFile
from codedag.trace.recorder import Template

if TYPE_CHECKING:
    from codedag.autopilot.pilot import Pilot
    from codedag.migrate.memo.call_memo import Recall


class Recalled:
    """The calls of one program that are recalled."""

    def __init__(self, pilot: Pilot) -> None:
        self.pilot = pilot

    def look(self, file: InstrumentedFile, owner: str, seen: list[Template], taken: set[int]) -> None:
        """Keeps the results of the slow calls of a function, also of those with a substitute from an earlier run."""
        slow = find.slow_calls(file, owner, seen, taken)
        known = (each for each in self.pilot.applied if _is_slow(each, file.path, owner))
        slow += [(each.sites[0], each.names[0]) for each in known if each.sites[0] not in taken]
        for site, name in dict(slow).items():
            self.apply(file, owner, site, name)
        for site, name in find.python_calls(file, owner, seen, taken):
            self.memoise(file, owner, site, name)

    def apply(self, file: InstrumentedFile, owner: str, site: int, name: str) -> None:
        """Keeps what a call gives, on trial."""
        from codedag.migrate.memo.call_memo import Recall  # with all that is known about effects: only where it is used

        trial = self.pilot.planning.trial(name)
        recall = Recall(file.sites[site], trial, self.pilot.memory)
        applied = Applied("recall", file.path, owner, [site], [name], trial, "kept in memory")
        self.pilot.planning.switch(file, applied, recall.variants())
        trial.on_stop = partial(self.pilot.background.later, partial(self._end, applied, recall))

    def memoise(self, file: InstrumentedFile, owner: str, site: int, name: str, *, is_known: bool = False) -> None:
        """Keeps what a call of a Python function gives by its plain arguments, on trial."""
        from codedag.migrate.memo.function_memo import CALL_SECONDS_MIN, FunctionMemo

        if self.pilot.memory.most_nbytes == 0:
            return
        trial, least = self.pilot.planning.trial(name), 0.0 if self.pilot.synchronous else CALL_SECONDS_MIN
        expects = (lambda: True) if is_known else is_repeated
        memo = FunctionMemo(trial, self.pilot.memory, self.pilot.items.plain_code, expects, least)
        applied = Applied("memoise", file.path, owner, [site], [name], trial, "kept in memory")
        self.pilot.planning.switch(file, applied, {site: memo.variant(file.sites[site])})

    def around(self, recall: Recall, file: InstrumentedFile, owner: str) -> None:
        """Puts what keeps results around a substitute that now stands in its place."""
        site = recall.site
        recall.inner = site.variant
        self.pilot.program.plan(file.path, owner, recall.variants())

    def _end(self, applied: Applied, recall: Recall) -> None:
        """Puts back what stood at the site: a substitute that is in use, or nothing."""
        if recall.inner_is_active():
            self.pilot.program.plan(applied.path, applied.owner, {applied.sites[0]: recall.inner})
        else:
            self.pilot.planning.take_back(applied, applied.sites)


def _is_slow(applied: Applied, path: str, owner: str) -> bool:
    """Whether a substitute that was known from the start takes long all the same."""
    if applied.kind != "substitute" or not applied.known or (applied.path, applied.owner) != (path, owner):
        return False
    times = sorted(seconds for _, seconds in applied.trial.pairs)
    return bool(times) and times[len(times) // 2] * 1e9 >= find.SLOW_NS and find.is_pure(applied.names[0])


def is_recalled(site: Any) -> bool:
    """Whether the results of a site are kept now."""
    return recall_at(site) is not None


def recall_at(site: Any) -> Recall | None:
    """What keeps the results of a site now, if anything does."""
    recall = getattr(site.variant, "__self__", None)
    return recall if getattr(recall, "recalls", False) is True else None
