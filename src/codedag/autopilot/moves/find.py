"""Finding what could be changed: chains of element-wise operations, and calls with a known substitute."""

from __future__ import annotations

import math
import re
import sys
from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import pairwise
from types import FunctionType
from typing import TYPE_CHECKING, Any

import msgspec

from codedag.backends.elementwise import MAP, PACK, role_of
from codedag.backends.registry import EXACT, Equivalence, Substitution, find, known_sources
from codedag.instrument.places import PROTECTED_PACKAGES
from codedag.instrument.program import InstrumentedFile
from codedag.instrument.sites import CALL, RECORD
from codedag.migrate.fuse.chain import SMALLEST
from codedag.migrate.fuse.chain import Link as ChainLink
from codedag.migrate.region import ELEMENTS_MIN
from codedag.migrate.regions import PRODUCTS, FoundRegion, regions_of
from codedag.trace.recorder import Template

if TYPE_CHECKING:
    from codedag.instrument.links import Link
    from codedag.migrate.memo.prefix import Link as Step


TABLE = "table"  # a chain that starts from uint8 becomes a table
LOOPS = "loops"  # a region with reductions or products becomes a kernel of the tuner


class FoundChain(msgspec.Struct, frozen=True):
    """A chain in one function: its operations in order, and the sites that run between them."""

    links: tuple[ChainLink, ...]
    between: tuple[int, ...]


class FoundCall(msgspec.Struct, frozen=True):
    """A call with a known substitute."""

    site: int
    substitution: Substitution


def names_by_site(templates: list[Template]) -> dict[int, set[str]]:
    """The names under which each site was seen."""
    names: dict[int, set[str]] = defaultdict(set)
    for template in templates:
        if template.kind not in ("region", "source"):
            names[template.site.info.index].add(template.name)
    return names


def chains(file: InstrumentedFile, owner: str, templates: list[Template]) -> list[FoundChain]:
    """The chains of one function that start from an array of uint8, longest first in source order."""
    names = {site: next(iter(seen)) for site, seen in names_by_site(templates).items() if len(seen) == 1}
    tables = {t.site.info.index for t in templates if _largest(_UINT8, t.in_sig) >= SMALLEST}
    starts = [first for first in sorted(tables & names.keys()) if _begins(names[first])]
    if not starts:
        return []  # finding links takes longer than all the rest of planning
    step = {link.source: link for link in file.links if file.infos[link.source].owner == owner}
    taken: set[int] = set()
    found = []
    for first in starts:
        if first in taken:
            continue
        links = _followed(file, first, names, step)
        if _worth(links) and not taken & {link.site.info.index for link in links}:
            taken |= set(range(first, links[-1].site.info.index + 1))
            found.append(FoundChain(tuple(links), between(links)))
    return found


def regions(file: InstrumentedFile, owner: str, templates: list[Template]) -> list[FoundRegion]:
    """The regions of one function that have a reduction, exp, log or a product and go through a large array twice."""
    large = {t.site.info.index for t in templates if _largest(_ANY, t.in_sig) >= ELEMENTS_MIN}
    products = {t.site.info.index for t in templates if t.name.rpartition(".")[2] in PRODUCTS}
    if len(large) < 2 and not products:
        return []
    return regions_of(file, owner, lambda group: group <= products or len(large & group) > 1)


def _followed(file: InstrumentedFile, first: int, names: dict[int, str], step: dict[int, Link]) -> list[ChainLink]:
    """The operations from the first one on, as far as they can be deferred."""
    links = [ChainLink(file.sites[first], names[first], None)]
    here = first
    while (link := step.get(here)) is not None and role_of(names.get(link.target, ""), link.operand) is not None:
        here = link.target
        links.append(ChainLink(file.sites[here], names[here], link.operand))
    return _trimmed(links)


def _begins(name: str) -> bool:
    """Whether a chain can begin with an operation of this name."""
    role = role_of(name)
    return role is not None and role.kind == MAP and not role.in_place


_ANY = re.compile(r"(?:u?int8|u?int16|int32|float32|float64)\[([^\]]*)\]")
_UINT8 = re.compile(r"uint8\[([^\]]*)\]")


def _largest(kind: re.Pattern[str], signature: str) -> float:
    """How many elements the largest array of some types in a signature has; any number if its shape varies."""
    shapes = [part.split(",") for part in kind.findall(signature)]
    sizes = [math.inf if "*" in shape else math.prod(int(extent) for extent in shape if extent) for shape in shapes]
    return max(sizes, default=0)


