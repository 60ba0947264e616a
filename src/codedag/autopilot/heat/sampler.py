"""The sampler that a Heat uses: the C extension where it works, its Python twin elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from codedag.instrument._sampler import Function, Loop, Node, Totals


class Sampler(Protocol):
    """Functions of `codedag.instrument._sampler`, as a module or an object."""

    def start(self, hz: float, own_share_max: float = 0.01, /) -> None:
        """Begins or goes on sampling; OSError where it cannot."""

    def start_soon(self, hz: float, /) -> bool:
        """The same a little later, when a fork is over for Python."""

    def stop(self) -> None:
        """Ends the thread; what it saw stays."""

    def set_rate(self, hz: float, /) -> None:
        """Looks a second from now on."""

    def exclude(self, native_id: int, /) -> None:
        """Counts the CPU time of a thread as the sampler's own."""

    def forget(self) -> None:
        """Begins with empty tables."""

    def totals(self) -> Totals:
        """Seconds and counts of all that was seen."""

    def loops(self) -> list[Loop]:
        """Loops that were seen to go back."""

    def set_turn(self, serial: int, start: int, end: int, /) -> None:
        """Counts seconds below this loop from now on."""

    def functions(self, limit: int, /) -> list[Function]:
        """Seconds of the hottest functions."""

    def tree(self) -> list[Node]:
        """Nodes of the call tree, callers first: parent (-1: none), serial, offset, own seconds, waiting seconds."""

    def names(self, serial: int, /) -> tuple[str, str, int, bytes] | None:
        """File, qualified name, first line and line table."""


def native_sampler() -> Sampler | None:
    """The C sampler, or None where it was not built or does not know this interpreter."""
    try:
        from codedag.instrument import _sampler
    except ImportError:
        return None
    return cast(Sampler, _sampler) if _sampler.IS_SUPPORTED else None
