"""What a site is, and which implementation of it runs here: the C extension or its plain-Python twin."""

from __future__ import annotations

import copyreg
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from codedag.instrument import _twin

CALL, BINARY, UNARY, INPLACE, GETITEM, SETITEM, RETURN, ITERATE = range(8)
PASS, RECORD, VARIANT = range(3)

#: operation kind of graph.json for each kind of site
GRAPH_KIND = {
    CALL: "call",
    BINARY: "operator",
    UNARY: "operator",
    INPLACE: "operator",
    GETITEM: "subscript",
    SETITEM: "subscript",
    ITERATE: "call",
}

_FUNCTIONS: dict[int, Callable[..., Any]] = {GETITEM: operator.getitem, SETITEM: operator.setitem}


class SiteInfo(msgspec.Struct, frozen=True):
    """The static facts about one site: where it stands in the source and what is written there."""

    index: int
    kind: int
    operator: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    owner: str
    loops: tuple[int, ...] = ()
    returns: bool = False  # what it gives is what the function returns

    @property
    def function(self) -> Callable[..., Any] | None:
        """The function of module `operator` that the site stands for, if it is not a call."""
        if self.operator:
            return getattr(operator, self.operator)  # type: ignore[no-any-return]
        return _FUNCTIONS.get(self.kind)


def _choose() -> tuple[Any, str]:
    try:
        from codedag.instrument import _site
    except ImportError as error:
        return _twin, f"its C extension could not be loaded: {error}"
    _site.hide(str(Path(__file__).resolve().parent.parent) + "/")
    return _site, ""


#: The module that makes sites, and why it is not the C extension ("" if it is).
native, why_twin = _choose()


def use(implementation: Any) -> None:
    """Makes new sites come from this implementation (tests run both)."""
    global native
    native = implementation


def _revived(info: SiteInfo | None) -> Any:
    """A site or a loop switch in another process, which nobody observes: functions are sent there with their code."""
    return native.Switch() if info is None else make(info)


def _spread_again(info: SiteInfo) -> Any:
    return native.Spread(make(info))


def _can_be_sent(implementation: Any) -> None:
    copyreg.pickle(implementation.Site, lambda site: (_revived, (site.info,)))
    for kind in (implementation.Switch, implementation.CountingSwitch):
        copyreg.pickle(kind, lambda switch: (_revived, (None,)))
    copyreg.pickle(implementation.Spread, lambda spread: (_spread_again, (spread.site.info,)))


_can_be_sent(_twin)
_can_be_sent(native)


def make(info: SiteInfo) -> Any:
    """A site for this place, in mode PASS."""
    return native.Site(info.kind, info, info.function, info.returns)
