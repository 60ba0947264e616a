"""What the source proves about a site, and what passes over the graph find with it."""

from __future__ import annotations

from typing import Literal

import msgspec

FindingKind = Literal["unused", "twice", "constant", "in place"]


class Written(msgspec.Struct, frozen=True):
    """What the source alone proves about one site; the defaults say that it proves nothing.

    `unused`: nothing can read what it gives.
    `feeds`: the only site that reads what it gives, which gets it by a name as its first operand.
    `passes_on`: the only site that reads what it gives, in whatever way.
    `again`: the site before it that is written alike, in the same block, with no name of it stored in between.
    `fixed`: the sites that it is made of, if everything else in it is a literal; None if it is not.
    `keywords`: the keywords that are given.  `positional`: how many arguments have no keyword; any number if spread.
    """

    line: int
    column: int
    unused: bool = False
    feeds: int = -1
    passes_on: int = -1
    again: int = -1
    fixed: tuple[int, ...] | None = None
    keywords: tuple[str, ...] = ()
    positional: int = 0


class Finding(msgspec.Struct, frozen=True):
    """An operation whose work could be saved: `seconds` of its own, or the `nbytes` of a fresh array.

    `other` is the operation that has computed the same (twice) or made what could be overwritten (in place), else -1.
    """

    kind: FindingKind
    op: int
    other: int
    seconds: float
    nbytes: int


class ChainBytes(msgspec.Struct, frozen=True):
    """A chain of element-wise operations, and the bytes of one call: operation by operation, and in one walk.

    `gain` is what bytes and launches alone predict, where the machine was measured; only a measurement decides.
    """

    ops: list[int]
    apart_nbytes: int
    together_nbytes: int
    gain: float | None = None
