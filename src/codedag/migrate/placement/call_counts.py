"""What became of the calls of a function, over all processes, as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from codedag.migrate.patches.library_patches import Counts


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of one function."""

    calls: int = 0
    fast: int = 0
    checked: int = 0
    declined: dict[str, int] = {}
    mismatches: int = 0
    gain: float = 0.0
    active: bool = True
    reason: str = ""
    unverified: int = 0
    evidence: str = ""
    sent_nbytes: int = 0  # to a device
    fetched_nbytes: int = 0  # back from it
    resident: int = 0  # inputs that were on the device already

    @classmethod
    def of(cls, counts: Counts) -> Counted:
        """The same as data that another process can read."""
        facts = {name: getattr(counts, name) for name in cls.__struct_fields__}
        return cls(**{**facts, "declined": dict(counts.declined)})

    def minus(self, before: Counted | None) -> Counted:
        """What has been counted since."""
        if before is None:
            return self
        declined = Counter(self.declined)
        declined.subtract(before.declined)
        numbers = {name: getattr(self, name) - getattr(before, name) for name in _NUMBERS}
        return msgspec.structs.replace(self, declined={k: n for k, n in declined.items() if n > 0}, **numbers)

    def plus(self, other: Counted) -> Counted:
        """Both together; the gain is that of the one with more comparisons."""
        numbers = {name: getattr(self, name) + getattr(other, name) for name in _NUMBERS}
        gain = max((self, other), key=lambda one: (one.gain > 0, one.checked)).gain
        reasons = [one.reason for one in (self, other) if one.reason and not one.active]
        return Counted(
            **numbers,
            declined=dict(Counter(self.declined) + Counter(other.declined)),
            gain=gain,
            active=self.active,
            reason=self.reason or next(iter(reasons), ""),
            evidence=self.evidence or other.evidence,
        )

    def shown(self) -> dict[str, Any]:
        """As a dictionary, commonest reasons first."""
        found: dict[str, Any] = msgspec.structs.asdict(self)
        return {**found, "declined": dict(Counter(self.declined).most_common())}


_NUMBERS = (
    "calls", "fast", "checked", "mismatches", "unverified", "sent_nbytes", "fetched_nbytes", "resident",
)  # fmt: skip


def summed(parts: Iterable[Mapping[str, Counted]]) -> dict[str, Counted]:
    """The counts by function over several processes."""
    total: dict[str, Counted] = {}
    for part in parts:
        for name, one in part.items():
            total[name] = total[name].plus(one) if name in total else one
    return total
