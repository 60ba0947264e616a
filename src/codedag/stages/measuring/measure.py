"""Measuring the cells of a staged model: a process per PU, all PUs in turn, results compared with the reference."""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

from codedag.devices.host import host_threads, processor
from codedag.ir.verdict import No
from codedag.profile.process import Ended, PuProcess
from codedag.stages.execution.verify import PRECISION_ERRORS, nearness
from codedag.stages.measuring import cells
from codedag.stages.measuring.arena import Arena, Reference
from codedag.stages.measuring.cells import Cell, Cells
from codedag.stages.model import Arrays, Block, StagedModel
from codedag.stages.onnx_models.export import block_file, packed
from codedag.stages.reference import draw
from codedag.stages.runners import Program, cores_of

TIMEOUT_SECONDS = 60.0
GIVE_UP = 2  # times in a row that the process of a PU may end: a runtime that hangs costs minutes, not hours
#: Blocks are loaded at once while their results and weights have at most so many bytes.
MOST_LOADED_NBYTES = 1 << 30
ASKED = 25  # times that a question is timed
MOST_CALLS = 500  # of a short block beside a long one

Advance = Callable[[int, int, str], None]  # cells that are done, cells in all, what is at work


@dataclass(frozen=True, slots=True)
class Settings:
    """How cells are measured."""

    warmup: int = 10
    repeats: int = 50
    timeout_seconds: float = TIMEOUT_SECONDS
    budget_seconds: float | None = None
    threads: int = 0  # 0: as many as the machine has
    whole_only: tuple[str, ...] = ()  # PUs for which blocks of several stages but not of all are left out
    static: bool = False  # few static sizes and padded inputs on every PU, as some take no others


@dataclass(slots=True)
class Up:
    """A PU whose process runs, and the version of its library."""

    process: PuProcess
    version: str
    ask_seconds: float = 0.0  # what a question that needs no work takes
    ended: int = 0  # how often in a row its process ended instead of answering
    losses: int = 0  # how often it ended at all: then it has nothing loaded any more


@dataclass
class Timed:
    """A cell whose block is loaded in the process of its PU, and how it was loaded."""

    cell: Cell
    request: dict[str, Any] = field(default_factory=dict)
    payload: bytes = b""
    losses: int = 0  # of the process when it was loaded
    known: int = 0  # calls of an earlier profile
    is_kept: bool = False

    def anew(self) -> Timed:
        """The same without the calls of an earlier profile."""
        self.cell.total_ms, self.cell.transfer_ms, self.known = [], [], 0
        return self


