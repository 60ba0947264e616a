"""The proofs of one program: in another process, which is started for the first that is not known."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from codedag.backends.proof import proven_here
from codedag.backends.registry import Substitution
from codedag.instrument.guard import attempt
from codedag.ir.verdict import No, Verdict

if TYPE_CHECKING:  # with what starts processes: only for what is not known
    from collections.abc import Callable

    from codedag.backends.apart import Prover

ENDED = "the program ended before it was proven"


class Proving:
    """Says whether a substitution is proven on this machine; `aside` is a block in which a fork need not wait."""

    def __init__(self, synchronous: bool, aside: Callable[[], AbstractContextManager[None]]) -> None:
        self._synchronous, self._aside = synchronous, aside
        self._prover: Prover | None = None
        self._ended = False

    def __call__(self, substitution: Substitution) -> Verdict:
        """Yes if it is; what is not known is proven where the program does not notice."""
        if self._synchronous:
            return proven_here(substitution)
        if self._prover is None:
            from codedag.backends.apart import Prover

            self._prover = Prover()
        with self._aside():
            return No(ENDED) if self._ended else self._prover(substitution)

    def end(self) -> None:
        """Ends the proof that runs, if any; there will be no more."""
        self._ended = True
        if self._prover is not None:
            attempt(self._prover.end)

    def rest(self) -> None:
        """Ends the other process while there is nothing to prove."""
        if self._prover is not None:
            attempt(self._prover.rest)

    def forget(self) -> None:
        """In a process that was just forked: the other process is its parent's."""
        if self._prover is not None:
            attempt(self._prover.forget)
