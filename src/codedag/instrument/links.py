"""Which sites feed exactly one other site: what the source alone proves about single use.

A link A -> B says: whenever A runs, the next thing that ever happens to its value is that B takes it as one operand;
nothing else reads it, nothing that is not a site runs in between, and the variable that carried it is dead after B.
Runs of links are the chains that a plan may replace as a whole.  Never derived from what a trace happened to see.
"""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from codedag.instrument.liveness import liveness
from codedag.instrument.scopes import Attributes, Scope, scopes

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
    statement: ast.stmt
    site: int = -1
    name: str = ""
    to: Any = None  # ("site", index, operand) | ("name", name) | None


def links(tree: ast.Module, *, main: bool) -> list[Link]:
    """The links of a numbered module; `main` says that nobody can import its global names."""
    found: list[Link] = []
    for scope in scopes(tree, main=main):
        live = liveness(scope)
        for block in scope.blocks():
            anytime = live.anytime.get(id(block))
            if anytime is not None:  # a block that is never reached has no liveness
                events = _Line(scope.attributes).of(block)
                hidden = {e.name for e in events if e.what == "store" and scope.hides(e.name)} - anytime
                found += _links_of(events, hidden, live.after)
    return found


def uses(tree: ast.Module, *, main: bool) -> dict[int, tuple[int, ...]]:
    """The sites that take the value of each site, where nothing else can read it: one site or several."""
    found: dict[int, tuple[int, ...]] = {}
    for scope in scopes(tree, main=main):
        live = liveness(scope)
        for block in scope.blocks():
            anytime = live.anytime.get(id(block))
            if anytime is not None:
                events = _Line(scope.attributes).of(block)
                hidden = {e.name for e in events if e.what == "store" and scope.hides(e.name)} - anytime
                found |= _uses_of(events, hidden, live.after)
    return found


def _uses_of(
    events: list[_Event], hidden: set[str], live_after: dict[int, frozenset[str]]
) -> dict[int, tuple[int, ...]]:
    at = {event.site: i for i, event in enumerate(events) if event.what == "site"}
    barriers = list(accumulate((event.what == "barrier" for event in events), initial=0))
    found = {}
    for i, event in enumerate(events):
        if event.what != "site" or event.to is None:
            continue
        takers = [event.to] if event.to[0] == "site" else []
        if event.to[0] == "name" and event.to[1] in hidden:
            takers = _every_use([e for e in events[i:] if e.name == event.to[1]], live_after)
        places = [at.get(taker[1], -1) for taker in takers if taker is not None and taker[0] == "site"]
        if len(places) == len(takers) and all(j > i and barriers[i] == barriers[j] for j in places) and takers:
            found[event.site] = tuple(dict.fromkeys(taker[1] for taker in takers))
    return found


def _every_use(mine: list[_Event], live_after: dict[int, frozenset[str]]) -> list[Any]:
    """What takes a stored value until its name is bound anew; `mine`: its store and what follows with this name."""
    if not mine or mine[0].what != "store":
        return [None]
    again = next((k for k, event in enumerate(mine) if k and event.what == "store"), None)
    own = mine[1:again]
    last = own[-1] if own else mine[0]
    if again is None and last.name in live_after[id(last.statement)]:
        return [None]
    return [event.to for event in own]


def opened(tree: ast.Module, *, main: bool) -> list[Link]:
    """The links from what a `with` statement opens to the one thing that its block does with it."""
    found = []
    for scope in scopes(tree, main=main):
        names = Counter(n.id for each in scope.body for n in ast.walk(each) if isinstance(n, ast.Name))
        for statement in (each for block in scope.blocks() for each in block if isinstance(each, ast.With)):
            item = statement.items[0]
            name, site = getattr(item.optional_vars, "id", ""), getattr(item.context_expr, "cd_site", -1)
            if len(statement.items) != 1 or site < 0 or not scope.hides(name):
                continue
            events = _Line(scope.attributes).of(statement.body)
            if names[name] == 2 or (_is_bound_anew(events, name) and not _catches(scope, statement)):
                found += [Link(site, use[1], use[2]) for use in _first_use(events, name)]
    return found


