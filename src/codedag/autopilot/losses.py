"""The rule by which accounts show a loss: pessimistic, and counted from the best moment of each account."""

from __future__ import annotations

from codedag.autopilot.change import Change, Evidence
from codedag.autopilot.policy import Policy


class Losses:
    """Remembers the best moment of each account; what was saved before does not pay for what is lost after."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._best: dict[int, tuple[float, float]] = {}  # the highest believed net of an account, and when it was so

    def is_filling(self, change: Change) -> bool:
        """Whether it is a memo that had too few hits for a comparison."""
        return change.account.served < self._policy.kind(change.move).hits_before_verdict

    def believed_net(self, change: Change) -> float:
        """Seconds that a change has brought, with less saved than its account says."""
        return self._policy.saved_share_believed * change.account.saved - change.account.spent

    def shows(self, change: Change, now: float) -> bool:
        """Whether the account has lost more since its best moment than the change's kind may."""
        row, net = self._policy.kind(change.move), self.believed_net(change)
        best, at = self._best.get(change.id, (0.0, change.log[-1][0]))
        if net >= best:
            best, at = self._best[change.id] = net, now
        share = row.grace_share + row.fill_share_max * self.is_filling(change)
        return best - net > row.grace_seconds + share * (now - at)

    def start_over(self, change: Change, now: float) -> None:
        """Counts losses from now on."""
        self._best[change.id] = self.believed_net(change), now

    def forget(self, change: Change) -> None:
        """Drops what is known of a change that is not in the program any more."""
        self._best.pop(change.id, None)

    def evidence(self, change: Change) -> Evidence:
        """What an account is worth to later runs: a memo without a hit does not depend on the load of the machine."""
        return Evidence(None, 0, -1.0, rememberable=change.account.served == 0 and self.is_filling(change))
