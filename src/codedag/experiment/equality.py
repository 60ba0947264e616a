"""Whether two programs gave the same: what they printed, and what they passed around."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from codedag.experiment.nearness import Nearness, printed_near

_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+(?:[.:,]\d+)*(?:[eE][+-]?\d+)?")
# A unit of time or speed after a number ("3 s", "12min", "431 images/s"), or a word for one before it ("took 3").
_UNIT = re.compile(
    r"^\s*(?:s|secs?|seconds?|ms|us|\u00b5s|ns|mins|minutes?|hours?|fps|ips|[\w-]+\s*(?:/\s*|per )s(?:ec|econd)?)\b"
    r"|^\s*/\s*s(?:ec|econd)?\b|^(?:min|h|m)\b"
)
_TIMED = re.compile(
    r"(?:time|took|elapsed|eta|speed|throughput|duration|latency|seconds?|secs?|/s|fps|ips)\b[^\w]*$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Same:
    """One thing that was compared: equal, different, or (None) not comparable, and why."""

    what: str
    equal: bool | None
    compared: int
    detail: str = ""
    difference: float = 0.0  # the largest, as a share of the largest value, where it is within what was allowed


_RUNS = ("optimised", "plain")
_AGAIN = ("the second time", "the first")


def _both(other: object, plain: object, runs: tuple[str, str] = _RUNS) -> str:
    """Two values that differ, each with the run that it is of."""
    return f"{other} {runs[0]}, {plain} {runs[1]}"


def exit_codes(plain: Sequence[int], other: Sequence[int]) -> Same:
    """Whether all runs ended alike."""
    odd = [code for code in other if code not in plain]
    detail = _both(odd[0], plain[0]) if odd else f"{plain[0]}"
    return Same("exit code", not odd, 1, detail)  # one code per run, as there are so many lines or batches per run


def printed(plain: Sequence[str], other: Sequence[str], share: float = 0.0) -> Same:
    """Whether the others printed what the plain runs print each time, apart from figures of time.

    Figures with a fraction may differ by this share of themselves.

    What changes from one plain run to the next cannot be asked of the others either: such numbers and lines are left
    out, and so are numbers with a unit of time or speed.
    """
    lines = [text.splitlines() for text in plain]
    if len({len(each) for each in lines}) > 1:
        return Same("stdout", None, 0, "the program itself prints another number of lines from run to run")
    expected = [_Line([each[at] for each in lines]) for at in range(len(lines[0]))]
    for text in other:
        different = _difference(expected, text.splitlines(), share)
        if different:
            return Same("stdout", False, len(expected), different)
    left = sum(line.left_out for line in expected)
    words = [f"{left} varying or timed figure{'' if left == 1 else 's'} left out"] if left else []
    near = [text for text in other if _difference(expected, text.splitlines(), 0.0)]
    words += [f"figures within {share:.2g} of each other"] if near else []
    return Same("stdout", True, len(expected), ", ".join(words), share if near else 0.0)


def _difference(expected: list[_Line], found: list[str], share: float) -> str:
    if len(expected) != len(found):
        return _both(f"{len(found)} lines", len(expected))
    for number, (line, text) in enumerate(zip(expected, found, strict=True), 1):
        if not line.allows(text, share):
            return f"line {number}: {_both(repr(text[:120]), repr(line.text[:120]))}"
    return ""


class _Line:
    """A line as several plain runs printed it."""

    def __init__(self, texts: list[str]) -> None:
        self.text = texts[0]
        parts = [_parts(text) for text in texts]
        self._words, self._numbers = parts[0]
        self._is_free = len({words for words, _ in parts}) > 1
        self._free = {
            at
            for at, number in enumerate(self._numbers)
            if self._is_free or any(other[at] != number for _, other in parts) or _is_time(self._words, at)
        }

    @property
    def left_out(self) -> int:
        """How many figures of this line are not compared; a line whose words vary counts as one."""
        return 1 if self._is_free else len(self._free)

    def allows(self, text: str, share: float) -> bool:
        """Whether this line says the same, with figures that differ by no more than this share."""
        words, numbers = _parts(text)
        if self._is_free:
            return True
        if words != self._words:
            return False
        pairs = [(a, b) for at, (a, b) in enumerate(zip(self._numbers, numbers, strict=True)) if at not in self._free]
        return all(a == b or (share > 0 and printed_near(a, b, share)) for a, b in pairs)


def _parts(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words around the numbers of a line (spaces that align columns do not count), and the numbers."""
    words = tuple(re.sub(r"\s+", " ", word) for word in _NUMBER.split(text))
    return words, tuple(_NUMBER.findall(text))


