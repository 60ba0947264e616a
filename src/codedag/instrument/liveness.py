"""Which local names may still be read after a statement: backward liveness over structured Python."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from codedag.instrument.scopes import Scope


@dataclass(slots=True)
class _Liveness:
    """Walks a body backwards; `always` holds names that an exception could make readable at any moment."""

    after: dict[int, frozenset[str]] = field(default_factory=dict)  # by id of a statement
    anytime: dict[int, frozenset[str]] = field(default_factory=dict)  # by id of a block
    always: frozenset[str] = frozenset()
    on_break: frozenset[str] = frozenset()
    on_continue: frozenset[str] = frozenset()

    def block(self, body: list[ast.stmt], live: frozenset[str]) -> frozenset[str]:
        self.anytime[id(body)] = self.anytime.get(id(body), frozenset()) | self.always
        for statement in reversed(body):
            live |= self.always
            self.after[id(statement)] = self.after.get(id(statement), frozenset()) | live
            live = self.statement(statement, live)
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
    """Which names may be read after each statement, and which an exception inside a block could make readable."""

    after: dict[int, frozenset[str]]
    anytime: dict[int, frozenset[str]]


def liveness(scope: Scope) -> Live:
    """What is live in a scope, by id of its statements and blocks."""
    found = _Liveness()
    found.block(scope.body, frozenset())
    return Live(found.after, found.anytime)
