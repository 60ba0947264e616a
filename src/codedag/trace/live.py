"""Tracing inside a running process: code that was loaded without us is given sites, and everything back at the end."""

from __future__ import annotations

import ast
import inspect
import os
import shutil
import sys
import tempfile
import threading
import types
import uuid
import weakref
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codedag.instrument import sites as site_module
from codedag.instrument.hook import Finder, importing
from codedag.instrument.program import Program
from codedag.instrument.selection import FilterConfig
from codedag.instrument.sites import CALL, RECORD, RETURN, SiteInfo
from codedag.ir import CodedagError, CostTable, Graph
from codedag.trace.attach import Attachment
from codedag.trace.gathered import Gathered, Paths
from codedag.trace.processes import Family
from codedag.trace.recorder import Recorder, shown_path
from codedag.trace.spool import Spool
from codedag.trace.targets import Targets, targets
from codedag.trace.templates import Template

_OURS = str(Path(__file__).resolve().parent.parent) + os.sep
_PASSED = (_OURS, str(Path(os.__file__).with_name("contextlib.py")), str(Path(os.__file__).with_name("functools.py")))
Roots = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


class AlreadyTracing(CodedagError):  # noqa: N818 - reads as what happened
    """A second trace was asked for while one is being recorded: a process has one recorder."""

    slug = "already-tracing"


class BadRoot(CodedagError):  # noqa: N818
    """A root that is not a directory."""

    slug = "bad-root"


@dataclass(frozen=True, slots=True)
class Recorded:
    """What one trace saw: the graph, its costs, and what the graph itself does not hold."""

    graph: Graph
    costs: CostTable
    names: dict[int, str] = field(default_factory=dict)  # what the program calls the thing that an operation makes
    callers: dict[int, int] = field(default_factory=dict)  # the region in which an operation or a region ran


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the program that is running."""

    code: types.CodeType
    line: int

    @property
    def file(self) -> str:
        """The file of the line, as its code names it."""
        return self.code.co_filename


def caller() -> Place | None:
    """The line of the program that called us."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PASSED):
        frame = frame.f_back
    return Place(frame.f_code, frame.f_lineno) if frame is not None else None


def default_roots(file: str | None) -> list[Path]:
    """The directory of this file, of the program if the file is none, and the working directory."""
    if file is None or not Path(file).is_file():
        file = getattr(sys.modules.get("__main__"), "__file__", None)
    found = [Path(file).resolve().parent] if file and Path(file).is_file() else []
    try:
        return [*found, Path.cwd()]
    except OSError:  # the working directory is gone
        return found


def is_disabled() -> bool:
    """Whether CODEDAG_DISABLE=1 asks to run programs as if CodeDAG were not there."""
    return os.environ.get("CODEDAG_DISABLE", "") not in ("", "0")


