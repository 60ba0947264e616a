"""Lazy evaluation of a region: its operations are written down as they come, and its exit runs one kernel for all.

Whatever is not as expected (an array that does not lie in order, a kernel that is not there yet, a result that could
differ) ends in the same place: the operations run as the program wrote them, in their order, on the same values.
"""

from __future__ import annotations

import functools
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from sys import _getframe
from typing import Any

from codedag.backends.effects import BY_FLAGS, SOMEHOW, Effects
from codedag.backends.hazards import MODE
from codedag.backends.same import same
from codedag.instrument.floating_point import is_usual
from codedag.instrument.sites import CALL, INPLACE
from codedag.instrument.warned import noticing
from codedag.ir.clock import perf_counter
from codedag.ir.verdict import No
from codedag.migrate.caller import Caller
from codedag.migrate.fuse.chain import Variant, as_call, shown
from codedag.migrate.fuse.kernel_pool import Refused
from codedag.migrate.guard import Declined, Failed, attempt
from codedag.migrate.lazy import Node, Operation, lies_in_order, needed, signature, spec_of
from codedag.migrate.placeholder import Method, Placeholder
from codedag.migrate.regions import PRODUCTS, FoundRegion
from codedag.migrate.substitute.clock import clock_for
from codedag.migrate.trial import Trial

ELEMENTS_MIN = 32768  # of an array that opens a region; an operation costs about 2 us in Python
PRODUCT_ELEMENTS_MIN = 512  # of the arrays of a product
PRODUCT_EXTENT_MAX = 64  # of the inner and last axes: beyond, the library's own blocks are hard to beat
KERNELS_MAX = 4  # of one region: by sizes, types and numbers
UNSURE = 8  # calls that a kernel left to the operations as written, after which one in as many is too many
_PLAIN = frozenset({int, float, bool, str, type(None), type(Ellipsis)})
Loops = Callable[[Any], Any]


class Unsure(No, frozen=True):
    """A call whose result could differ from numpy's, so that it ran as written."""


class _Pending(threading.local):
    """What this thread has written down in the present run of the region; weakly, so that an exception ends it."""

    def __init__(self) -> None:
        self.nodes: list[weakref.ref[Node]] = []
        self.frame = 0  # the identity of the frame
        self.site = -1  # the last site: an earlier one begins another run
        self.spent = 0.0  # seconds of writing down since the last exit


