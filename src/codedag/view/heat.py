"""Heat of a run as text and as parts of a whole: hot functions and lines, CPU time of own code and of packages."""

from __future__ import annotations

import msgspec

from codedag.ir import Heat, HotFunction

FUNCTIONS_SHOWN = 8
PACKAGES_NAMED = 4
BAR_CELLS = 10


class Part(msgspec.Struct, frozen=True):
    """A part of the process's CPU time: who spent it, and the seconds."""

    name: str
    kind: str  # own, package, other or codedag
    seconds: float


def parts(heat: Heat) -> list[Part]:
    """Who spent the process's CPU time, by the functions' own time; what the sampler did not name is `other`."""
    by_package: dict[str, float] = {}
    for function in heat.functions:
        by_package[function.package] = by_package.get(function.package, 0.0) + function.self_seconds
    own = by_package.pop("", 0.0)
    ranked = sorted(by_package.items(), key=lambda one: -one[1])[:PACKAGES_NAMED]
    found = [Part("your code", "own", own), *(Part(name, "package", seconds) for name, seconds in ranked)]
    found.append(Part("CodeDAG", "codedag", heat.own_seconds))
    rest = heat.cpu_seconds - sum(part.seconds for part in found)
    found.insert(-1, Part("other code", "other", max(rest, 0.0)))
    return [part for part in found if part.seconds > 0]


def whole(heat: Heat) -> float:
    """The seconds that every share is of: the process's CPU time."""
    return heat.cpu_seconds or max((f.total_seconds for f in heat.functions), default=0.0)


def place(function: HotFunction) -> str:
    """Where a function is: the file without its folders, the line, and the package if it is not the user's."""
    file = function.file.replace("\\", "/").rpartition("/")[2]
    at = f"{file}:{function.line}" if function.line else file
    return f"{function.package}, {at}" if function.package else at


def lines(heat: Heat, width: int = 80, ascii_only: bool = False) -> list[str]:
    """What is slow, a line for each hot function; the heading says what the shares are of."""
    if not heat.functions:
        return []
    found = [f"hot functions (share of the process's CPU time, {whole(heat):.1f} s, with all that is called):"]
    full, empty = "#." if ascii_only else "█·"
    for function in sorted(heat.functions, key=lambda f: -f.total_seconds)[:FUNCTIONS_SHOWN]:
        cells = min(round(function.share * BAR_CELLS), BAR_CELLS)
        head = f"  {function.share:4.0%} {full * cells}{empty * (BAR_CELLS - cells)} "
        words = f"{function.name}  ({place(function)})"
        found.append(head + shortened(words, width - len(head)))
    if heat.waiting_seconds:
        found.append(
            f"  all threads waited for {heat.waiting_seconds:.1f} s, the run took {heat.sampled_seconds:.1f} s"
        )
    return found


def shortened(words: str, width: int) -> str:
    """Words that fit into so many columns; what is cut is at the end and is shown as dots."""
    return words if len(words) <= width else words[: max(width - 3, 1)] + "..."