def site_of_call(function: Any) -> Any:
    """A site that stands for the call of a whole function: `site(function, ...)` calls and records it."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    file, line = (code.co_filename, code.co_firstlineno) if code is not None else ("<call>", 1)
    site = site_module.make(SiteInfo(-1, CALL, "", file, line, 0, line, 0, owner=""))
    site.mode = RECORD
    return site


class Live:
    """A trace of this process between `start` and `stop`, or inside `with`.

    `roots` are the directories whose code is the program's own (its own directory and the working directory unless
    given); `drill` names installed packages to look into.  `body` says whether the code that starts the trace is part
    of what was meant to be traced: its frame is already running and cannot be given sites.  With `samples` the inputs
    of each operation's first execution are kept, in a private folder that goes when this object does.
    """

    def __init__(
        self,
        roots: Roots | None = None,
        drill: str | Iterable[str] = (),
        filter_config: FilterConfig | None = None,
        max_depth: int = 0,
        body: bool = True,
        samples: bool = False,
    ) -> None:
        self.notes: list[str] = []
        self._roots = None if roots is None else _directories(roots)
        self._drill = (drill,) if isinstance(drill, str) else tuple(drill)
        self._filter, self._max_depth, self._body = filter_config, max_depth, body
        self._undo = ExitStack()
        self._spool = _spool(self) if samples else None
        self._process = os.getpid()
        self._started: Place | None = None
        self._family: Family | None = None
        self._recorded: Recorded | None = None

    def __enter__(self) -> Live:
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begins to record; raises AlreadyTracing if something is being recorded in this process."""
        self._started = caller()
        if is_disabled():
            self.notes.append("nothing was recorded: CODEDAG_DISABLE is set")
            return
        if _is_under_command():  # which sees all this, and must not make the program fail
            self.notes.append("nothing was recorded here: this process is traced from outside, by `codedag`")
            return
        _claim(self)
        self._process = os.getpid()
        try:
            self._begin()
        except BaseException:
            self._end()
            raise

    def stop(self) -> None:
        """Ends recording and gives everything back; a trace that is not running is left as it is."""
        if _active is not self:
            return
        stopped = caller()
        self._end()
        failure = site_module.native.failure()
        if failure:
            self.notes.append(f"recording ended early: {failure}")
        if self._spool is not None and self._spool.failure:
            self.notes.append(f"not all inputs were kept for measuring: {self._spool.failure}")
        self._conclude(stopped)

    def recorded(self) -> Recorded:
        """What was recorded, so far or in all."""
        if self._recorded is not None:
            return self._recorded
        if self._family is None:
            return Recorded(Graph.build([]), CostTable(pus=["cpu"], rows=[]))
        return _recorded(self._family.program, self._family.recorder.gathered())

    @property
    def samples(self) -> Path | None:
        """The folder of the inputs that were kept, if there are any."""
        return self._spool.folder if self._spool is not None and self._spool.folder.is_dir() else None

    def load(self, path: str, source: bytes) -> types.CodeType:
        """The code of a source that runs while this records, such as a cell of a notebook: with sites, if it does."""
        if self._family is None:
            return compile(source, path, "exec", dont_inherit=True)
        return self._family.program.load(path, source)

    # -- beginning and ending

    def _begin(self) -> None:
        self._roots = self._roots or default_roots(self._started.file if self._started else None)
        program = Program(self._roots, self._drill, self._filter)
        attachment = Attachment(program, drilled=bool(self._drill))
        self._undo.callback(self._note_attachment, attachment)
        self._undo.callback(attachment.give_back)
        attachment.attach()  # before the hook, which would do it for drilled packages and forget their own code objects
        self._undo.enter_context(importing(program))
        folder = Path(tempfile.mkdtemp(prefix="codedag-"))  # where other processes of the program keep their records
        self._family = Family(program, Recorder(program.names), folder, self._max_depth)
        self._undo.callback(self._family.stop)
        if self._spool is not None:
            self._spool.begin()
            self._family.recorder.keep_samples(self._spool)
        self._family.start()

    def _end(self) -> None:
        global _active
        try:
            self._undo.close()
        finally:
            _active = None

    def _note_attachment(self, attachment: Attachment) -> None:
        self.notes += attachment.notes

    def _conclude(self, stopped: Place | None) -> None:
        """Makes a graph of what this process and those it started have recorded."""
        family, self._family = self._family, None
        assert family is not None
        if os.getpid() != self._process:  # a forked process left the block: the one that began it joins the records
            family.keep()
            self._recorded = _recorded(family.program, family.recorder.gathered())
            return
        gathered, notes = family.joined()
        shutil.rmtree(family.folder, ignore_errors=True)
        self._recorded = _recorded(family.program, gathered)
        self.notes += notes
        if self._body and self._started is not None:
            self.notes += _unseen(family.program, self._started, stopped)
        if not len(self._recorded.graph):
            self.notes.append(
                f"no operation was recorded: {len(family.program.files)} files below "
                f"{', '.join(map(str, self._roots or ()))} were watched; name other directories with roots=, installed "
                "packages with drill="
            )


