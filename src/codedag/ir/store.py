"""Loading and saving: a file or a run directory in, checked objects out; nothing is ever half-written."""

from __future__ import annotations

import os
import stat
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast, overload

import msgspec

from codedag.ir.checks import check
from codedag.ir.costs import CostTable
from codedag.ir.document import DOCUMENTS, document_bytes, read_document
from codedag.ir.errors import BadGraph
from codedag.ir.events import Events
from codedag.ir.files import write_atomically
from codedag.ir.graph import Graph
from codedag.ir.graph_file import GraphFile, graph_bytes, read_graph
from codedag.ir.machine import Machine
from codedag.ir.plan import Plan
from codedag.ir.reject import NOT_OURS, Unreadable, bad_file, decode, reading
from codedag.ir.report import Report
from codedag.ir.run import RunInfo
from codedag.ir.stream import JsonStream

Kind = Literal["run", "graph", "costs", "machine", "plan", "report", "events"]
Stored = RunInfo | Graph | CostTable | Machine | Plan | Report | Events

# What the schemas are made from; a graph has columns in memory and rows in its file.
FILE_TYPES: dict[str, type[msgspec.Struct]] = {**DOCUMENTS, "graph": GraphFile}
FILE_NAMES = {kind: f"{kind}.json" for kind in ("run", "graph", "costs", "machine", "plan", "report")}
FILE_NAMES["events"] = "events"

# Far above any real file: 1,000,000 ops with 1,500,000 edges are 0.34 GB.
LARGEST_NBYTES = 8 << 30

MADE_BY = {
    "run": "codedag trace -o {run} SCRIPT",
    "graph": "codedag trace -o {run} SCRIPT",
    "costs": "codedag profile {run}",
    "machine": "codedag profile {run}",
    "plan": "codedag plan {run}",
    "report": "codedag run SCRIPT",
    "events": "codedag trace -o {run} SCRIPT",
}


class RunDirectory:
    """A run: its files, each read and checked when first asked for; a missing one is a BadFile naming it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"RunDirectory({str(self.path)!r})"

    def has(self, kind: Kind) -> bool:
        """Whether the run has this file."""
        return (self.path / FILE_NAMES[kind]).is_file()

    def _load(self, kind: Kind) -> Any:
        path = self.path / FILE_NAMES[kind]
        if not path.exists():
            command = MADE_BY[kind].format(run=self.path)
            raise bad_file(path, "this run has no such file", hint=f"`{command}` makes it.")
        return load(path, kind)

    @cached_property
    def run(self) -> RunInfo:
        """What was run."""
        return cast(RunInfo, self._load("run"))

    @cached_property
    def graph(self) -> Graph:
        """The operations and their edges."""
        return cast(Graph, self._load("graph"))

    @cached_property
    def costs(self) -> CostTable:
        """The measured costs."""
        return cast(CostTable, self._load("costs"))

    @cached_property
    def machine(self) -> Machine:
        """The processing units and links."""
        return cast(Machine, self._load("machine"))

    @cached_property
    def plan(self) -> Plan:
        """The plan."""
        return cast(Plan, self._load("plan"))

    @cached_property
    def report(self) -> Report:
        """The final facts."""
        return cast(Report, self._load("report"))

    @cached_property
    def events(self) -> Events:
        """Single calls and memory over time."""
        return cast(Events, self._load("events"))


@overload
def load(path: str | os.PathLike[str], kind: Literal["run"]) -> RunInfo: ...
@overload
def load(path: str | os.PathLike[str], kind: Literal["graph"], *, checked: bool = True) -> Graph: ...
@overload
def load(path: str | os.PathLike[str], kind: Literal["costs"]) -> CostTable: ...
@overload
def load(path: str | os.PathLike[str], kind: Literal["machine"]) -> Machine: ...
@overload
def load(path: str | os.PathLike[str], kind: Literal["plan"]) -> Plan: ...
@overload
def load(path: str | os.PathLike[str], kind: Literal["report"]) -> Report: ...
@overload
def load(path: str | os.PathLike[str], kind: Literal["events"]) -> Events: ...
@overload
def load(path: str | os.PathLike[str], kind: Kind | None = None, *, checked: bool = True) -> Stored | RunDirectory: ...


def load(path: str | os.PathLike[str], kind: Kind | None = None, *, checked: bool = True) -> Stored | RunDirectory:
    """What a file holds (its `format` says; it must be `kind` if given), or a RunDirectory for a directory.

    Raises BadFile naming the file, the field and what to do. A graph is also checked (`check`) unless
    `checked` is False.
    """
    place = Path(path)
    if kind is None and _is_directory(place):
        return _run_directory(place)
    with reading(place):
        _refuse_odd(place)
        found = kind or _kind_of(place)
        with place.open("rb") as source:
            loaded = read_graph(source) if found == "graph" else read_document(source, found)
        if checked and isinstance(loaded, Graph):
            _check_loaded(loaded)
        return loaded


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # below a directory that we may not enter: reading it will say so
        return False


def _run_directory(path: Path) -> RunDirectory:
    run = RunDirectory(path)
    if not any((path / name).exists() for name in FILE_NAMES.values()):
        hint = "Name a directory that `codedag run` or `codedag trace` made; `codedag runs` lists those that are kept."
        raise bad_file(path, f"is not a run: it has none of {', '.join(FILE_NAMES.values())}", hint=hint)
    return run


def _refuse_odd(path: Path) -> None:
    """Refuses what must not be opened: a pipe would wait for ever, a device would never end."""
    try:
        found = path.stat()
    except ValueError as error:
        raise Unreadable(f"is not a path ({error})", hint="Check the path.") from error
    if stat.S_ISDIR(found.st_mode):
        raise Unreadable("is a directory where a file is expected", hint="Name the file in it, such as graph.json.")
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable("is not a regular file", hint="Copy the data into a file first.")
    if found.st_size > LARGEST_NBYTES:
        raise Unreadable(f"is too large: {found.st_size} bytes, at most {LARGEST_NBYTES} are read", hint=NOT_OURS)


def _kind_of(path: Path) -> str:
    """The kind that the file's `format` names, wherever in the file it stands."""
    with path.open("rb") as source:
        stream = JsonStream(source)
        for key in stream.fields():
            if key == "format":
                return _known_kind(decode(stream.value(), msgspec.json.Decoder(str), key))
            stream.skip()
    raise Unreadable("is missing", field="format", hint=NOT_OURS)


def _known_kind(name: str) -> str:
    kind = name.removeprefix("codedag/")
    if kind not in FILE_TYPES or kind == name:
        known = ", ".join(f"codedag/{one}" for one in FILE_TYPES)
        raise Unreadable(f"`{name[:80]}` is none of {known}", field="format", hint=NOT_OURS)
    return kind


def _check_loaded(graph: Graph) -> None:
    try:
        check(graph)
    except BadGraph as error:
        raise Unreadable(error.message, hint=error.hint) from error


def save(stored: Stored, path: str | os.PathLike[str]) -> None:
    """Writes the file atomically; raises before anything is written if `load` would not read it back.

    A graph that is not legal raises BadGraph, a field that no file can hold BadFile, and a place that
    cannot be written CannotWrite.
    """
    place = Path(path)
    if isinstance(stored, Graph):
        check(stored)
    try:
        write_atomically(place, graph_bytes(stored) if isinstance(stored, Graph) else document_bytes(stored))
    except Unreadable as error:
        hint = "Nothing was written. Correct the value that was to be saved; docs/files.md lists the fields."
        raise bad_file(place, error.what, field=error.field, hint=hint) from error
