"""The sampler's call tree as the report shows it: packages, what the user's lines call, workers' trees joined."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from codedag.autopilot.heat import HotCall as Seen
from codedag.autopilot.report.heat_report import package_of
from codedag.instrument.places import OURS
from codedag.ir.report import HotCall
from codedag.trace.gathered import shown_path

TEXT_MAX = 60  # characters
SOURCE_NBYTES_MAX = 2_000_000


def calls_of(trees: Iterable[list[Seen]]) -> list[HotCall]:
    """One tree of all; calls on one line of which the same is called are one, and CodeDAG's own frames are left out."""
    sources: dict[str, list[bytes]] = {}
    numbers: dict[tuple[int, str, str, int, str], int] = {}
    made: list[HotCall] = []
    for tree in trees:
        here: list[int] = []
        for seen in tree:
            parent = here[seen.parent] if seen.parent >= 0 else -1
            package = package_of(seen.file)
            if seen.file.startswith(OURS) and parent >= 0:  # what it calls is the user's, as before
                here.append(parent)
                number = parent
            else:
                text = "" if package else _text(seen, sources)
                key = (parent, seen.file, seen.qualname, max(seen.line, 0), text)
                number = numbers.setdefault(key, len(made))
                if number == len(made):
                    made.append(HotCall(
                        parent=parent, name=seen.qualname, file=shown_path(seen.file), line=max(seen.line, 0),
                        text=text, package=package,
                    ))  # fmt: skip
                here.append(number)
            _add(made, number, seen)
    return made


def _add(made: list[HotCall], number: int, seen: Seen) -> None:
    import msgspec

    one = made[number]
    made[number] = msgspec.structs.replace(
        one, self_seconds=one.self_seconds + seen.self_seconds,
        waiting_seconds=one.waiting_seconds + seen.waiting_seconds,
    )  # fmt: skip


def _text(seen: Seen, sources: dict[str, list[bytes]]) -> str:
    """What stands at the place: of a call the function, of anything else all of it."""
    if seen.file not in sources:
        sources[seen.file] = _lines(seen.file)
    lines = sources[seen.file][seen.line - 1 : seen.end_line] if seen.line > 0 else []
    if not lines or seen.column < 0 or seen.end_column < 0:
        return ""
    first = lines[0].decode(errors="replace").strip()
    lines = [*lines[:-1], lines[-1][: seen.end_column]]
    lines[0] = lines[0][seen.column :]
    found = b" ".join(lines).decode(errors="replace")
    return (_shown(found, lines[0].decode(errors="replace")) or first)[:TEXT_MAX]


def _shown(source: str, first_line: str) -> str:
    """An expression or the head of a loop, without the arguments of its outermost call; empty: neither."""
    for text in (f"({source})", f"{first_line} pass", first_line):
        try:
            (statement,) = ast.parse(text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if isinstance(statement, ast.Expr):
            return _called(statement.value)
        if isinstance(statement, ast.For):
            return f"for {ast.unparse(statement.target)} in {_called(statement.iter)}"
    return ""


def _called(tree: ast.expr) -> str:
    calls = 0
    while isinstance(tree, ast.Call):  # of Parallel(n_jobs=2)(...) both
        tree, calls = tree.func, calls + 1
    return ast.unparse(tree) + "()" * calls


def _lines(file: str) -> list[bytes]:
    try:
        path = Path(file)
        return path.read_bytes().splitlines() if path.stat().st_size <= SOURCE_NBYTES_MAX else []
    except (OSError, ValueError):
        return []
