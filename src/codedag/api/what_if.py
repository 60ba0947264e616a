"""What-if: which chains of a recorded run would go to a device that is not here, and what that would bring.

Costs are those of the run, measured on this machine; the figures of the device are stated in a machine file.  Chains
are those that `codedag run --plan` keeps on a device: calls with a substitute there, each value of which goes to the
next.  One call after the other, as a program in one thread waits for them.  All of it is simulated, and said to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from codedag.backends.on_device import using
from codedag.backends.registry import EXACT, Equivalence, Substitution, find
from codedag.devices.present import load as load_library
from codedag.ir import CodedagError, CostTable, Graph, Machine, Move, No, Op, Plan, Pu, RunDirectory, Source, load
from codedag.plan.chain import switches
from codedag.plan.serial import serial_plan
from codedag.profile.sample import Samples

HERE, THERE = 0, 1
STATED = Path(__file__).parent / "stated"  # machine files of devices that are common
NOT_WORK = frozenset({"region", "source", "sink"})
#: Functions of torch that make or take apart batches of the processor: they stay with the data.
_OF_DATA = ("torch.utils.", "torch.from_numpy", "torch.tensor", "torch.as_tensor", "torch.Tensor.numpy")


class NoSuchDevice(CodedagError):  # noqa: N818 - reads as what happened
    """A device about which nothing is stated."""

    slug = "cannot-plan"


@dataclass(frozen=True, slots=True)
class Range:
    """Seconds: what is expected, and the least that the stated figures allow."""

    expected: float
    least: float

    def __add__(self, other: Range) -> Range:
        return Range(self.expected + other.expected, self.least + other.least)


NOTHING = Range(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Placed:
    """A chain of calls that would go to the device: seconds as they are here, there, and of the copies."""

    ops: tuple[Op, ...]
    variants: tuple[str, ...]  # the libraries that would do the work, by op
    here_seconds: float
    there: Range
    copies_seconds: float

    @property
    def saved(self) -> Range:
        """The seconds that the program would be shorter: as expected, and at most."""
        taken = self.there + Range(self.copies_seconds, self.copies_seconds)
        return Range(self.here_seconds - taken.expected, self.here_seconds - taken.least)


@dataclass(frozen=True, slots=True)
class Stays:
    """An operation that would not go, with the reason."""

    op: Op
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a device would bring to a recorded run, if its stated figures hold."""

    pu: Pu
    whole_seconds: float
    chains: tuple[Placed, ...]
    stays: tuple[Stays, ...]
    model: Placed | None  # what torch computes here, and the program itself could move

    @property
    def saved(self) -> Range:
        """What all chains together would save."""
        return sum((chain.saved for chain in self.chains), NOTHING)

    def plan(self, graph: Graph, costs: CostTable, sources: Iterable[Source]) -> Plan:
        """The plan with these chains, labelled simulated; `codedag run --plan` takes it where the device is."""
        moves = [_move(chain, self.pu.name) for chain in self.chains]
        plan = serial_plan(graph, costs, moves, sources)
        there = {op.id: into for chain in self.chains for op, into in zip(chain.ops, chain.variants, strict=True)}
        placement = [
            replace(one, pu=self.pu.name, variant=there[one.op]) if one.op in there else one for one in plan.placement
        ]
        return replace(plan, placement=placement, simulated=[self.pu.name])


def stated(name: str, file: str = "") -> Machine:
    """A machine with the device of this name and its links, of a file, or by data sheets for cuda, xpu and mps."""
    family = name.partition(":")[0]
    place = Path(file) if file else STATED / f"{family}.json"
    if not file and not place.is_file():
        known = ", ".join(sorted(path.stem for path in STATED.glob("*.json")))
        raise NoSuchDevice(
            f"nothing is stated about `{name}`; figures are there for {known}",
            hint="Write a machine.json with the figures of the device and add machine=FILE.",
        )
    machine = load(place, "machine")
    if not file:
        machine = _renamed(machine, name)
    if machine.pu(name) is None or not (machine.link("cpu", name) and machine.link(name, "cpu")):
        raise NoSuchDevice(
            f"{place}: there is no `{name}` with links from and to `cpu`", hint="Add it to pus and links of the file."
        )
    pu = machine.pu(name)
    if pu is None or not (isinstance(pu.flop_per_second, float) and isinstance(pu.stream_bytes_per_second, float)):
        raise NoSuchDevice(
            f"{place}: `{name}` has no flop_per_second and stream_bytes_per_second", hint="State both figures."
        )
    return replace(machine, pus=[replace(one, simulated=one.simulated or one.name == name) for one in machine.pus])


