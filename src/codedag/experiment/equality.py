"""Whether two programs gave the same: what they printed, and what they passed around."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

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


def exit_codes(plain: Sequence[int], other: Sequence[int]) -> Same:
    """Whether all runs ended alike."""
    odd = [code for code in other if code not in plain]
    detail = f"{odd[0]} against {plain[0]}" if odd else f"{plain[0]}"
    return Same("exit code", not odd, len(other), detail)


def printed(plain: Sequence[str], other: Sequence[str]) -> Same:
    """Whether the others printed what the plain runs print each time, apart from figures of time.

    What changes from one plain run to the next cannot be asked of the others either: such numbers and lines are left
    out, and so are numbers with a unit of time or speed.
    """
    lines = [text.splitlines() for text in plain]
    if len({len(each) for each in lines}) > 1:
        return Same("stdout", None, 0, "the program itself prints another number of lines from run to run")
    expected = [_Line([each[at] for each in lines]) for at in range(len(lines[0]))]
    for text in other:
        different = _difference(expected, text.splitlines())
        if different:
            return Same("stdout", False, len(other), different)
    left = sum(line.left_out for line in expected)
    return Same("stdout", True, len(expected), f"{left} varying or timed figures left out" if left else "")


def _difference(expected: list[_Line], found: list[str]) -> str:
    if len(expected) != len(found):
        return f"{len(found)} lines against {len(expected)}"
    for number, (line, text) in enumerate(zip(expected, found, strict=True), 1):
        if not line.allows(text):
            return f"line {number}: {text[:120]!r} against {line.text[:120]!r}"
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

    def allows(self, text: str) -> bool:
        """Whether this line says the same."""
        words, numbers = _parts(text)
        if self._is_free:
            return True
        same = (at in self._free or number == self._numbers[at] for at, number in enumerate(numbers))
        return words == self._words and all(same)


def _parts(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words around the numbers of a line (spaces that align columns do not count), and the numbers."""
    words = tuple(re.sub(r"\s+", " ", word) for word in _NUMBER.split(text))
    return words, tuple(_NUMBER.findall(text))


def _is_time(words: tuple[str, ...], at: int) -> bool:
    return bool(_UNIT.match(words[at + 1]) or _TIMED.search(words[at]))


Streams = Mapping[str, list[tuple[str, str]]]


def read_streams(lines: Sequence[str]) -> Streams:
    """What a watched program passed around: by kind, the digest and the short text of each, in order.

    The last line of a program that was killed may be cut short; it is left out.
    """
    found: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for line in lines:
        parts = line.split("\t")
        if len(parts) == 3:
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


def passed_around(plain: Sequence[Streams], other: Sequence[Streams]) -> list[Same]:
    """Whether the others had the batches, losses and weights that the plain runs have each time."""
    kinds = [kind for kind in _NAMES if any(kind in streams for streams in (*plain, *other))]
    return [_same(kind, [s.get(kind, []) for s in plain], [s.get(kind, []) for s in other]) for kind in kinds]


def _same(kind: str, plain: list[list[tuple[str, str]]], other: list[list[tuple[str, str]]]) -> Same:
    name, expected = _NAMES[kind], plain[0]
    for again in plain[1:]:
        if different := _first_difference(expected, again):
            return Same(name, None, 0, f"the program itself differs from run to run ({different}); seed it to compare")
    for found in other:
        if different := _first_difference(expected, found):
            return Same(name, False, len(expected), different)
    return Same(name, True, len(expected), "bit-equal")


def _first_difference(expected: list[tuple[str, str]], found: list[tuple[str, str]]) -> str:
    for number, (one, two) in enumerate(zip_longest(expected, found), 1):
        if one is None or two is None:
            return f"{len(found)} against {len(expected)}"
        if one[0] != two[0]:
            shown = f": {two[1]} against {one[1]}" if one[1] != two[1] else f" ({one[1]})"
            return f"number {number} of {len(expected)} differs{shown}"
    return ""
