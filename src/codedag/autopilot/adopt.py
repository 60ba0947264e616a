"""The changes of a run as code to adopt without CodeDAG: tried beside the original first, then shown as a diff."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from codedag.autopilot.adopt_check import Request, Tried, trial
from codedag.autopilot.source_edit import Source, is_method, libcst
from codedag.autopilot.standalone import standalone
from codedag.backends.elementwise import MAP, role_of
from codedag.backends.registry import find
from codedag.instrument.guard import Failed, attempt
from codedag.ir import Move, Op, RunDirectory

BY_TABLE = '''
def by_table(image, steps):
    """steps(image) for a uint8 image, channels last: the steps run on the 256 values only, the pixels are looked up."""
    shape = image.shape if image.ndim == 3 else (*image.shape, 1)
    values = np.arange(256, dtype=np.uint8).reshape(256, 1, 1).repeat(shape[2], axis=2)
    table = steps(values if image.ndim == 3 else values[:, :, 0]).reshape(256, shape[2])
    out = np.empty_like(image, dtype=table.dtype, subok=False)
    pixels, found = image.reshape(shape), out.reshape(shape)
    for channel in range(shape[2]):
        found[:, :, channel] = np.take(table[:, channel], pixels[:, :, channel])
    return out
'''.strip()
COPIED = '''
def copied(value):
    """A copy, so that whoever changes a result does not change what is kept."""
    if hasattr(value, "clone"):
        return value.clone()
    return value.copy(order="K") if hasattr(value, "strides") else value.copy()
'''.strip()
KEPT = '''
_kept = {}


def kept(path, steps):
    """steps(path), computed once per version of the file; grows by one result for each file."""
    state = os.stat(path)
    key = (os.fspath(path), state.st_mtime_ns, state.st_size, steps.__code__)
    if key not in _kept:
        _kept[key] = steps(path)
    return copied(_kept[key])
'''.strip()
KEPT_BY_VALUE = '''
_kept_values = {}


def kept_by_value(array, steps):
    """steps(array), computed once for each contents of the array; grows by one result for each."""
    key = (array.dtype.str, array.shape, array.strides, hashlib.blake2b(array.tobytes()).digest(), steps.__code__)
    if key not in _kept_values:
        _kept_values[key] = steps(array)
    return copied(_kept_values[key])
'''.strip()


@dataclass(frozen=True, slots=True)
class _Addition:
    """Functions that a patch adds, the one that is called with the steps, and what they import."""

    kind: Literal["table", "file", "value"]
    name: str
    imported: str
    functions: dict[str, str]


TABLE = _Addition("table", "by_table", "import numpy as np", {"by_table": BY_TABLE})
FILE = _Addition("file", "kept", "import os", {"copied": COPIED, "kept": KEPT})
VALUE = _Addition("value", "kept_by_value", "import hashlib", {"copied": COPIED, "kept_by_value": KEPT_BY_VALUE})

_NOTES = {
    "widen": "the items of a batch were fetched in threads; DataLoader(num_workers=...) is what torch has for that",
    "loop": "turns of the loop ran in threads; concurrent.futures.ThreadPoolExecutor.map is what Python has for that",
    "overlap": "the next batch began while this one was used; DataLoader(num_workers=...) is what torch has for that",
}


@dataclass(frozen=True, slots=True)
class Adoption:
    """One change as code: what to add once, what to change, and what to know about it."""

    where: str
    what: str
    helper: str = ""
    diff: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Patch:
    """All changes of a run that could be written and gave the same when they were tried, and one patch of them all."""

    adoptions: list[Adoption]
    diff: str  # as `git apply` takes it, in the program's working directory


def adoptions(run: RunDirectory) -> list[Adoption]:
    """Each change of the run's plan as code."""
    return patch(run).adoptions


def patch(run: RunDirectory) -> Patch:
    """The changes of the run as code; what cannot be written, or does not give the same, has a note instead."""
    files: dict[str, _File] = {}
    if run.plan.moves:
        libcst()
    moves = sorted(run.plan.moves, key=_saved_seconds(run), reverse=True)  # of two that overlap the better one
    done: list[Move] = []
    found = [_adoption(run, move, files, done) for move in moves]
    return Patch(found, "".join(file.diff() for file in files.values() if file.edited))


