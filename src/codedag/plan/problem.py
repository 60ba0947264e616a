"""What is to be planned: the ops, what each costs on each PU, and what the machine can copy where."""

from __future__ import annotations

from array import array
from math import inf
from typing import Any

from codedag.ir import CannotPlan, CostTable, Graph, Machine
from codedag.ir.adjacency import NOWHERE
from codedag.ir.cost_columns import CostColumns
from codedag.plan.engine import Model
from codedag.plan.feasible import islands, prune

ORIGINAL = "original"
STAY = "cpu"  # the program as written runs here
#: Ops that may have no row: they do no work of their own, so they cost nothing and stay where the program is.
IDLE_KINDS = frozenset(("region", "source", "sink"))
#: A tick is this part of the mean cost; NEVER means that an op cannot run somewhere.
NEVER = 1 << 60


def ints(data: bytes) -> array[int]:
    """Whole numbers of 32 bits as an array."""
    return array("i", data)


def ticks(data: bytes) -> array[int]:
    """Whole numbers of 64 bits as an array."""
    return array("q", data)


def floats(data: bytes) -> array[float]:
    """Numbers as an array."""
    return array("d", data)


class Problem:
    """A graph with costs on a machine, as columns: `row * k + pu` is where the cost of an op on a PU stands.

    The model numbers ops by structure; `rows` says which row of the graph each of its ops is.
    """

    def __init__(self, graph: Graph, costs: CostTable | CostColumns, machine: Machine) -> None:
        columns = costs if isinstance(costs, CostColumns) else CostColumns.of(costs)
        graph.topological_rows()  # a cycle is named here
        self.graph, self.machine, self.variants, self.saved = graph, machine, columns.variants, columns.saved
        self.slowdowns = {(one.op, one.beside): one.slowdown for one in columns.beside}
        self.pus = [pu.name for pu in machine.pus]
        self.n, self.k = len(graph), len(self.pus)
        self._need_pus(columns)
        self.seconds = array("d", [inf]) * (self.n * self.k)
        self.variant = array("i", [-1]) * (self.n * self.k)
        self.scratch = array("q")
        self._fill(columns)
        self._need_costs()
        self.links = Links(machine)
        prune(self)
        self._modelled()

    def _need_pus(self, columns: CostColumns) -> None:
        if not self.pus:
            raise CannotPlan(
                "machine.json: pus: there is no PU", hint="`codedag profile RUN` writes the machine as it is."
            )
        for at, name in enumerate(columns.pus):
            if name not in self.pus:
                raise CannotPlan(
                    f"costs.json: pus[{at}]: machine.json has no PU `{name}`",
                    hint="Use the machine.json that was written with these costs.",
                )

    def _fill(self, columns: CostColumns) -> None:
        """Puts each row where it belongs, with the launch in front of it."""
        k, index, seconds, variant = self.k, self.graph.index, self.seconds, self.variant
        numbers = [self.pus.index(name) for name in columns.pus]
        launch = [pu.launch_seconds for pu in self.machine.pus]
        scratch = array("q", bytes(8 * self.n * k)) if any(columns.scratch_nbytes) else array("q")
        rows = zip(columns.op, columns.pu, columns.seconds, columns.scratch_nbytes, columns.variant, strict=True)
        for number, (op, pu, cost, nbytes, code) in enumerate(rows):
            row, at = index.row(op), numbers[pu]
            if row == NOWHERE:
                raise CannotPlan(
                    f"costs.json: rows[{number}].op: there is no op {op} in the graph",
                    hint="Use the graph.json that these costs were measured for.",
                )
            cell = row * k + at
            if variant[cell] != -1:
                raise CannotPlan(
                    f"costs.json: rows[{number}]: a second row for op {op} on `{self.pus[at]}`",
                    hint="There is one row per op and PU, the best variant; others are its `alternatives`.",
                )
            seconds[cell], variant[cell] = cost + launch[at], code
            if nbytes:
                scratch[cell] = nbytes
        self.scratch = scratch

    def _need_costs(self) -> None:
        k, kinds = self.k, self.graph.op_columns.kind
        for row in range(self.n):
            if min(self.seconds[row * k : row * k + k]) < inf:
                continue
            if kinds[row] in IDLE_KINDS and max(self.variant[row * k : row * k + k]) == -1:
                self._idle(row)
                continue
            raise CannotPlan(
                f"{self.graph.ops[row].label}: no PU supports it: costs.json has no row with status `ok` for it",
                hint="`codedag profile RUN` measures it; `codedag explain RUN OP` says why a PU does not support it.",
            )

    def _idle(self, row: int) -> None:
        for pu in [self.pus.index(STAY)] if STAY in self.pus else range(self.k):
            self.seconds[row * self.k + pu] = 0.0

    def _model(self) -> Model:
        sources, targets = self.graph.edge_rows()
        flow = bytes(kind == "flow" for kind in self.graph.edge_columns.kind)
        links, memory = self.links, array("q", [pu.memory_nbytes for pu in self.machine.pus])
        return Model(
            self.n, self.k, sources, targets, flow, self.seconds, self.graph.op_columns.out_nbytes, self.scratch,
            links.group, links.lane, links.latency, links.rate, memory,
        )  # fmt: skip

    def confined(self) -> Problem | None:
        """The same problem with each part of the graph on one island of PUs, or None if there is one island only."""
        import copy

        other = copy.copy(self)
        other.seconds = self.seconds[:]
        return other._modelled() if islands(other) else None

    def without(self, cells: list[int]) -> Problem:
        """The same problem where some ops cannot run on some PUs."""
        import copy

        other = copy.copy(self)
        other.seconds = self.seconds[:]
        for cell in cells:
            other.seconds[cell] = inf
        prune(other)
        return other._modelled()

    def _modelled(self) -> Problem:
        self.model = self._model()
        self.rows = ints(self.model.rows)
        return self

    @property
    def stay(self) -> int | None:
        """The PU that runs the program as written, if it supports every op."""
        return self.pus.index(STAY) if STAY in self.pus and self.supports_all(self.pus.index(STAY)) else None

    def supports_all(self, pu: int) -> bool:
        """Whether one PU can run every op."""
        return not any(map(inf.__eq__, self.seconds[pu :: self.k]))

    def variant_of(self, row: int, pu: int) -> str:
        """The name of the variant that runs there."""
        code = self.variant[row * self.k + pu]
        return self.variants[code] if code >= 0 else ORIGINAL

    def copy_seconds(self, row: int, src: int, dst: int) -> float:
        """How long the value of an op takes over the link between two PUs; infinite without one."""
        return self.links.seconds(self.graph.op_columns.out_nbytes[row], src, dst)


class Links:
    """The machine as tables: which PUs take turns, which copies do, and how long a copy takes."""

    def __init__(self, machine: Machine) -> None:
        names = [pu.name for pu in machine.pus]
        self.k = k = len(names)
        self.group = array("i", _numbered([pu.turn for pu in machine.pus]))
        self.lane = array("i", [-1]) * (k * k)
        self.latency, self.rate = array("d", bytes(8 * k * k)), array("d", [1.0]) * (k * k)
        links = [link for link in machine.links if link.src != link.dst]
        for link, lane in zip(links, _numbered([link.turn for link in links]), strict=True):
            at = names.index(link.src) * k + names.index(link.dst)
            self.lane[at], self.latency[at], self.rate[at] = lane, link.latency_seconds, link.bytes_per_second

    def seconds(self, nbytes: int, src: int, dst: int) -> float:
        """The time of one copy."""
        at = src * self.k + dst
        if src == dst:
            return 0.0
        return self.latency[at] + nbytes / self.rate[at] if self.lane[at] >= 0 else inf


def _numbered(keys: list[Any]) -> list[int]:
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]
