"""Loops whose turns could run ahead of their time: the part of the body that comes first, as a function of its own.

That part is made of statements whose every operation is a site.  So what its operations gave in a turn that ran ahead
can be given again, site by site, when the program comes to that turn; whatever stands between them (names, branches)
then goes the same way.
"""

from __future__ import annotations

import ast
import copy
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from codedag.instrument.numbering import number
from codedag.instrument.rewrite import bind, parsed, rewrite_statements
from codedag.instrument.warned import unheard

ITEM = "codedag item"  # the parameter that is what the loop is at: no name of the program
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_CHANGING = frozenset({"append", "extend", "add", "update", "insert", "write", "put", "writerow", "appendleft"})
_NEVER = (
    *_SCOPES, ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom,
    ast.Delete, ast.Assert, ast.Try, ast.With, ast.AsyncWith, ast.AsyncFor, ast.Raise, ast.Return, ast.Match,
    ast.GeneratorExp,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LoopAhead:
    """One loop, and what of it can run ahead."""

    site: int  # that of what it runs over
    owner: str
    line: int
    whole: bool  # everything that happens in a turn is in there: nothing of the program runs between two turns
    sites: tuple[int, ...]
    names: tuple[str, ...]  # that it takes from around the loop, if they are not global
    stored: frozenset[str]  # that it binds, which others must not read
    target: ast.expr
    body: Sequence[ast.stmt]


def loops_ahead(source: bytes, path: str, compiled: Any) -> dict[int, LoopAhead]:
    """The loops of a file that could run ahead, by the site of what they run over."""
    tree = parsed(source, path)
    infos, _ = number(tree, path, compiled)
    found = (_comprehension(n, infos) if isinstance(n, _COMPREHENSIONS) else _for(n, infos) for n in _loops(tree))
    return {loop.site: loop for loop in found if loop is not None}


def outlined(loop: LoopAhead, path: str, names: Sequence[str], sites: list[Any], switches: list[Any]) -> types.CodeType:
    """The code of a function that runs one turn: of what the loop is at, and of these names from around it."""
    take = ast.Assign([copy.deepcopy(loop.target)], ast.Name(ITEM, ast.Load()))
    body = [take, *rewrite_statements(copy.deepcopy(list(loop.body)), loop.sites)]
    arguments = ast.arguments([], [ast.arg(name) for name in (ITEM, *names)], None, [], [], None, [])
    function = ast.FunctionDef("ahead", arguments, body, [], None)
    function.lineno = function.end_lineno = loop.line
    function.col_offset = function.end_col_offset = 0
    module = ast.fix_missing_locations(ast.Module([function], []))
    with unheard():
        code = compile(module, path, "exec", dont_inherit=True)
    made = next(constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return bind(made, sites, switches)


def _loops(tree: ast.AST) -> Iterator[Any]:
    return (n for n in ast.walk(tree) if isinstance(n, (ast.For, *_COMPREHENSIONS)))


def _comprehension(node: Any, infos: Sequence[Any]) -> LoopAhead | None:
    generator = node.generators[0]
    if len(node.generators) > 1 or generator.ifs or generator.is_async or not _is_target(generator.target):
        return None
    value = ast.Tuple([node.key, node.value], ast.Load()) if isinstance(node, ast.DictComp) else node.elt
    if _stops(value):
        return None
    body: list[ast.stmt] = [ast.copy_location(ast.Return(value), node)]
    return _loop(generator, generator.target, body, True, infos)


def _for(node: ast.For, infos: Sequence[Any]) -> LoopAhead | None:
    if not _is_target(node.target):
        return None
    carried = _stored(node.body) | _declared(node.body)
    bound, body = _stored([node.target]), list[ast.stmt]()
    for statement in node.body:
        if not _can(statement, True) or _is_mutating(statement) or (_loaded([statement]) - bound) & carried:
            body += [part for part in _heads(statement) if not (_loaded([part]) - bound) & carried]
            break
        body.append(_returning(copy.deepcopy(statement)))
        bound |= _stored([statement]) if not isinstance(statement, ast.If | ast.For) else set()
    return _loop(node, node.target, body, False, infos) if body else None


def _loop(node: Any, target: Any, body: list[ast.stmt], whole: bool, infos: Sequence[Any]) -> LoopAhead | None:
    sites = tuple(sorted({n.cd_site for s in body for n in ast.walk(s) if hasattr(n, "cd_site")}))
    info = infos[node.cd_site]
    if not any(infos[site].kind == 0 for site in sites):  # without a call there is nothing that could take long
        return None
    stored = frozenset(_stored([target, *body]))
    names = tuple(sorted(_loaded(body) - stored))
    return LoopAhead(node.cd_site, info.owner, info.line, whole, sites, names, stored, target, tuple(body))


def _can(node: ast.stmt, outer: bool) -> bool:
    """Whether a statement only computes: its operations are sites, and it stores nothing but local names."""
    if isinstance(node, ast.If):
        return not _stops(node.test) and all(_can(each, outer) for each in (*node.body, *node.orelse))
    if isinstance(node, ast.For) and not node.orelse:
        return _is_target(node.target) and not _stops(node.iter) and all(_can(each, False) for each in node.body)
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return all(map(_is_target, targets)) and node.value is not None and not _stops(node.value)
    return isinstance(node, ast.Pass | ast.Continue | ast.Break) or (isinstance(node, ast.Expr) and not _stops(node))


def _is_mutating(node: ast.stmt) -> bool:
    """Whether a statement is like `found.append(x)`: what it changes belongs to all turns."""
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _CHANGING


def _heads(node: Any) -> list[ast.stmt]:
    """What a statement that cannot run ahead computes before it does what it does."""
    value: Any = getattr(node, "value", None)
    if isinstance(node, ast.Expr) and isinstance(value, ast.Yield | ast.Await):
        value = value.value
    parts: list[Any] = list(value.args) if isinstance(value, ast.Call) and _is_mutating(node) else [value]
    if not isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return) or None in parts:
        return []
    worth = [part for part in parts if any(hasattr(inner, "cd_site") for inner in ast.walk(part))]
    return [] if any(map(_stops, parts)) else [ast.copy_location(ast.Expr(part), part) for part in worth]


def _is_target(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple | ast.List):
        return all(map(_is_target, node.elts))
    return isinstance(node, ast.Name)


def _stops(node: ast.AST) -> bool:
    """Whether something in an expression is not seen by a site, or means something else in another function."""
    for part in ast.walk(node):
        if isinstance(part, _NEVER) or (isinstance(part, ast.Call) and not hasattr(part, "cd_site")):
            return True
        name = part.attr if isinstance(part, ast.Attribute) else part.id if isinstance(part, ast.Name) else ""
        if name.startswith("__") and not (name.endswith("__") and isinstance(part, ast.Attribute)):
            return True
    return False


def _returning(node: Any, inside: bool = False) -> Any:
    """The statement with `continue` and `break` of the loop itself as the end of the turn."""
    if isinstance(node, ast.Continue | ast.Break) and not inside:
        return ast.copy_location(ast.Return(None), node)
    for field in ("body", "orelse"):
        if isinstance(node, ast.If | ast.For):
            inner = inside or isinstance(node, ast.For)
            setattr(node, field, [_returning(each, inner) for each in getattr(node, field)])
    return node


def _names(nodes: Sequence[ast.AST], kind: Any) -> set[str]:
    return {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, kind)}


def _loaded(nodes: Sequence[ast.AST]) -> set[str]:
    """Names that are read, also those that an augmented assignment reads."""
    changed = [n.target for node in nodes for n in ast.walk(node) if isinstance(n, ast.AugAssign)]
    return _names(nodes, ast.Load) | _names(changed, ast.Store)


def _stored(nodes: Sequence[ast.AST]) -> set[str]:
    return _names(nodes, ast.Store | ast.Del)


def _declared(nodes: Sequence[ast.AST]) -> set[str]:
    kinds = (ast.Global, ast.Nonlocal)
    return {name for node in nodes for n in ast.walk(node) if isinstance(n, kinds) for name in n.names}
