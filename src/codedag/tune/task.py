"""Tasks: a program with its space, features, model, measurements and search; the public face of the tuner."""

from __future__ import annotations

import hashlib
import itertools
import operator
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from codedag.ir.verdict import No
from codedag.tune.declined import CannotTune
from codedag.tune.first_kernel import remember_choice
from codedag.tune.kernel import Kernel, build_kernel
from codedag.tune.measure import records
from codedag.tune.measure.clock import least_seconds
from codedag.tune.measure.inputs import arrays_for
from codedag.tune.measure.measurer import Measured, Measurer
from codedag.tune.measure.probes import peak_gflops, product_order
from codedag.tune.measure.recording_check import recorded
from codedag.tune.model.network import Network
from codedag.tune.model.shipped import refined_model, shipped_model
from codedag.tune.program.einsum_text import program_of_text
from codedag.tune.program.operators import OPERATORS, program_of_name
from codedag.tune.program.orders import stated
from codedag.tune.program.program import Program
from codedag.tune.program.recorder import NBYTES_MAX, type_of
from codedag.tune.schedule.family import EXACT, ContractionFamily, family_of
from codedag.tune.schedule.features import Features, Smooth
from codedag.tune.schedule.space import Point, Space, point_text
from codedag.tune.search.search import Found, run_search
from codedag.tune.search.strategies import STRATEGIES

FINALISTS = 4
TIE = 0.01  # shares of time that are no difference
Array = Any
Replay = Callable[[list[Point]], Sequence[float | None]]


@dataclass(frozen=True, slots=True)
class Result:
    """What a search found: the best point, its seconds, and every measured point in order."""

    best: Point | None
    seconds: float | None
    history: list[tuple[Point, float | None]]


