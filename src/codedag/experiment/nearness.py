"""How near two runs are where rounding was allowed: numbers kept beside the digests, and the rule that judges them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from codedag.experiment.digest import Sink

#: Of one array at most so many numbers are kept, evenly spread; fewer once a run has kept very many bytes.
MOST_NUMBERS, FEW_NUMBERS, MANY_NBYTES = 16_384, 256, 1 << 30

# What follows from numbers that were rounded differently is not within a few steps of rounding any more: it must agree
# in half of the digits. A grey level is 0.4 % of the scale; contrast and normalisation make it several times that.
HALF_THE_DIGITS = {"float16": 2.0**-5, "bfloat16": 2.0**-3.5}
SINGLE = 2.0**-11.5
LEVELS = 0.02


@dataclass(frozen=True, slots=True)
class Aside:
    """What is kept of a value: the digest of all but its numbers, and where these are (dtype, offset, count)."""

    form: str
    leaves: tuple[tuple[str, int, int], ...] = ()

    def text(self) -> str:
        """One field of a line."""
        return f"{self.form} {' '.join(f'{dtype}:{at}:{count}' for dtype, at, count in self.leaves)}"

    @classmethod
    def of(cls, text: str) -> Aside:
        """What `text` told."""
        form, *leaves = text.split()
        parts = [leaf.split(":") for leaf in leaves]
        return cls(form, tuple((dtype, int(at), int(count)) for dtype, at, count in parts))


class Keeping(Sink):
    """A digest of everything but numbers that may differ; these go to a file, whole or evenly spread."""

    def __init__(self, file: IO[bytes], allow: Sequence[str]) -> None:
        super().__init__()
        self._file, self._allow = file, allow
        self._leaves: list[tuple[str, int, int]] = []

    def keeps(self, dtype: str) -> bool:
        """Whether values of this type may differ: floating point, and bytes where a grey level may."""
        return dtype.startswith(("float", "bfloat", "complex")) or (dtype == "uint8" and "level1" in self._allow)

    def keep(self, dtype: str, flat: Any) -> None:
        """Keeps the numbers of an array of numpy with one dimension."""
        at = self._file.tell()
        most = MOST_NUMBERS if at < MANY_NBYTES else FEW_NUMBERS
        some = flat[:: max(1, -(-len(flat) // most))]
        plain = some.astype("complex128").view("float64") if some.dtype.kind == "c" else some.astype("float64")
        self._file.write(plain.tobytes())
        self._leaves.append((dtype, at, len(plain)))

    def aside(self) -> Aside:
        """What was kept of the value."""
        return Aside(self.digest(), tuple(self._leaves))


class Numbers:
    """The numbers of one watched run."""

    def __init__(self, file: Path, kept: Mapping[str, list[Aside]]) -> None:
        self._file, self.kept = file, kept

    @classmethod
    def read(cls, lines: Sequence[str], file: Path) -> Numbers:
        """The numbers that these lines tell of."""
        found: defaultdict[str, list[Aside]] = defaultdict(list)
        for line in lines:
            parts = line.split("\t")
            if len(parts) == 4:
                found[parts[0]].append(Aside.of(parts[3]))
        return cls(file, found)

    def leaf(self, at: int, count: int) -> Any:
        """Some numbers, from their place in the file."""
        import numpy

        return numpy.fromfile(self._file, "float64", count, offset=at)


class Nearness:
    """Judges what differs between a plain run and others that were allowed to round differently."""

    def __init__(self, allow: Sequence[str], plain: Numbers, others: Sequence[Numbers]) -> None:
        self._allow, self._plain, self._others = allow, plain, others

    def difference(self, kind: str, number: int, other: int) -> float | None:
        """The largest difference as a share of the largest value; None if it is too much, or not one of numbers."""
        one, two = (run.kept.get(kind, []) for run in (self._plain, self._others[other]))
        if number >= min(len(one), len(two)) or one[number].form != two[number].form:
            return None
        most = 0.0
        for (dtype, at, count), (_, place, _) in zip(one[number].leaves, two[number].leaves, strict=True):
            found = _apart(self._plain.leaf(at, count), self._others[other].leaf(place, count))
            if found is None or found > tolerance(self._allow, dtype):
                return None
            most = max(most, found)
        return most


def tolerance(allow: Sequence[str], dtype: str = "float32") -> float:
    """The share of the largest value by which numbers of this type may differ."""
    return LEVELS if "level1" in allow else HALF_THE_DIGITS.get(dtype, SINGLE)


def _apart(one: Any, two: Any) -> float | None:
    """The largest difference as a share of the largest value; None if what is no finite number is not the same."""
    import numpy

    finite = numpy.isfinite(one)
    if not numpy.array_equal(one[~finite], two[~finite], equal_nan=True) or not numpy.isfinite(two[finite]).all():
        return None
    scale = float(numpy.abs(one[finite]).max(initial=0.0))
    most = float(numpy.abs(one[finite] - two[finite]).max(initial=0.0))
    return most / scale if scale else (0.0 if not most else None)


_FRACTION = re.compile(r"\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+")


def printed_near(one: str, other: str, share: float) -> bool:
    """Whether two printed figures are near: both with a fraction, and apart by no more than this or one last digit."""
    if not (_FRACTION.fullmatch(one) and _FRACTION.fullmatch(other)):
        return False
    digits = len(one.partition("e")[0].partition("E")[0].partition(".")[2])
    power = 10.0 ** int(re.split("[eE]", one)[1]) if re.search("[eE]", one) else 1.0
    last = 1.01 * 10.0**-digits * power
    return abs(float(one) - float(other)) <= max(share * max(abs(float(one)), abs(float(other))), last)
