"""The records of one process, as a file that it replaces now and then; and the records of several, joined.

A forked process goes on with the numbers of its parent: chains and templates below `known_*` are the parent's own.
A spawned one begins at 0, below the chain of sites at which it was started.  Batches that a process hands to another
carry a token (process, epoch, number), so that the operation that made a batch and the one that took it are linked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from codedag.instrument.sites import SiteInfo
from codedag.ir.files import write_atomically
from codedag.trace.events import Log
from codedag.trace.gathered import Gathered
from codedag.trace.templates import EdgeKind, OpKind, Template

#: The calls of torch by which a worker makes a batch.
MAKES_BATCHES = ("_MapDatasetFetcher.fetch", "_IterableDatasetFetcher.fetch")


class TemplateRecord(msgspec.Struct, array_like=True, frozen=True):
    """One template; `site` is a place in the list of sites."""

    number: int
    name: str
    kind: OpKind
    path: int
    site: int
    in_sig: str
    out_sig: str
    count: int
    self_ns: int
    total_ns: int
    least_ns: int
    most_ns: int
    out_nbytes: int
    peak_nbytes: int


class Made(msgspec.Struct, array_like=True):
    """Batches first..last of one epoch, and the bytes each of them has from each producer."""

    epoch: int
    first: int
    last: int
    flows: dict[int, int]


class Taken(msgspec.Struct, array_like=True, frozen=True):
    """A batch that another process made, and the operation that took it."""

    process: int
    epoch: int
    batch: int
    consumer: int


class Records(msgspec.Struct, kw_only=True):
    """What one process has recorded so far."""

    format: Literal["codedag/records"] = "codedag/records"
    version: Literal[1] = 1
    process: int
    parent: int = 0  # 0: the process of the program itself
    known_paths: int = 0
    known_templates: int = 0
    root: int = -1
    sites: list[SiteInfo] = []
    paths: list[tuple[int, int]] = []
    templates: list[TemplateRecord] = []
    edges: list[tuple[int, int, EdgeKind, int]] = []
    made: list[Made] = []
    taken: list[Taken] = []
    log: Log = msgspec.field(default_factory=Log)
    failure: str = ""  # why there is nothing
    ended: bool = False  # the process came to its end: nothing is missing

    def fill(self, gathered: Gathered) -> None:
        """Takes in what the process has gathered."""
        numbers: dict[SiteInfo, int] = {}
        self.paths = [(p, numbers.setdefault(s, len(numbers))) for p, s in gathered.paths[self.known_paths :]]
        counted = [t for t in gathered.templates if t.count]
        self.templates = [_record(t, numbers.setdefault(t.site, len(numbers))) for t in counted]
        self.sites = list(numbers)
        self.edges = gathered.edges

    def write(self, path: Path) -> None:
        """Replaces the file of this process."""
        write_atomically(path, [msgspec.json.encode(self)])


def _record(t: Template, site: int) -> TemplateRecord:
    return TemplateRecord(
        t.number, t.name, t.kind, t.path, site, t.in_sig, t.out_sig, t.count, t.self_ns, t.total_ns, t.least_ns,
        t.most_ns, t.out_nbytes, t.peak_nbytes,
    )  # fmt: skip


def read(folder: Path) -> tuple[list[Records], list[str]]:
    """The records in a folder, and which files could not be read and why."""
    found: list[Records] = []
    bad: list[str] = []
    for path in sorted(folder.glob("*.json")):
        try:
            records = msgspec.json.decode(path.read_bytes(), type=Records)
        except (OSError, msgspec.MsgspecError) as error:
            bad.append(f"the records in {path.name} cannot be read: {error}")
            continue
        if records.failure:
            bad.append(f"process {records.process} could not be recorded: {records.failure}")
        else:
            found.append(records)
    known = {path.name for path in folder.glob("*.json")}
    # what a process was writing when it ended lies beside the last that it finished: .123.json.5af3
    begun = {path.name.lstrip(".").rpartition(".")[0] for path in folder.glob(".*.json.*")}
    bad += [f"{name} was never written to its end: its process ended meanwhile" for name in sorted(begun - known)]
    return found, bad


@dataclass(slots=True)
class Joined:
    """The records of several processes as one, with the batches that were and were not linked."""

    gathered: Gathered
    linked: int = 0
    unlinked: int = 0
    _paths: dict[tuple[int, SiteInfo], int] = field(default_factory=dict)
    _templates: dict[tuple[int, str, str], int] = field(default_factory=dict)


def join(every: Iterable[Records]) -> Joined:
    """What all processes recorded; parents come before their children, whatever the order given."""
    waiting = {records.process: records for records in every}
    joined = Joined(Gathered())
    done: dict[int, _Numbers] = {}
    while waiting:
        ready = [r for r in waiting.values() if r.parent not in waiting or r.parent == r.process]
        for records in ready or list(waiting.values()):
            del waiting[records.process]
            done[records.process] = _add(joined, records, done)
    for numbers in done.values():
        _link(joined, numbers, done)
    _pass_through(joined.gathered)
    return joined


def _pass_through(gathered: Gathered) -> None:
    """Makes regions of the calls by which workers make batches: what goes in goes to whoever takes the batch.

    So the graph is the same with and without workers; the time of the call stays with it.
    """
    makers = {t.number for t in gathered.templates if t.name.endswith(MAKES_BATCHES)}
    into: dict[int, list[tuple[int, int]]] = {number: [] for number in makers}
    for src, dst, kind, size in gathered.edges:
        if dst in makers and kind == "flow":
            into[dst].append((src, size))
    through: list[tuple[int, int, EdgeKind, int]] = []
    for src, dst, kind, size in gathered.edges:
        if src in makers:
            through += [(producer, dst, kind, part) for producer, part in into.pop(src, ())]
        elif dst not in makers:
            through.append((src, dst, kind, size))
    gathered.edges = through
    for number in makers:
        gathered.templates[number].kind = "region"


@dataclass(slots=True)
class _Numbers:
    """How the numbers of one process read in what was joined."""

    records: Records
    paths: list[int]
    templates: dict[int, int]


def _add(joined: Joined, records: Records, done: dict[int, _Numbers]) -> _Numbers:
    above = done.get(records.parent)
    numbers = _Numbers(records, above.paths[: records.known_paths] if above else [], {})
    numbers.paths += [-1] * (records.known_paths - len(numbers.paths))  # a parent whose own records were lost
    root = _root(records, above, done, numbers)
    for parent, site in records.paths:
        is_root = parent < records.known_paths
        numbers.paths.append(
            _path(joined, root if is_root and root is not None else _at(numbers.paths, parent), records.sites[site])
        )
    for t in records.templates:
        numbers.templates[t.number] = _template(joined, t, numbers.paths[t.path], records.sites[t.site])
    known = {k: v for k, v in above.templates.items() if k < records.known_templates} if above else {}
    numbers.templates = known | numbers.templates
    joined.gathered.logs.append(_log(records, numbers))
    for src, dst, kind, size in records.edges:
        if src in numbers.templates and dst in numbers.templates:
            joined.gathered.edges.append((numbers.templates[src], numbers.templates[dst], kind, size))
    return numbers


def _log(records: Records, numbers: _Numbers) -> Log:
    """The log of a process with the numbers of what was joined."""
    calls = [(numbers.templates[call[0]], *call[1:]) for call in records.log.calls if call[0] in numbers.templates]
    return Log(records.process, records.log.least, calls, records.log.memory, records.log.threads)


def _at(paths: list[int], number: int) -> int:
    return paths[number] if 0 <= number < len(paths) else -1


def _root(records: Records, above: _Numbers | None, done: dict[int, _Numbers], own: _Numbers) -> int | None:
    """Where the chains of a process begin: inside the operation that takes its batches, or where it was started.

    None says that they begin where their numbers say.  Inside the operation that takes the batches is where the same
    work would have run without a process of its own, so contexts and program order are the same.
    """
    for other in done.values():
        for taken in other.records.taken:
            if taken.process == records.process and taken.consumer in other.templates:
                consumer = next(t for t in other.records.templates if t.number == taken.consumer)
                return other.paths[consumer.path]
    return _at(above.paths, records.root) if above and not records.known_paths else None


def _path(joined: Joined, parent: int, site: SiteInfo) -> int:
    paths = joined.gathered.paths
    number = joined._paths.setdefault((parent, site), len(paths))
    if number == len(paths):
        paths.append((parent, site))
    return number


def _template(joined: Joined, t: TemplateRecord, path: int, site: SiteInfo) -> int:
    templates = joined.gathered.templates
    number = joined._templates.setdefault((path, t.name, t.in_sig), len(templates))
    read = Template(
        number, t.name, t.kind, path, site, t.in_sig, t.out_sig, t.count, t.self_ns, t.total_ns, t.least_ns, t.most_ns,
        t.out_nbytes, t.peak_nbytes,
    )  # fmt: skip
    if number == len(templates):
        templates.append(read)
    else:
        templates[number].add(read)
    return number


def _link(joined: Joined, numbers: _Numbers, done: dict[int, _Numbers]) -> None:
    """Adds an edge from the operation that made each batch to the one that took it."""
    for taken in numbers.records.taken:
        maker = done.get(taken.process)
        made = _find(maker.records.made, taken) if maker else None
        if maker is None or made is None or taken.consumer not in numbers.templates:
            joined.unlinked += 1
            continue
        joined.linked += 1
        for producer, size in made.flows.items():
            if producer in maker.templates:
                edge: tuple[int, int, EdgeKind, int] = (
                    maker.templates[producer],
                    numbers.templates[taken.consumer],
                    "flow",
                    size,
                )
                joined.gathered.edges.append(edge)


def _find(made: list[Made], taken: Taken) -> Made | None:
    for batch in made:
        if batch.epoch == taken.epoch and batch.first <= taken.batch <= batch.last:
            return batch
    return None