def _is_bound_anew(events: list[_Event], name: str) -> bool:
    """Whether the statement that uses a name first gives it another value: `image = image.convert("RGB")`."""
    first = [event for event in events if event.name == name][:2]
    return [event.what for event in first] == ["use", "store"] and first[0].statement is first[1].statement


def _catches(scope: Scope, statement: ast.With) -> bool:
    """Whether the program may go on where a name has kept what was opened, as its block has failed half-way."""
    for part in (part for each in scope.body for part in ast.walk(each)):
        if isinstance(part, ast.Try | ast.TryStar):
            return True
        if isinstance(part, ast.With | ast.AsyncWith) and part is not statement and statement in ast.walk(part):
            return True  # which may be a contextlib.suppress
    return False


def _first_use(events: list[_Event], name: str) -> list[Any]:
    """What takes the value that is opened, if it is a site and nothing but sites comes before it."""
    for i, event in enumerate(events):
        if event.what == "barrier":
            return []
        if event.what == "use" and event.name == name:
            is_site = event.to is not None and event.to[0] == "site"
            j = next((k for k in range(i, len(events)) if is_site and events[k].site == event.to[1]), i)
            return [event.to] if is_site and all(e.what != "barrier" for e in events[i : j + 1]) else []
    return []


def _links_of(events: list[_Event], hidden: set[str], live_after: dict[int, frozenset[str]]) -> list[Link]:
    at = {event.site: i for i, event in enumerate(events) if event.what == "site"}
    barriers = list(accumulate((event.what == "barrier" for event in events), initial=0))
    uses: dict[str, list[int]] = defaultdict(list)
    for i, event in enumerate(events):
        uses[event.name].append(i)
    found = []
    for i, event in enumerate(events):
        to = event.to if event.what == "site" else None
        if to is not None and to[0] == "name":
            where = uses[to[1]]
            mine = where[bisect_left(where, i) :][:3]
            to = _only_use([events[k] for k in mine], live_after) if to[1] in hidden else None
        if to is None:
            continue
        j = at.get(to[1], -1)
        if j > i and barriers[i] == barriers[j]:
            found.append(Link(event.site, to[1], to[2]))
    return found


def _only_use(mine: list[_Event], live_after: dict[int, frozenset[str]]) -> Any:
    """The one use of a stored value, if it is a site's operand and the last one; `mine`: its store and what follows."""
    if len(mine) < 2 or mine[1].what != "use" or mine[1].to is None or mine[1].to[0] != "site":
        return None
    use = mine[1]
    if len(mine) > 2 and mine[2].statement is use.statement:
        return use.to if mine[2].what == "store" else None  # read again, or bound anew: then what was in it is gone
    return None if use.name in live_after[id(use.statement)] else use.to


# ---- a block of statements as one line of events, in the order of evaluation


