"""The errors that CodeDAG raises: each says what happened, to what, and what to do next."""

from __future__ import annotations


class CodedagError(Exception):
    """Root of all errors that are meant for the user's eyes.

    `slug` is what `codedag help SLUG` and docs/errors.md explain; `hint` says what to do next; the CLI prints both and
    exits with 2.
    """

    slug = "error"
    exit_code = 2

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """The message and the hint as one readable paragraph."""
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class BadFile(CodedagError):  # noqa: N818 - reads as what happened
    """A file that cannot be read as what it should be; names the file and the field."""

    slug = "bad-file"


class BadGraph(CodedagError):  # noqa: N818
    """A graph that breaks the rules of a legal graph; names the operation or edge."""

    slug = "bad-graph"


class CannotWrite(CodedagError):  # noqa: N818
    """A place that was asked for and cannot be written; nothing was left half-written."""

    slug = "cannot-write"


class CannotPlan(CodedagError):  # noqa: N818
    """A graph, costs and machine that no plan fits; names the operation, PU or link that is the reason."""

    slug = "cannot-plan"


class MissingPackage(CodedagError):  # noqa: N818
    """Something that needs a package which is not installed."""

    slug = "missing-package"


class BadScript(CodedagError):  # noqa: N818
    """A program that cannot be started at all (missing, not a file, not text)."""

    slug = "bad-script"