def _trimmed(links: list[ChainLink]) -> list[ChainLink]:
    """The chain without a tail that only looks at its result from another side: that costs nothing as it is."""
    while links and not (links[-1].role.kind == MAP or links[-1].role.copies):
        links = links[:-1]
    return links


def _worth(links: list[ChainLink]) -> bool:
    moving = [link for link in links if link.role.kind == MAP or (link.role.kind == PACK and link.role.copies)]
    return len(moving) >= 2


def between(links: Sequence[ChainLink | Step]) -> tuple[int, ...]:
    """The sites that run between the first and the last operation of a chain and are not part of it."""
    numbers = [link.site.info.index for link in links]
    return tuple(sorted(set(range(numbers[0], numbers[-1])) - set(numbers)))


class FoundPrefix(msgspec.Struct, frozen=True):
    """A call that reads a file, and the calls that its value goes through next."""

    links: tuple[Step, ...]
    names: tuple[str, ...]


def prefixes(file: InstrumentedFile, owner: str, templates: list[Template], taken: set[int]) -> list[FoundPrefix]:
    """The prefixes of one function, each as long as the source proves that its value goes nowhere else."""
    from codedag.migrate.memo.prefix import Link as Step
    from codedag.migrate.memo.prefix import unwritten

    names = {site: next(iter(seen)) for site, seen in names_by_site(templates).items() if len(seen) == 1}
    if not any(map(reads_files, names.values())):
        return []
    next_of = {link.source: link for link in prefix_links(file) if file.infos[link.source].owner == owner}
    for each in next_of.values():  # opening a file moves no data, so it is not in the templates
        if names.get(each.target) == "PIL.Image.open" and each.source not in names:
            names[each.source] = "builtins.open"
    found: list[FoundPrefix] = []
    for first in sorted(names.keys() - taken):
        if file.infos[first].owner != owner or file.infos[first].kind != CALL or not reads_files(names[first]):
            continue
        if any(first == step.site.info.index for prefix in found for step in prefix.links):
            continue  # it reads what the call before has opened
        links = [Step(file.sites[first], 0)]
        here = first
        while (link := next_of.get(here)) is not None and link.target in names and link.target not in taken:
            apart = between([links[-1], Step(file.sites[link.target], 0)])
            if (apart and not owner) or not isinstance(link.operand, int | str):
                break  # in a module, what runs in between may see the name that holds the value
            if isinstance(link.operand, str) and link.operand != "self":
                break
            here = link.target
            links.append(Step(file.sites[here], link.operand if isinstance(link.operand, int) else -1))
        links = unwritten(links)
        found.append(FoundPrefix(tuple(links), tuple(names[link.site.info.index] for link in links)))
    return found


def prefix_links(file: InstrumentedFile) -> list[Link]:
    """The links of a file, and those from what a `with` statement opens: a prefix may begin there."""
    return [*file.links, *file.opened] if b"with " in file.source else file.links


def prefix_at(file: InstrumentedFile, sites: Sequence[int], names: Sequence[str]) -> FoundPrefix:
    """The prefix at these sites, as an earlier run found it."""
    from codedag.migrate.memo.prefix import Link as Step
    from codedag.migrate.memo.prefix import unwritten

    operand = {(link.source, link.target): link.operand for link in prefix_links(file)}
    places = [0, *(operand[pair] for pair in pairwise(sites))]
    links = unwritten(
        [Step(file.sites[s], p if isinstance(p, int) else -1) for s, p in zip(sites, places, strict=True)]
    )
    return FoundPrefix(tuple(links), tuple(names[: len(links)]))


def reads_files(name: str) -> bool:
    """Whether a function of this name is known to read the files that it is given."""
    from codedag.backends.known import Effect, knowledge

    module, _, last = name.rpartition(".")
    row = knowledge().row_of(_held(module, last))
    return row is not None and row[0].effect is Effect.READS and bool(row[0].files)


def calls(
    file: InstrumentedFile, owner: str, templates: list[Template], allow: Collection[Equivalence] = (EXACT,)
) -> list[FoundCall]:
    """The calls of one function for which the registry has a substitute; of several, the loosest that is allowed."""
    found = []
    for site, names in sorted(names_by_site(templates).items()):
        if len(names) == 1 and file.infos[site].owner == owner:
            known = find(next(iter(names)), "cpu")
            allowed = [one for one in known if one.equivalence in allow]
            looser = [one for one in allowed if one.equivalence is not EXACT]
            for substitution in [*looser, *allowed, *known][:1]:
                found.append(FoundCall(site, substitution))
    return found


