"""Which local names are still read after a block: backward liveness over structured Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(slots=True)
class Scope:
    """One function body, or the body of the main module, with the names that others can see."""

    body: list[ast.stmt]
    shared: frozenset[str]

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
    """The scopes of a module in which a name can be known to be dead; class bodies and lambdas have none."""
    if main:
        yield Scope(tree.body, _names_in_inner_scopes(tree.body))
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS) and not _looks_at_itself(node):
            yield Scope(node.body, _names_in_inner_scopes(node.body) | _declared(node.body))


def _looks_at_itself(node: ast.AST) -> bool:
    """Whether a function can read its own locals by a way that is not a name."""
    frame_readers = {
        "locals",
        "vars",
        "eval",
        "exec",
        "dir",
        "breakpoint",
        "_getframe",
        "currentframe",
        "stack",
        "set_trace",
    }
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            name = part.func.id if isinstance(part.func, ast.Name) else getattr(part.func, "attr", "")
            if name in frame_readers:
                return True
    return False


def _names_in_inner_scopes(body: list[ast.stmt]) -> frozenset[str]:
    names: set[str] = set()
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, _OWN_SCOPE):
                names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                names |= {name for n in ast.walk(node) if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names}
    return frozenset(names)


def _declared(body: list[ast.stmt]) -> frozenset[str]:
    found = (n for s in body for n in ast.walk(s) if isinstance(n, ast.Global | ast.Nonlocal))
    return frozenset(name for node in found for name in node.names)


@dataclass(slots=True)
class _Liveness:
    """Walks a body backwards; `always` holds names that an exception could make readable at any moment."""

    after: dict[int, frozenset[str]] = field(default_factory=dict)
    anytime: dict[int, frozenset[str]] = field(default_factory=dict)
    always: frozenset[str] = frozenset()
    on_break: frozenset[str] = frozenset()
    on_continue: frozenset[str] = frozenset()

    def block(self, body: list[ast.stmt], live: frozenset[str]) -> frozenset[str]:
        self.after[id(body)] = self.after.get(id(body), frozenset()) | live | self.always
        self.anytime[id(body)] = self.anytime.get(id(body), frozenset()) | self.always
        for statement in reversed(body):
            live = self.statement(statement, live | self.always)
        return live | self.always

    def statement(self, node: ast.stmt, live: frozenset[str]) -> frozenset[str]:
        if isinstance(node, ast.If):
            return _loads(node.test) | self.block(node.body, live) | self.block(node.orelse, live)
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            return self.loop(node, live)
        if isinstance(node, ast.Try | ast.TryStar):
            return self.attempt(node, live)
        if isinstance(node, ast.With | ast.AsyncWith):
            return self.managed(node, live)
        if isinstance(node, ast.Match):
            cases = frozenset[str]().union(*(self.block(c.body, live) | _loads(c) for c in node.cases))
            return _loads(node.subject) | cases | live
        if isinstance(node, ast.Return | ast.Raise):
            return _loads(node)
        if isinstance(node, ast.Break):
            return self.on_break
        if isinstance(node, ast.Continue):
            return self.on_continue
        return (live - _stores(node)) | _loads(node)

    def loop(self, node: ast.For | ast.AsyncFor | ast.While, live: frozenset[str]) -> frozenset[str]:
        test = _loads(node.test) if isinstance(node, ast.While) else frozenset[str]()
        targets = frozenset[str]() if isinstance(node, ast.While) else _stores(node.target)
        outer = self.on_break, self.on_continue
        head = self.block(node.orelse, live) | test
        while True:
            self.on_break, self.on_continue = live, head
            wider = head | test | (self.block(node.body, head) - targets)
            if wider == head:
                break
            head = wider
        self.on_break, self.on_continue = outer
        return head if isinstance(node, ast.While) else head | _loads(node.iter)

    def attempt(self, node: ast.Try | ast.TryStar, live: frozenset[str]) -> frozenset[str]:
        final = self.block(node.finalbody, live)
        outer = self.always
        self.always = outer | (final if node.finalbody else frozenset())
        handlers = frozenset[str]().union(*(self.block(h.body, final) | _loads(h) for h in node.handlers))
        otherwise = self.block(node.orelse, final)
        self.always |= handlers
        body = self.block(node.body, otherwise)
        self.always = outer
        return body

    def managed(self, node: ast.With | ast.AsyncWith, live: frozenset[str]) -> frozenset[str]:
        outer = self.always
        self.always = outer | live  # a context manager may swallow an exception and go on after the block
        body = self.block(node.body, live)
        self.always = outer
        return body | frozenset[str]().union(*(_loads(item) for item in node.items))


def _loads(node: ast.AST) -> frozenset[str]:
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)) | (
        frozenset((node.target.id,))
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
        else frozenset()
    )


def _stores(node: ast.AST) -> frozenset[str]:
    """Names that a statement (or a loop target) certainly stores; a store that may not happen does not count."""
    if isinstance(node, ast.Assign):
        return frozenset[str]().union(*(_stores(target) for target in node.targets))
    if isinstance(node, ast.AugAssign) or (isinstance(node, ast.AnnAssign) and node.value is not None):
        return _stores(node.target)
    if isinstance(node, ast.Tuple | ast.List):
        return frozenset[str]().union(*(_stores(element) for element in node.elts))
    if isinstance(node, ast.Starred):
        return _stores(node.value)
    return frozenset((node.id,)) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else frozenset()


@dataclass(frozen=True, slots=True)
class Live:
    """What may be read after the end of a block, and what an exception inside it could make readable."""

    after: frozenset[str] = frozenset()
    anytime: frozenset[str] = frozenset()


def live_after_blocks(scope: Scope) -> dict[int, Live]:
    """For each block of the scope (by id of its list) the names that are not dead at its end."""
    liveness = _Liveness()
    liveness.block(scope.body, frozenset())
    return {block: Live(names, liveness.anytime[block]) for block, names in liveness.after.items()}
