"""The strategies that build a plan from nothing: each must win under the simulator to be used.

A strategy is a function `Context -> candidates`; STRATEGIES says which run, and up to which size.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import NamedTuple

from codedag.plan.chain import switches
from codedag.plan.engine import Model
from codedag.plan.problem import NEVER, Problem, floats, ints, ticks

MEAN, LEAST, MOST, LEVELS = 0, 1, 2, 3
#: Rounds of the search for prices; the bound is within 1e-3 of the linear program's by then.
PRICE_ROUNDS = 200


@dataclass(frozen=True, slots=True)
class Candidate:
    """A placement and an order, by whom they were found, and their makespan in ticks."""

    name: str
    place: bytes
    order: bytes
    makespan: int


class Recipe(NamedTuple):
    """One list schedule: which rank, how copies count in it, look-ahead, price, and whether copies take turns."""

    name: str
    rank: int = MEAN
    copying: float = 1.0
    ahead: float = 0.0
    price: float = 0.0
    unlimited: bool = False
    copies: float = 0.0


class Context:
    """What strategies share: ranks, look-ahead tables and prices, each made once."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.model: Model = problem.model
        self._orders: dict[tuple[int, float], bytes] = {}

    @cached_property
    def ahead(self) -> bytes:
        """What is still to come after each op on each PU, at best."""
        return self.model.ahead()

    @cached_property
    def priced(self) -> tuple[float, bytes]:
        """The bound that follows from the loads, and the prices of the resources that give it."""
        return self.model.prices(PRICE_ROUNDS)

    @cached_property
    def costs(self) -> array[int]:
        """Ticks per op and PU."""
        return ticks(self.model.costs)

    @property
    def groups(self) -> int:
        """How many resources take turns."""
        return len(self.priced[1]) // 8

    def order(self, rank: int, copying: float) -> bytes:
        """The ops by falling upward rank, or level after level."""
        if rank == LEVELS:
            return self.model.mixed()
        key = (rank, copying)
        if key not in self._orders:
            self._orders[key] = self.model.sorted(self.model.rank(rank, copying), -1)
        return self._orders[key]

    def judged(self, name: str, place: bytes, order: bytes) -> Candidate:
        """A placement and order with the makespan that the simulator gives them."""
        return Candidate(name, place, order, self.model.simulate(place, order))

    def listed(
        self, name: str, order: bytes, ahead: bytes = b"", weight: float = 0.0, price: float = 0.0,
        fixed: bytes = b"", *, unlimited: bool = False, copies: float = 0.0,
    ) -> Candidate | None:  # fmt: skip
        """The plan of one list schedule, judged; None if some op fits nowhere."""
        prices = self.priced[1] if price else b""
        found = self.model.lists(order, ahead, weight, prices, price * self.groups, fixed, True, unlimited, copies)
        if found is None:
            return None
        _, place, start = found
        return self.judged(name, place, self.model.sorted(start, 1))


def stay(context: Context) -> Iterator[Candidate]:
    """Everything where the program as written runs."""
    pu = context.problem.stay
    if pu is not None:
        yield _all_on(context, "stay", pu)


def single(context: Context) -> Iterator[Candidate]:
    """Everything on one PU, for each that supports everything."""
    problem = context.problem
    for pu in range(problem.k):
        if pu != problem.stay and problem.supports_all(pu):
            yield _all_on(context, f"single {problem.pus[pu]}", pu)


def _all_on(context: Context, name: str, pu: int) -> Candidate:
    n = context.problem.n
    return context.judged(name, (array("i", [pu]) * n).tobytes(), array("i", range(n)).tobytes())


def fastest_each(context: Context) -> Iterator[Candidate]:
    """Every op on the PU that runs it fastest, whatever the copies: what a table of affinities alone would say."""
    k, costs = context.problem.k, context.costs
    rows = (costs[at : at + k] for at in range(0, len(costs), k))
    place = array("i", (min(range(k), key=row.__getitem__) for row in rows))
    yield context.judged("fastest each", place.tobytes(), context.order(MEAN, 1.0))