class Task:
    """One program of fixed sizes to be tuned."""

    def __init__(self, program: Program, reference: Callable[..., Any], order: str, what: str) -> None:
        self.program, self.reference, self.order, self.name = program, reference, order, what
        if not all(program.buffers[name].size for name in (*program.inputs, program.output)):
            raise CannotTune(f"{what}: an array has no elements, so there is nothing to tune")
        self.family = family_of(program, order)
        if not self.family.space.sketches:
            raise CannotTune(f"{what}: no sketch fits these axes")
        for point in self.family.space.sample(1):
            self.family.emitted(point)  # what has no C text is declined now
        self._measurer: Measurer | None = None
        self.notes: list[str] = []  # what could not be kept, and why
        self.measured: list[Measured] = []

    @classmethod
    def of(
        cls, what: str | Callable[..., Any], sizes: dict[str, int] | None = None, like: str | None = None,
        dtype: str = "f4", allow: Sequence[str] = (), shape: Sequence[int] | None = None,
    ) -> Task:  # fmt: skip
        """The task of an operator's name, of an index text, or of a function of arrays like those that are named."""
        is_ulp_allowed = _is_ulp_allowed(allow)
        if callable(what):
            return cls._of_function(what, like, is_ulp_allowed)
        if not isinstance(what, str):
            raise CannotTune(f"a task is a name, an index text or a function, not {what!r}")
        if "->" in what:
            if not isinstance(sizes, dict | None):
                raise CannotTune(f"sizes are {sizes!r}, not a dict of axes", hint="Say sizes={'i': 300, 'k': 200}.")
            whole = {name: _whole(f"axis {name}", size) for name, size in (sizes or {}).items()}
            program = program_of_text(what, whole, _checked_type(dtype, ("f4", "f8")))
            _bounded(program)
            text = program.statements[0].how.split()[1]
            return cls(program, lambda a, b: np.einsum(text, a, b), _if_fused(program), what)
        if what not in OPERATORS and "," in what:
            raise CannotTune(f"the text {what!r} has no ->", hint="Write 'n i k, n k j -> n i j'.")
        if what not in OPERATORS:
            raise CannotTune(f"there is no operator {what!r}", hint=f"Names are {', '.join(OPERATORS)}.")
        if shape is None:
            raise CannotTune(f"{what} needs a shape", hint=f"--shape {','.join(OPERATORS[what].shape).upper()}")
        kinds, own = OPERATORS[what].dtypes, tuple(_whole(f"{what}: a size", size) for size in shape)
        _bounded_shape(what, own)
        program = program_of_name(what, own, kinds[0] if len(kinds) == 1 else dtype)
        return cls(program, OPERATORS[what].function, _if_fused(program), what)

    @classmethod
    def _of_function(cls, function: Callable[..., Any], like: str | None, is_ulp_allowed: bool) -> Task:
        if not isinstance(like, str):
            raise CannotTune("a function needs arrays like its own", hint='Say like="f4[300,1000],f4[1000]".')
        name = getattr(function, "__name__", "function")
        program = recorded(function, arrays_like(like), name)
        order = product_order(program)
        made = cls(program, function, order if not is_ulp_allowed or order == "fused" else "", name)
        if made.exactness != EXACT and not is_ulp_allowed:
            why = f"{name}: {made.family.why_not_exact}, so results would differ by rounding"
            raise CannotTune(why, hint="Allow it: --allow ulp (or allow=('ulp',)).")
        return made

    # what a stranger's search needs

    @property
    def space(self) -> Space:
        """The points of this task."""
        return self.family.space

    @property
    def exactness(self) -> str:
        """The class of all kernels of this task."""
        return self.family.exactness

    @cached_property
    def _features(self) -> Features:
        return Features(self.family)

    def features(self, points: Sequence[Point]) -> Array:
        """A row of exact features for each point."""
        return self._features.rows(self._checked(points))

    def smooth(self, points: Sequence[Point]) -> Array:
        """A row of smooth features for each point."""
        return self._features.rows(self._checked(points), Smooth)

    def _checked(self, points: Sequence[Point]) -> Sequence[Point]:
        """The same points; CannotTune if one is none of the space."""
        for point in points:
            if not self.space.valid(point):
                raise CannotTune(f"{_shown(point)} is no point of this space")
        return points

    @cached_property
    def model(self) -> Network | None:
        """The shipped model, refined by what was measured on this machine."""
        return refined_model(self.family.name, self._features.width)

    def score(self, points: Sequence[Point]) -> Array:
        """A number for each point that rises with its predicted speed."""
        rows = self.features(points)
        return np.zeros(len(points)) if self.model is None else self.model.score(rows)

    def speed(self, seconds: float) -> float:
        """The logarithm of work a second: operations of products, bytes of everything else."""
        return float(np.log2(self.work / max(seconds, 1e-9) / 1e9))

    @cached_property
    def work(self) -> float:
        """Operations of a product, or bytes that are read and written."""
        if isinstance(self.family, ContractionFamily):
            return float(max(self.family.contraction.flops, 1))
        return float(max(self.nbytes, 1))

    @property
    def nbytes(self) -> int:
        """Bytes of all arguments and of the result."""
        own = [self.program.buffers[name] for name in (*self.program.inputs, self.program.output)]
        return sum(one.size * np.dtype(one.dtype).itemsize for one in own)

    @property
    def measurer(self) -> Measurer:
        """What compiles and measures; started when it is first asked for."""
        if self._measurer is None:
            self._measurer = Measurer(self.family, self.order)
        return self._measurer

    def measure(self, points: Sequence[Point]) -> list[Measured]:
        """A record for each point: its seconds, or None and why; they are kept for later searches."""
        self._checked(points)
        return self.measurer.measure(points, kept=self._keep)

    def _keep(self, measured: Measured) -> None:
        """Writes one measurement down as soon as it is there: a search may be ended at any time."""
        self.measured.append(measured)
        (row,) = self.features([measured.point])
        line = {
            "task": self.name, "program": self._digest, "kind": self.family.name, "point": point_text(measured.point),
            "seconds": measured.seconds, "why": measured.why,
            "speed": None if measured.seconds is None else self.speed(measured.seconds),
            "row": [round(float(value), 4) for value in row], "at": int(time.time()),
        }  # fmt: skip
        note = records.append([line])
        if note and note not in self.notes:
            self.notes.append(note)

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(self.program.encoded().encode()).hexdigest()[:16]

    def search(
        self, search: str = "gradient", seed: int = 0, measurements: int = 64, measure: Replay | None = None,
        seconds: float | None = None,
    ) -> Result:  # fmt: skip
        """The best point that a search finds; with `measure`, nothing else is asked and nothing is stored."""
        if search not in STRATEGIES:
            raise CannotTune(f"there is no search {search!r}", hint=f"Searches are {', '.join(STRATEGIES)}.")
        measurements = _whole("the number of measurements", measurements)
        if _whole("the seed of a search", seed) < 0:
            raise CannotTune(f"the seed of a search is 0 or more, not {seed}")
        model = self.model if measure is None else shipped_model(self.family.name)
        if measurements <= 0 or (seconds is not None and seconds <= 0):
            return Result(self.first_pick(model), None, [])
        model = None if search == "random" else model
        ask = measure or (lambda points: [one.seconds for one in self.measure(points)])
        until = None if seconds is None else time.monotonic() + seconds
        try:
            found = run_search(
                STRATEGIES[search], self.space, self._features, model, ask, measurements, seed, self.speed, until
            )
            settled = Result(found.best, found.seconds, found.history) if measure else self._settled(found)
        except KeyboardInterrupt:
            ran = [(one.seconds, point_text(one.point), one.point) for one in self.measured if one.seconds is not None]
            if ran and measure is None:
                self._choose(min(ran)[2])
            raise
        if measure is None and settled.best is not None:
            self._choose(settled.best)
        return settled

    def _choose(self, point: Point) -> None:
        """Makes a point what programs that run begin with, if its kernels are EXACT."""
        if self.exactness == EXACT:
            remember_choice(self.program, point, self.order)

    def first_pick(self, model: Network | None = None) -> Point | None:
        """The point that the model likes best before anything is measured."""
        from codedag.tune.search.history import History
        from codedag.tune.search.search import Context

        context = Context(self.space, self._features, model or self.model, History(1), np.random.default_rng(0))
        proposed = STRATEGIES["gradient"](context, 1)
        return proposed[0] if proposed else None

    def _settled(self, found: Found) -> Result:
        """The last few compared in pairs; of those that tie, the one whose text comes first."""
        ran = sorted(((s, point_text(p), p) for p, s in found.history if s is not None), key=lambda one: one[:2])
        finalists = [point for _, _, point in ran[:FINALISTS]]
        if len(finalists) < 2:
            return Result(found.best, found.seconds, found.history)
        times = self.measurer.paired(finalists)
        known = [(t, point_text(p), p) for t, p in zip(times, finalists, strict=True) if t is not None]
        if not known:
            return Result(found.best, found.seconds, found.history)
        least = min(t for t, _, _ in known)
        _, _, best = min((one for one in known if one[0] <= least * (1 + TIE)), key=lambda one: one[1])
        seconds = next(s for s, text, _ in ran if text == point_text(best))
        return Result(best, seconds, found.history)

    def kernel(self, point: Point) -> Kernel:
        """The kernel of a point as a function of arrays, proven on this machine."""
        self._checked([point])
        return build_kernel(self.family, point, self.order, self.reference)

    def baselines(self) -> dict[str, float]:
        """Thread seconds of the program as written and of a copy of the same bytes, one thread each."""
        found = self.measurer.baselines()
        if not isinstance(self.family, ContractionFamily):
            arrays = arrays_for(self.program, 1)
            with np.errstate(all="ignore"):
                found["numpy"] = least_seconds(lambda: self.reference(*arrays))
        return found

    def peak(self) -> float | None:
        """Operations of fused multiply-adds a second, in 10^9, or None if they cannot be measured."""
        kind = "f8" if self.program.result.dtype == "f8" else "f4"
        found = peak_gflops(self.measurer.process, kind)
        return None if isinstance(found, No) else found

    def close(self) -> None:
        """Ends the measuring process, if there is one."""
        if self._measurer is not None:
            self._measurer.close()
            self._measurer = None

    def __enter__(self) -> Task:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        """The program as text, with the order of every sum."""
        return str(stated(self.program, self.order))


