"""Values that stay on a device from one call to the next, where the source proves that nobody else can see them.

The rewriter knows which call's value goes to exactly one other call (`instrument/links.py`).  Where both calls are of
functions that a plan places on the same device, the first leaves its result there and hands on a placeholder, and the
second takes it from it.  The last one of such a chain always brings its result back.  Whatever is not as expected (a
guard that declines, another function, a failure, a plan that was taken back) ends in the same place: the value is
brought back and the call runs as written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from sys import _getframe
from types import FrameType
from typing import TYPE_CHECKING, Any

from codedag.backends.proof import near
from codedag.backends.registry import EXACT, Equivalence
from codedag.instrument.links import Operand
from codedag.instrument.program import InstrumentedFile
from codedag.instrument.sites import BINARY, GETITEM, UNARY
from codedag.ir.clock import perf_counter
from codedag.ir.verdict import No, Yes
from codedag.migrate.caller import Caller
from codedag.migrate.guard import Failed, attempt
from codedag.migrate.patches import proxies
from codedag.migrate.patches.call_counts import CallCounts
from codedag.migrate.placeholder import Method, Placeholder
from codedag.migrate.placement.device_value import DeviceValue, Step, handed, put
from codedag.migrate.placement.modes import Different
from codedag.migrate.substitute import nan_check
from codedag.migrate.substitute.call import unbound
from codedag.migrate.substitute.describe import described
from codedag.migrate.trial import Trial

if TYPE_CHECKING:
    from codedag.migrate.patches.dispatch import Arm
    from codedag.migrate.placement.migrator import Migrator

#: Calls between two others of a chain that change nothing the first one was given.
_QUIET = frozenset({"abs", "float", "int", "len", "max", "min", "round", "tuple"})
_HINT = "Leave this substitution out of the plan, and report it."


@dataclass(frozen=True, slots=True)
class Stop:
    """One call of a chain: its site, and where the value of the call before stands (None: it is the first)."""

    site: Any
    operand: Operand | None


def chains(file: InstrumentedFile, names: Collection[str]) -> list[list[Stop]]:
    """The chains of calls of functions with these names, each value of which goes to the next call and nowhere else."""
    called = file.called
    wanted = {index for index, name in called.items() if name in names}
    taken: dict[int, Any] = {}  # by target: a call takes one value from the call before
    for link in file.links if len(wanted) > 1 else ():
        if link.source in wanted and link.target in wanted and _is_quiet(file, called, link.source, link.target):
            taken.setdefault(link.target, link)
    after = {link.source: link for link in taken.values()}
    found = []
    for first in sorted(after.keys() - taken.keys()):
        chain, here = [Stop(file.sites[first], None)], first
        while here in after:
            link = after[here]
            chain.append(Stop(file.sites[link.target], link.operand))
            here = link.target
        found.append(chain)
    return found


def _is_quiet(file: InstrumentedFile, called: dict[int, str], source: int, target: int) -> bool:
    """Whether nothing between two calls can change what the first was given: then it can be run again."""
    between = (file.infos[index] for index in range(source + 1, target))
    return all(i.kind in (BINARY, UNARY, GETITEM) or called.get(i.index) in _QUIET for i in between)


class DeviceChain:
    """The variants of one chain's sites, and the trial that the chain is on as a whole."""

    def __init__(self, stops: Sequence[Stop], migrator: Migrator) -> None:
        self.stops, self.migrator, self.mode = list(stops), migrator, migrator.mode
        ignores_speed = not migrator.demote or self.mode.always
        self.trial = Trial(
            "a chain on a device", every=self.mode.every, first=self.mode.first, ignores_speed=ignores_speed
        )
        self.classes: set[Equivalence] = set()  # of the substitutes that ran
        self.sources: dict[int, str] = {}  # the functions that were called at the stops
        self.counts: dict[str, Counter[str]] = {}  # no locks: a fork could copy one that is held

    def variants(self) -> dict[int, Callable[..., Any]]:
        """What each site of the chain runs instead."""
        return {stop.site.info.index: self._variant(number) for number, stop in enumerate(self.stops)}

    def _variant(self, number: int) -> Callable[..., Any]:
        stop, caller = self.stops[number], Caller(self.stops[number].site.info)

        def passing(function: Any, /, *args: Any, **keywords: Any) -> Any:
            found = handed(stop.operand, function, args, keywords)
            frame = _getframe(1)
            if found is None and not (self.trial.active and self.migrator.is_applied):
                return caller.in_module(frame.f_globals)(function, args, keywords)
            return _Call(self, number, frame, caller, found, function, args, keywords).run()

        return passing

    # -- what the calls ask

    def due(self) -> bool:
        """Whether the chain that begins now runs beside the original."""
        due = self.trial.due()
        return self.mode.checks and (due or self.mode.always)

    def count(self, source: str, **numbers: int) -> None:
        """Adds to what is told of one function."""
        self.counts.setdefault(source, Counter()).update(numbers)

    def counted(self) -> dict[str, CallCounts]:
        """What became of the calls of this chain, by function."""
        gain = self.trial.gain() if self.trial.pairs else 0.0
        every = list(self.counts.items())
        return {source: CallCounts(**numbers, gain=gain, evidence=self.trial.evidence) for source, numbers in every}  # type: ignore[arg-type]

    def fetch(self, source: str, held: Any) -> Any:
        """What is held on the device as an array, on the account of the function that made it."""
        from codedag.backends.on_device import fetched, tally

        before = tally.fetched
        value = fetched(held)
        self.count(source, fetched_nbytes=tally.fetched - before)
        return value


