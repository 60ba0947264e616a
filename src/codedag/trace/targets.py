"""What the program calls the things it makes: the names that statements give to results, by place in the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from codedag.instrument.sites import ITERATE, SiteInfo

Place = tuple[bool, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Targets:
    """The names in one file: of results, and of the only variable that an expression reads."""

    made: dict[Place, str] = field(default_factory=dict)
    read: dict[Place, str] = field(default_factory=dict)

    def of(self, info: SiteInfo) -> str:
        """The name that the statement gives to what this site makes, or ""."""
        return self.made.get(_place_of(info), "")

    def argument(self, info: SiteInfo) -> str:
        """The only variable that is handed to this site, or "" if there are several or none."""
        return self.read.get(_place_of(info), "")


def targets(source: bytes, path: str) -> Targets:
    """The names in a source file."""
    found = Targets()
    tree = ast.parse(source, path)
    imported = set(_imported(tree))
    for node in ast.walk(tree):
        for value, name, iterates in _given(node):
            for part in _results(value):
                found.made.setdefault(_place(part, iterates), name)
        names = {name for name in _names_read(node) if name not in imported}
        if len(names) == 1:
            found.read[_place(node, False)] = names.pop()
    return found


def _place(node: Any, iterates: bool) -> Place:
    return iterates, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _place_of(info: SiteInfo) -> Place:
    return info.kind == ITERATE, info.line, info.column, info.end_line, info.end_column


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                yield (alias.asname or alias.name).partition(".")[0]


def _given(node: ast.AST) -> Iterator[tuple[ast.AST, str, bool]]:
    """What a statement names: the expression (or the statement itself, if it writes), the name, whether it iterates."""
    match node:
        case ast.Assign(targets=[first, *_]):
            # `x[i] = value` makes a new version of x, and no name for the value
            yield (node if isinstance(first, ast.Subscript) else node.value), _named(first), False
        case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
            yield value, _named(target), False
        case ast.AugAssign(target=target):
            yield node, _named(target), False
        case ast.For(target=target, iter=over) | ast.comprehension(target=target, iter=over):
            yield over, _named(target), True
        case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
            yield value, _named(target), False


def _named(target: ast.expr) -> str:
    match target:
        case ast.Name(id=name):
            return name
        case ast.Attribute() | ast.Subscript():
            return ast.unparse(target if isinstance(target, ast.Attribute) else target.value)
        case ast.Starred(value=value):
            return _named(value)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return ", ".join(_named(part) for part in parts)
    return ""


def _results(value: ast.AST) -> Iterator[ast.AST]:
    """The expressions whose result the whole expression has."""
    match value:
        case ast.IfExp(body=body, orelse=other):
            yield from _results(body)
            yield from _results(other)
        case ast.Await(value=inner) | ast.NamedExpr(value=inner):
            yield from _results(inner)
        case _:
            yield value


def _names_read(node: ast.AST) -> Iterator[str]:
    """The plain names among the operands of an operation."""
    match node:
        case ast.Call(func=function, args=args, keywords=keywords):
            receiver = [function.value] if isinstance(function, ast.Attribute) else []
            yield from _plain([*receiver, *args, *(k.value for k in keywords)])
        case ast.BinOp(left=left, right=right):
            yield from _plain([left, right])
        case ast.UnaryOp(operand=value) | ast.Subscript(value=value):
            yield from _plain([value])
        case ast.AugAssign(target=target, value=value):
            yield from _plain([target, value])


def _plain(nodes: list[ast.expr]) -> Iterator[str]:
    for node in nodes:
        inner = node.value if isinstance(node, ast.Starred) else node
        if isinstance(inner, ast.Name):
            yield inner.id
