"""The changes of a run as code to adopt without CodeDAG: helper functions, and a diff for each place."""

from __future__ import annotations

import ast
import difflib
import hashlib
import textwrap
from dataclasses import dataclass
from pathlib import Path

from codedag.autopilot.standalone import standalone
from codedag.backends.elementwise import MAP, role_of
from codedag.backends.registry import find
from codedag.instrument.guard import Failed, attempt
from codedag.ir import Graph, Move, Op, RunDirectory

BY_TABLE = '''
def by_table(image, steps):
    """steps(image) for a uint8 image, channels last: the steps run on the 256 values only, the pixels are looked up."""
    shape = image.shape if image.ndim == 3 else (*image.shape, 1)
    values = np.arange(256, dtype=np.uint8).reshape(256, 1, 1).repeat(shape[2], axis=2)
    table = steps(values if image.ndim == 3 else values[:, :, 0]).reshape(256, shape[2])
    pixels, out = image.reshape(shape), np.empty(shape, table.dtype)
    for channel in range(shape[2]):
        np.take(table[:, channel], pixels[:, :, channel], out=out[:, :, channel], mode="clip")
    return out.reshape(image.shape)
'''.strip()
KEPT = '''
_kept = {}


def kept(path, steps):
    """steps(path), computed once per version of the file."""
    state = os.stat(path)
    key = (path, state.st_mtime_ns, state.st_size)
    if key not in _kept:
        _kept[key] = steps(path)
    return _kept[key].copy()
'''.strip()


@dataclass(frozen=True, slots=True)
class Adoption:
    """One change as code: what to add once, what to change, and what to know about it."""

    where: str
    what: str
    helper: str = ""
    diff: str = ""
    note: str = ""


def adoptions(run: RunDirectory) -> list[Adoption]:
    """Each change of the run's plan as code."""
    return [_adoption(run, move) for move in run.plan.moves]


_NOTES = {
    "widen": "the items of a batch were fetched in threads; DataLoader(num_workers=...) is what torch has for that",
    "loop": "turns of the loop ran in threads; concurrent.futures.ThreadPoolExecutor.map is what Python has for that",
    "overlap": "the next batch began while this one was used; DataLoader(num_workers=...) is what torch has for that",
}


def _adoption(run: RunDirectory, move: Move) -> Adoption:
    where = f"{move.file}:{move.line}" + (f"-{move.end_line}" if move.end_line > move.line else "")
    what = " > ".join(name.rpartition(".")[2] for name in move.chain)
    made = attempt(_written, run, move, where, what)
    if isinstance(made, Failed):
        return Adoption(where, what, note=f"it cannot be written as code: {made.reason.removeprefix('LookupError: ')}")
    return made


def _written(run: RunDirectory, move: Move, where: str, what: str) -> Adoption:
    if note := _NOTES.get("loop" if move.kind == "widen" and move.chain == ["loop"] else move.kind):
        return Adoption(where, what, note=note)
    text = _source(run, move)
    if move.kind in ("substitute", "inside"):
        return _substitute(run, move, text, where, what)
    ops = [run.graph.op(number) for number in move.ops]
    if not ops:
        raise LookupError("this run began with it and has not observed its operations; a run with --fresh does")
    if move.kind == "fuse" and move.variant in ("flow", "loops"):
        raise LookupError(
            "its steps run in one loop of C; numba.njit on a function with these lines is what comes near"
        )
    if move.kind == "fuse":
        diff = _wrapped(text, move, ops, _map_part(ops), "by_table")
        return Adoption(where, what, f"import numpy as np\n\n\n{BY_TABLE}", diff)
    return Adoption(where, what, f"import os\n\n\n{KEPT}", _wrapped(text, move, ops, ops, "kept"))


def _source(run: RunDirectory, move: Move) -> str:
    path = Path(run.run.cwd) / move.file
    text = path.read_bytes()
    known = next((source.sha256 for source in run.plan.sources if source.file == move.file), "")
    if hashlib.sha256(text).hexdigest() != known:
        raise LookupError(f"{move.file} has changed since the run")
    return text.decode()


# -- calls


def _substitute(run: RunDirectory, move: Move, text: str, where: str, what: str) -> Adoption:
    substitution = next((one for one in find(move.chain[0]) if one.into == move.variant), None)
    if substitution is None:
        raise LookupError(f"{move.chain[0]} -> {move.variant} is not in the registry of this installation")
    name = f"fast_{move.chain[0].rpartition('.')[2]}"
    helper = standalone(substitution.run, name)
    takes = substitution.takes
    note = f"only for calls like these: {takes}" if takes else ""
    if move.kind == "inside":
        module, _, last = move.chain[0].rpartition(".")
        return Adoption(where, what, f"{helper}\n\n\nimport {module}\n\n{module}.{last} = {name}", note=note)
    call = _call_at(ast.parse(text), run.graph, move)
    changed = _replaced(text, call.func, name)
    return Adoption(where, what, helper, _diff(text, changed, move.file), note)