@dataclass
class Measurer:
    """The cells of one model in one directory."""

    variant: ClassVar[str] = ""  # of the cells that it measures: float32 as given
    model: StagedModel
    directory: Path
    kept: Cells
    settings: Settings
    advance: Advance = lambda done, total, at: None
    up: dict[str, Up] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    measured: int = 0
    _programs: dict[tuple[str, bool], Program | No] = field(default_factory=dict)
    _digests: dict[str, str] = field(default_factory=dict)
    _begun: float = field(default_factory=time.monotonic)

    def start(self, pus: Iterable[str], stack: ExitStack) -> None:
        """Starts the processes of PUs; one that does not come up is absent, with its reason."""
        arguments = ["--threads", str(self.settings.threads)] if self.settings.threads else []
        arguments += ["--static"] if self.settings.static else []
        started = []
        for pu in pus:
            process = PuProcess(pu, module="codedag.stages.measuring.worker", arguments=arguments)
            stack.callback(process.close)
            process.launch()
            started.append((pu, process))
        for pu, process in started:  # they load their libraries side by side
            self._greet(pu, process)

    def _greet(self, pu: str, process: PuProcess) -> None:
        try:
            answer = process.ask({"do": "hello"}, self.settings.timeout_seconds)
            took = self._ask_seconds(process) if answer["status"] == "ok" else 0.0
        except Ended as reason:
            self.absent[pu] = str(reason)
            return
        if answer["status"] != "ok":
            self.absent[pu] = answer["reason"]
            return
        self.up[pu] = Up(process, answer["version"], took)

    def _ask_seconds(self, process: PuProcess) -> float:
        """What it takes to ask the process and to hear it: every block that is run costs so much more."""
        taken = []
        for _ in range(ASKED):
            begun = time.perf_counter()
            process.ask({"do": "hello"}, self.settings.timeout_seconds)
            taken.append(time.perf_counter() - begun)
        return median(taken)

    def run(self, sizes: Sequence[dict[str, int]], blocks: Sequence[Block]) -> None:
        """Measures what is not there yet; ends early when the budget is spent."""
        total = len(sizes) * len(blocks) * len(self.up)
        done = 0
        for size in sizes:
            missing = {block: self._missing(block, size) for block in blocks}
            done += sum(len(self.up) - len(pus) for pus in missing.values())
            self.advance(done, total, "")
            if not any(missing.values()) or not self._in_budget():
                continue
            with Arena() as arena:
                tensors = self.tensors(size, arena)
                for group in self._groups(missing, tensors):
                    count = sum(map(len, group.values()))
                    words = f"stages {', '.join(block.name for block in group)} at {cells_at(size)}"
                    self._contest(group, tensors, lambda share: self.advance(done + int(share * count), total, words))  # noqa: B023
                    done += count

    def _groups(self, missing: Mapping[Block, list[str]], tensors: Tensors) -> Iterator[dict[Block, list[str]]]:
        """The blocks that have cells to measure, as many at once as there is room for."""
        group: dict[Block, list[str]] = {}
        room = MOST_LOADED_NBYTES
        for block, pus in missing.items():
            need = len(pus) * (tensors.nbytes(block.outputs) + self._file_nbytes(block))
            if group and need > room:
                yield group
                group, room = {}, MOST_LOADED_NBYTES
            if pus:
                group[block] = pus
                room -= need
        if group:
            yield group

    def _file_nbytes(self, block: Block) -> int:
        return block_file(self.model, block, self.directory).stat().st_size

    def tensors(self, size: dict[str, int], arena: Arena) -> Tensors:
        """The tensors at which cells of a size are measured."""
        return Tensors(self.model, size, arena)

    def _in_budget(self) -> bool:
        budget = self.settings.budget_seconds
        return budget is None or time.monotonic() - self._begun < budget

    def _missing(self, block: Block, size: dict[str, int]) -> list[str]:
        return [pu for pu, up in self.up.items() if self._is_missing(block, size, pu, up.version)]

    def _is_missing(self, block: Block, size: dict[str, int], pu: str, version: str) -> bool:
        part = block.first < block.last and len(block.stages) < len(self.model.stages)
        if part and pu in self.settings.whole_only:
            return False
        key, settings = self.key(block, size, pu, version), self.settings
        return self.kept.get(key, settings.repeats, settings.timeout_seconds) is None

    def is_complete(
        self, sizes: Sequence[dict[str, int]], blocks: Sequence[Block], versions: Mapping[str, str]
    ) -> bool:
        """Whether all is known of PUs with libraries of these versions, so that none has to be started."""
        return not any(
            self._is_missing(block, size, pu, version)
            for pu, version in versions.items() for size in sizes for block in blocks
        )  # fmt: skip

    def key(self, block: Block, size: dict[str, int], pu: str, version: str) -> str:
        """The key of all that a cell's figures depend on: program, size, PU, library, settings, processor."""
        if block.name not in self._digests:
            path = block_file(self.model, block, self.directory)
            kinds = "/".join(self.model.stage(number).kind for number in block.stages)
            self._digests[block.name] = hashlib.sha256(path.read_bytes() + kinds.encode()).hexdigest()
        facts = (self._digests[block.name], size, pu, version, self.settings.threads, self.settings.static)
        return cells.key_of(*facts, processor(), host_threads())

    def program(self, block: Block, pu: str) -> Program | No:
        """What the PU runs of a block; torch's form for PUs of torch."""
        of_torch = pu.partition(":")[0] not in ("ov", "ort", "numba")
        if (block.name, of_torch) not in self._programs:
            self._programs[block.name, of_torch] = self._program(block, of_torch)
        return self._programs[block.name, of_torch]

    def _program(self, block: Block, of_torch: bool) -> Program | No:
        payload = packed(self.model, block) if of_torch else b""
        if isinstance(payload, No):
            return payload
        return program_of(self.model, block, self.directory, payload)

    # -- one contest: blocks at one size on every PU, call by call in turn: each comes behind calls of others, as in a
    # run, where what it reads is not in its caches; and all of them see what changes from second to second

    def _contest(self, group: Mapping[Block, list[str]], tensors: Tensors, told: Callable[[float], None]) -> None:
        """Loads the blocks on their PUs, takes their calls turn by turn, and keeps what each turn brings."""
        contest: list[list[Timed]] = []
        for block, pus in group.items():
            if contest and not self._in_budget():
                break
            told(0.0)
            for found in self._entries(block, pus, tensors):
                contest += [[found[pu] for pu in team] for team in teams(found)]
        turns = self.settings.repeats
        for turn in range(turns):
            if turn and not self._in_budget():
                break
            at = turn * len(contest) // turns  # nobody always comes behind the same one
            for team in (*contest[at:], *contest[:at]):
                self._take_turn(team)
            told((turn + 1) / turns)
        self._finish([each.cell for team in contest for each in team])
        tensors.drop_outputs()

    def _entries(self, block: Block, pus: Sequence[str], tensors: Tensors) -> list[dict[str, Timed]]:
        """The cells of a block, loaded, by their PU; those of one dictionary may be timed beside each other."""
        return [{pu: self._loaded(block, pu, tensors) for pu in pus}]

    def _take_turn(self, team: Sequence[Timed]) -> None:
        """Times one more call of the cells of a team; after a reload, if their process has ended since it had them."""
        for each in team:
            if each.cell.status == "ok" and each.losses != self.up[each.cell.pu].losses:
                self._load(each)
        ready = [each for each in team if each.cell.status == "ok" and len(each.cell.total_ms) < self.settings.repeats]
        if ready:
            self._time_together(ready)

    def _loaded(self, block: Block, pu: str, tensors: Tensors) -> Timed:
        key = self.key(block, dict(tensors.sizes), pu, self.up[pu].version)
        cell = Cell(dict(tensors.sizes), pu, block.name, key, variant=self.variant)
        made = Timed(cell)
        program = self.program(block, pu)
        if isinstance(program, No):
            cell.status, cell.reason = "unsupported", program.reason
            return made
        outputs, references = tensors.outputs(block)
        made.payload = program.torch
        made.request = {
            "do": "load", "key": cell.key, "program": program.facts(), "sizes": cell.sizes,
            "inputs": tensors.references(block.inputs), "outputs": references, "warmup": self.settings.warmup,
        }  # fmt: skip
        answer = self._load(made)
        if cell.status == "ok":
            cell.ran_on, cell.peak_nbytes = answer["ran_on"], answer["peak_nbytes"]
            cell.precision = answer["precision"]
            cell.setup_ms, cell.setup_call_ms = answer["setup_seconds"] * 1e3, answer["call_seconds"] * 1e3
            self._compare(cell, tensors, outputs)
        if cell.status == "ok" and (before := self.kept.begun(cell.key)) is not None:
            cell.total_ms, cell.transfer_ms = list(before.total_ms), list(before.transfer_ms)
            made.known = len(cell.total_ms)
        return made

    def _load(self, each: Timed) -> dict[str, Any]:
        answer = self._ask(each.cell, each.request, each.payload)
        each.losses = self.up[each.cell.pu].losses
        return answer

    def _compare(self, cell: Cell, tensors: Tensors, outputs: Arrays) -> None:
        tolerance = PRECISION_ERRORS.get(cell.precision)
        near = {name: nearness(tensors.arrays[name], array, tolerance) for name, array in outputs.items()}
        wrong = next((name for name, each in near.items() if not each), None)
        if wrong is not None:
            kind = "" if tolerance is None else f" (it computes in {cell.precision})"
            cell.status, cell.reason = "failed", f"its result `{wrong}` is wrong: {near[wrong].wrong}{kind}"
        elif tolerance is not None:
            cell.error = max((each.worst for each in near.values()), default=0.0)

    def _time_together(self, team: Sequence[Timed]) -> None:
        """Times a call of PUs that have cores of their own beside each other, of others alone.

        All work for about as long as the slowest: what ends early would leave the others alone.
        """
        longest = max(each.cell.setup_call_ms for each in team)
        for each in team:
            calls = max(1, min(MOST_CALLS, round(longest / each.cell.setup_call_ms)))
            self._send(each.cell, {"do": "time", "key": each.cell.key, "repeats": calls})
        for each in team:
            answer = self._receive(each.cell)
            if each.cell.status == "ok":
                self._keep(each, *([1e3 * answer[name][0]] for name in ("total", "transfer")))

    def _keep(self, each: Timed, total: list[float], transfer: list[float]) -> None:
        """Keeps what one turn brought: a cell at first, further calls of it then."""
        if each.is_kept:
            self.kept.more(each.cell, total, transfer)
            return
        each.cell.take(total, transfer)
        self.kept.add(each.cell)
        each.is_kept = True

    def _finish(self, cells_: Sequence[Cell]) -> None:
        """Frees what the PUs have loaded, and keeps the cells that failed."""
        loaded = defaultdict[str, list[str]](list)
        for cell in cells_:
            if cell.status == "ok":
                loaded[cell.pu].append(cell.key)
            else:
                cell.total_ms, cell.transfer_ms = [], []
                self.kept.add(cell)
            self.measured += cell.variant == self.variant and (cell.status != "ok" or bool(cell.total_ms))
        for pu, keys in loaded.items():
            try:
                self.up[pu].process.ask({"do": "forget", "keys": keys}, self.settings.timeout_seconds)
            except Ended:
                continue  # it forgot all

    def _ask(self, cell: Cell, request: dict[str, Any], payload: bytes = b"") -> dict[str, Any]:
        """The answer; what goes wrong becomes the cell's status and reason."""
        self._send(cell, request, payload)
        return self._receive(cell)

    def _send(self, cell: Cell, request: dict[str, Any], payload: bytes = b"") -> None:
        up = self.up[cell.pu]
        if up.ended >= GIVE_UP:
            cell.status, cell.again = "failed", True
            cell.reason = f"not tried: the process of {cell.pu} ended {up.ended} times in a row"
            return
        try:
            up.process.send(request, payload)
        except Ended as reason:
            self._ended(cell, reason)

    def _ended(self, cell: Cell, reason: Ended) -> None:
        self.up[cell.pu].ended += 1
        self.up[cell.pu].losses += 1
        cell.status, cell.reason = "failed", str(reason)
        cell.limit_seconds = self.settings.timeout_seconds

    def _receive(self, cell: Cell) -> dict[str, Any]:
        if cell.status != "ok":
            return {}
        up = self.up[cell.pu]
        try:
            answer = up.process.receive(self.settings.timeout_seconds)
        except Ended as reason:
            self._ended(cell, reason)
            return {}
        up.ended = 0
        if answer["status"] != "ok":
            cell.status, cell.reason = answer["status"], answer["reason"]
        return answer


