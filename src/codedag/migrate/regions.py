"""Regions of sites that one kernel can compute: operations on arrays whose intermediate values nothing else can read.

A chain (`fuse/chain.py`) is a line: each value goes to one operation.  A region is a graph: `x - x.mean()` reads
x twice, `e / e.sum()` reads e twice.  What the source proves about readers is `InstrumentedFile.uses`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from codedag.instrument.program import InstrumentedFile
from codedag.instrument.sites import BINARY, CALL, GETITEM, INPLACE, UNARY

REDUCTIONS = frozenset({"sum", "mean", "var", "std", "min", "max", "amin", "amax"})
FUNCTIONS = frozenset({"exp", "log", "log10"})
PRODUCTS = frozenset({"einsum", "matmul"})
ELEMENTS = frozenset({
    "add", "subtract", "multiply", "divide", "true_divide", "negative", "absolute", "abs", "sqrt", "square", "minimum",
    "maximum", "clip", "where", "astype", "reshape", "transpose", "copy", "swapaxes", "moveaxis", "ascontiguousarray",
    "ravel",
})  # fmt: skip
VIEWS = frozenset({"getitem", "reshape", "transpose", "swapaxes", "moveaxis", "ravel", "ascontiguousarray"})
OPERATORS = frozenset({
    "add", "sub", "mul", "truediv", "pow", "neg", "pos", "lt", "le", "gt", "ge", "eq", "ne", "iadd", "isub", "imul",
    "itruediv",
})  # fmt: skip
_KNOWN = {
    **dict.fromkeys((BINARY, UNARY, INPLACE), OPERATORS | PRODUCTS),
    CALL: REDUCTIONS | FUNCTIONS | PRODUCTS | ELEMENTS,
}


class FoundRegion(msgspec.Struct, frozen=True):
    """A region of one function: its sites in order with the words written there, its exits, and the sites between."""

    sites: tuple[int, ...]
    words: tuple[str, ...]
    exits: frozenset[int]  # sites whose value is read outside of the region
    between: tuple[int, ...]


def regions_of(file: InstrumentedFile, owner: str, is_worth: Callable[[set[int]], bool]) -> list[FoundRegion]:
    """The regions of one function, in order; `is_worth` says of sites that compute whether a kernel could gain."""
    words = _words(file, owner)
    products = {site for site, word in words.items() if word in PRODUCTS}
    inside = {
        site: takers
        for site, takers in file.uses.items()
        if site in words and site not in products and all(t in words and t not in products for t in takers)
    }
    groups = [*_connected(words.keys() - products, inside), *((site,) for site in products)]
    chosen = sorted(
        group
        for group in groups
        if _computes(group, words) and is_worth({site for site in group if words[site] not in VIEWS})
    )
    return [_found(group, words, inside) for group in _merged(chosen)]


def region_at(file: InstrumentedFile, owner: str, sites: Iterable[int]) -> FoundRegion:
    """The region at these sites, as an earlier run found it."""
    wanted = tuple(sites)
    found = regions_of(file, owner, lambda group: group <= set(wanted))
    if len(found) != 1 or found[0].sites != wanted:
        raise LookupError("the source does not have this region any more")
    return found[0]


def _words(file: InstrumentedFile, owner: str) -> dict[int, str]:
    """The operations of one function that a loop program can hold, by site."""
    called, found = file.called, {}
    for info in file.infos:
        if info.owner != owner:
            continue
        word = called.get(info.index, "") if info.kind == CALL else info.operator
        if info.kind == GETITEM:
            found[info.index] = "getitem"
        elif word in _KNOWN.get(info.kind, ()):
            found[info.index] = word
    return found


def _connected(sites: Iterable[int], inside: dict[int, tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Groups of sites that hand values to each other which only they can read."""
    group = {site: site for site in sites}

    def root(site: int) -> int:
        while group[site] != site:
            site = group[site]
        return site

    for site, takers in inside.items():
        for taker in takers:
            group[root(site)] = root(taker)
    found: dict[int, list[int]] = {}
    for site in sorted(group):
        found.setdefault(root(site), []).append(site)
    return [tuple(each) for each in found.values()]


def _computes(group: tuple[int, ...], words: dict[int, str]) -> bool:
    """Whether a group is a product, or has a reduction or a function that no chain of elements has."""
    own = {words[site] for site in group}
    return bool(own & PRODUCTS) or (len(group) > 1 and bool(own & (REDUCTIONS | FUNCTIONS)))


def _merged(groups: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Groups that lie between each other become one: a site has one variant only."""
    made: list[tuple[int, ...]] = []
    for group in groups:
        if made and group[0] < made[-1][-1]:
            made[-1] = tuple(sorted((*made[-1], *group)))
        else:
            made.append(group)
    return made


def _found(group: tuple[int, ...], words: dict[int, str], inside: dict[int, tuple[int, ...]]) -> FoundRegion:
    exits = frozenset(site for site in group if site not in inside)
    between = tuple(sorted(set(range(group[0], group[-1])) - set(group)))
    return FoundRegion(group, tuple(words[site] for site in group), exits, between)