def _call_at(tree: ast.Module, graph: Graph, move: Move) -> ast.Call:
    columns = {graph.op(number).col for number in move.ops}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.lineno == move.line and (not columns or node.col_offset in columns):
            return node
    raise LookupError("the call is not found in the source")


def _replaced(text: str, node: ast.expr, new: str) -> str:
    lines = text.splitlines(keepends=True)
    if node.end_lineno != node.lineno or node.end_col_offset is None:
        raise LookupError("the name of the function stands on several lines")
    line = lines[node.lineno - 1].encode()
    lines[node.lineno - 1] = (line[: node.col_offset] + new.encode() + line[node.end_col_offset :]).decode()
    return "".join(lines)


# -- chains and prefixes: their statements become a function that a helper runs


def _map_part(ops: list[Op]) -> list[Op]:
    """The operations up to the first that does more than treat each element by itself."""
    part: list[Op] = []
    for op in ops:
        role = role_of(op.name)
        if role is None or role.kind != MAP:
            break
        part.append(op)
    return part


def _wrapped(text: str, move: Move, every: list[Op], ops: list[Op], helper: str) -> str:
    """The diff that makes the statements of these operations a function of what goes in, and runs that by a helper."""
    if not ops:
        raise LookupError("it does not begin with operations on single elements")
    block = _statements(ast.parse(text), min(op.line for op in ops), max(op.line for op in ops))
    others = [op for op in every if op not in ops]
    if any(s.lineno <= op.line <= (s.end_lineno or 0) for s in block for op in others):
        raise LookupError("its last statement does more than treat single elements")
    if not all(isinstance(statement, ast.Assign | ast.AugAssign) for statement in block):
        raise LookupError("there are other statements than assignments between its operations")
    source, target = _argument(block[0], ops[0]), _target(block[-1])
    lines = text.splitlines(keepends=True)
    start, end = block[0].lineno - 1, block[-1].end_lineno or block[-1].lineno
    indent = lines[start][: len(lines[start]) - len(lines[start].lstrip())]
    body = textwrap.indent(textwrap.dedent("".join(lines[start:end])), indent + "    ")
    head, last = f"{indent}def steps({source}):\n", f"{indent}    return {target}\n\n"
    call = f"{indent}{target} = {helper}({source}, steps)\n"
    return _diff(text, "".join([*lines[:start], head, body, last, call, *lines[end:]]), move.file)


def _statements(tree: ast.Module, first: int, last: int) -> list[ast.stmt]:
    """The statements of one block that cover these lines."""
    found: list[ast.stmt] = []
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            inside = [s for s in body if isinstance(s, ast.stmt) and s.lineno <= last and (s.end_lineno or 0) >= first]
            if inside and inside[0].lineno <= first and (inside[-1].end_lineno or 0) >= last:
                found = inside
    if not found:
        raise LookupError("its statements stand in several blocks")
    return found


def _argument(statement: ast.stmt, op: Op) -> str:
    """The variable that goes into the first operation."""
    here = [
        node
        for node in ast.walk(statement)
        if isinstance(node, ast.Call | ast.BinOp) and (node.lineno, node.col_offset) == (op.line, op.col)
    ]
    # what encloses an operation may begin where it begins; the first one is the innermost
    node = min(here, key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0), default=None)
    for inner in _operands(node, op):
        if isinstance(inner, ast.Name):
            return inner.id
    raise LookupError("what goes in is not a variable")


def _operands(node: ast.Call | ast.BinOp | None, op: Op) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Call) and op.name.startswith(("numpy.ndarray.", "torch.Tensor.", "PIL.Image.Image.")):
        return [node.func.value] if isinstance(node.func, ast.Attribute) else []
    return node.args[:1] if isinstance(node, ast.Call) else []


def _target(statement: ast.stmt) -> str:
    target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
    if not isinstance(target, ast.Name):
        raise LookupError("what comes out is not a variable")
    return target.id


def _diff(before: str, after: str, file: str) -> str:
    lines = (before.splitlines(keepends=True), after.splitlines(keepends=True))
    return "".join(difflib.unified_diff(*lines, f"a/{file}", f"b/{file}"))