def _is_time(words: tuple[str, ...], at: int) -> bool:
    return bool(_UNIT.match(words[at + 1]) or _TIMED.search(words[at]))


Stream = list[tuple[str, str]]
Streams = Mapping[str, Stream]


def read_streams(lines: Sequence[str]) -> Streams:
    """What a watched program passed around: by kind, the digest and the short text of each, in order.

    The last line of a program that was killed may be cut short; it is left out.
    """
    found: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for line in lines:
        parts = line.split("\t")
        if len(parts) >= 3:
            found[parts[0]].append((parts[1], parts[2]))
    return found


_NAMES = {
    "batch": "batches",
    "loss": "losses (backward)",
    "value": "values read (item)",
    "epoch": "epochs (Keras)",
    "log_loss": "losses logged",
    "log_accuracy": "accuracies logged",
    "weights": "final weights",
    "named": "named values",
    "file": "files",
}


def passed_around(plain: Sequence[Streams], other: Sequence[Streams], nearness: Nearness | None = None) -> list[Same]:
    """Whether the others had the batches, losses and weights that the plain runs have each time."""
    kinds = [kind for kind in _NAMES if any(kind in streams for streams in (*plain, *other))]
    runs = {kind: ([s.get(kind, []) for s in plain], [s.get(kind, []) for s in other]) for kind in kinds}
    return [_same(kind, *runs[kind], nearness) for kind in kinds]


def _same(kind: str, plain: list[Stream], other: list[Stream], nearness: Nearness | None) -> Same:
    name, expected = _NAMES[kind], plain[0]
    for again in plain[1:]:
        if different := _first_difference(expected, again, _AGAIN):
            return Same(name, None, 0, f"the program itself differs from run to run ({different}); seed it to compare")
    most = 0.0
    for number, found in enumerate(other):
        if different := _first_difference(expected, found):
            apart = _nearly(kind, expected, found, number, nearness)
            if apart is None:
                return Same(name, False, len(expected), different)
            most = max(most, apart)
    detail = f"within {most:.2g} of the largest value" if most else "bit-equal"
    return Same(name, True, len(expected), detail, most)


def _nearly(kind: str, expected: Stream, found: Stream, run: int, nearness: Nearness | None) -> float | None:
    """The largest difference, if all that differ are near enough."""
    if nearness is None or len(expected) != len(found):
        return None
    changed = [at for at, (one, two) in enumerate(zip(expected, found, strict=True)) if one[0] != two[0]]
    apart = [nearness.difference(kind, at, run) for at in changed]
    known = [each for each in apart if each is not None]
    return max(known, default=0.0) if len(known) == len(apart) else None


def _first_difference(expected: Stream, found: Stream, runs: tuple[str, str] = _RUNS) -> str:
    for number, (one, two) in enumerate(zip_longest(expected, found), 1):
        if one is None or two is None:
            return _both(len(found), len(expected), runs)
        if one[0] != two[0]:
            shown = f": {_both(two[1], one[1], runs)}" if one[1] != two[1] else f" ({one[1]})"
            return f"number {number} of {len(expected)} differs{shown}"
    return ""
