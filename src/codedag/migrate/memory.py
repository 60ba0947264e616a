"""The budget of what is kept in memory so that it need not be computed again."""

from __future__ import annotations

from codedag.migrate.disk import Disk


class Memory:
    """What may be kept in all, and how much is."""

    def __init__(self, most_nbytes: int | None = None, disk: Disk | None = None) -> None:
        self.most_nbytes, self.nbytes = most_nbytes, 0
        self.disk = disk  # takes what memory does not
        self.paused = False  # nothing is kept and nothing recalled

    def takes(self, nbytes: int) -> bool:
        """Whether there is room for so much; then it is taken."""
        if self.most_nbytes is None:
            self.most_nbytes = budget()
        if self.nbytes + nbytes > self.most_nbytes:
            return False
        self.nbytes += nbytes
        return True


def budget() -> int:
    """The bytes that may be kept unless somebody says otherwise: a quarter of what is free."""
    import psutil

    return int(psutil.virtual_memory().available) // 4
