"""Whether cv2 may have one thread in worker processes: as many of them as there are cores leave nothing for more.

cv2 starts its threads in every worker, and they only take turns with those of the others.  One thread gives the same
pixels where every function that the program uses is known not to depend on their number.  That is read off the source
of all its files; a library that uses cv2 itself, or a program that asks for the number, is a reason not to.
"""

from __future__ import annotations

import ast
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

from codedag.instrument.program import Program
from codedag.instrument.rewrite import parsed
from codedag.ir.verdict import No, Verdict, Yes

MOST_SOURCE = 500_000  # bytes; about half a second
WORKER = "torch.utils.data._utils.worker"
#: Beside the functions that are known: what writes files (its encoders have threads of their own), the exception, and
#: what sets the number: a worker that sets it has what it sets, and nobody sees what it was.
_FREE = frozenset({"imwrite", "error", "setNumThreads"})


class Capping:
    """Decides for one program, and caps in the workers that it starts."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.verdict: Verdict = No("nothing was asked yet")
        self._asked: tuple[int, int] = (-1, -1)

    def look(self) -> None:
        """Asks again if files or libraries have been loaded since; in the program, before it forks."""
        now = (len(self.program.files), len(sys.modules))
        if "cv2" in sys.modules and now != self._asked:
            self._asked, self.verdict = now, may_cap(self.program)

    def begin_worker(self) -> bool:
        """Caps cv2 in this worker if it may be, and if the workers keep all cores busy; whether it did."""
        cv2 = sys.modules.get("cv2")
        if cv2 is None or not self.verdict or workers_here() < _cores() or cv2.getNumThreads() < 2:
            return False
        # Not 1: that ends the threads of cv2's pool, which a fork leaves behind with their locks as they just were.
        # With 0 cv2 uses no pool from now on, and takes none of its locks; it says that it has one thread.
        cv2.setNumThreads(0)
        return True


def may_cap(program: Program) -> Verdict:
    """Whether nobody can tell how many threads cv2 has, and why not."""
    cv2 = sys.modules["cv2"]
    holder = next(_other_holders(cv2, set(program.files)), "")
    if holder:
        return No(f"{holder} uses cv2 itself")
    sources = {path: file.source for path, file in list(program.files.items()) if b"cv2" in file.source}
    if sum(map(len, sources.values())) > MOST_SOURCE:
        return No("there is too much source to look through while the program waits")
    for path, source in sources.items():
        verdict = _in_source(parsed(source, path), cv2)
        if not verdict:
            return verdict
    return Yes


def _in_source(tree: ast.AST, cv2: Any) -> Verdict:
    """Whether a file uses only what is known of cv2."""
    nodes = list(ast.walk(tree))
    aliases = {
        a.asname or a.name for node in nodes if isinstance(node, ast.Import) for a in node.names if a.name == "cv2"
    }
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute) and _is_name(node.value, aliases)}
    used |= {a.name for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "cv2" for a in node.names}
    if any(_hides(node) for node in nodes):
        return No("cv2 is imported in a way that does not show what is used")
    bases = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    if any(_is_name(node, aliases) and id(node) not in bases for node in nodes):
        return No("cv2 itself is handed on")
    unknown = sorted(name for name in used if not _is_free(cv2, name))
    return No(f"cv2.{unknown[0]} may depend on the number of threads") if unknown else Yes


def _is_name(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _hides(node: ast.AST) -> bool:
    """Whether a node brings cv2, or a part of it, in without saying what for."""
    if isinstance(node, ast.Import):
        return any(a.name.startswith("cv2.") for a in node.names)
    if isinstance(node, ast.ImportFrom):
        of = node.module or ""
        return of.startswith("cv2.") or (of == "cv2" and any(a.name == "*" for a in node.names))
    return isinstance(node, ast.Constant) and node.value == "cv2"


def _is_free(cv2: Any, name: str) -> bool:
    """Whether a name of cv2 is a constant, or a function that gives the same whatever the number of threads."""
    value = vars(cv2).get(name)
    if type(value) in (int, float, str, tuple) or name in _FREE:
        return True
    from codedag.backends.known import knowledge  # with all that is known about effects: only where workers use cv2

    found = knowledge().functions.get(id(value))
    return found is not None and not (found[1].by_threads or found[1].one_at_a_time)


def _other_holders(cv2: Any, files: set[str]) -> Iterator[str]:
    """The modules beside the program's own that have cv2, or a function of it."""
    own = {id(value) for value in tuple(vars(cv2).values()) if isinstance(value, types.BuiltinFunctionType)} | {id(cv2)}
    for name, module in list(sys.modules.items()):
        space = getattr(module, "__dict__", None)
        top = name.partition(".")[0]
        if type(space) is not dict or top in ("cv2", "codedag") or space.get("__file__") in files:
            continue
        if name != "__main__" and any(id(value) in own for value in list(space.values())):
            yield name


def workers_here() -> int:
    """How many workers the DataLoader has that this process is one of; 0 if it is none."""
    process: Any = getattr(sys.modules.get("multiprocessing.process"), "_current_process", None)
    target: Any = getattr(process, "_target", None)
    given: tuple[Any, ...] = getattr(process, "_args", ())
    loop: Any = getattr(sys.modules.get(WORKER), "_worker_loop", None)
    if not isinstance(loop, types.FunctionType) or target is not loop:
        return 0
    names = loop.__code__.co_varnames[: loop.__code__.co_argcount]
    place = names.index("num_workers") if "num_workers" in names else len(given)
    return given[place] if place < len(given) and type(given[place]) is int else 0


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
