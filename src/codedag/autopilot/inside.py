"""Substitutes for calls that libraries make themselves, inside calls of the program that take much of the time.

The rewriter sees the program's own calls.  Where such a call spends the time in a library, functions that this library
calls and that have a proven substitute are replaced by library patches, each on trial, and put back at the end.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from codedag.autopilot.applied import Applied, Refused
from codedag.backends.registry import find, known_sources
from codedag.ir import clock as time
from codedag.ir.verdict import No
from codedag.trace.recorder import Template, shown_path

if TYPE_CHECKING:  # patches are loaded by the first program that wants one
    from codedag.autopilot.pilot import Pilot
    from codedag.migrate.patches import Patch, Patches

HOT = 0.05  # share of the load from which a call is looked into
SHORTEST = 0.01  # of the time since the start: what was observed for less counts as if for this long
FEW = 6  # calls after which its share is believed
WALKS = 0.4  # seconds that putting stands in place of functions that others hold takes with putting these back, twice
COUNTED, PATIENCE = 1.0, 20.0  # seconds for which calls inside are counted first, at least and if there are none
#: Libraries whose functions are called from everywhere: replacing them would change what other calls are known to do.
CORE = frozenset({"builtins", "numpy", "operator", "torch"})


class Wish(msgspec.Struct, frozen=True):
    """A function to replace inside a library, and the call of the program that leads there."""

    source: str
    into: str
    path: str
    owner: str
    site: int


class Inside:
    """The library patches of one program."""

    def __init__(self, pilot: Pilot) -> None:
        self.pilot = pilot
        self._settled = -1
        self._asked: set[tuple[str, str]] = set()
        self._wishes: list[Wish] = []  # of a plan: granted once their library is loaded
        self._sets: list[Patches] = []
        self._counted: list[tuple[Wish, Patch]] = []  # whose calls are counted first
        self._held: list[Wish] = []  # whose calls are counted once a walk over the heap is worth it
        self._since = 0.0

    def expect(self, wish: Wish) -> None:
        """Makes a change that a plan names as soon as its library is there."""
        self._wishes.append(wish)
        self.pilot.tick()

    def look(self) -> None:
        """Replaces what has become worth it since the last look."""
        waiting = [wish for wish in self._wishes if wish.source.partition(".")[0] in sys.modules]
        self._wishes = [wish for wish in self._wishes if wish not in waiting]
        settled = sum(watch.ended is not None for watch in list(self.pilot.watches.values()))
        if settled != self._settled and not self._counted and not self.pilot.observe_only and self.pilot.plan is None:
            self._settled = settled
            found = self._found()
            if found:
                self._count(found)
        if self._held and not self._counted and self._affords_walks():
            held, self._held = self._held, []
            self._count(held)
        if self._counted:
            waiting += self._called(time.monotonic() - self._since)
        if waiting:
            self._grant(waiting)

    def _count(self, wishes: list[Wish]) -> None:
        """Counts the calls of functions that a library may call: a proof costs time, and most are not called."""
        from codedag.migrate.patches import HELD, Patch, Patches

        every = [(wish, Patch(wish.source)) for wish in wishes]
        patches = Patches(*(patch for _, patch in every), near=True, walks=self._affords_walks())
        self._sets.append(patches)
        patches.apply()
        self._held += [wish for wish in wishes if patches.refused.get(wish.source) == HELD]
        self._counted = [(wish, patch) for wish, patch in every if wish not in self._held]
        self._since = time.monotonic()
        if not self._counted:
            self._sets.pop().restore()

    def _affords_walks(self) -> bool:
        """Whether the program has run for so long that it need not notice walks over the heap, which hold it up."""
        passed = time.perf_counter() - self.pilot.started_at
        return self.pilot.max_overhead * passed >= WALKS

    def _called(self, seconds: float) -> list[Wish]:
        """The functions that were called while their calls were counted; nothing while it is too early to say."""
        called = [wish for wish, patch in self._counted if patch.counts().calls >= FEW]
        if seconds < COUNTED or (not called and seconds < PATIENCE):
            return []
        self._counted = []
        self._sets.pop().restore()
        return called

    def restore(self) -> None:
        """Puts every function back."""
        while self._sets:
            self._sets.pop().restore()

    # -- finding

    def _found(self) -> list[Wish]:
        templates = [t for t in list(self.pilot.recorder.templates) if t.kind not in ("region", "source")]
        changed = {(applied.path, site) for applied in self.pilot.applied for site in applied.sites}
        names = {t.name for t in templates} | {name for applied in self.pilot.applied for name in applied.names}
        seen = {one.source for name in names for one in find(name, "cpu")}
        found = []
        left = [t for t in templates if (t.site.info.file, t.site.info.index) not in changed]
        for template in _hot(left, self._span):
            package, info = template.name.partition(".")[0], template.site.info
            held = _held(package)
            for source in known_sources():
                key = (package, source)
                if source not in seen and key not in self._asked and _is_reached(held, source):
                    self._asked.add(key)
                    here = sorted(one.into for one in find(source, "cpu"))
                    found += [Wish(source, into, info.file, info.owner, info.index) for into in here[:1]]
        return found

    def _span(self, template: Template) -> float:
        """Seconds for which the function of a call was observed: a loop over epochs is for longer than its items."""
        watch, now = self.pilot.watches.get((template.site.info.file, template.site.info.owner)), time.perf_counter()
        observed = (watch.ended or now) - watch.started if watch is not None else 0.0
        return max(observed, SHORTEST * (now - self.pilot.started_at), 1e-9)

    # -- replacing

    def _grant(self, wishes: list[Wish]) -> None:
        from codedag.migrate.patches import Patch, Patches

        granted: dict[str, tuple[Wish, Patch]] = {}
        for wish in wishes:
            substitution = next((one for one in find(wish.source) if one.into == wish.into), None)
            verdict = (
                self.pilot.prove.permits(substitution, self.pilot.allow)
                if substitution
                else No("it is not in the registry")
            )
            if isinstance(verdict, No):
                self._refuse(wish, verdict.reason)
            elif substitution is not None and wish.source not in granted:
                granted[wish.source] = (wish, Patch(wish.source, substitution))
        if not granted:
            return
        patches = Patches(*(patch for _, patch in granted.values()), near=True)
        self._sets.append(patches)
        patches.apply()
        for wish, patch in granted.values():
            if wish.source in patches.refused:
                self._refuse(wish, patches.refused[wish.source])
            else:
                self._applied(wish, patch)

    def _applied(self, wish: Wish, patch: Patch) -> None:
        assert patch.guarded is not None
        arm = patch.guarded.arms[0]
        applied = Applied("inside", wish.path, wish.owner, [wish.site], [wish.source], arm.trial, wish.into)
        applied.equivalence = arm.substitution.equivalence.value
        self.pilot.begin(applied)

    def _refuse(self, wish: Wish, reason: str) -> None:
        file = self.pilot.program.files.get(wish.path)
        line = f":{file.infos[wish.site].line}" if file is not None else ""
        self.pilot.refused.append(Refused(f"{wish.source} inside", f"{shown_path(wish.path)}{line}", reason))


def _hot(templates: list[Template], span: Callable[[Template], float]) -> Iterator[Template]:
    """One call of each library that takes much of the time while it is observed, the longest first.

    Making the data once is observed to its end, and items only until they are known: seconds alone would tell nothing.
    """
    spent: dict[str, float] = defaultdict(float)
    for template in templates:
        spent[template.name.partition(".")[0]] += template.self_ns / span(template)
    total = sum(spent.values()) or 1
    for package, load in sorted(spent.items(), key=lambda each: -each[1]):
        if load < HOT * total:
            return
        own = [t for t in templates if t.name.partition(".")[0] == package and t.count >= FEW]
        if own and package in sys.modules and package not in CORE:
            yield max(own, key=lambda t: t.self_ns / span(t))


def _held(package: str) -> set[int]:
    """What the loaded modules of a package hold by name, as identities."""
    held: set[int] = set()
    for name, module in list(sys.modules.items()):
        space = getattr(module, "__dict__", None)
        if (name == package or name.startswith(f"{package}.")) and type(space) is dict:
            held.update(map(id, list(space.values())))
    return held


def _is_reached(held: set[int], source: str) -> bool:
    """Whether a function of this name, or what one reaches it through, is among the things held."""
    return source.partition(".")[0] not in CORE and any(id(thing) in held for thing in _ways(source))


def _ways(source: str) -> list[Any]:
    """The function of a dotted name and the class and module that it is in, if they are loaded."""
    parts = source.split(".")
    for length in range(len(parts) - 1, 0, -1):
        thing: Any = sys.modules.get(".".join(parts[:length]))
        if thing is None:
            continue
        found = [thing] if length > 1 else []  # everybody holds the top of a library
        for part in parts[length:]:
            space = getattr(thing, "__dict__", {})
            thing = space.get(part)
            if thing is None:
                return []
            found.append(thing)
        return found
    return []
