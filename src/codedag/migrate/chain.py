"""A chain of sites replaced as a whole: its operations are deferred, its last one computes a table and applies it.

Whatever is not as expected (another dtype, an unknown call in between, a failure of ours) ends in the same place:
the steps run as the program wrote them, in the same order, on the same values.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from codedag.backends.effects import Effects
from codedag.backends.elementwise import ROLES, Operand, Role
from codedag.backends.same import same
from codedag.instrument.sites import CALL
from codedag.ir.verdict import No
from codedag.migrate.deferred import Declined, Deferred, opening
from codedag.migrate.guard import Failed, attempt
from codedag.migrate.table import allocate, build_table, row_steps
from codedag.migrate.trial import Trial

SMALLEST = 4096  # elements; below this a chain's own overhead (about 20 us) is not worth it
Kernels = Callable[[Any, tuple[int, ...], Any, Any], Any]


@dataclass(frozen=True, slots=True)
class Link:
    """One operation of a chain: its site, its name as traced, and where the array stands (None: found at run time)."""

    site: Any
    name: str
    operand: Operand | None

    @property
    def role(self) -> Role:
        """What the operation does."""
        return ROLES[self.name]


class _Pending(threading.local):
    now: Deferred | None = None


@dataclass(slots=True)
class _Call:
    """One execution of a site: the function, and its operands with the place of the array among them."""

    kind: int
    function: Any
    args: tuple[Any, ...]
    keywords: dict[str, Any]

    def plain(self) -> Any:
        """The result of the operation as written."""
        if self.kind == CALL:
            return self.function(*self.args, **self.keywords)
        return self.function(*self.args)

    def operand(self, at: Operand) -> Any:
        """The operand at a place."""
        if at == "self":
            return getattr(self.function, "__self__", None)
        if isinstance(at, str):
            return self.keywords.get(at)
        return self.args[at] if at < len(self.args) else None

    def on(self, at: Operand) -> Callable[[Any], Any]:
        """The operation as a function of the operand at that place."""
        args, keywords, function = self.args, self.keywords, self.function
        if at == "self":
            name = function.__name__
            return lambda value: getattr(value, name)(*args, **keywords)
        if isinstance(at, str):
            return lambda value: function(*args, **{**keywords, at: value})
        before, after = args[:at], args[at + 1 :]
        return lambda value: function(*before, value, *after, **keywords)

    def parameters(self, at: Operand) -> tuple[Any, ...]:
        """The positional operands without the array."""
        return self.args if isinstance(at, str) else self.args[:at] + self.args[at + 1 :]


class Chain:
    """The variants of one chain's sites, and the trial that it is on."""

    def __init__(self, links: Sequence[Link], between: Sequence[Any], kernels: Kernels, trial: Trial, effects: Effects) -> None:
        self.links, self.between = list(links), list(between)
        self.trial = trial
        self._kernels = kernels
        self._effects = effects
        self._pending = _Pending()
        self._tables: tuple[Any, Any] = (None, None)

    def variants(self) -> dict[int, Callable[..., Any]]:
        """What each site of the chain, and each site between them, runs instead."""
        found: dict[int, Callable[..., Any]] = {}
        for number, link in enumerate(self.links):
            found[link.site.info.index] = self._variant(number, link)
        for site in self.between:
            found[site.info.index] = self._bystander(site)
        return found

    def _variant(self, number: int, link: Link) -> Callable[..., Any]:
        kind, function = link.site.kind, link.site.function
        first, last = number == 0, number == len(self.links) - 1

        def chained(*args: Any, **keywords: Any) -> Any:
            call = _Call(kind, args[0], args[1:], keywords) if kind == CALL else _Call(kind, function, args, keywords)
            deferred = self._open(call, link) if first else self._continue(call, link)
            if deferred is None:
                return call.plain()
            if deferred.done:  # run as written up to here: the stand-in is replaced by the real value, once
                self._pending.now = None
                return call.on(self._place(call, link, deferred))(deferred.value)
            return self._step(deferred, call, link, last)

        return chained

    def _bystander(self, site: Any) -> Callable[..., Any]:
        kind, function = site.kind, site.function

        def passing(*args: Any, **keywords: Any) -> Any:
            deferred = self._pending.now
            if deferred is not None and not deferred.done and not self._effects.harmless(kind, args, keywords):
                self._run_as_written(deferred, f"{_shown(args[0] if kind == CALL else function)} runs in between")
            return args[0](*args[1:], **keywords) if kind == CALL else _operate(function, args)

        return passing

    # -- the steps

    def _open(self, call: _Call, link: Link) -> Deferred | None:
        self._pending.now = None
        if not self.trial.active:
            return None
        reason = ""
        for at in link.role.operands if link.operand is None else (link.operand,):
            deferred = opening(call.operand(at), SMALLEST)
            if isinstance(deferred, Deferred):
                self._pending.now = deferred
                return deferred
            reason = reason or deferred.reason
        self.trial.decline(reason)
        return None

    def _continue(self, call: _Call, link: Link) -> Deferred | None:
        deferred = self._pending.now
        if deferred is not None and call.operand(self._place(call, link, deferred)) is deferred.standin:
            return deferred
        self._pending.now = None
        return None

    def _place(self, call: _Call, link: Link, deferred: Deferred) -> Operand:
        if link.operand is not None:
            return link.operand
        return next((at for at in link.role.operands if call.operand(at) is deferred.standin), link.role.operands[0])

    def _step(self, deferred: Deferred, call: _Call, link: Link, last: bool) -> Any:
        at = self._place(call, link, deferred)
        expected = link.name.rpartition(".")[2]
        if getattr(call.function, "__name__", "") != expected and call.kind == CALL:
            written: Any = Declined(f"{_shown(call.function)} is called instead of {link.name}")
        else:
            written = attempt(_add, deferred, link.role, call, at)
        if isinstance(written, Failed | Declined):
            self._run_as_written(deferred, getattr(written, "reason", str(written)))
            self._pending.now = None
            return call.on(at)(deferred.value)
        if not last:
            return deferred.standin
        self._pending.now = None
        return self._finish(deferred)

    def _run_as_written(self, deferred: Deferred, reason: str) -> None:
        self.trial.decline(reason)
        deferred.value = deferred.replay()
        deferred.done = True

    # -- the end of the chain

    def _finish(self, deferred: Deferred) -> Any:
        check = self.trial.due()
        started = time.perf_counter()
        result = attempt(self._compute, deferred)
        variant_seconds = time.perf_counter() - started
        if isinstance(result, Failed | No):
            self.trial.decline(result.reason)
            if isinstance(result, Failed) and not result.reason.startswith(("Declined", "FloatingPointError")):
                self.trial.stop(f"it failed ({result.reason})")
            return deferred.replay()
        if not check:
            return result
        started = time.perf_counter()
        original = deferred.replay()
        self.trial.record(time.perf_counter() - started, variant_seconds, same(original, result))
        return original

    def _compute(self, deferred: Deferred) -> Any:
        table = self._table(deferred)
        result, out = allocate(deferred, table.dtype)
        rows = row_steps(deferred)
        kernel = self._kernels(deferred.view, rows, table, out)
        if isinstance(kernel, No):
            return kernel
        kernel.apply(deferred.view, table, rows, out)
        return result

    def _table(self, deferred: Deferred) -> Any:
        key = (deferred.param_axis, deferred.param_extent, deferred.axes, type(deferred.source), *(step.key for step in deferred.steps))
        known, table = self._tables
        if known != key:
            table = build_table(deferred)
            self._tables = (key, table)
        return table


def _add(deferred: Deferred, role: Role, call: _Call, at: Operand) -> None:
    deferred.add(role, call.on(at), call.parameters(at), call.keywords)


def _operate(function: Any, args: tuple[Any, ...]) -> Any:
    if getattr(function, "__name__", "") == "setitem":
        function(args[1], args[2], args[0])
        return None
    return function(*args) if function is not None else args[0]


def _shown(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__name__