class Region:
    """The variants of one region's sites, and the trial that it is on."""

    def __init__(
        self, found: FoundRegion, sites: Sequence[Any], between: Sequence[Any], loops: Loops, trial: Trial,
        effects: Effects,
    ) -> None:  # fmt: skip
        self.found, self.trial = found, trial
        self._sites, self._between = list(sites), list(between)
        self._loops, self._effects = loops, effects
        self._clock = clock_for(["cpu"])
        self._pending = _Pending()
        self.callers = {site.info.index: Caller(site.info) for site in self._sites}
        self._kernels: dict[tuple[Any, ...], Any] = {}
        self._unsure = 0

    def variants(self) -> dict[int, Variant]:
        """What each site of the region, and each site between them, runs instead."""
        found = {
            site.info.index: self._operation(site, word)
            for site, word in zip(self._sites, self.found.words, strict=True)
        }
        return found | {site.info.index: self._bystander(site) for site in self._between}

    # -- the sites

    def _operation(self, site: Any, word: str) -> Variant:
        index, is_exit = site.info.index, site.info.index in self.found.exits
        caller, called = self.callers[index], as_call(site)
        written = self._writer(site, word)

        def operation(*args: Any, **keywords: Any) -> Any:
            started, frame = perf_counter(), _getframe(1)
            node = attempt(written, args, keywords)
            if type(node) is Node:
                pending = self._append(node, index, id(frame))
                pending.spent += perf_counter() - started
                return self._finish(node, frame.f_globals) if is_exit else Placeholder(node)
            if isinstance(node, Failed):
                self.trial.decline(node.reason)
                self._settle_all(frame)
            space = frame.f_globals
            if _holds_lazy(args) or (keywords and _holds_lazy(keywords.values())):
                args, keywords = _settled(args, keywords, space)
            return caller.in_module(space)(*called(args, keywords))

        return operation

    def _writer(self, site: Any, word: str) -> Callable[[tuple[Any, ...], dict[str, Any]], Node | None]:
        """Makes nodes of the arguments of one site; None if the operation has to run as written."""
        is_exit, is_product, in_place = site.info.index in self.found.exits, word in PRODUCTS, site.kind == INPLACE
        split = self._splitter(site, word)

        def written(args: tuple[Any, ...], keywords: dict[str, Any]) -> Node | None:
            operation, own = split(args)
            kinds = {*map(type, own), *map(type, keywords.values())}
            if operation is None:
                if Placeholder in kinds:
                    raise Declined("another function than the one that is written there is called")
                return None
            if Placeholder not in kinds:
                if in_place:
                    raise Declined("an array that others may see is changed in place")
                if (is_exit and not is_product) or not self._opens(own, is_product):
                    if is_exit:
                        self.trial.decline("no array of its size, type and order in memory")
                    return None
            elif in_place and type(own[0]) is not Placeholder:
                raise Declined("an array that others may see is changed in place")
            if not kinds <= _usual() and not all(map(_is_plain, (*own, *keywords.values()))):
                raise Declined("an argument of another type than numbers and plain arrays")
            return Node(operation, own, keywords)

        return written

    def _splitter(self, site: Any, word: str) -> Callable[[tuple[Any, ...]], tuple[Operation | None, tuple[Any, ...]]]:
        """Takes the arguments of a site apart: its operation (None: it is another one) and the operands."""
        index, caller = site.info.index, self.callers[site.info.index]
        method = Operation(self, index, caller, None, word)
        function = Operation(self, index, caller, site.function, "")
        if site.kind != CALL:
            return lambda args: (function, args)

        def split(args: tuple[Any, ...]) -> tuple[Operation | None, tuple[Any, ...]]:
            called = args[0]
            if type(called) is Method:
                return method if called.name == word else None, (called.placeholder, *args[1:])
            if called is function.function:
                return function, args[1:]
            numpy = sys.modules["numpy"]
            if type(called) is types.BuiltinMethodType and type(called.__self__) is numpy.ndarray:
                return method if called.__name__ == word else None, (called.__self__, *args[1:])
            if called is vars(numpy).get(word):
                function.function = called
                return function, args[1:]
            return None, args

        return split

    def _opens(self, own: tuple[Any, ...], is_product: bool) -> bool:
        """Whether one of these operands is an array that a kernel could take."""
        if not self.trial.active:
            return False
        array = sys.modules["numpy"].ndarray
        if is_product:
            arrays = [one for one in own if type(one) is array]
            found = len(arrays) == 2 and _is_small_product(arrays)
        else:
            found = any(type(one) is array and one.size >= ELEMENTS_MIN and lies_in_order(one) for one in own)
        if found and not is_usual():
            self.trial.decline(MODE)
            return False
        return found

    def _append(self, node: Node, site: int, frame: int) -> _Pending:
        pending = self._pending
        if pending.frame != frame or site <= pending.site:
            pending.nodes, pending.frame, pending.spent = [], frame, 0.0
        pending.site, node.order = site, len(pending.nodes)
        pending.nodes.append(weakref.ref(node))
        return pending

    def _bystander(self, site: Any) -> Variant:
        kind, caller, called = site.kind, Caller(site.info), as_call(site)

        def passing(*args: Any, **keywords: Any) -> Any:
            frame = _getframe(1)
            space = frame.f_globals
            if self._is_open(frame):
                warns = attempt(self._warns, kind, args, keywords)
                warns = SOMEHOW if isinstance(warns, Failed) else warns
                if warns == BY_FLAGS:
                    try:
                        with noticing() as noticed:
                            found = caller.in_module(space)(*called(args, keywords))
                    except BaseException:
                        self._settle_all(frame)
                        raise
                    if not noticed:
                        return found
                if warns:
                    self.trial.decline(f"{shown(args[0] if kind == CALL else site.function)} runs in between")
                    self._settle_all(frame)
            return caller.in_module(space)(*called(args, keywords))

        return passing

    def _warns(self, kind: int, args: tuple[Any, ...], keywords: dict[str, Any]) -> int:
        """How something that runs between operations may warn before they do; or it may change their arrays."""
        if not self._effects.harmless(kind, args, keywords):
            return SOMEHOW
        return self._effects.warns(kind, args, keywords)

    # -- running as written

    def _is_open(self, frame: types.FrameType) -> bool:
        pending = self._pending
        return pending.frame == id(frame) and any((n := ref()) is not None and not n.done for ref in pending.nodes)

    def settle(self, last: Node, space: dict[str, Any] | None) -> None:
        """Runs what was written down up to this operation, in order."""
        for node in [found for ref in self._pending.nodes if (found := ref()) is not None]:
            if node.order < last.order and not node.done:
                node.run(space)
        if not last.done:
            last.run(space)

    def _settle_all(self, frame: types.FrameType) -> None:
        if self._pending.frame == id(frame):
            for node in [found for ref in self._pending.nodes if (found := ref()) is not None]:
                if not node.done:
                    node.run(frame.f_globals)

    # -- the exit

    def _finish(self, node: Node, space: dict[str, Any]) -> Any:
        if not self.trial.active:
            return node.settle(space)
        clock = self._clock if self.trial.is_next() else perf_counter
        spent, self._pending.spent = self._pending.spent, 0.0
        started = clock()
        result = attempt(self._computed, node)
        seconds = spent + clock() - started
        if isinstance(result, Failed | No):
            self._did_not_work(result)
            return node.settle(space)
        if not self.trial.due():
            node.ended()
            return result
        started = clock()
        original = node.settle(space)
        self.trial.record(clock() - started, seconds, attempt(same, original, result))
        return original

    def _computed(self, last: Node) -> Any:
        """The result of all operations by one kernel, or why there is none."""
        nodes = needed(last)
        key, arrays = signature(nodes)
        kernel = self._kernels.get(key)
        if kernel is None:
            kernel = self._asked(key, nodes, arrays)
        if isinstance(kernel, No):
            return kernel
        result = kernel.on_checked(arrays)
        return Unsure(result.reason) if isinstance(result, No) else result

    def _asked(self, key: tuple[Any, ...], nodes: list[Node], arrays: list[Any]) -> Any:
        if len(self._kernels) >= KERNELS_MAX:
            raise Declined("more sizes, types or numbers than kernels are made for")
        spec = spec_of(key, nodes, arrays)
        found = self._loops(spec)
        if not isinstance(found, No) or isinstance(found, Refused):
            self._kernels[key] = found
        return found

    def _did_not_work(self, result: Failed | No) -> None:
        if isinstance(result, Unsure):
            self._unsure += 1
            if self._unsure >= UNSURE and self._unsure * UNSURE > self.trial.calls:
                self.trial.stop(f"its result was not sure in {self._unsure} calls ({result.reason})")
        self.trial.decline(result.reason, lasting=isinstance(result, Failed | Refused))
        if isinstance(result, Failed) and not result.expected:
            self.trial.stop(f"it failed ({result.reason})")


