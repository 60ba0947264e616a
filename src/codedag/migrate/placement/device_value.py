"""A value on a device on its way from one call of ours to the next: what `Deferred` is to a chain of tables.

It was computed when its call ran, from elements that were copied there, so nothing that the program does meanwhile can
change it.  At any moment it can be brought back as the array that the program would have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from codedag.instrument.links import Operand
from codedag.migrate.caller import Caller
from codedag.migrate.guard import Failed, attempt
from codedag.migrate.patches import proxies
from codedag.migrate.placeholder import Method, Placeholder
from codedag.migrate.substitute.call import unbound


@dataclass(frozen=True, slots=True)
class Step:
    """One call as the program wrote it; where the value of the call before goes it has None."""

    caller: Caller
    function: Any  # the name of a method where the value is the object of it
    args: tuple[Any, ...]
    keywords: dict[str, Any]
    operand: Operand | None  # where the value goes; None: nowhere, it is the first call

    def on(self, value: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """What to call: the function itself, not what stands in its place."""
        function, args, keywords = self.function, self.args, self.keywords
        if self.operand == "self":
            function = getattr(value, function)
        elif self.operand is not None:
            args, keywords = put(value, self.operand, args, keywords)
        function, args = unbound(function, args)
        return proxies.behind(function), args, keywords


@dataclass(slots=True, weakref_slot=True)
class DeviceValue:
    """What is held on the device, the calls that made it, and in a call that is checked also what they gave here."""

    held: Any
    pu: str
    checked: bool
    fetch: Callable[[Any], Any]
    steps: list[Step] = field(default_factory=list)
    host: Any = None
    original_seconds: float = 0.0
    variant_seconds: float = 0.0
    done: bool = False

    @property
    def sample(self) -> Any:
        """A value of the type that this one has."""
        return self.held.sample

    def settle(self, space: dict[str, Any] | None = None) -> Any:
        """The value as the program would have it; if the device does not give it back, the calls run as written."""
        if not self.done:
            if not self.checked:
                found = attempt(self.fetch, self.held)
                self.host = self.replayed(space) if isinstance(found, Failed) else found
            self.done = True
        return self.host

    def replayed(self, space: dict[str, Any] | None) -> Any:
        """The value that the calls give when each runs as written."""
        value = None
        for step in self.steps:
            function, args, keywords = step.on(value)
            if space is None:
                value = function(*args, **keywords)
            else:
                value = step.caller.in_module(space)(function, args, keywords)
        return value


def handed(operand: Operand | None, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """What the call before has handed on, if that is one of our values; else None."""
    if operand is None:
        return None
    if operand == "self":
        found = function.placeholder if type(function) is Method else None
    elif isinstance(operand, int):
        found = args[operand] if operand < len(args) else None
    else:
        found = keywords.get(operand)
    return found if type(found) is Placeholder and type(found.deferred) is DeviceValue else None


def put(
    value: Any, operand: Operand, args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with the value at its place."""
    if isinstance(operand, int):
        return (*args[:operand], value, *args[operand + 1 :]), keywords
    return args, {**keywords, operand: value}
