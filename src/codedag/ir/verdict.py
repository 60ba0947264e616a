"""Yes and No(reason): a refusal is a value that carries its reason."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Accepted(msgspec.Struct, frozen=True):
    """The answer of a guard that takes a call."""

    def __bool__(self) -> bool:
        return True


class Code(StrEnum):
    """What programs ask a reason for; its words are for people, and may be put otherwise at any time."""

    OTHER = ""
    NOT_LOADED = "not-loaded"  # the function's library is not imported yet
    NOT_USED = "not-used"  # the program has not loaded the library through which a unit would be used
    NOT_ALLOWED = "not-allowed"  # its class of equivalence is not among those that the user allows
    ENDED = "ended"  # the program ended before it was known
    SLOWER = "slower"  # the program's turns were slower with it than without
    NO_GAIN = "no-gain"  # neither the turns nor its account show a gain
    LOSS = "loss"  # its account has spent more than it saved
    NEVER_HIT = "never-hit"  # a memo spent its fill budget without a hit
    NOISY = "noisy"  # blocks without a change differ too much for a verdict
    MISMATCH = "mismatch"  # its result differed from the original's
    FAILED = "failed"  # CodeDAG itself failed in it
    REFUSED = "refused"  # its guard takes none of the calls that come
    NOT_WORTH = "not-worth"  # it can save less than it costs to make
    FASTER = "faster"  # the program's turns were faster with it than without
    SAVED = "saved"  # its account has saved more than it spent
    RETRIED = "retried"  # it was taken back in noise and is tried once more
    RESTORED = "restored"  # the run ended and everything was put back
    # the process that compiles beside the program
    UNSTARTABLE = "unstartable"  # it cannot be started
    DIED = "died"  # it ended before it answered
    HUNG = "hung"  # it gave no answer in time
    NOT_READY = "not-ready"  # it was asked; ask again
    # sites for functions of a loaded module
    PROTECTED = "protected"  # a module that CodeDAG, the interpreter or the arrays themselves run on
    NO_SOURCE = "no-source"  # no loaded module has this source file
    NO_FUNCTION = "no-function"  # the source defines no such function, or no live function runs its code
    CODE_DIFFERS = "code-differs"  # the function does not run what its source compiles to
    FILE_CHANGED = "file-changed"  # the source was edited after the module was loaded
    OTHER_COMPILER = "other-compiler"  # numba, torch.compile or another compiler reads the code
    NO_SITES = "no-sites"  # nothing in the function can carry a site
    CANNOT_REWRITE = "cannot-rewrite"  # the source cannot be rewritten


class No(msgspec.Struct, frozen=True):
    """The answer of a guard that declines, with the reason that the report will print and a code to decide by."""

    reason: str
    code: Code = Code.OTHER

    def __bool__(self) -> bool:
        return False


class Unknown(No, frozen=True):
    """The answer of a comparison that could show neither: a No, but no difference."""


Yes = Accepted()
Verdict = Accepted | No
