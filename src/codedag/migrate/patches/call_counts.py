"""What became of the calls of a function, over all processes, as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec


class CallCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of one function."""

    calls: int = 0
    fast: int = 0
    checked: int = 0  # both ran, and the original's result was used
    declined: dict[str, int] = {}
    mismatches: int = 0
    gain: float = 0.0  # time of the original over that of the substitute, on the same calls; 0 = not measured
    active: bool = True
    reason: str = ""  # why it is no longer in use
    unverified: int = 0  # results that were used unchecked before a difference was found
    evidence: str = ""  # the call whose result differed
    sent_nbytes: int = 0  # to a device
    fetched_nbytes: int = 0  # back from it
    resident: int = 0  # inputs that were on the device already

    def minus(self, before: CallCounts | None) -> CallCounts:
        """What has been counted since."""
        if before is None:
            return self
        declined = Counter(self.declined)
        declined.subtract(before.declined)
        numbers = {name: getattr(self, name) - getattr(before, name) for name in _NUMBERS}
        return msgspec.structs.replace(self, declined={k: n for k, n in declined.items() if n > 0}, **numbers)

    def plus(self, other: CallCounts) -> CallCounts:
        """Both together; the gain is that of the one with more comparisons."""
        numbers = {name: getattr(self, name) + getattr(other, name) for name in _NUMBERS}
        gain = max((self, other), key=lambda one: (one.gain > 0, one.checked)).gain
        reasons = [one.reason for one in (self, other) if one.reason and not one.active]
        return CallCounts(
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


def summed(parts: Iterable[Mapping[str, CallCounts]]) -> dict[str, CallCounts]:
    """The counts by function over several processes."""
    total: dict[str, CallCounts] = {}
    for part in parts:
        for name, one in part.items():
            total[name] = total[name].plus(one) if name in total else one
    return total
