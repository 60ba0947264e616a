"""How long a thread could have run and was not let: on a busy machine, its times are too long by that."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_SCHEDSTAT = Path("/proc/thread-self/schedstat")


@dataclass(frozen=True, slots=True)
class Turns:
    """The seconds that this thread has run, and those that it waited for a processor."""

    ran: float = 0.0
    waited: float = 0.0

    @classmethod
    def so_far(cls, path: Path = _SCHEDSTAT) -> Turns:
        """As the system counts them; nothing where it does not say."""
        try:
            ran, waited = map(int, path.read_bytes().split()[:2])
        except (OSError, ValueError):
            return cls()
        return cls(ran / 1e9, waited / 1e9)

    def held_up_since(self) -> float:
        """The share of the time since then that this thread waited, of what it ran and waited."""
        now = Turns.so_far()
        ran, waited = now.ran - self.ran, now.waited - self.waited
        return waited / (ran + waited) if waited > 0 < ran else 0.0
