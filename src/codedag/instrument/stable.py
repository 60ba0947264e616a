"""Which names cannot change while an expression is evaluated: what an augmented assignment may read twice.

`x[i] += v` reads x and i once, before v; as sites it reads them again for the store.  That is the same only where
nothing in between can bind them anew.
"""

from __future__ import annotations

import ast
from typing import Any

#: Names that give access to a module's variables by another way than by name.
OPEN_DOORS = frozenset({"globals", "exec", "eval", "vars", "setattr", "__dict__", "modules", "__main__", "f_globals"})
_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Names:
    """The scopes around the statement that is looked at, and how their names can be bound."""

    def __init__(self, tree: ast.Module) -> None:
        nodes = list(ast.walk(tree))
        self._declared = {n for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for n in node.names}
        self._closed = not any(mentioned(node) & OPEN_DOORS for node in nodes)
        self._scopes: list[set[str] | None] = []  # local names of each function around; None for a class body

    def enter(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        """Goes into the body of a definition."""
        self._scopes.append(None if isinstance(node, ast.ClassDef) else _locals_of(node))

    def leave(self) -> None:
        """Goes out of it again."""
        self._scopes.pop()

    def can_be_read_twice(self, node: ast.AugAssign) -> bool:
        """Whether `target op= value` may become load, operate, store, with the parts of the target read twice."""
        target = node.target
        if isinstance(target, ast.Name):
            return True  # a name is loaded once and stored once either way
        if not isinstance(target.value, ast.Name):
            return False
        if isinstance(target, ast.Subscript) and not _is_constant_index(target.slice):
            return False
        names = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
        return all(self._is_stable(name, node.value) for name in names)

    def _is_stable(self, name: str, value: ast.expr) -> bool:
        parts = list(ast.walk(value))
        if name in self._declared or any(isinstance(p, ast.NamedExpr) and p.target.id == name for p in parts):
            return False
        if not self._scopes:
            return self._closed
        here = self._scopes[-1]
        if here is None:  # the namespace of a class can be any mapping
            return False
        if name in here:
            return True
        if any(scope and name in scope for scope in self._scopes):
            return not any(isinstance(p, ast.Call | ast.Await | ast.Yield | ast.YieldFrom) for p in parts)
        return self._closed


def mentioned(node: ast.AST) -> set[str]:
    """The names that one node mentions: as a variable, an attribute or an import."""
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.Attribute):
        return {node.attr}
    if isinstance(node, ast.alias):
        return {node.name, node.name.rpartition(".")[2]}
    return set()


def _is_constant_index(index: ast.expr) -> bool:
    """Whether building the index runs no code: names and constants, in slices and tuples."""
    if isinstance(index, ast.UnaryOp):
        return isinstance(index.operand, ast.Constant)
    if isinstance(index, ast.Tuple):
        return all(_is_constant_index(element) for element in index.elts)
    if isinstance(index, ast.Slice):
        return all(part is None or _is_constant_index(part) for part in (index.lower, index.upper, index.step))
    return isinstance(index, ast.Name | ast.Constant)


def _locals_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    a = node.args
    found = {arg.arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if arg is not None}
    waiting: list[Any] = list(node.body)
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            found.add(part.id)
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda | _COMPREHENSIONS):
            continue  # names bound in there are not bound here
        waiting += ast.iter_child_nodes(part)
    return found
