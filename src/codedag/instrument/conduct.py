"""What the functions of a file do that their sites do not tell: stores, handlers, frames, imports, by owner.

Owners are named as sites name them: "Photos.__getitem__", "make.<lambda>", "" for the module.  Comprehensions belong
to the function they stand in.  Definitions that share a name share their facts: what one of them does, they all do.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from codedag.instrument.rewrite import parsed

#: Names that give access to frames, code or names of others, called or only mentioned.
LOOKING = frozenset({
    "exec", "eval", "compile", "locals", "globals", "vars", "__import__", "breakpoint", "_getframe", "currentframe",
    "settrace", "setprofile", "gi_frame", "cr_frame", "f_locals", "f_globals", "f_back", "__dict__", "__globals__",
    "__code__", "__closure__", "setattr", "delattr", "__setattr__", "__delattr__",
})  # fmt: skip
_LOCAL, _PARAMETER, _OUTER, _OWN = "local", "parameter", "outer", "own"
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Store:
    """One place where a function stores or deletes something that may outlive its call.

    `kind`: attribute, subscript, global or nonlocal.  `reach`: "own" is an attribute of the object that `__init__`
    makes, "local" something held by a local name (which may be another name for an object of others: the site of a
    subscript tells), "parameter" and "outer" can be seen by others.
    """

    kind: str
    name: str
    line: int
    reach: str
    deletes: bool = False


@dataclass(frozen=True, slots=True)
class Conduct:
    """What one function does that its sites do not tell; lines are those of the file."""

    owner: str
    stores: tuple[Store, ...] = ()
    catches_everything: tuple[int, ...] = ()  # lines
    is_generator: bool = False
    is_async: bool = False
    with_items: tuple[tuple[str, int], ...] = ()  # as written, and line
    imports: tuple[tuple[str, int], ...] = ()
    looks: tuple[tuple[str, int], ...] = ()  # names of LOOKING

    @property
    def seen_by_others(self) -> tuple[Store, ...]:
        """The stores that somebody else can see after or during the call."""
        return tuple(store for store in self.stores if store.reach in (_PARAMETER, _OUTER))

    def with_those_of(self, other: Conduct) -> Conduct:
        """The facts of two definitions of one name."""
        return Conduct(
            self.owner, self.stores + other.stores, self.catches_everything + other.catches_everything,
            self.is_generator or other.is_generator, self.is_async or other.is_async,
            self.with_items + other.with_items, self.imports + other.imports, self.looks + other.looks,
        )  # fmt: skip


def conduct_of(source: bytes, path: str) -> dict[str, Conduct]:
    """The facts of every function, lambda and class body of a source file, and of the module ("")."""
    found: dict[str, Conduct] = {}
    _collect(parsed(source, path), "", found)
    return found


def _collect(scope: Any, owner: str, found: dict[str, Conduct]) -> None:
    facts = _Facts(scope, owner)
    for statement in scope.body if isinstance(scope.body, list) else [scope.body]:
        facts.visit(statement)
    conduct = facts.conduct()
    found[owner] = found[owner].with_those_of(conduct) if owner in found else conduct
    for inner in facts.inner:
        name = getattr(inner, "name", "<lambda>")
        _collect(inner, f"{owner}.{name}" if owner else name, found)


@dataclass
class _Facts(ast.NodeVisitor):
    """Gathers the facts of one scope; scopes inside it are kept for later."""

    scope: Any
    owner: str
    inner: list[_Scope] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    catches: list[int] = field(default_factory=list)
    with_items: list[tuple[str, int]] = field(default_factory=list)
    imports: list[tuple[str, int]] = field(default_factory=list)
    looks: list[tuple[str, int]] = field(default_factory=list)
    yields: bool = False

    def __post_init__(self) -> None:
        arguments = getattr(self.scope, "args", None)
        self.parameters = [each.arg for each in _arguments(arguments)] if arguments else []
        self.declared = {name: kind for kind, name in _declared(self.scope)}
        self.bound = {*self.parameters, *_bound(self.scope)} - set(self.declared)
        self.makes = self.parameters[0] if self.owner.endswith(".__init__") and self.parameters else ""

    def conduct(self) -> Conduct:
        return Conduct(
            self.owner, tuple(self.stores), tuple(self.catches), self.yields,
            isinstance(self.scope, ast.AsyncFunctionDef), tuple(self.with_items), tuple(self.imports),
            tuple(self.looks),
        )  # fmt: skip

    # -- scopes inside: their decorators, defaults and bases are evaluated here

    def _inside(self, node: Any) -> None:
        self.inner.append(node)
        if not isinstance(node, ast.Lambda):
            self._name(node.name, node.lineno)
            for part in (*node.decorator_list, *getattr(node, "bases", ()), *getattr(node, "keywords", ())):
                self.visit(part)
        if not isinstance(node, ast.ClassDef):
            for default in (*node.args.defaults, *(each for each in node.args.kw_defaults if each)):
                self.visit(default)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _inside  # noqa: N815

    # -- stores

    def _name(self, name: str, line: int, deletes: bool = False) -> None:
        if isinstance(self.scope, ast.Module):
            self.stores.append(Store("global", name, line, _OUTER, deletes))
        elif name in self.declared:
            self.stores.append(Store(self.declared[name], name, line, _OUTER, deletes))

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._name(node.id, node.lineno, isinstance(node.ctx, ast.Del))
        elif node.id in LOOKING:
            self.looks.append((node.id, node.lineno))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._part("attribute", node)
        if node.attr in LOOKING:
            self.looks.append((node.attr, node.lineno))

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._part("subscript", node)

    def _part(self, kind: str, node: ast.Attribute | ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            reach = self._reach(node.value)
            if kind == "attribute" and self.makes and isinstance(node.value, ast.Name) and node.value.id == self.makes:
                reach = _OWN
            self.stores.append(Store(kind, ast.unparse(node), node.lineno, reach, isinstance(node.ctx, ast.Del)))
        self.generic_visit(node)

    def _reach(self, holder: ast.expr) -> str:
        """Who can see what is stored into this: it is read off the name it starts with."""
        while isinstance(holder, ast.Subscript | ast.Attribute | ast.Starred):
            holder = holder.value
        if not isinstance(holder, ast.Name) or holder.id not in self.bound:
            return _OUTER
        return _PARAMETER if holder.id in self.parameters else _LOCAL

    # -- what catches everything

    def visit_Try(self, node: Any) -> None:
        for handler in node.handlers:
            if handler.type is None or _names_everything(handler.type):
                self.catches.append(handler.lineno)
        self.catches += [leaves.lineno for statement in node.finalbody for leaves in _leaving(statement)]
        self.generic_visit(node)

    visit_TryStar = visit_Try  # noqa: N815

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self._name(node.name, node.lineno)
        self.generic_visit(node)

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.with_items.append((ast.unparse(item.context_expr), item.context_expr.lineno))
            call = item.context_expr
            if (
                isinstance(call, ast.Call)
                and _last_name(call.func) == "suppress"
                and any(map(_names_everything, call.args))
            ):
                self.catches.append(call.lineno)
        self.generic_visit(node)

    visit_With = visit_AsyncWith = _with  # noqa: N815

    # -- the rest

    def visit_Yield(self, node: Any) -> None:
        self.yields = True
        self.generic_visit(node)

    visit_YieldFrom = visit_Yield  # noqa: N815

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        origin = (
            "." * node.level + (f"{node.module}." if node.module else "") if isinstance(node, ast.ImportFrom) else ""
        )
        for alias in node.names:
            self.imports.append((f"{origin}{alias.name}", node.lineno))
            self._name(alias.asname or alias.name.partition(".")[0], node.lineno)

    visit_ImportFrom = visit_Import  # noqa: N815

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name:
            self._name(node.name, node.lineno)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name:
            self._name(node.name, node.lineno)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self._name(node.rest, node.lineno)
        self.generic_visit(node)


def _arguments(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (each for each in (arguments.vararg, arguments.kwarg) if each is not None)


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope without those of the scopes inside it."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _Scope):
            waiting += ast.iter_child_nodes(node)


def _declared(scope: ast.AST) -> Iterator[tuple[str, str]]:
    for node in _own_nodes(scope):
        if isinstance(node, ast.Global | ast.Nonlocal):
            kind = "global" if isinstance(node, ast.Global) else "nonlocal"
            yield from ((kind, name) for name in node.names)


def _bound(scope: ast.AST) -> Iterator[str]:
    """The names that a scope binds itself; the module's belong to everybody."""
    if isinstance(scope, ast.Module):
        return
    for node in _own_nodes(scope):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def _names_everything(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple):
        return any(map(_names_everything, node.elts))
    return _last_name(node) == "BaseException"


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _leaving(node: ast.AST, in_loop: bool = False) -> Iterator[ast.stmt]:
    """Statements of a `finally` that leave it and drop whatever was raised."""
    if isinstance(node, ast.Return) or (isinstance(node, ast.Break | ast.Continue) and not in_loop):
        yield node
    if isinstance(node, _Scope):
        return
    inside = in_loop or isinstance(node, ast.For | ast.While | ast.AsyncFor)
    for child in ast.iter_child_nodes(node):
        yield from _leaving(child, inside)