def _saved_seconds(run: RunDirectory) -> Callable[[Move], float]:
    """What the change of a move saved in the run, by its account."""
    changes = run.report.changes if run.has("report") else []
    saved = {change.where: (change.saved_seconds or 0.0) - (change.spent_seconds or 0.0) for change in changes}
    return lambda move: saved.get(_where(move), 0.0)


def _where(move: Move) -> str:
    return f"{move.file}:{move.line}" + (f"-{move.end_line}" if move.end_line > move.line else "")


class _File:
    """One file of the program as it is edited: before, with the edits so far, and the helpers that these need."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.before, self.text = name, text, text
        self.imports: list[str] = []
        self.helpers: dict[str, str] = {}
        self.edited = False

    def final(self) -> str:
        """The text with the helpers below its imports."""
        code = "\n\n\n".join([*filter(None, ["\n".join(self.imports)]), *self.helpers.values()])
        return Source(self.text).with_preamble(code) if code else self.text

    def diff(self) -> str:
        """The difference of the whole file."""
        return _diff(self.before, self.final(), self.name)


@dataclass(frozen=True, slots=True)
class _Edit:
    """A change of one file that is about to be made."""

    text: str
    imports: tuple[str, ...]
    helpers: dict[str, str]
    request: Request
    note: str = ""


def _adoption(run: RunDirectory, move: Move, files: dict[str, _File], done: list[Move]) -> Adoption:
    where = _where(move)
    what = " > ".join(name.rpartition(".")[2] for name in move.chain)
    if note := _NOTES.get("loop" if move.kind == "widen" and move.chain == ["loop"] else move.kind):
        return Adoption(where, what, note=note)
    made = attempt(_written, run, move, files, done)
    if isinstance(made, Failed):
        return Adoption(where, what, note=f"it cannot be written as code: {made.reason.removeprefix('LookupError: ')}")
    edit, file = made
    done.append(move)
    before, file.text, file.edited = file.text, edit.text, True
    file.imports += [line for line in edit.imports if line not in file.imports]
    file.helpers |= edit.helpers
    helper = "\n\n\n".join([*filter(None, ["\n".join(edit.imports)]), *edit.helpers.values()])
    return Adoption(where, what, helper, _diff(before, file.text, file.name), edit.note)


def _written(run: RunDirectory, move: Move, files: dict[str, _File], done: list[Move]) -> tuple[_Edit, _File]:
    """The edit, which was tried; raises LookupError with the reason if it cannot be made or gives something else."""
    file = files.get(move.file) or _File(move.file, _source(run, move))
    files.setdefault(move.file, file)
    if any(_overlaps(move, other) for other in done):
        raise LookupError("another change of this patch rewrites the same lines; apply that one, then run again")
    edit = _edit(run, move, file)
    compile(edit.text, move.file, "exec", dont_inherit=True)
    tried = trial(edit.request, Path(run.run.cwd))
    if tried.why:
        raise LookupError(tried.why)
    return replace(edit, note=". ".join(filter(None, [edit.note.rstrip("."), _evidence(tried)]))), file


def _evidence(tried: Tried) -> str:
    """What the code was tried on, in words."""
    if tried.recorded:
        return f"tried on {tried.recorded} input{'' if tried.recorded == 1 else 's'} of the run: the same result"
    return "tried on drawn inputs, since the run kept none: the same result"


def _overlaps(one: Move, other: Move) -> bool:
    last = [max(move.end_line, move.line) for move in (one, other)]
    return one.file == other.file and one.line <= last[1] and other.line <= last[0]


def _edit(run: RunDirectory, move: Move, file: _File) -> _Edit:
    if move.kind == "substitute":
        return _substitute(run, move, file)
    ops = _moved([run.graph.op(number) for number in move.ops], file)
    if not ops:
        raise LookupError("this run began with it and has not observed its operations; a run with --fresh does")
    if move.kind == "fuse" and move.variant in ("flow", "loops"):
        raise LookupError(
            "its steps run in one loop of C; numba.njit on a function with these lines is what comes near"
        )
    if move.kind == "fuse":
        if not ops[0].in_sig.startswith("uint8["):
            raise LookupError(f"its input is {ops[0].in_sig or 'not recorded'}, and tables are for uint8 pictures")
        return _helped(run, move, file, _map_part(ops), TABLE)
    if move.kind == "remember":
        return _helped(run, move, file, ops, FILE)
    if move.kind == "recall":
        return _helped(run, move, file, ops, VALUE)
    raise LookupError(f"a change of this kind ({move.kind}) has no code of its own")


def _moved(ops: list[Op], file: _File) -> list[Op]:
    """The operations with the lines at which they stand after the edits so far."""
    if not file.edited:
        return ops
    matcher = difflib.SequenceMatcher(None, file.before.splitlines(), file.text.splitlines(), autojunk=False)
    now = {a + k + 1: b + k + 1 for a, b, size in matcher.get_matching_blocks() for k in range(size)}
    if any(op.line not in now for op in ops):
        raise LookupError("another change of this patch rewrites the same lines; apply that one, then run again")
    import msgspec

    return [msgspec.structs.replace(op, line=now[op.line]) for op in ops]


def _source(run: RunDirectory, move: Move) -> str:
    path = Path(run.run.cwd) / move.file
    try:
        text = path.read_bytes()
    except OSError as error:
        raise LookupError(f"{move.file} cannot be read any more ({error.strerror})") from None
    known = next((source.sha256 for source in run.plan.sources if source.file == move.file), "")
    if hashlib.sha256(text).hexdigest() != known:
        raise LookupError(f"{move.file} has changed since the run")
    return text.decode()


def _substitute(run: RunDirectory, move: Move, file: _File) -> _Edit:
    substitution = next((one for one in find(move.chain[0]) if one.into == move.variant), None)
    if substitution is None:
        raise LookupError(f"{move.chain[0]} -> {move.variant} is not in the registry of this installation")
    ops = _moved([run.graph.op(number) for number in move.ops], file)
    if not ops:
        raise LookupError("this run began with it and has not observed its operations; a run with --fresh does")
    source = Source(file.text)
    name = _free_name(f"fast_{move.chain[0].rpartition('.')[2]}", source)
    helper = standalone(substitution.run, name)
    request = Request(
        "substitute", helper, name, source=move.chain[0], variant=move.variant, run=str(run.path.absolute()),
        op=run.graph.op(move.ops[0]),
    )  # fmt: skip
    body = helper.removeprefix("from __future__ import annotations").strip()
    note = f"only for calls like these: {substitution.takes}" if substitution.takes else ""
    return _Edit(source.replace_call(ops[0], name, is_method(ops[0].name)), (), {name: body}, request, note)


def _helped(run: RunDirectory, move: Move, file: _File, ops: list[Op], helper: _Addition) -> _Edit:
    if not ops:
        raise LookupError("it does not begin with operations on single elements")
    source = Source(file.text)
    taken = source.names()
    names = {*helper.functions, "_kept", "_kept_values"}
    if not file.edited and taken & names:
        raise LookupError(f"the file uses the name `{sorted(taken & names)[0]}` itself")
    found = source.extract(ops, helper.name, _free_name("steps", source))
    needed = tuple(line for line in (helper.imported,) if line.split()[-1] not in taken)
    code = "\n\n\n".join([helper.imported, *helper.functions.values()])
    first = run.graph.op(move.ops[0])  # where the run saw it; edits move lines
    request = Request(
        helper.kind, code, helper.name, found.steps, file.text, first.in_sig, run=str(run.path.absolute()), op=first
    )
    return _Edit(found.text, needed, helper.functions, request)


def _free_name(name: str, source: Source) -> str:
    taken, number = source.names(), 1
    while (free := name if number == 1 else f"{name}_{number}") in taken:
        number += 1
    return free


def _map_part(ops: list[Op]) -> list[Op]:
    """The operations up to the first that does more than treat each element by itself."""
    part: list[Op] = []
    for op in ops:
        role = role_of(op.name)
        if role is None or role.kind != MAP:
            break
        part.append(op)
    return part


def _diff(before: str, after: str, file: str) -> str:
    lines = (before.splitlines(keepends=True), after.splitlines(keepends=True))
    return "".join(difflib.unified_diff(*lines, f"a/{file}", f"b/{file}"))