@dataclass(slots=True)
class _Call:
    """One call at a stop of a chain."""

    passage: DeviceChain
    number: int
    frame: FrameType
    caller: Caller
    placeholder: Placeholder | None
    function: Any
    args: tuple[Any, ...]
    keywords: dict[str, Any]
    arm: Arm | None = None
    pu: str = ""
    _before: tuple[int, int, int] = field(default=(0, 0, 0))

    @property
    def _operand(self) -> Operand | None:
        return self.passage.stops[self.number].operand

    @property
    def _is_last(self) -> bool:
        return self.number == len(self.passage.stops) - 1

    def run(self) -> Any:
        """What the program gets: the value, or what stands for it until the next stop."""
        reason = attempt(self._choose)
        if isinstance(reason, Failed) or reason:
            return self._as_written(reason.reason if isinstance(reason, Failed) else reason)
        resident = self.placeholder.deferred if self.placeholder is not None else None
        checked = resident.checked if resident is not None else self.passage.due()
        started = perf_counter()
        result = attempt(self._there, checked)
        seconds = perf_counter() - started
        if isinstance(result, Failed):
            assert self.arm is not None
            self.arm.trial.failed(result.reason)
            return self._as_written(result.reason)
        return self._handed_on(result, resident, checked, seconds)

    # -- on the device

    def _choose(self) -> str:
        """Finds the substitute that takes this call; the reason if there is none."""
        values, keywords = self._values()
        guarded = self.passage.migrator.guarded_of(self._plain())
        if not self.passage.trial.active or guarded is None:
            return self.passage.trial.reason or "the plan does not place this function"
        self.pu = guarded.place_of(self.frame)
        arms = [arm for arm in guarded.arms if arm.substitution.stays and arm.trial.active]
        if not arms or not self.pu:
            return "the plan does not place this call on a device"
        if self.placeholder is not None and self.placeholder.deferred.pu != self.pu:
            return "its input is on another device"
        from codedag.backends.on_device import using

        self.arm = arms[0]
        with using(self.pu):
            verdict = self.arm.substitution.accepts(values, keywords)
        return verdict.reason if isinstance(verdict, No) else ""

    def _plain(self) -> Any:
        """The library's own function that is called."""
        if type(self.function) is Method:
            kind = type(self.function.placeholder.deferred.sample)
            return proxies.behind(getattr(kind, self.function.name, None))
        return proxies.behind(unbound(self.function, ())[0])

    def _values(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the library's own function, with what is on the device in its place."""
        if self.placeholder is None:
            return unbound(self.function, self.args)[1], self.keywords
        held = self.placeholder.deferred.held
        if self._operand == "self":
            return (held, *self.args), self.keywords
        assert self._operand is not None
        return put(held, self._operand, self.args, self.keywords)

    def _there(self, checked: bool) -> Any:
        from codedag.backends import on_device

        assert self.arm is not None
        values, keywords = self._values()
        self._before = on_device.tally.now()
        with on_device.using(self.pu, stay=not self._is_last):
            result = self.arm.substitution.run(*values, **keywords)
            if checked:
                on_device.finish()
        return result

    # -- what follows

    def _handed_on(self, result: Any, resident: DeviceValue | None, checked: bool, seconds: float) -> Any:
        from codedag.backends.on_device import is_held, tally

        sent, fetched, hops = (b - a for a, b in zip(self._before, tally.now(), strict=True))
        assert self.arm is not None
        source = self.arm.substitution.source
        self.passage.classes.add(self.arm.substitution.equivalence)
        self.passage.sources[self.number] = source
        ways = {"checked": 1} if checked else {"fast": 1}
        self.passage.count(source, calls=1, sent_nbytes=sent, fetched_nbytes=fetched, resident=hops, **ways)
        following = DeviceValue(result, self.pu, checked, partial(self.passage.fetch, source))
        following.steps = [*(resident.steps if resident is not None else ()), self._step()]
        if resident is not None:
            following.original_seconds = resident.original_seconds
            following.variant_seconds = resident.variant_seconds
        following.variant_seconds += seconds
        if checked:
            return self._compared(following, resident)
        if is_held(result):
            return Placeholder(following)
        return self._looked_at(following)

    def _step(self) -> Step:
        function = self.function.name if type(self.function) is Method else self.function
        if self.placeholder is None:
            return Step(self.caller, function, self.args, self.keywords, None)
        operand = self._operand
        assert operand is not None
        args, keywords = (
            (self.args, self.keywords) if operand == "self" else put(None, operand, self.args, self.keywords)
        )
        return Step(self.caller, function, args, keywords, operand)

    def _looked_at(self, made: DeviceValue) -> Any:
        """The last value, unless it holds a NaN or infinity that the calls as written do not give."""
        if not self.passage.mode.checks or attempt(nan_check.odd, made.held) is not True:
            return made.held
        result, made.host = made.held, made.replayed(self.frame.f_globals)
        self._judge(made, result)
        return made.host

    def _compared(self, made: DeviceValue, before: DeviceValue | None) -> Any:
        """The original's value, or what stands for it; the substitute's was compared with it."""
        from codedag.backends.on_device import fetched, is_held

        step, started = made.steps[-1], perf_counter()
        made.host = self.caller.in_module(self.frame.f_globals)(*step.on(before.host if before is not None else None))
        made.original_seconds += perf_counter() - started
        ends = not is_held(made.held)
        value = attempt(fetched, made.held)
        if not self._judge(made, value, record=ends) or ends:
            return made.host
        assert self.arm is not None
        if self.arm.substitution.equivalence is not EXACT:  # what follows is compared on the same input
            moved = attempt(self._sent, made.host, made.held)
            if isinstance(moved, Failed):
                return made.host
            made.held = moved
        return Placeholder(made)

    def _sent(self, value: Any, held: Any) -> Any:
        """The original's value in the place of the device's own."""
        from codedag.backends.on_device import Held, Picture, pixels, there, using

        with using(self.pu):
            if type(held) is Picture:
                return Picture(pixels(value), value.mode, value)
            return Held(there(value), held.order)

    def _judge(self, made: DeviceValue, value: Any, record: bool = True) -> bool:
        """Whether the device's value is as near as promised; the trial is told of a difference, or of the end."""
        assert self.arm is not None
        substitution, trial = self.arm.substitution, self.passage.trial
        verdict = (
            No(value.reason) if isinstance(value, Failed) else attempt(near, made.host, value, substitution.equivalence)
        )
        verdict = No(verdict.reason) if isinstance(verdict, Failed) else verdict
        if isinstance(verdict, No):
            verdict = No(f"{substitution.source}: {verdict.reason}")
            trial.evidence = trial.evidence or str(attempt(described, self.args, self.keywords))
            self.passage.count(substitution.source, mismatches=1)
            self.arm.trial.stop(f"its result differed from the original's ({verdict.reason}); the original's was used")
        if record or isinstance(verdict, No):
            trial.record(made.original_seconds, made.variant_seconds, verdict)
        if isinstance(verdict, No) and self.passage.mode.raises:
            raise Different(f"{trial.what}: {verdict.reason}", hint=_HINT)
        return not isinstance(verdict, No)

    # -- back

    def _as_written(self, reason: str) -> Any:
        """The result of the call as the program wrote it, on values that are here."""
        space = self.frame.f_globals
        if reason and self.passage.trial.active:
            self.passage.trial.decline(reason)
        if self.placeholder is None:
            return self.caller.in_module(space)(self.function, self.args, self.keywords)
        resident = self.placeholder.deferred
        if resident.checked:  # coming back is part of what the device costs
            started = perf_counter()
            attempt(resident.fetch, resident.held)
            resident.variant_seconds += perf_counter() - started
        value = resident.settle(space)
        if resident.checked:
            attempt(self.passage.trial.record, resident.original_seconds, resident.variant_seconds, Yes)
        if self._operand == "self":
            return self.caller.in_module(space)(getattr(value, self.function.name), self.args, self.keywords)
        assert self._operand is not None
        return self.caller.in_module(space)(self.function, *put(value, self._operand, self.args, self.keywords))
