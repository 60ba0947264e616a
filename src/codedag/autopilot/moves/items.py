"""Whole items of datasets under torch's DataLoader, kept from one pass over the data to the next: the move `items`.

All map-style datasets, the user's and the libraries', are reached at one place: torch's own `_MapDatasetFetcher.fetch`.
It is opened like a hot function once enough of the program's time is spent below it.
"""

from __future__ import annotations

import sys
from types import CodeType
from typing import TYPE_CHECKING, Any

from codedag.autopilot.applied import Applied, Refused
from codedag.autopilot.heat.bytecode_loops import loops_of
from codedag.autopilot.judge.turn_clock import FETCHER
from codedag.instrument.codes import codes_by_place, place_of
from codedag.instrument.places import is_installed
from codedag.instrument.sites import CALL, GETITEM, PASS
from codedag.ir.verdict import No
from codedag.trace.recorder import shown_path

if TYPE_CHECKING:
    from codedag.autopilot.heat import HeatReport
    from codedag.autopilot.pilot import Pilot
    from codedag.migrate.memo.items import ItemMemo

KIND = "items"
SHARE_MIN = 0.05  # of the CPU time of late below torch's fetch, from which keeping items can pay
LOOPS = 2  # around a fetch: one over the data, one over passes
_OWNER = f"{FETCHER[1]}.{FETCHER[2]}"


class Items:
    """The move of one program: opens torch's fetch when it is hot, and keeps what goes through it."""

    def __init__(self, pilot: Pilot) -> None:
        self._pilot = pilot
        self.memo: ItemMemo | None = None
        self._applied: Applied | None = None
        self._is_over = False
        self._plain: dict[int, tuple[CodeType, CodeType]] = {}  # with the code, which so keeps its identity

    def look(self, report: HeatReport | None) -> None:
        """Makes the change once it is worth it; nothing is done twice."""
        if self._applied is not None and self.memo is not None and self.memo.names:
            self._applied.names[:] = [f"items of {', '.join(self.memo.names[:3])}"]
        if self._is_over or self._pilot.memory.most_nbytes == 0:
            return
        module = sys.modules.get(FETCHER[0])
        path = getattr(module, "__file__", None)
        known = next((move for move in self._pilot.known if move.kind == KIND), None)
        if path is None or not (known is not None or report is None or fetch_share(report) >= SHARE_MIN):
            return
        opened = self._pilot.program.open([(path, {_OWNER})], None, PASS)[
            path, _OWNER
        ]  # 60 lines: parsed here, in 10 ms
        self._is_over = True
        if isinstance(opened, No):
            self._pilot.refused.append(Refused("items of datasets", shown_path(path), opened.reason, opened.code))
        else:
            self._make(path, opened.sites, known)

    def _make(self, path: str, numbers: tuple[int, ...], known: Any) -> None:
        # with all that is known about effects: only where it is used
        from codedag.migrate.memo.items import ITEM_SECONDS_MIN, ItemMemo

        file = self._pilot.program.files[path]
        sites = [number for number in numbers if file.infos[number].kind == GETITEM]
        trial = self._pilot.planning.trial("items of a dataset")
        is_known = known is not None
        least = 0.0 if self._pilot.synchronous else ITEM_SECONDS_MIN
        self.memo = ItemMemo(trial, self._pilot.memory, self.plain_code, lambda: is_known or is_repeated(), least)
        self._applied = applied = Applied(KIND, path, _OWNER, sites, ["items"], trial, "kept in memory")
        applied.known = is_known
        begins = {n: self.memo.boundary(file.sites[n]) for n in numbers if file.infos[n].kind == CALL}
        every = begins | {n: self.memo.variant(file.sites[n]) for n in sites}
        self._pilot.planning.switch(file, applied, every)
        if is_known and self._pilot.judging is not None:
            self._pilot.judging.take_as_known(applied, is_faster=bool(known.evidence.blocks))

    def plain_code(self, code: CodeType) -> CodeType:
        """The code that a function has without our sites."""
        known = self._plain.get(id(code))  # by identity: the hash of a code object takes long
        if known is None:
            known = self._plain[id(code)] = (code, self._without_sites(code))
        return known[1]

    def _without_sites(self, code: CodeType) -> CodeType:
        original = self._pilot.program.opening.original_of(code) or code
        file = self._pilot.program.files.get(code.co_filename)
        if file is None or not file.own.hold(original):
            return original
        return codes_by_place(file.plain).get(place_of(original)) or original


def fetch_share(report: HeatReport) -> float:
    """The share of the CPU time of late below torch's fetch of items."""
    seconds = [each.recent_seconds for each in report.functions if each.qualname == _OWNER]
    return max(seconds, default=0.0) / max(report.recent_cpu_seconds, 1e-9)


def is_repeated() -> bool:
    """Whether the running loops of the program are at least one over data and one around it."""
    count, frame = 0, sys._getframe(1)
    while frame is not None and count < LOOPS:
        if not is_installed(frame.f_code.co_filename):
            count += sum(first <= frame.f_lasti <= last for first, last in loops_of(frame.f_code))
        frame = frame.f_back  # type: ignore[assignment]
    return count >= LOOPS
