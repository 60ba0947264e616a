"""The loopback backend: calls go through all of the machinery and end in the original function.

If a program can tell, the machinery is at fault and not a substitute.
"""

from __future__ import annotations

from typing import Any

from codedag.backends.registry import EXACT, Substitution
from codedag.backends.registry import attempt as outcome_of
from codedag.ir.verdict import No, Verdict, Yes
from codedag.migrate.guard import Declined

PU = "loopback"


def loopback(source: str) -> Substitution:
    """A substitution of a function by itself; it is in no registry."""

    def run(*args: Any, **keywords: Any) -> Any:
        outcome = outcome_of(made.original(), *args, **keywords)
        if outcome.error is not None:
            raise Declined("the original raises here")
        return outcome.value

    made = Substitution(run, source=source, into=PU, equivalence=EXACT, needs="", source_needs="", pu=PU)
    made.guard(_every_call)
    return made


def _every_call(call: Any) -> Verdict:
    """Every call that can run twice: not one that writes into an array which it reads too."""
    given = [id(value) for value in (*call.args, *call.keywords.values()) if hasattr(value, "__array_interface__")]
    return Yes if len(set(given)) == len(given) else No("one array is given twice: it may be read and written")
