"""One call site given another function: guarded, checked, timed, and taken back when it disappoints."""

from __future__ import annotations

from collections.abc import Callable
from sys import _getframe
from time import perf_counter
from typing import Any

from codedag.backends.registry import Substitution
from codedag.backends.same import same
from codedag.ir.verdict import No
from codedag.migrate.caller import Call, Caller
from codedag.migrate.guard import Failed, attempt
from codedag.migrate.trial import Trial

FAILURES = 3


class Substitute:
    """The variant of one call site, and the trial that it is on."""

    def __init__(self, site: Any, substitution: Substitution, trial: Trial) -> None:
        self.site, self.substitution, self.trial = site, substitution, trial
        self._failures = 0
        self._caller = Caller(site.info)

    def variants(self) -> dict[int, Callable[..., Any]]:
        """What the site runs instead."""
        return {self.site.info.index: self._variant}

    def _variant(self, function: Any, /, *args: Any, **keywords: Any) -> Any:
        call = self._caller.in_module(_getframe(1).f_globals)
        if not self._takes(function, args, keywords):
            return call(function, args, keywords)
        if self.trial.due():
            return self._checked(call, function, args, keywords)
        result = attempt(self.substitution.run, *args, **keywords)
        if isinstance(result, Failed):
            self._failed(result)
            return call(function, args, keywords)
        return result

    def _takes(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
        if not self.trial.active:
            return False
        if function is not attempt(self.substitution.original):
            self.trial.decline(f"another function than {self.substitution.source} is called here")
            return False
        verdict = attempt(self.substitution.accepts, args, keywords)
        if not isinstance(verdict, Failed) and verdict:
            return True
        self.trial.decline(getattr(verdict, "reason", "the guard failed"))
        return False

    def _checked(self, call: Call, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """The original's result; the substitute runs beside it on the same inputs."""
        started = perf_counter()
        result = attempt(self.substitution.run, *args, **keywords)
        between = perf_counter()
        original = call(function, args, keywords)
        ended = perf_counter()
        if isinstance(result, Failed):
            self._failed(result)
        else:
            verdict = attempt(same, original, result)
            verdict = No(verdict.reason) if isinstance(verdict, Failed) else verdict
            self.trial.record(ended - between, between - started, verdict)
        return original

    def _failed(self, failure: Failed) -> None:
        self.trial.decline(failure.reason)
        self._failures += 1
        if self._failures >= FAILURES:
            self.trial.stop(f"it failed {FAILURES} times ({failure.reason})")