HEFT = tuple(Recipe(f"heft {word}", rank) for word, rank in (("mean", MEAN), ("least", LEAST), ("most", MOST)))
# Published schedulers let all copies run at once; their plans are replayed with turns like all others.
REPLAYED = tuple(
    Recipe(f"heft {word} replayed", rank, ahead=ahead, unlimited=True)
    for ahead in (0.0, 0.5, 1.0)
    for word, rank in (("mean", MEAN), ("least", LEAST), ("most", MOST))
)
PEFT = tuple(Recipe(f"peft {rank}/{weight}", rank, ahead=weight) for weight in (1.0, 0.5) for rank in (MEAN, LEAST))
# Lists guided by the prices of busy PUs and links: rank, copies in it, look-ahead, price of PUs, price of links.
# No mix is the best for every graph; these cover each other's weak spots, in the order in which each adds most.
_GUIDED = (
    (LEAST, 1.0, 1.0, 1.0, 0.25), (LEAST, 0.0, 0.5, 4.0, 0.1), (LEVELS, 0.0, 0.0, 16.0, 0.0),
    (MOST, 1.0, 1.0, 4.0, 2.0), (MEAN, 0.0, 0.0, 16.0, 2.0), (MOST, 1.0, 1.0, 0.0, 0.1), (MEAN, 1.0, 0.5, 1.0, 2.0),
    (LEAST, 1.0, 0.0, 16.0, 0.25), (LEAST, 1.0, 1.0, 1.0, 0.5), (MEAN, 0.0, 0.5, 4.0, 0.25),
    (MOST, 1.0, 1.0, 16.0, 2.0), (LEAST, 0.0, 0.5, 0.0, 0.0), (LEAST, 1.0, 0.5, 4.0, 0.5),
    (LEVELS, 0.0, 0.5, 4.0, 0.0), (LEAST, 1.0, 0.0, 4.0, 0.5), (MEAN, 0.0, 1.0, 16.0, 2.0),
    (LEAST, 0.0, 0.0, 1.0, 0.0), (MEAN, 0.0, 0.0, 0.0, 0.1), (MEAN, 1.0, 1.0, 4.0, 0.5), (LEAST, 1.0, 0.0, 4.0, 0.0),
    (LEAST, 1.0, 1.0, 4.0, 1.0), (LEAST, 0.0, 1.0, 1.0, 1.0), (MEAN, 1.0, 1.0, 16.0, 1.0),
    (LEVELS, 0.0, 0.5, 16.0, 1.0), (LEAST, 0.0, 0.5, 1.0, 0.25), (MEAN, 0.0, 1.0, 0.0, 0.5),
    (LEAST, 0.0, 1.0, 1.0, 0.1), (MEAN, 1.0, 0.0, 16.0, 0.1), (LEAST, 1.0, 1.0, 4.0, 0.0),
    (LEAST, 0.0, 0.5, 4.0, 0.0), (MEAN, 1.0, 0.5, 1.0, 0.0), (MEAN, 0.0, 1.0, 4.0, 0.0),
)  # fmt: skip
PRICES = tuple(
    Recipe(f"price {'/'.join(map(str, one))}", rank=one[0], copying=one[1], ahead=one[2], price=one[3], copies=one[4])
    for one in _GUIDED
)


def cooked(context: Context, recipe: Recipe) -> Candidate | None:
    """The plan of one recipe, judged; None if some op fits nowhere."""
    return context.listed(
        recipe.name, context.order(recipe.rank, recipe.copying), context.ahead if recipe.ahead else b"", recipe.ahead,
        recipe.price, unlimited=recipe.unlimited, copies=recipe.copies,
    )  # fmt: skip


def _recipes(*groups: tuple[Recipe, ...]) -> Callable[[Context], Iterator[Candidate]]:
    def run(context: Context) -> Iterator[Candidate]:
        for recipe in (one for group in groups for one in group):
            found = cooked(context, recipe)
            if found is not None:
                yield found

    return run


