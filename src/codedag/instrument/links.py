"""Which sites feed exactly one other site: what the source alone proves about single use.

A link A -> B says: whenever A runs, the next thing that ever happens to its value is that B takes it as one operand;
nothing else reads it, nothing that is not a site runs in between, and the variable that carried it is dead after B.
Runs of links are the chains that a plan may replace as a whole.  Never derived from what a trace happened to see.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from codedag.instrument.liveness import Live, Scope, live_after_blocks, scopes

Operand = int | str  # position, keyword, or "self" for the object whose method is called


@dataclass(frozen=True, slots=True)
class Link:
    """The value of site `source` is used once: by site `target`, as this operand."""

    source: int
    target: int
    operand: Operand


@dataclass(slots=True)
class _Event:
    what: str  # "site" | "use" | "store" | "barrier"
    site: int = -1
    name: str = ""
    to: Any = None  # ("site", index, operand) | ("name", name) | None


def links(tree: ast.Module, *, main: bool) -> list[Link]:
    """The links of a numbered module; `main` says that nobody can import its global names."""
    found: list[Link] = []
    for scope in scopes(tree, main=main):
        live = live_after_blocks(scope)
        for block in scope.blocks():
            found += _links_of(_linear(block), scope, live.get(id(block), Live()))
    return found


def _links_of(events: list[_Event], scope: Scope, live: Live) -> list[Link]:
    at = {event.site: i for i, event in enumerate(events) if event.what == "site"}
    found = []
    for i, event in enumerate(events):
        if event.what != "site" or event.to is None:
            continue
        to = event.to
        if to[0] == "name":
            hidden = to[1] not in scope.shared and to[1] not in live.anytime
            to = _only_use(events, i, to[1], live.after) if hidden else None
        if to is None or to[1] not in at:
            continue
        j = at[to[1]]
        if j > i and not any(e.what == "barrier" for e in events[i:j]):
            found.append(Link(event.site, to[1], to[2]))
    return found


def _only_use(events: list[_Event], start: int, name: str, live_after: frozenset[str]) -> Any:
    """The one use of `name` between its store after `start` and its next store, if it is a site's operand."""
    i = next(j for j in range(start, len(events)) if events[j].what == "store" and events[j].name == name)
    uses = []
    for event in events[i + 1 :]:
        if event.name == name and event.what == "use":
            uses.append(event)
        elif event.name == name and event.what == "store":
            break
    else:
        if name in live_after:
            return None
    return uses[0].to if len(uses) == 1 and uses[0].to is not None and uses[0].to[0] == "site" else None


# ---- a block of statements as one line of events, in the order of evaluation


def _linear(block: list[ast.stmt]) -> list[_Event]:
    out: list[_Event] = []
    for statement in block:
        handler = _STATEMENTS.get(type(statement))
        if handler is None:
            _opaque(statement, out)
        else:
            handler(statement, out)
    return out


def _opaque(node: ast.AST, out: list[_Event]) -> None:
    """Anything not understood: it may do anything, and every name in it is used (and perhaps stored) by it."""
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    out += [_Event("use", name=n.id) for n in names]
    out.append(_Event("barrier"))


def _assign(node: ast.Assign, out: list[_Event]) -> None:
    target = node.targets[0]
    one_name = len(node.targets) == 1 and isinstance(target, ast.Name)
    _value(node.value, ("name", target.id) if one_name else None, out)  # type: ignore[union-attr]
    for each in node.targets:
        _store(each, node, out)


def _store(target: ast.expr, node: ast.stmt, out: list[_Event]) -> None:
    if isinstance(target, ast.Name):
        out.append(_Event("store", name=target.id))
    elif isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            _store(element, node, out)
    elif isinstance(target, ast.Subscript) and hasattr(node, "cd_site"):
        _value(target.value, ("site", node.cd_site, 1), out)
        _value(target.slice, ("site", node.cd_site, 2), out)
        out.append(_Event("site", node.cd_site))
    else:
        _opaque(target, out)


def _annotated(node: ast.AnnAssign, out: list[_Event]) -> None:
    if node.value is None or not isinstance(node.target, ast.Name):
        _opaque(node, out)
        return
    _value(node.value, ("name", node.target.id), out)
    out.append(_Event("store", name=node.target.id))


def _augmented(node: ast.AugAssign, out: list[_Event]) -> None:
    if not isinstance(node.target, ast.Name) or not hasattr(node, "cd_site"):
        _opaque(node, out)
        return
    name = node.target.id
    out.append(_Event("use", name=name, to=("site", node.cd_site, 0)))
    _value(node.value, ("site", node.cd_site, 1), out)
    out.append(_Event("site", node.cd_site, to=("name", name)))
    out.append(_Event("store", name=name))


def _return(node: ast.Return, out: list[_Event]) -> None:
    if node.value is not None:
        _value(node.value, None, out)


def _expression(node: ast.Expr, out: list[_Event]) -> None:
    _value(node.value, None, out)


_STATEMENTS: dict[type[ast.stmt], Any] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Return: _return,
    ast.Expr: _expression,
    ast.Pass: lambda node, out: None,
}


def _value(node: ast.expr, to: Any, out: list[_Event]) -> None:
    """Events of evaluating an expression whose value goes to `to`."""
    if isinstance(node, ast.Name):
        out.append(_Event("use", name=node.id, to=to))
    elif isinstance(node, ast.Constant):
        pass
    elif hasattr(node, "cd_site") and type(node) in _OPERANDS:
        for part, operand in _OPERANDS[type(node)](node):
            _value(part, None if operand is None else ("site", node.cd_site, operand), out)
        out.append(_Event("site", node.cd_site, to=to))
    elif isinstance(node, ast.Attribute | ast.Starred):
        _value(node.value, None, out)
    elif isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict | ast.Slice):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                _value(child, None, out)
    elif isinstance(node, ast.UnaryOp | ast.BinOp) and not any(
        isinstance(n, ast.Name | ast.Call) for n in ast.walk(node)
    ):
        pass  # arithmetic of constants
    else:
        _opaque(node, out)


def _call_operands(node: ast.Call) -> list[tuple[ast.expr, Operand | None]]:
    method = isinstance(node.func, ast.Attribute)
    parts: list[tuple[ast.expr, Operand | None]] = []
    parts.append((node.func.value, "self") if isinstance(node.func, ast.Attribute) and method else (node.func, None))
    spread = any(isinstance(a, ast.Starred) for a in node.args)
    parts += [(a, None if spread else i) for i, a in enumerate(node.args)]
    parts += [(k.value, k.arg) for k in node.keywords]
    return parts


_OPERANDS: dict[type[ast.expr], Any] = {
    ast.Call: _call_operands,
    ast.BinOp: lambda n: [(n.left, 0), (n.right, 1)],
    ast.UnaryOp: lambda n: [(n.operand, 0)],
    ast.Compare: lambda n: [(n.left, 0), (n.comparators[0], 1)],
    ast.Subscript: lambda n: [(n.value, 0), (n.slice, 1)],
}
