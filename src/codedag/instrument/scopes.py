"""The scopes of a module in which a local name can be known to be dead, and who else could read their names.

A name is hidden if only the code of its own scope can read it: by its name, and in the order in which it stands there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from codedag.instrument.stable import mentioned

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_LATER = (*_OWN_SCOPE, ast.GeneratorExp)  # code that may read names of the scope around it at any later time
#: Whoever uses these can read the locals of any function that is running.
_READ_FRAMES = frozenset({
    "_getframe", "currentframe", "f_locals", "f_back", "getouterframes", "getinnerframes", "_current_frames",
    "set_trace", "breakpoint", "post_mortem", "tb_frame", "gi_frame", "cr_frame", "ag_frame",
})  # fmt: skip
#: These read the names of the scope where they are called; the last ones are pandas' and duckdb's.
_READ_NAMES = frozenset({"locals", "vars", "eval", "exec", "dir", "interact", "query", "sql"})
_OF_NUMEXPR = frozenset({"evaluate", "re_evaluate", "validate"})  # common names, and readers only in numexpr
#: These read the names of a module.
_READ_GLOBALS = frozenset({"globals", "modules", "__main__", "f_globals", "__dict__", "import_module", "__globals__"})


@dataclass(slots=True)
class Scope:
    """One function body, or the body of the main module, with the names that others can see."""

    body: list[ast.stmt]
    shared: frozenset[str]
    open: bool  # everything in it can be seen
    attributes: Attributes

    def hides(self, name: str) -> bool:
        """Whether only the statements of this scope can read a name."""
        return not self.open and name not in self.shared

    def blocks(self) -> Iterator[list[ast.stmt]]:
        """Every list of statements of this scope, nested scopes left out."""
        waiting = [self.body]
        while waiting:
            block = waiting.pop()
            yield block
            for statement in block:
                if not isinstance(statement, _OWN_SCOPE):
                    waiting += _blocks_of(statement)


def _blocks_of(statement: ast.stmt) -> list[list[ast.stmt]]:
    blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
    blocks += [handler.body for handler in getattr(statement, "handlers", [])]
    blocks += [case.body for case in getattr(statement, "cases", [])]
    return [block for block in blocks if block]


def scopes(tree: ast.Module, *, main: bool) -> Iterator[Scope]:
    """The scopes of a module; class bodies and lambdas are none."""
    attributes = Attributes(tree)
    names = frozenset[str]().union(*(mentioned(node) for node in ast.walk(tree)))
    frames = bool(names & _READ_FRAMES) or _inspects(tree)
    readers = _READ_NAMES | (_OF_NUMEXPR if "numexpr" in names else frozenset())
    if main:
        seen = frames or bool(names & _READ_GLOBALS) or _reads_own_names(tree, readers)
        yield Scope(tree.body, _names_in_inner_scopes(tree.body), seen, attributes)
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS):
            shared = _names_in_inner_scopes(node.body) | _declared(node.body)
            yield Scope(node.body, shared, frames or _reads_own_names(node, readers), attributes)


def _reads_own_names(node: ast.AST, readers: frozenset[str]) -> bool:
    """Whether a function can read its own locals by another way than by name; `vars(x)` reads x and nothing else."""
    harmless = {
        id(part.func)
        for part in ast.walk(node)
        if isinstance(part, ast.Call)
        and part.args
        and isinstance(part.func, ast.Name)
        and part.func.id in ("vars", "dir")
    }
    return any(mentioned(part) & readers for part in ast.walk(node) if id(part) not in harmless)


def _inspects(tree: ast.Module) -> bool:
    """Whether `inspect.stack` or `inspect.trace` is used, whose short names others have too (np.stack)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "inspect":
            if node.attr in ("stack", "trace"):
                return True
        elif isinstance(node, ast.ImportFrom) and node.module == "inspect":
            if {alias.name for alias in node.names} & {"stack", "trace", "*"}:
                return True
        elif isinstance(node, ast.alias) and node.name == "inspect" and node.asname is not None:
            return True
    return False


def _names_in_inner_scopes(body: list[ast.stmt]) -> frozenset[str]:
    inner = [n for s in body for node in ast.walk(s) if isinstance(node, _LATER) for n in ast.walk(node)]
    names = {n.id for n in inner if isinstance(n, ast.Name)}
    return frozenset(names.union(*(n.names for n in inner if isinstance(n, ast.Global | ast.Nonlocal))))


def _declared(body: list[ast.stmt]) -> frozenset[str]:
    found = (n for s in body for n in ast.walk(s) if isinstance(n, ast.Global | ast.Nonlocal))
    return frozenset(name for node in found for name in node.names)


class Attributes:
    """Which attributes of a file's objects may run code when they are read, as far as the file itself tells."""

    def __init__(self, tree: ast.Module) -> None:
        nodes = list(ast.walk(tree))
        defined = {n.name for n in nodes if isinstance(n, _FUNCTIONS)}
        self._dynamic = bool(defined & {"__getattr__", "__getattribute__", "__get__"})
        self._computed = {n.name for n in nodes if isinstance(n, _FUNCTIONS) and any(map(_computes, n.decorator_list))}
        for statement in (s for n in nodes if isinstance(n, ast.ClassDef) for s in n.body):  # x = property(...)
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
                self._computed |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
        self._modules = {
            (a.asname or a.name).partition(".")[0] for n in nodes if isinstance(n, ast.Import) for a in n.names
        }

    def may_run_code(self, node: ast.Attribute, *, called: bool = False) -> bool:
        """Whether reading this attribute may run a property or a hook that this file defines."""
        if isinstance(node.value, ast.Name) and node.value.id in self._modules:
            return False
        return node.attr in self._computed or (self._dynamic and not called)


def _computes(decorator: ast.expr) -> bool:
    return getattr(decorator, "id", "") not in ("staticmethod", "classmethod")
