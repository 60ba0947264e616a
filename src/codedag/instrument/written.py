"""What the source proves about its sites: values that nothing reads, expressions that come again, literals.

Nothing here looks at what a trace happened to see.  A claim about time or purity needs the graph too (plan/passes.py).
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from codedag.instrument.links import _OPERANDS, _Event, _is_arithmetic_of_constants, _Line, links
from codedag.instrument.liveness import Live, liveness
from codedag.instrument.numbering import number
from codedag.instrument.scopes import Scope, scopes
from codedag.ir.findings import Written

Fixed = tuple[int, ...]
SPREAD = 1 << 20  # arguments that cannot be counted
_SIMPLE = (
    ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.Name, ast.Attribute, ast.Constant, ast.Tuple,
    ast.List, ast.Slice, ast.keyword, ast.operator, ast.unaryop, ast.cmpop, ast.expr_context,
)  # fmt: skip


def written(source: bytes, file: str, *, main: bool) -> dict[int, Written]:
    """What is proven about each site of a module, by number; `main` says that nobody can import its names."""
    tree = ast.parse(source)
    infos, _ = number(tree, file)
    nodes = {node.cd_site: node for node in ast.walk(tree) if hasattr(node, "cd_site")}
    facts = _Facts(nodes, _imported(tree), _tried(tree))
    for scope in scopes(tree, main=main):
        live = liveness(scope)
        for block in scope.blocks():
            if id(block) in live.anytime:  # a block that is never reached has no liveness
                facts.look(scope, block, live)
    once = {link.source: link for link in links(tree, main=main)}
    found = {}
    for info in infos:
        link, (keywords, positional) = once.get(info.index), _given(facts.nodes.get(info.index))
        by_name = link is not None and link.operand == 0 and info.index in facts.named
        found[info.index] = Written(
            info.line, info.column, unused=info.index in facts.unused, again=facts.again.get(info.index, -1),
            feeds=link.target if link is not None and by_name else -1, fixed=facts.fixed.get(info.index),
            passes_on=link.target if link is not None else -1, keywords=keywords, positional=positional,
        )  # fmt: skip
    return found


@dataclass(slots=True)
class _Facts:
    """What was found so far, by number of the site."""

    nodes: dict[int, Any]
    imported: frozenset[str]
    tried: frozenset[int]  # statements in which an exception may be what is wanted, by id
    unused: set[int] = field(default_factory=set)
    named: set[int] = field(default_factory=set)
    again: dict[int, int] = field(default_factory=dict)
    fixed: dict[int, Fixed] = field(default_factory=dict)

    def look(self, scope: Scope, block: list[ast.stmt], live: Live) -> None:
        """Adds what one block of statements shows."""
        events = _Line(scope.attributes).of(block)
        hidden = {e.name for e in events if e.what == "store" and scope.hides(e.name)} - live.anytime[id(block)]
        if block and id(block[0]) not in self.tried:
            self.unused |= {e.site for at, e in enumerate(events) if _is_unused(events, at, hidden, live)}
        self.named |= {e.site for e in events if e.what == "site" and e.to is not None and e.to[0] == "name"}
        self._look_for_repeats(events)
        self._look_for_literals(events, hidden)

    def _look_for_repeats(self, events: list[_Event]) -> None:
        barriers = list(accumulate((event.what == "barrier" for event in events), initial=0))
        last: dict[str, int] = {}
        for at, event in enumerate(events):
            node = self.nodes.get(event.site) if event.what == "site" else None
            if not isinstance(node, ast.expr) or not _is_simple(node):
                continue
            text = ast.dump(node)
            before = last.get(text)
            if before is not None and barriers[before] == barriers[at]:
                stored = {e.name for e in events[before:at] if e.what == "store"}
                if not stored & {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}:
                    self.again[event.site] = events[before].site
            last[text] = at

    def _look_for_literals(self, events: list[_Event], hidden: set[str]) -> None:
        names: dict[str, int] = {}  # those that hold what a fixed site gave
        made: _Event | None = None
        for event in events:
            if event.what == "barrier":
                names.clear()
            elif event.what == "site":
                made = event
                parts = _fixed(self.nodes.get(event.site), names, self.imported, "")
                if parts is not None:
                    self.fixed[event.site] = parts
            elif event.what == "store":
                names.pop(event.name, None)
                mine = made is not None and made.statement is event.statement and made.to == ("name", event.name)
                if made is not None and mine and made.site in self.fixed and event.name in hidden:
                    names[event.name] = made.site


def _is_unused(events: list[_Event], at: int, hidden: set[str], live: Live) -> bool:
    """Whether a name gets what the site of this event gives, and nothing can read it there.

    A call that stands alone is not looked at: it may be there to raise.
    """
    event = events[at]
    if event.what != "site":
        return False
    statement = event.statement
    if event.to is None or event.to[0] != "name" or event.to[1] not in hidden or isinstance(statement, ast.AugAssign):
        return False
    mine = [each for each in events[at + 1 :] if each.name == event.to[1]][:2]
    if not mine or mine[0].what != "store" or mine[0].statement is not statement:
        return False
    return mine[1].what == "store" if len(mine) > 1 else event.to[1] not in live.after[id(statement)]


def _tried(tree: ast.Module) -> frozenset[int]:
    """The statements inside a `try` or a `with`, by id."""
    around = [node for node in ast.walk(tree) if isinstance(node, ast.Try | ast.TryStar | ast.With | ast.AsyncWith)]
    return frozenset(id(part) for node in around for part in ast.walk(node) if isinstance(part, ast.stmt))


def _is_simple(node: ast.expr) -> bool:
    """Whether an expression is made of names, literals, operators and calls alone, with nothing spread."""
    spread = any(isinstance(part, ast.keyword) and part.arg is None for part in ast.walk(node))
    return not spread and all(isinstance(part, _SIMPLE) for part in ast.walk(node))


def _imported(tree: ast.Module) -> frozenset[str]:
    """The names that a module imports at its top, and that nothing else in it binds."""
    nodes = list(ast.walk(tree))
    imports = [each for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
    names = Counter((a.asname or a.name).partition(".")[0] for each in imports for a in each.names)
    every = [n for n in nodes if isinstance(n, ast.Import | ast.ImportFrom) and n not in imports]
    bound = {(a.asname or a.name).partition(".")[0] for each in every for a in each.names}
    bound |= {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    bound |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    bound |= {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    bound |= {str(n.name) for n in nodes if isinstance(n, ast.ExceptHandler | ast.MatchAs | ast.MatchStar)}
    return frozenset(name for name, times in names.items() if times == 1) - bound


def _root(node: ast.expr) -> str:
    """The name that a chain of attributes begins with, or nothing."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _fixed(node: Any, names: dict[str, int], imported: frozenset[str], library: str) -> Fixed | None:
    """The sites that an expression is made of if the rest are literals, or attributes of the library; else None."""
    if isinstance(node, ast.Constant) or (isinstance(node, ast.expr) and _is_arithmetic_of_constants(node)):
        return ()
    if isinstance(node, ast.Name):
        return (names[node.id],) if node.id in names else None
    if isinstance(node, ast.Attribute):
        return () if library and _root(node) == library else None
    if isinstance(node, ast.Call):
        return _fixed_call(node, names, imported)
    if isinstance(node, ast.Tuple | ast.List | ast.Slice):
        return _all_fixed([child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)],
                          names, imported, library)  # fmt: skip
    if hasattr(node, "cd_site") and type(node) in _OPERANDS:
        return _all_fixed([part for part, _ in _OPERANDS[type(node)](node)], names, imported, library)
    return None


