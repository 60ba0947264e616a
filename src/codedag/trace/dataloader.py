"""Batches across processes: which worker made which batch, and which operation of the program took it.

torch hands batches from workers to the program through queues.  Each batch has a token (process, epoch, number) that
both sides count for themselves: a worker makes batches in the order in which it was asked, and the program takes the
batches of one worker in that order.  Nothing is added to what travels.  Methods of torch are watched by sites in C, so
that no frame of ours is in a traceback; they are put back when recording ends.
"""

from __future__ import annotations

import sys
import weakref
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from codedag.instrument import sites as site_module
from codedag.instrument.sites import CALL, PASS, RECORD, SiteInfo, make
from codedag.trace.records import Made, Taken

Watch = Callable[[tuple[Any, ...], Any, type[BaseException] | None], None]


@dataclass(slots=True)
class _Epoch:
    """How many batches the program has taken from each worker since the workers began anew."""

    number: int
    taken: Counter[int] = field(default_factory=Counter)


class Batches:
    """Counts batches on both sides of the queues of torch's DataLoader."""

    def __init__(self, gatherer: Any, on_made: Callable[[], None]) -> None:
        self._gatherer, self._on_made = gatherer, on_made
        self._epochs: weakref.WeakKeyDictionary[Any, _Epoch] = weakref.WeakKeyDictionary()
        self._tokens = array("q")  # process, epoch and number of each batch that was taken
        self._changed: list[tuple[type, str, Any]] = []
        self._fetcher: weakref.ref[Any] | None = None
        self._epoch = self._batch = -1
        self._is_watched = self._is_tf_watched = self._is_worker = False
        self.made: list[Made] = []

    # -- in the program

    def watch_program(self) -> None:
        """Watches what gives batches in this process, once it is loaded: torch's DataLoader, tf.data."""
        tf_data = sys.modules.get("tensorflow.python.data.ops.iterator_ops")
        if not self._is_tf_watched and hasattr(tf_data, "OwnedIterator"):
            self._is_tf_watched = True
            self._change(tf_data, "OwnedIterator", "get_next", None)
            self._change(tf_data, "OwnedIterator", "__next__", None)
        module = sys.modules.get("torch.utils.data.dataloader")
        if self._is_watched or not hasattr(module, "_MultiProcessingDataLoaderIter"):  # not yet loaded to its end
            return
        self._is_watched = True
        self._change(module, "_BaseDataLoaderIter", "__next__", None)
        self._change(module, "_MultiProcessingDataLoaderIter", "_reset", self._began)
        self._change(module, "_MultiProcessingDataLoaderIter", "_process_data", self._took)

    def _began(self, args: tuple[Any, ...], result: Any, raised: Any) -> None:
        before = self._epochs.get(args[0])
        self._epochs[args[0]] = _Epoch(before.number + 1 if before else 0)

    def _took(self, args: tuple[Any, ...], result: Any, raised: Any) -> None:
        epoch = self._epochs.get(args[0])
        if epoch is None or len(args) < 3:  # an older torch does not say which worker it was
            return
        process = args[0]._workers[args[2]].pid
        self._tokens.extend((process, epoch.number, epoch.taken[process]))
        epoch.taken[process] += 1
        token = len(self._tokens) // 3 - 1
        site_module.native.amend(lambda before: self._gatherer.arrive(token, before))

    def taken(self) -> list[Taken]:
        """The batches that operations of this process took."""
        tokens = self._tokens
        return [
            Taken(tokens[3 * t], tokens[3 * t + 1], tokens[3 * t + 2], consumer)
            for t, consumer in self._gatherer.arrivals()
        ]

    # -- in a worker

    def watch_worker(self) -> None:
        """Watches what this process makes for its parent, if it is a worker of a DataLoader."""
        module = sys.modules.get("torch.utils.data._utils.fetch")
        if hasattr(module, "_MapDatasetFetcher") and not self._is_worker:
            self._is_worker = True
            for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
                self._change(module, name, "fetch", self._fetched)

    def _fetched(self, args: tuple[Any, ...], result: Any, raised: type[BaseException] | None) -> None:
        if self._fetcher is None or self._fetcher() is not args[0]:  # each epoch has a fetcher of its own
            self._fetcher = weakref.ref(args[0])
            self._epoch, self._batch = self._epoch + 1, -1
        if raised is not None and issubclass(raised, StopIteration):
            return  # the end of the data is no batch
        self._batch += 1
        flows = {} if raised is not None else self._gatherer.flows(result)
        last = self.made[-1] if self.made else None
        if last is not None and (last.epoch, last.last, last.flows) == (self._epoch, self._batch - 1, flows):
            last.last = self._batch
        else:
            self.made.append(Made(self._epoch, self._batch, self._batch, flows))
        self._on_made()

    def in_child(self) -> None:
        """Begins anew in a process that was forked."""
        self._tokens, self.made = array("q"), []
        self._epochs.clear()

    # -- changing methods of a library, and putting them back

    def _change(self, module: Any, class_name: str, name: str, watch: Watch | None) -> None:
        of = getattr(module, class_name, None)
        original: Any = vars(of).get(name) if of is not None else None
        if of is None or not hasattr(original, "__code__"):
            return
        line = original.__code__.co_firstlineno
        site = make(SiteInfo(len(self._changed), CALL, "", original.__code__.co_filename, line, 0, line, 0, ""))
        site.watch, site.outermost = (
            watch,
            name in ("__next__", "get_next"),
        )  # a loop over the loader has a site of its own
        site.mode = PASS if name in ("_reset", "_process_data") else RECORD
        setattr(of, name, site_module.native.method(site, original))
        self._changed.append((of, name, original))

    def restore(self) -> None:
        """Puts the methods back."""
        while self._changed:
            setattr(*self._changed.pop())
        self._is_watched = self._is_tf_watched = self._is_worker = False
