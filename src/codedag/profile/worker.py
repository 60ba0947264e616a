"""The measuring process of one PU: it is asked line by line in JSON to prepare a case, to time a batch, to forget it.

    python -m codedag.profile.worker PU

One process per PU stays alive over all cases, so that its libraries and caches are warm; a library that crashes or
hangs costs one case.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from codedag.backends.on_device import fetched, finish, is_held, sent, using
from codedag.backends.proof import proven_here
from codedag.backends.registry import Equivalence, Substitution, attempt
from codedag.backends.same import same
from codedag.devices.present import bring, is_accelerator
from codedag.devices.present import load as load_library
from codedag.instrument.guard import Declined, Failed
from codedag.instrument.guard import attempt as guarded
from codedag.ir.verdict import No
from codedag.profile.case import Case, with_reused_buffer
from codedag.profile.lanes import finish as finish_lanes
from codedag.profile.lanes import rates
from codedag.profile.leaves import moved_nbytes, nbytes_of
from codedag.profile.orphan import end_with_parent, without_telemetry
from codedag.profile.repeatable import function_of, repeatable
from codedag.profile.roofline import work_of
from codedag.profile.sample import Sample, read
from codedag.profile.variants import ORIGINAL, REUSED, substitution_of

Answer = dict[str, Any]
METHODS = frozenset(f"numpy.ndarray.{name}" for name in ("mean", "sum", "nonzero"))  # as migrate/substitute does
PRIORITY = -10  # as `nice` counts; below 0 only for those who may


class Unsupported(Exception):  # noqa: N818 - control flow inside one request
    """This PU or variant does not take the call; nothing went wrong."""


class Bench:
    """The cases of one process, by the number that the asker gave them."""

    def __init__(self, pu: str) -> None:
        self.pu = pu
        self._cases: dict[int, Case] = {}
        self._resident: set[int] = set()  # cases whose input is on the device already, and whose result stays there

    def answer(self, request: dict[str, Any]) -> Answer:
        """What comes of a request; never raises."""
        done = guarded(self._do, request)
        if isinstance(done, Failed):
            return {"status": "failed", "reason": done.reason}
        return done

    def _do(self, request: dict[str, Any]) -> Answer:
        if request["do"] in ("rates", "finish"):
            return self._in_threads(request)
        number = int(request["case"])
        if request["do"] == "prepare":
            try:
                with _on(self.pu):
                    return self._prepare(number, request)
            except Unsupported as reason:
                return {"status": "unsupported", "reason": str(reason)}
        if request["do"] == "forget":
            self._cases.pop(number, None)
            self._resident.discard(number)
            gc.collect()
            gc.freeze()  # the next time only what is new is looked at: with torch loaded, all of it takes 0.2 s
            return {"status": "ok"}
        with _on(self.pu, stay=number in self._resident):
            batch = self._cases[number].batch()
        return {"status": "ok", "seconds": batch.seconds, "page_faults": batch.page_faults, "clean": batch.clean}

    def _in_threads(self, request: dict[str, Any]) -> Answer:
        """Cases side by side: what a call takes of each, or how long it takes until all have done their calls."""
        cases = [self._cases[int(number)] for number in request["cases"]]
        if request["do"] == "rates":
            found = rates(cases, float(request["seconds"]))
            return {
                "status": "ok",
                "seconds": [one.seconds for one in found],
                "waited": max(one.waited for one in found),
            }
        return {"status": "ok", "seconds": finish_lanes(cases, request["calls"], in_turn=bool(request["in_turn"]))}

    def _prepare(self, number: int, request: dict[str, Any]) -> Answer:
        sample = read(Path(request["sample"]))
        if isinstance(sample, No):
            raise Unsupported(sample.reason)
        args, keywords = sample.call()
        run, keywords = self._function(sample, request, args, keywords)
        there = (
            _resident(self.pu, run, args, keywords)
            if is_accelerator(self.pu) and request["variant"] != ORIGINAL
            else None
        )
        with _on(self.pu, stay=there is not None):
            case = self._cases[number] = Case(run, there or args, keywords, waiting(self.pu))
            peak_nbytes = case.peak_nbytes()
        if there is not None:
            self._resident.add(number)
        result = fetched(case.result)
        return {
            "status": "ok", "calls": case.calls, "in_nbytes": nbytes_of((args, keywords)),
            "out_nbytes": nbytes_of(result),
            "moved_nbytes": moved_nbytes(args, keywords, result),
            "peak_nbytes": peak_nbytes, "writes": case.writes,
            "work_flop": work_of(sample.name, args, result),
        }  # fmt: skip

    def _function(
        self, sample: Sample, request: dict[str, Any], args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[Callable[..., Any], dict[str, Any]]:
        original = function_of(sample.name)
        if isinstance(original, No):
            raise Unsupported(original.reason)
        verdict = repeatable(sample.name, original, args, keywords)
        if isinstance(verdict, No):
            raise Unsupported(verdict.reason)
        if request["variant"] != ORIGINAL:
            return _substitute(sample, original, request["variant"], args, keywords), keywords
        if request["buffers"] != REUSED:
            return original, keywords
        found = with_reused_buffer(original, args, keywords)
        if found is None:
            raise Unsupported("it cannot be told where to put its result")
        return found


def _substitute(
    sample: Sample, original: Callable[..., Any], name: str, args: tuple[Any, ...], keywords: dict[str, Any]
) -> Callable[..., Any]:
    """The function that stands in, once it has taken this call and given the same result."""
    found = substitution_of(sample.name, name)
    if found is None:
        raise Unsupported(f"there is no substitution {name}")
    if found.original() is not original and not _is_method_of_arrays(sample.name, found.source):
        raise Unsupported(f"it stands in for another function than {sample.name} is here")
    for verdict in (found.available(), found.accepts(args, keywords), proven_here(found)):
        if isinstance(verdict, No):
            raise Unsupported(verdict.reason)
    _compare(found, sample, original)
    return _guarded(found, original)


def _guarded(found: Substitution, original: Callable[..., Any]) -> Callable[..., Any]:
    """The substitute with its guard in front, as it is used: a guard that reads the elements is a part of the cost."""
    accepts, run = found.accepts, found.run
    return lambda *args, **keywords: (run if accepts(args, keywords) else original)(*args, **keywords)


def _is_method_of_arrays(name: str, source: str) -> bool:
    """Whether a method of arrays does what a function of numpy does, so that what stands in for one does for both."""
    return name in METHODS and source == f"numpy.{name.rpartition('.')[2]}"


def _compare(found: Substitution, sample: Sample, original: Callable[..., Any]) -> None:
    """Raises if the substitute does something else with this very input."""
    outcomes = []
    for function in (original, found.run):
        args, keywords = sample.call()
        outcomes.append(attempt(function, *args, **keywords))
    expected, got = outcomes
    if expected.error is not None:
        raise Unsupported(f"the original raises {expected.error!r} here")
    if isinstance(got.error, Declined):
        raise Unsupported(str(got.error))
    if got.error is not None:
        raise RuntimeError(f"the substitute raises {got.error!r}")
    verdict = same(expected.value, got.value)
    if isinstance(verdict, No) and found.equivalence is Equivalence.EXACT:
        raise RuntimeError(f"the substitute differs from the original on this input: {verdict.reason}")


def _on(pu: str, stay: bool = False) -> AbstractContextManager[None]:
    """Sends substitutes for accelerators to this one; with `stay` their results are left there."""
    return using(pu, stay) if is_accelerator(pu) else nullcontext()


def _resident(
    pu: str, run: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[Any, ...] | None:
    """The arguments with the first one on the device, as along a chain; None if the call is not taken that way.

    The plan adds the copies: a figure with them in it would count them twice, and for calls in a chain once too often.
    """
    there = (sent(args[0]), *args[1:]) if args else ()
    if not there or not is_held(there[0]):
        return None
    with using(pu, stay=True):
        result = attempt(run, *there, **keywords)
    return there if result.error is None and is_held(result.value) else None


def waiting(pu: str) -> Callable[[], Any] | None:
    """What to call so that all work of an asynchronous PU is done; None for one that does it at once."""
    return finish if is_accelerator(pu) else None


def _go_first() -> None:
    """Asks to be let run before others, for the milliseconds that a batch takes; few users may ask for that."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    except OSError:
        return


def main() -> None:
    """Answers requests until there are no more; what libraries print goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    end_with_parent()
    without_telemetry()
    _go_first()
    if is_accelerator(sys.argv[1]):  # torch, which has it
        load_library("torch")
    bring(sys.argv[1])  # before a guard asks whether it is there; what is wrong with it is said by the first case
    bench = Bench(sys.argv[1])
    gc.disable()
    answers.write('{"status": "ready"}\n')
    answers.flush()
    for line in sys.stdin:
        answers.write(json.dumps(bench.answer(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
