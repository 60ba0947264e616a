"""The guard, for everything that changes a program: what may go wrong with a change is told as a reason."""

from codedag.instrument.guard import Declined, Failed, attempt

__all__ = ["Declined", "Failed", "attempt"]
