"""Whether a substitution may be used by this program, here and now, and if not, why not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from codedag.backends.proof import proven_here
from codedag.backends.registry import EXACT, Equivalence, Substitution
from codedag.backends.requirements import parse
from codedag.ir.verdict import Code, No, Verdict, Yes
from codedag.migrate.guard import Failed, attempt
from codedag.migrate.patches.dispatch import as_written

Prove = Callable[[Substitution], Verdict]
# Libraries that are imported under another name than they are installed by.
_IMPORTED_AS = {"pillow": "PIL", "scikit-image": "skimage", "scikit-learn": "sklearn", "onnxruntime-gpu": "onnxruntime"}


def used_by_program(substitution: Substitution) -> Verdict:
    """Yes if the program itself has loaded the library that the substitute needs; it is never imported for it."""
    module = library_of(substitution.needs)
    if not module or module in sys.modules:
        return Yes
    return No(f"{module} is not used by this program", Code.NOT_USED)


def library_of(requirement: str) -> str:
    """The top-level module of a required library, or empty if none is required."""
    name = parse(requirement)[0] if requirement else ""
    return "cv2" if name.startswith("opencv-") else _IMPORTED_AS.get(name.lower(), name.replace("-", "_"))


def may_run(
    substitution: Substitution, allow: Collection[Equivalence] = (EXACT,), prove: Prove = proven_here
) -> Verdict:
    """Yes if its class is allowed, its libraries fit and are in use, and it is proven on this machine.

    What costs least is asked first: this may be asked at every import.  `prove` answers the last question.
    """
    if substitution.equivalence not in allow:
        return No(
            f"{substitution.name} is {substitution.equivalence.value}, which this plan does not allow", Code.NOT_ALLOWED
        )
    for question in (used_by_program, is_there, Substitution.available):
        verdict = question(substitution)
        if not verdict:
            return verdict
    with as_written():
        proven = attempt(prove, substitution)
    return No(proven.reason) if isinstance(proven, Failed) else proven


def is_there(substitution: Substitution) -> Verdict:
    """Yes unless a library is just being imported: a proof would run what is half there."""
    libraries = {substitution.source.partition(".")[0], library_of(substitution.needs)}
    busy = [name for name in list(sys.modules) if name.partition(".")[0] in libraries and is_loading(name)]
    return No(f"{busy[0]} is still being loaded") if busy else Yes


_executed: set[str] = set()


@contextmanager
def loaded_to_its_end(name: str) -> Iterator[None]:
    """A block in which a module counts as loaded that has run to its end, though Python is not quite done with it."""
    _executed.add(name)
    try:
        yield
    finally:
        _executed.discard(name)


def is_loading(name: str) -> bool:
    """Whether a module is just being imported."""
    spec: Any = getattr(sys.modules.get(name), "__spec__", None)
    return bool(getattr(spec, "_initializing", False)) and name not in _executed
