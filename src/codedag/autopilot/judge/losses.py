"""The rule by which accounts show a loss: pessimistic, and counted from the best moment of each account."""

from __future__ import annotations

from typing import NamedTuple

from codedag.autopilot.judge.change import Account, Change, Evidence
from codedag.autopilot.judge.policy import Policy


class _Best(NamedTuple):
    """The moment from which on losses of an account are counted."""

    spent: float
    served: int
    at: float  # seconds of the run


class Losses:
    """Remembers the best moment of each account; what was saved before does not pay for what is lost after."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._best: dict[int, _Best] = {}

    def is_filling(self, change: Change) -> bool:
        """Whether it is a memo that had too few hits for a comparison."""
        return change.account.served < self._policy.kind(change.move).hits_before_verdict

    def believed_net(self, change: Change) -> float:
        """Seconds that a change has brought, with less saved than its account says."""
        return self._policy.saved_share_believed * change.account.saved - change.account.spent

    def shows(self, change: Change, now: float) -> bool:
        """Whether the account has lost more since its best moment than the change's kind may.

        Calls since then are counted by what a call saves as it is known now: that is an estimate from few compared
        calls, and a lower one than before is no loss.
        """
        row, best = self._policy.kind(change.move), self._best.get(change.id, _Best(0.0, 0, change.log[-1][0]))
        lost = self._lost_since(best, change.account)
        if lost <= 0:
            self.start_over(change, now)
            return False
        share = row.grace_share + row.fill_share_max * self.is_filling(change)
        grace = row.known_grace_seconds if change.is_known else row.grace_seconds
        return lost > grace + share * (now - best.at)

    def _lost_since(self, best: _Best, account: Account) -> float:
        saved = self._policy.saved_share_believed * account.saved
        by_call = saved / account.served if account.served else saved
        calls = account.served - best.served if account.served else 1
        return account.spent - best.spent - by_call * calls

    def start_over(self, change: Change, now: float) -> None:
        """Counts losses from now on."""
        self._best[change.id] = _Best(change.account.spent, change.account.served, now)

    def forget(self, change: Change) -> None:
        """Drops what is known of a change that is not in the program any more."""
        self._best.pop(change.id, None)

    def evidence(self, change: Change) -> Evidence:
        """What an account is worth to later runs: a memo without a hit does not depend on the load of the machine."""
        return Evidence(None, 0, -1.0, rememberable=change.account.served == 0 and self.is_filling(change))