def _if_fused(program: Program) -> str:
    """Names and texts owe nobody bits: numpy's order is kept where it costs nothing."""
    return "fused" if product_order(program) == "fused" else ""


def _shown(point: Any) -> str:
    return point_text(point) if isinstance(point, dict) and "sketch" in point else repr(point)


def _is_ulp_allowed(allow: Sequence[str]) -> bool:
    words = [allow] if isinstance(allow, str) else list(allow)
    unknown = [word for word in words if word != "ulp"]
    if unknown:
        raise CannotTune(f"there is no class {unknown[0]!r} to be allowed", hint="Only 'ulp' can be allowed.")
    return bool(words)


def _whole(what: str, size: Any) -> int:
    try:
        return operator.index(size)
    except TypeError:
        raise CannotTune(f"{what} is {size!r}, which is no whole number") from None


def _checked_type(dtype: str, kinds: Sequence[str]) -> str:
    if dtype not in kinds:
        raise CannotTune(f"products are not made for type {dtype!r}", hint=f"--dtype {' or '.join(kinds)}")
    return dtype


def _bounded(program: Program) -> None:
    for buffer in program.buffers.values():
        if buffer.size * np.dtype(buffer.dtype).itemsize > NBYTES_MAX:
            raise CannotTune(f"{program.name}: an array of {buffer.size:,} elements is too large to be tuned")


def _bounded_shape(what: str, shape: tuple[int, ...]) -> None:
    if len(shape) > 1 and any(a * b * 8 > NBYTES_MAX for a, b in itertools.pairwise(shape)):
        raise CannotTune(f"{what}: an array of {shape} elements is too large to be tuned")


LIKE = re.compile(r"\s*([a-z]\w*)\s*\[([\d,\s]*)\]\s*(?:,|$)")


def arrays_like(text: str) -> list[Array]:
    """Arrays of ones with the types and shapes of a text such as `f4[300,1000],f4[1000]`."""
    found, at = [], 0
    while at < len(text):
        match = LIKE.match(text, at)
        if match is None:
            raise CannotTune(f"--like: {text[at:]!r} is no list of arrays", hint='Write "f4[300,1000],f4[1000]".')
        found.append(_one_like(match[1], match[2]))
        at = match.end()
    if not found:
        raise CannotTune("--like names no array", hint='Write "f4[300,1000],f4[1000]".')
    return found


def _one_like(kind: str, extents: str) -> Array:
    try:
        dtype = np.dtype(kind)
    except TypeError:
        raise CannotTune(f"--like: there is no type {kind!r}", hint="Types are f4, f8, u1, i2, ...") from None
    type_of(dtype, "--like")
    shape = tuple(int(one) for one in extents.split(",") if one.strip())
    total = dtype.itemsize
    for extent in shape:
        total *= extent
    if total > NBYTES_MAX:
        raise CannotTune(f"--like: an array of {total:,} bytes is too large to be tuned")
    return np.ones(shape, dtype)
