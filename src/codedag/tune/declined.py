"""The error of a tuning task that cannot be done here, and why."""

from __future__ import annotations

from codedag.ir.errors import CodedagError


class CannotTune(CodedagError):  # noqa: N818 - reads as what happened
    """A task that cannot be tuned: an unknown name, sizes that do not fit, an operation that is not written down."""

    slug = "cannot-tune"
