"""One call site given another function: guarded, checked, timed, and taken back when it disappoints."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from sys import _getframe
from typing import Any

from codedag.backends.proof import near
from codedag.backends.registry import Substitution
from codedag.ir.clock import perf_counter
from codedag.ir.verdict import No
from codedag.migrate.caller import Call, Caller
from codedag.migrate.guard import Failed, attempt
from codedag.migrate.memo.ambient import LibraryCode
from codedag.migrate.patches import proxies
from codedag.migrate.substitute import nan_check
from codedag.migrate.substitute.clock import Clock, clock_for
from codedag.migrate.substitute.describe import described
from codedag.migrate.trial import FAILURES, Trial, made

__all__ = ["FAILURES", "Substitute"]


_AS_FUNCTIONS = ("dot", "mean", "nonzero", "sum")  # of arrays: the same as numpy's functions, with the array first


def unbound(function: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """A method as the function of its class, with the object as first argument; anything else as it is."""
    if type(function) is types.MethodType:
        return function.__func__, (function.__self__, *args)
    if type(function) is types.BuiltinMethodType and not isinstance(function.__self__, types.ModuleType | None):
        found = getattr(type(function.__self__), function.__name__, None)
        numpy: Any = sys.modules.get("numpy")
        if function.__name__ in _AS_FUNCTIONS and numpy is not None and type(function.__self__) is numpy.ndarray:
            return getattr(numpy, function.__name__), (function.__self__, *args)
        if type(found) is types.MethodDescriptorType:
            return found, (function.__self__, *args)
    return function, args


class Substitute:
    """The variant of one call site, and the trial that it is on."""

    def __init__(self, site: Any, substitution: Substitution, trial: Trial) -> None:
        self.site, self.substitution, self.trial = site, substitution, trial
        self._caller = Caller(site.info)
        self._clock = clock_for([substitution.pu])
        self._code = LibraryCode()

    def variants(self) -> dict[int, Callable[..., Any]]:
        """What the site runs instead."""
        operator = self.substitution.source.startswith("operator.")
        return {self.site.info.index: self._operator if operator else self._variant}

    def _variant(self, function: Any, /, *args: Any, **keywords: Any) -> Any:
        return self.called(_getframe(1).f_globals, function, args, keywords)

    def _operator(self, /, *args: Any) -> Any:
        """The result of an operator: its place is given the operands alone."""
        return self.called(_getframe(1).f_globals, self.substitution.original(), args, {})

    def called(self, space: dict[str, Any], function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """The result of a call from a module with these globals."""
        call = self._caller.in_module(space)
        plain, values = (function, args) if self._is_it(function) else unbound(function, args)
        if not self._takes(plain, values, keywords):
            return call(function, args, keywords)
        plain = proxies.behind(plain)  # a library patch of the same function would be compared with itself
        if attempt(self._is_other_code, plain, values) is not False:
            self.trial.stop("the program has replaced a function that the original calls")
            return call(plain, values, keywords)
        due = self.trial.due()
        clock = self._clock if due else perf_counter  # a thread's own time takes long to read
        before, started = made(), clock()
        result = attempt(self.substitution.run, *values, **keywords)
        if isinstance(result, Failed):
            self.trial.failed(result.reason)
            return call(plain, values, keywords)
        if due and self.substitution.part_check is not None:
            return self._checked_in_part(result, clock() - started, call, plain, values, keywords)
        if due or attempt(self._suspicious, result, values, keywords):
            seconds = None if self.trial.excuses(before) else clock() - started
            return self._checked(result, clock, seconds, call, plain, values, keywords)
        return result

    def _is_other_code(self, function: Any, args: tuple[Any, ...]) -> bool:
        """Whether the original may do something else than when the substitute was proven."""
        self._code.note(function)
        if args and isinstance(function, types.FunctionType):
            self._code.note(type(args[0]))
        return self._code.is_replaced()

    def _suspicious(self, result: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
        """Whether there is a NaN or infinity in the result that no input explains."""
        return nan_check.odd(result) and not nan_check.any_odd((*args, *keywords.values()))

    def _is_it(self, function: Any) -> bool:
        return proxies.behind(function) is proxies.behind(attempt(self.substitution.original))

    def _takes(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
        if not self.trial.active:
            return False
        if not self._is_it(function):
            self.trial.decline(f"another function than {self.substitution.source} is called here")
            return False
        verdict = attempt(self.substitution.accepts, args, keywords)
        if not isinstance(verdict, Failed) and verdict:
            return True
        self.trial.decline(getattr(verdict, "reason", "the guard failed"))
        return False

    def _checked_in_part(
        self, result: Any, seconds: float, call: Call, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        """The substitute's result, if the original gives the same for a part of it; else the original's."""
        assert self.substitution.part_check is not None
        found = attempt(self.substitution.part_check, args, keywords, result)
        verdict, original_seconds = (found, 0.0) if isinstance(found, Failed) else found
        self.trial.record(original_seconds, seconds, verdict, in_part=True)
        return result if verdict and not isinstance(verdict, Failed) else call(function, args, keywords)

    def _checked(
        self,
        result: Any,
        clock: Clock,
        seconds: float | None,
        call: Call,
        function: Any,
        args: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> Any:
        """The original's result, with which the substitute's is compared."""
        started = clock()
        original = call(function, args, keywords)
        ended = clock()
        verdict = attempt(near, original, result, self.substitution.equivalence)
        if isinstance(verdict, No):
            self.trial.evidence = str(attempt(described, args, keywords))
            place = attempt(nan_check.first_odd, result, original)
            verdict = No(f"{verdict.reason}; {place}") if place and not isinstance(place, Failed) else verdict
        self.trial.record(ended - started, seconds or 0.0, verdict, excused=seconds is None)
        return original