def _spool(live: Live) -> Spool:
    """A place for inputs, which is made when recording begins and removed with the trace that it belongs to."""
    folder = Path(tempfile.gettempdir()) / f"codedag-samples-{uuid.uuid4().hex}"
    weakref.finalize(live, _remove, folder, os.getpid())
    return Spool(folder)


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # a forked process has the same object, and its end is not that of the trace
        shutil.rmtree(folder, ignore_errors=True)


_active: Live | None = None
_claiming = threading.Lock()


def _claim(live: Live) -> None:
    """Makes this the one trace of the process."""
    global _active
    with _claiming:
        if _active is not None or site_module.native.is_recording():
            raise AlreadyTracing(
                "this process is already being traced", hint="End the first trace before the next begins."
            )
        _active = live


def _is_under_command() -> bool:
    return _active is None and any(type(finder) is Finder for finder in sys.meta_path)


def _directories(roots: Roots) -> list[Path]:
    found = [Path(root) for root in ([roots] if isinstance(roots, str | os.PathLike) else roots)]
    for root in found:
        if not root.is_dir():
            raise BadRoot(f"the root {str(root)!r} is not a directory", hint="Name the directory that holds the code.")
    return found


# -- what the graph does not hold


def _recorded(program: Program, gathered: Gathered) -> Recorded:
    return Recorded(gathered.graph(), gathered.costs(), _names(program, gathered), _callers(gathered))


def _names(program: Program, gathered: Gathered) -> dict[int, str]:
    """What the program calls the thing that each operation makes; for a source, the variable it was read from."""
    files: dict[str, Targets] = {}
    found = {}
    for template in gathered.templates:
        info = gathered.paths[template.path][1]
        if info.file not in files:
            file = program.files.get(info.file)
            files[info.file] = targets(file.source, info.file) if file is not None else Targets()
        known = files[info.file]
        name = known.argument(info) if template.kind == "source" else known.of(info)
        if name and template.kind != "region":
            found[template.number] = name
    return found


def _callers(gathered: Gathered) -> dict[int, int]:
    """The innermost region around each operation and region."""
    regions: dict[int, list[Template]] = {}
    for template in gathered.templates:
        if template.kind == "region":
            regions.setdefault(template.path, []).append(template)
    found = {}
    for template in gathered.templates:
        around = _region_around(gathered.paths, regions, template.path)
        if around is not None:
            found[template.number] = around
    return found


def _region_around(paths: Paths, regions: dict[int, list[Template]], path: int) -> int | None:
    parent, info = paths[path]
    while parent >= 0:
        around = regions.get(parent, [])
        named = [region for region in around if region.name.endswith(info.owner)] or around
        if len(named) == 1:
            return named[0].number
        parent, info = paths[parent]
    return None


def _unseen(program: Program, started: Place, stopped: Place | None) -> list[str]:
    """What stands between the start and the end of a trace in a frame that was already running."""
    file = program.files.get(started.file)
    if file is None:
        return []
    first, last = _block(ast.parse(file.source, file.path), started, stopped)
    if not any(first <= info.line <= last and info.kind != RETURN for info in file.infos):
        return []
    lines = f"line {first}" if first == last else f"lines {first} to {last}"
    return [
        f"the block at {shown_path(file.path)}:{started.line} was already running: the operations written in it "
        f"({lines}) were not seen, what they called was; codedag.trace(function)(...) sees all"
    ]


def _block(tree: ast.Module, started: Place, stopped: Place | None) -> tuple[int, int]:
    """The lines of the `with` that stands at the start, or those between start and stop."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.With | ast.AsyncWith)
        and node.lineno <= started.line <= (node.items[-1].context_expr.end_lineno or node.lineno)
    ]
    if around:
        node = max(around, key=lambda found: found.lineno)
        return node.body[0].lineno, node.end_lineno or node.body[-1].lineno
    if stopped is not None and stopped.code is started.code:
        return started.line + 1, stopped.line - 1
    return 1, 0