@dataclass(slots=True)
class _Line:
    """Writes down the events of one block."""

    attributes: Attributes
    events: list[_Event] = field(default_factory=list)
    _statement: ast.stmt = field(default_factory=ast.Pass)

    def of(self, block: list[ast.stmt]) -> list[_Event]:
        for statement in block:
            self._statement = statement
            handler = _STATEMENTS.get(type(statement))
            if handler is None:
                self.opaque(statement)
            else:
                handler(self, statement)
        return self.events

    def add(self, what: str, site: int = -1, name: str = "", to: Any = None) -> None:
        self.events.append(_Event(what, self._statement, site, name, to))

    def opaque(self, node: ast.AST) -> None:
        """Anything not understood: it may do anything, and every name in it is used (and perhaps stored) by it."""
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                self.add("use", name=part.id)
        self.add("barrier")

    # -- statements

    def assign(self, node: ast.Assign) -> None:
        target = node.targets[0] if len(node.targets) == 1 else None
        self.value(node.value, ("name", target.id) if isinstance(target, ast.Name) else None)
        for each in node.targets:
            self.store(each, node)

    def store(self, target: ast.expr, node: ast.stmt) -> None:
        if isinstance(target, ast.Name):
            self.add("store", name=target.id)
        elif isinstance(target, ast.Subscript) and hasattr(node, "cd_site"):
            self.value(target.value, ("site", node.cd_site, 1))
            self.value(target.slice, ("site", node.cd_site, 2))
            self.add("site", node.cd_site)
        elif isinstance(target, ast.Tuple | ast.List):
            self.add("barrier")  # taking the value apart runs its iterator
            for element in target.elts:
                self.store(element, node)
        else:
            self.opaque(target)

    def annotated(self, node: ast.AnnAssign) -> None:
        if node.value is None or not isinstance(node.target, ast.Name):
            self.opaque(node)
            return
        self.value(node.value, ("name", node.target.id))
        self.add("store", name=node.target.id)
        for part in ast.walk(node.annotation):  # evaluated at module level, after the store
            if isinstance(part, ast.Name):
                self.add("use", name=part.id)
            elif isinstance(part, ast.Call | ast.NamedExpr):
                self.add("barrier")

    def augmented(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Name) or not hasattr(node, "cd_site"):
            self.opaque(node)
            return
        name = node.target.id
        self.add("use", name=name, to=("site", node.cd_site, 0))
        self.value(node.value, ("site", node.cd_site, 1))
        self.add("site", node.cd_site, to=("name", name))
        self.add("store", name=name)

    def only_value(self, node: ast.Return | ast.Expr) -> None:
        if node.value is not None:
            self.value(node.value, None)

    # -- expressions

    def value(self, node: ast.expr, to: Any) -> None:
        """Events of evaluating an expression whose value goes to `to`."""
        if isinstance(node, ast.Name):
            self.add("use", name=node.id, to=to)
        elif isinstance(node, ast.Constant):
            pass
        elif hasattr(node, "cd_site") and type(node) in _OPERANDS:
            self.site(node, to)
        elif isinstance(node, ast.Attribute):
            self.value(node.value, None)
            if self.attributes.may_run_code(node):
                self.add("barrier")
        elif isinstance(node, ast.Tuple | ast.List | ast.Slice):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.value(child, None)
        elif isinstance(node, ast.UnaryOp | ast.BinOp) and _is_arithmetic_of_constants(node):
            pass
        else:
            self.opaque(node)

    def site(self, node: Any, to: Any) -> None:
        for part, operand in _OPERANDS[type(node)](node):
            self.value(part, None if operand is None else ("site", node.cd_site, operand))
            if operand == "self" and self.attributes.may_run_code(node.func, called=True):
                self.add("barrier")
        if isinstance(node, ast.Call) and any(k.arg is None for k in node.keywords):
            self.add("barrier")  # spreading a mapping runs its methods
        self.add("site", node.cd_site, to=to)


_STATEMENTS: dict[type[ast.stmt], Callable[[_Line, Any], None]] = {
    ast.Assign: _Line.assign,
    ast.AnnAssign: _Line.annotated,
    ast.AugAssign: _Line.augmented,
    ast.Return: _Line.only_value,
    ast.Expr: _Line.only_value,
    ast.Pass: lambda line, node: None,
}


def _is_arithmetic_of_constants(node: ast.expr) -> bool:
    return all(
        isinstance(n, ast.Constant | ast.UnaryOp | ast.BinOp | ast.unaryop | ast.operator) for n in ast.walk(node)
    )


def _call_operands(node: ast.Call) -> list[tuple[ast.expr, Operand | None]]:
    parts: list[tuple[ast.expr, Operand | None]] = []
    parts.append((node.func.value, "self") if isinstance(node.func, ast.Attribute) else (node.func, None))
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