def drawn(numbers: Random) -> Recipe:
    """A recipe by lot: no mix of weights is the best for every graph."""
    price, copies = 2 ** numbers.uniform(-1, 4.5), 2 ** numbers.uniform(-3, 1.5)
    return Recipe(
        "list by lot", numbers.choice((MEAN, LEAST, MOST, LEVELS)), numbers.choice((0.0, 0.3, 1.0, 3.0)),
        numbers.choice((0.0, numbers.uniform(0, 1.2))), numbers.choice((0.0, price)),
        copies=numbers.choice((0.0, copies)),
    )  # fmt: skip


def cpop(context: Context) -> Iterator[Candidate]:
    """The critical path on the one PU that runs it fastest, the rest by rank."""
    rank = ticks(context.model.rank(MEAN, 1.0))
    path = _critical_path(context.model, rank)
    k, costs = context.problem.k, context.costs
    loads = [sum(costs[op * k + pu] for op in path) for pu in range(k)]
    pu = loads.index(min(loads))
    if loads[pu] >= NEVER:
        return
    fixed = array("i", [-1]) * context.problem.n
    for op in path:
        fixed[op] = pu
    found = context.listed("cpop", context.order(MEAN, 1.0), fixed=fixed.tobytes())
    if found is not None:
        yield found


def _critical_path(model: Model, rank: array[int]) -> list[int]:
    at, _, succ = map(ints, model.edges[3:])
    op = rank.index(max(rank)) if rank else -1
    path = []
    while op >= 0:
        path.append(op)
        op = max(succ[at[op] : at[op + 1]], key=lambda one: (rank[one], -one), default=-1)
    return path


def chain(context: Context) -> Iterator[Candidate]:
    """The exact placement of a graph that is one chain of values: nothing overlaps, so only switches matter."""
    problem, n, k = context.problem, context.problem.n, context.problem.k
    if k < 2 or not _is_chain(context.model, n):
        return

    def switch(step: int, src: int, dst: int) -> float:
        return problem.copy_seconds(problem.rows[step], src, dst)

    total, place = switches([problem.seconds[row * k : row * k + k] for row in problem.rows], switch)
    if total < float("inf"):
        yield context.judged("chain", array("i", place).tobytes(), array("i", range(n)).tobytes())


def _is_chain(model: Model, n: int) -> bool:
    at, mid, pred = (ints(part) for part in model.edges[:3])
    return at[n] == n - 1 and all(mid[v] == v and pred[v - 1] == v - 1 for v in range(1, n))


class Rule(NamedTuple):
    """A strategy and the largest graph that it runs on."""

    run: Callable[[Context], Iterator[Candidate]]
    largest: int


SMALL, MODEST, MIDDLE, LARGE, ANY = 3_000, 8_000, 30_000, 300_000, 1 << 31


def _some(*numbers: int) -> tuple[Recipe, ...]:
    return tuple(PRICES[number] for number in numbers)


STRATEGIES: tuple[Rule, ...] = (
    Rule(stay, ANY),
    Rule(single, ANY),
    Rule(chain, MIDDLE),
    Rule(_recipes(HEFT[:1], REPLAYED[:1], _some(0, 1, 23)), ANY),
    Rule(_recipes(REPLAYED[7:8], _some(2, 13, 18, 29)), LARGE),
    Rule(cpop, MIDDLE),
    Rule(fastest_each, MIDDLE),
    Rule(_recipes(HEFT[1:], REPLAYED[1:7], REPLAYED[8:], PEFT, PRICES[3:6]), MIDDLE),
    Rule(_recipes(PRICES[6:13], _some(14, 15)), MODEST),
    Rule(_recipes(_some(16, 17), PRICES[19:23], PRICES[24:29], PRICES[30:]), SMALL),
)


def candidates(context: Context) -> Iterator[Candidate]:
    """What all strategies for a graph of this size find, those that can run at all."""
    for rule in STRATEGIES:
        if context.problem.n <= rule.largest:
            for candidate in rule.run(context):
                if candidate.makespan < NEVER:
                    yield candidate


def prices_of(context: Context) -> array[float]:
    """The prices of the resources."""
    return floats(context.priced[1])