def _renamed(machine: Machine, name: str) -> Machine:
    before = next(pu.name for pu in machine.pus if pu.name != "cpu")
    pus = [replace(pu, name=name) if pu.name == before else pu for pu in machine.pus]
    links = [
        replace(link, **{end: name for end in ("src", "dst") if getattr(link, end) == before}) for link in machine.links
    ]
    return replace(machine, pus=pus, links=links)


def what_if(
    run: RunDirectory, machine: Machine, name: str, here: Pu, allowed: Sequence[Equivalence] = (EXACT,)
) -> Answer:
    """The answer for a run; `here` is this machine's processor with its measured peaks."""
    return _Question(run, machine, name, here, allowed).answer()


class _Question:
    """One run and one device."""

    def __init__(
        self, run: RunDirectory, machine: Machine, name: str, here: Pu, allowed: Sequence[Equivalence]
    ) -> None:
        found, there, back = machine.pu(name), machine.link("cpu", name), machine.link(name, "cpu")
        assert found is not None
        assert there is not None
        assert back is not None
        self.pu, self.there, self.back, self.here, self.allowed = found, there, back, here, allowed
        self.graph, self.samples = run.graph, Samples(run.path)
        self.into: dict[int, str] = {}  # by op that could go: the library that would do the work
        self.seconds = {row.op: row.seconds for row in run.costs.rows if row.pu == "cpu" and row.seconds is not None}
        self.given: dict[int, list[tuple[int, int]]] = {}  # by op: where its inputs come from, and their bytes
        self.taken: dict[int, list[int]] = {}  # by op: who takes its result
        for edge in self.graph.edges:
            if edge.kind == "flow":
                self.given.setdefault(edge.dst, []).append((edge.src, edge.nbytes))
                self.taken.setdefault(edge.src, []).append(edge.dst)

    def answer(self) -> Answer:
        verdicts = {op.id: self._substitute(op) for op in self.graph.ops if op.kind not in NOT_WORK}
        self.into = {number: one.into for number, one in verdicts.items() if not isinstance(one, No)}
        able = set(self.into)
        chains = [placed for chain in self._chains(able) for placed in self._cut(chain)]
        gone = {op.id for chain in chains for op in chain.ops}
        whole = sum(op.self_seconds for op in self.graph.ops)
        left = [op for op in self.graph.ops if op.id in verdicts.keys() - gone]
        stays = [Stays(op, self._cpu(op), _why(verdicts[op.id])) for op in left]
        stays.sort(key=lambda one: -one.seconds)
        chains.sort(key=lambda one: -one.saved.expected)
        return Answer(self.pu, whole, tuple(chains), tuple(stays), self._model(gone))

    def _cpu(self, op: Op) -> float:
        return self.seconds.get(op.id, op.self_seconds)

    # -- which calls could go

    def _substitute(self, op: Op) -> Substitution | No:
        """The substitute that would take this operation's calls on the device, or why none would."""
        known = [one for one in find(op.name) if one.stays]
        if not known:
            return No("no substitute for an accelerator is known")
        allowed = [one for one in known if one.equivalence in self.allowed]
        if not allowed:
            given = known[0].equivalence.value
            return No(f"its results are {given}, which must be allowed (allow={given})")
        torch = load_library("torch")
        if isinstance(torch, No):
            return No(f"substitutes there need torch: {torch.reason}")
        return self._taking(op, allowed)

    def _taking(self, op: Op, allowed: Sequence[Substitution]) -> Substitution | No:
        sample = self.samples.of(op)
        if isinstance(sample, No):
            return No(f"whether the call would be taken cannot be asked: {sample.reason}")
        args, keywords = sample.call()
        verdict: No | None = None
        with using("meta"):  # a device of torch without memory: guards ask only whether there is one
            for one in allowed:
                accepted = one.accepts(args, keywords)
                if not isinstance(accepted, No):
                    return one
                verdict = verdict or accepted
        return verdict or No("no substitute takes the call")

    # -- which values could stay there

    def _chains(self, able: set[int]) -> list[list[Op]]:
        """Runs of calls of one function, each value of which goes to the next call and nowhere else."""
        after: dict[int, int] = {}
        for number in sorted(able):
            op = self.graph.op(number)
            given = sorted(self.given.get(number, ()), key=lambda one: -one[1])
            sources = [src for src, _ in given if src in able]
            link = next((src for src in sources if src not in after and self._only(self.graph.op(src), op)), None)
            if link is not None:
                after[link] = number
        chains = []
        for first in sorted(able - set(after.values())):
            chain = [first]
            while chain[-1] in after:
                chain.append(after[chain[-1]])
            chains.append([self.graph.op(number) for number in chain])
        return chains

    def _only(self, source: Op, target: Op) -> bool:
        alike = (source.parent, source.file, source.count) == (target.parent, target.file, target.count)
        return alike and self.taken.get(source.id) == [target.id]

    def _cut(self, chain: Sequence[Op]) -> list[Placed]:
        """The parts of a chain for which going there pays, by dynamic programming."""
        inner = [self._incoming(op, before) for op, before in zip(chain, [None, *chain[:-1]], strict=True)]
        costs = [[self._cpu(op), self._there(op).expected + more] for op, more in zip(chain, inner, strict=True)]
        costs[-1][THERE] += self._down(chain[-1])

        def switch(step: int, src: int, _: int) -> float:
            return self._down(chain[step]) if src == THERE else self._up(chain[step].count, chain[step].out_nbytes)

        _, path = switches(costs, switch)
        parts, at = [], 0
        while at < len(chain):
            end = at
            while end < len(chain) and path[end] == THERE:
                end += 1
            if end > at:
                parts.append(self._placed(chain, at, end, sum(inner[at:end])))
            at = max(end, at + 1)
        return parts

    def _placed(self, chain: Sequence[Op], begin: int, end: int, incoming: float) -> Placed:
        ops = tuple(chain[begin:end])
        first = self._up(chain[begin - 1].count, chain[begin - 1].out_nbytes) if begin else 0.0
        there = sum((self._there(op) for op in ops), NOTHING)
        variants = tuple(self.into[op.id] for op in ops)
        return Placed(ops, variants, sum(map(self._cpu, ops)), there, first + incoming + self._down(ops[-1]))

    def _incoming(self, op: Op, before: Op | None) -> float:
        """The copies of the inputs that do not come from the call before."""
        others = [nbytes for src, nbytes in self.given.get(op.id, ()) if before is None or src != before.id]
        return sum(self._up(op.count, nbytes) for nbytes in others if nbytes)

    def _up(self, count: int, nbytes: int) -> float:
        return count * self.there.latency_seconds + nbytes / self.there.bytes_per_second

    def _down(self, op: Op) -> float:
        return op.count * self.back.latency_seconds + op.out_nbytes / self.back.bytes_per_second

    # -- what a call would take there

    def _there(self, op: Op) -> Range:
        """The seconds of all calls: at the share of the peaks that they reach here, and at the stated rates."""
        launches = op.count * self.pu.launch_seconds
        moved = op.out_nbytes + sum(nbytes for _, nbytes in self.given.get(op.id, ()))
        least = launches + moved / float(self.pu.stream_bytes_per_second or 1.0)
        return Range(max(least, launches + self._cpu(op) * self._slower()), least)

    def _slower(self) -> float:
        """The larger of the two: the peak of this processor by that of the device, in operations and in bytes."""
        flop = float(self.here.flop_per_second or 0.0) / float(self.pu.flop_per_second or 1.0)
        stream = float(self.here.stream_bytes_per_second or 0.0) / float(self.pu.stream_bytes_per_second or 1.0)
        return max(flop, stream)

    def _model(self, gone: set[int]) -> Placed | None:
        """What torch computes on the processor: the program itself could move it, with what goes in and comes out."""
        ops = [op for op in self.graph.ops if _is_of_torch(op) and op.id not in gone and op.kind not in NOT_WORK]
        if not ops:
            return None
        inside = {op.id for op in ops}
        copies = 0.0
        for op in ops:
            copies += sum(self._up(op.count, n) for src, n in self.given.get(op.id, ()) if n and src not in inside)
            if any(reader not in inside for reader in self.taken.get(op.id, ())):
                copies += self._down(op)
        there = sum((self._there(op) for op in ops), NOTHING)
        placed = Placed(tuple(ops), (), sum(map(self._cpu, ops)), there, copies)
        return placed if placed.saved.expected > 0 else None


def _is_of_torch(op: Op) -> bool:
    return op.name.startswith("torch.") and not op.name.startswith(_OF_DATA)


def _why(verdict: Substitution | No) -> str:
    return verdict.reason if isinstance(verdict, No) else "it would take longer there, with the copies"


def _move(chain: Placed, pu: str) -> Move:
    first, last = chain.ops[0], chain.ops[-1]
    function = first.context.rpartition("/")[0].rpartition("/")[2]
    return Move(
        kind="place", ops=[op.id for op in chain.ops], variant=pu, file=first.file, line=first.line, end_line=last.line,
        function=function, chain=[op.name for op in chain.ops], equivalence=EXACT.value,
        seconds=chain.there.expected + chain.copies_seconds, baseline_seconds=chain.here_seconds,
    )  # fmt: skip
