"""Memo of whole items of map-style datasets, at torch's own fetch: an item that draws nothing is made once."""

from __future__ import annotations

from collections.abc import Callable
from sys import _getframe
from typing import Any

from codedag.migrate.caller import Caller
from codedag.migrate.memo.checked_memo import CheckedMemo, Wanted

#: Items below this are not kept: following one takes 170 us, handing a copy out 30 us (6,000 of MNIST, 67 us each).
ITEM_SECONDS_MIN = 0.25e-3


class ItemMemo(CheckedMemo):
    """The variants of the sites in torch's fetch that take an item."""

    has_batches = True

    def variant(self, site: Any) -> Callable[..., Any]:
        """What the site of `dataset[index]` runs instead."""
        caller = Caller(site.info)

        def item(dataset: Any, index: Any) -> Any:
            frame = _getframe(1)
            wanted = Wanted(dataset, index, _getitem, (dataset, index), {}, is_item=True)
            is_open = type(index) is int and self.trial.active and not self.memory.paused
            return self.given(wanted, caller.in_module(frame.f_globals), frame, is_open=is_open)

        return item

    def boundary(self, site: Any) -> Callable[..., Any]:
        """What the site of a call runs instead that torch makes at the beginning of each batch."""
        caller = Caller(site.info)

        def begin(function: Any, /, *args: Any, **keywords: Any) -> Any:
            self._held = None
            return caller.in_module(_getframe(1).f_globals)(function, args, keywords)

        return begin


def _getitem(dataset: Any, index: Any) -> Any:
    return dataset[index]