def _fixed_call(node: ast.Call, names: dict[str, int], imported: frozenset[str]) -> Fixed | None:
    given = [*node.args, *(each.value for each in node.keywords)]
    if not hasattr(node, "cd_site") or any(isinstance(each, ast.Starred) for each in node.args):
        return None
    if any(each.arg is None for each in node.keywords):
        return None
    library = _root(node.func)
    if library in imported:
        return _all_fixed(given, names, imported, library)
    if not isinstance(node.func, ast.Attribute):
        return None
    return _all_fixed([node.func.value, *given], names, imported, _root_of_calls(node.func.value, imported))


def _root_of_calls(node: ast.expr, imported: frozenset[str]) -> str:
    """The library whose function the innermost of several calls in a row is."""
    while isinstance(node, ast.Call):
        if _root(node.func) in imported:
            return _root(node.func)
        node = node.func.value if isinstance(node.func, ast.Attribute) else node.func
    return ""


def _all_fixed(parts: list[ast.expr], names: dict[str, int], imported: frozenset[str], library: str) -> Fixed | None:
    found: list[int] = []
    for part in parts:
        own = _fixed(part, names, imported, library)
        if own is None:
            return None
        found += (part.cd_site,) if hasattr(part, "cd_site") else own
    return tuple(found)


def _given(node: Any) -> tuple[tuple[str, ...], int]:
    """The keywords of a call, and how many arguments it has without one; more than any if something is spread."""
    if not isinstance(node, ast.Call):
        return (), 0
    names = [each.arg for each in node.keywords]
    spread = None in names or any(isinstance(each, ast.Starred) for each in node.args)
    return tuple(name for name in names if name is not None), SPREAD if spread else len(node.args)