def made(file: InstrumentedFile, owner: str, templates: list[Template]) -> list[FoundCall]:
    """The calls of one function, by what is written there, that may make an object of a class with a substitute.

    An object that is no data is no operation, so none was seen; whoever uses this compares the classes themselves.
    """
    classes = {source.rpartition(".")[2]: source for source in known_sources() if _is_class(source)}
    seen = names_by_site(templates)
    if not classes or not any(each.kind == CALL and each.owner == owner for each in file.infos):
        return []

    calls = sorted(file.called.items())
    mine = [(site, name) for site, name in calls if file.infos[site].owner == owner and site not in seen]
    found = [(site, one) for site, name in mine if name in classes for one in find(classes[name], "cpu")[:1]]
    return [FoundCall(site, one) for site, one in found if one.equivalence is EXACT]


def _is_class(source: str) -> bool:
    """Whether a name is that of a class of a module that is loaded."""
    module, _, last = source.rpartition(".")
    return isinstance(_held(module, last), type)


def _held(module: str, name: str) -> Any:
    """What a loaded module holds under a name; asking it for one that it has not could load another module."""
    return getattr(sys.modules.get(module), "__dict__", {}).get(name)


SLOW_NS = 300_000  # of one call, from which on looking for what it gave before is worth it


def slow_calls(file: InstrumentedFile, owner: str, templates: list[Template], taken: set[int]) -> list[tuple[int, str]]:
    """The calls of one function that take long and are known to be pure, each with its name."""
    names = {site: next(iter(seen)) for site, seen in names_by_site(templates).items() if len(seen) == 1}
    found = []
    for site in sorted(names.keys() - taken):
        every = [t for t in templates if t.site.info.index == site]
        slow = sum(t.total_ns for t in every) >= SLOW_NS * max(1, sum(t.count for t in every))
        if slow and file.infos[site].owner == owner and file.infos[site].kind == CALL and is_pure(names[site]):
            found.append((site, names[site]))
    return found


def python_calls(
    file: InstrumentedFile, owner: str, templates: list[Template], taken: set[int]
) -> list[tuple[int, str]]:
    """The calls of one function that take long and whose function is written in Python, each with its name."""
    by_site: dict[int, list[Template]] = defaultdict(list)
    for each in templates:
        by_site[each.site.info.index].append(each)
    found = []
    for site in sorted(by_site.keys() - taken):
        every, info = by_site[site], file.infos[site]
        names, count = {each.name for each in every}, sum(each.count for each in every)
        slow = sum(each.total_ns for each in every) >= SLOW_NS * max(1, count)
        if slow and info.owner == owner and info.kind == CALL and len(names) == 1 and _is_python(every[0].name):
            found.append((site, every[0].name))
    return found


def _is_python(name: str) -> bool:
    """Whether a name is that of a function or method that is written in Python, and of which nothing else is known.

    Those of torch and numpy are not followed; those with a substitute, or in the table of effects, have other moves.
    """
    from codedag.backends.known import knowledge

    if name.partition(".")[0] in PROTECTED_PACKAGES or find(name, "cpu"):
        return False
    found = _resolved(name)
    return "<locals>" in name or (isinstance(found, FunctionType) and knowledge().row_of(found) is None)


def _resolved(name: str) -> Any:
    """The function of a loaded module, or the method of a class in one, that has this name; None if there is none."""
    module, _, last = name.rpartition(".")
    if module in sys.modules:
        return _held(module, last)
    module, _, owner = module.rpartition(".")
    return getattr(_held(module, owner), "__dict__", {}).get(last)


def is_pure(name: str) -> bool:
    """Whether a function of this name is known to do nothing but to give a result."""
    from codedag.backends.known import Effect, knowledge

    module, _, last = name.rpartition(".")
    row = knowledge().row_of(_held(module, last))
    return row is not None and row[0].effect is Effect.PURE and row[0].deterministic and not row[0].into_self


def is_loaded(library: str) -> bool:
    """Whether the program has loaded a library to its end."""
    spec = getattr(sys.modules.get(library), "__spec__", None)
    return spec is not None and not getattr(spec, "_initializing", False)


def recorded(file: InstrumentedFile) -> set[str]:
    """The functions of a file that are still observed."""
    return {info.owner for info, site in zip(file.infos, file.sites, strict=True) if site.mode == RECORD}