# -- what a site is given


def _holds_lazy(values: Iterable[Any]) -> bool:
    kinds = {*map(type, values)}
    return Placeholder in kinds or Method in kinds


@functools.cache
def _usual() -> frozenset[type]:
    """Types of most arguments."""
    return frozenset({Placeholder, sys.modules["numpy"].ndarray, float, int, bool, type(None), str})


def _settled(
    args: tuple[Any, ...], keywords: dict[str, Any], space: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same arguments with their values in the place of what stands for them."""

    def real(one: Any) -> Any:
        if type(one) is Placeholder:
            return one.deferred.settle(space)
        return getattr(one.placeholder.deferred.settle(space), one.name) if type(one) is Method else one

    return tuple([real(one) for one in args]), {name: real(one) for name, one in keywords.items()}


def _is_plain(value: Any) -> bool:
    kind = type(value)
    numpy = sys.modules["numpy"]
    if kind in _PLAIN or kind is Placeholder or kind is numpy.ndarray or isinstance(value, numpy.generic | numpy.dtype):
        return True
    if kind is tuple:
        return all(map(_is_plain, value)) and not any(type(one) in (Placeholder, numpy.ndarray) for one in value)
    if kind is slice:
        return all(type(one) in (int, type(None)) for one in (value.start, value.stop, value.step))
    return kind is type and (value in (float, int, bool) or issubclass(value, numpy.generic))


def _is_small_product(arrays: list[Any]) -> bool:
    a, b = arrays
    if a.size + b.size < PRODUCT_ELEMENTS_MIN or min(a.ndim, b.ndim) < 1 or a.dtype.char not in "fd":
        return False
    return min(a.shape[-1], b.shape[-1]) <= PRODUCT_EXTENT_MAX and lies_in_order(a) and lies_in_order(b)