class Tensors:
    """Every tensor of a model at one size, as the reference makes it, in memory that the PUs' processes map."""

    def __init__(self, model: StagedModel, sizes: dict[str, int], arena: Arena, inputs: Arrays | None = None) -> None:
        self.model, self.sizes, self._arena = model, sizes, arena
        self.arrays = model.run(draw(model, sizes, seed=0) if inputs is None else inputs)
        self._put: dict[str, Reference] = {}
        self._made: list[Reference] = []

    def references(self, names: Iterable[str]) -> dict[str, Reference]:
        """How the PUs' processes find these tensors."""
        for name in names:
            if name not in self._put:
                self._put[name] = self._arena.put(self.arrays[name])[1]
        return {name: self._put[name] for name in names}

    def nbytes(self, names: Iterable[str]) -> int:
        """The bytes of some of the tensors."""
        return sum(int(array.nbytes) for _, array in self._of(names))

    def outputs(self, block: Block) -> tuple[Arrays, dict[str, Reference]]:
        """New arrays for what a block makes."""
        made = {name: self._arena.empty(str(a.dtype), a.shape) for name, a in self._of(block.outputs)}
        self._made += [found for _, found in made.values()]
        return {name: array for name, (array, _) in made.items()}, {name: found for name, (_, found) in made.items()}

    def drop_outputs(self) -> None:
        """Gives up the arrays that blocks have made."""
        self._arena.drop(self._made)
        self._made = []

    def _of(self, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
        return ((name, self.arrays[name]) for name in names)


def program_of(model: StagedModel, block: Block, directory: Path, payload: bytes = b"") -> Program:
    """The program of a block as its files have it."""
    stages = [model.stage(number) for number in block.stages]
    names = {name for stage in stages for name in (*stage.inputs, *stage.outputs)}
    kinds = tuple(stage.kind for stage in stages)
    layer = sum(stage.kind == stages[0].kind for stage in model.stages[: block.first - 1]) if kinds[0] else 0
    return Program(
        block.name, str(block_file(model, block, directory)), block.inputs, block.outputs,
        {name: model.tensors[name] for name in names}, kinds,
        str(directory / "exported_models" / "weights.npz"), layer, payload,
    )  # fmt: skip


def teams(pus: Iterable[str]) -> list[tuple[str, ...]]:
    """PUs that are timed at once: two runtimes on two halves of the cores; all others alone."""
    alone, halves = [], defaultdict[tuple[int, ...], list[str]](list)
    for pu in pus:
        if cores_of(pu):
            halves[cores_of(pu)].append(pu)
        else:
            alone.append((pu,))
    columns = [names[at:] + names[:at] for at, names in enumerate(halves.values())]  # other runtimes meet each other
    return [*alone, *(tuple(filter(None, team)) for team in zip_longest(*columns, fillvalue=""))]


def cells_at(sizes: dict[str, int]) -> str:
    """Sizes as people read them."""
    return ", ".join(f"{value:,} {name}" for name, value in sizes.items()) or "its size"
