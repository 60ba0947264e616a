"""The rewriter: every call, operator, subscript and augmented assignment of a module becomes a site.

Sites and loop switches are bound as *constants* of the code objects, so neither globals(), locals() nor co_names
show them.  The rewritten code has placeholders; `bind` puts the objects in.  Each loop body is emitted twice, once
with sites and once plain, because a frame that is already running cannot be given new code.
"""

from __future__ import annotations

import ast
import copy
import sys
import types
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from codedag.instrument import sites as site_module
from codedag.instrument.compiled import Compiled
from codedag.instrument.numbering import number
from codedag.instrument.sites import SiteInfo
from codedag.instrument.warned import unheard

_SITE, _LOOP, _SPREAD = "\0codedag:site:", "\0codedag:loop:", "\0codedag:spread:"
_ITERATES_AT_LOOP = sys.version_info < (3, 13)  # where a failing iter() is reported: at the loop, or at what it is over


class CannotRewrite(Exception):  # noqa: N818 - a reason, turned into a note by the program
    """A module that has to stay as it is."""


@dataclass(slots=True)
class Rewritten:
    """A module after rewriting: code with placeholders, and the facts about its sites and loops."""

    code: types.CodeType
    sites: list[SiteInfo]
    loops: int
    loop_lines: tuple[tuple[int, int, bool], ...]  # first and last line of each loop, and whether its body is doubled


class _Rewriting(ast.NodeTransformer):
    """Replaces marked nodes by calls of their sites; `keep` limits it to some sites (then loops stay single)."""

    def __init__(self, keep: Collection[int] | None) -> None:
        self.keep = keep

    def _wants(self, node: ast.AST, attribute: str = "cd_site") -> bool:
        number = getattr(node, attribute, None)
        return number is not None and (self.keep is None or number in self.keep)

    def _call(
        self, node: Any, *args: ast.expr, keywords: Any = (), attribute: str = "cd_site", at: Any = None
    ) -> ast.Call:
        at = at or node
        site = ast.copy_location(ast.Constant(f"{_SITE}{getattr(node, attribute)}"), at)
        return ast.copy_location(ast.Call(site, list(args), list(keywords)), at)

    def _scope(self, node: Any) -> Any:
        if not hasattr(node, "cd_left"):
            node.body = [self.visit(statement) for statement in node.body]
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _scope  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        if not hasattr(node, "cd_left"):
            node.body = self.visit(node.body)
            if self._wants(node):
                node.body = self._call(node, node.body, at=node.body)
        return node

    def _leave(self, node: ast.AST) -> ast.AST:
        return node

    visit_JoinedStr = visit_Assert = visit_Delete = visit_TypeAlias = _leave  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
            node.target = self.visit(node.target)
        return node

    def visit_Match(self, node: ast.Match) -> ast.AST:
        node.subject = self.visit(node.subject)
        for case in node.cases:
            case.body = [self.visit(statement) for statement in case.body]
        return node

    # -- loops

    def _two_bodies(self, node: Any) -> None:
        plain = [_copied(s) for s in node.body] if self._doubles(node) else None
        node.body = [self.visit(statement) for statement in node.body]
        node.orelse = [self.visit(statement) for statement in node.orelse]
        if plain is not None:
            switch = self._switch(node, plain[0])
            node.body = [ast.copy_location(ast.If(switch, node.body, plain), switch)]

    def _doubles(self, node: Any) -> bool:
        return self.keep is None and _can_be_doubled(node)

    def _switch(self, node: Any, before: ast.AST) -> ast.expr:
        """The question which body to run, at the first line of what it stands before: a debugger stops there anyway."""
        at: Any = copy.copy(next(iter(getattr(before, "decorator_list", ())), before))
        at.end_lineno, at.end_col_offset = at.lineno, at.col_offset
        constant = ast.copy_location(ast.Constant(f"{_LOOP}{node.cd_loop}"), at)
        return ast.copy_location(ast.Attribute(constant, "on", ast.Load()), at)

    def visit_For(self, node: Any) -> ast.AST:
        node.iter = self.visit(node.iter)
        node.target = self.visit(node.target)
        if self._wants(node):
            node.iter = self._call(node, node.iter, at=node if _ITERATES_AT_LOOP else node.iter)
        self._two_bodies(node)
        return node  # type: ignore[no-any-return]

    def visit_AsyncFor(self, node: Any) -> ast.AST:
        node.iter = self.visit(node.iter)
        self._two_bodies(node)
        return node  # type: ignore[no-any-return]

    def visit_While(self, node: Any) -> ast.AST:
        plain = _copied(node.test)
        node.test = self.visit(node.test)
        if self._doubles(node) and not isinstance(plain, ast.Constant):
            node.test = ast.copy_location(ast.IfExp(self._switch(node, plain), node.test, plain), plain)
        self._two_bodies(node)
        return node  # type: ignore[no-any-return]

    def _comprehension(self, node: Any) -> ast.AST:
        for generator in node.generators:
            generator.cd_at = node if _ITERATES_AT_LOOP else generator.iter
        return self.generic_visit(node)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension  # noqa: N815

    def visit_comprehension(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        if self._wants(node):
            node.iter = self._call(node, node.iter, at=node.cd_at)
        return node  # type: ignore[no-any-return]

    # -- sites

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not self._wants(node):
            return node
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            return self._spread(node)
        return self._call(node, node.func, *node.args, keywords=node.keywords, at=_where_called(node))

    def _spread(self, node: ast.Call) -> ast.AST:
        """`f(*a)` as a call of `f` bound to its site, so that what Python says about a bad `a` names `f`."""
        bound = ast.copy_location(ast.Constant(f"{_SPREAD}{node.cd_site}"), node.func)  # type: ignore[attr-defined]
        node.func = ast.copy_location(ast.Call(bound, [node.func], []), node.func)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return self._call(node, node.left, node.right) if self._wants(node) else node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return self._call(node, node.operand) if self._wants(node) else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        return self._call(node, node.left, node.comparators[0]) if self._wants(node) else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if self._wants(node, "cd_slot"):
            slot = self._call(node, node.value, _index(node.slice), attribute="cd_slot")
            return ast.copy_location(ast.Attribute(slot, "value", ast.Store()), node)
        return self._call(node, node.value, _index(node.slice)) if self._wants(node) else node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        if not self._wants(node):
            return node
        target = node.targets[0]
        assert isinstance(target, ast.Subscript)
        call = self._call(node, node.value, target.value, _index(target.slice), at=target)
        return ast.copy_location(ast.Expr(call), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if hasattr(node, "cd_held"):
            return self._held(node)
        node.value = self.visit(node.value)
        if not hasattr(node, "cd_site"):
            node.target = self.visit(node.target)
        if not any(self._wants(node, a) for a in ("cd_site", "cd_get", "cd_set")):
            return node
        loaded = self._load(node)
        name = type(node.op)
        value: ast.expr = self._call(node, loaded, node.value) if self._wants(node) else None  # type: ignore[assignment]
        if value is None:  # an in-place operator that is not kept: its load or store is never kept alone
            raise AssertionError(f"half of an augmented assignment was kept: {name}")
        target = node.target
        if isinstance(target, ast.Subscript) and self._wants(node, "cd_set"):
            container, index = _loading(copy.deepcopy(target.value)), _index(copy.deepcopy(target.slice))
            stored = self._call(node, value, container, index, attribute="cd_set", at=target)
            return ast.copy_location(ast.Expr(stored), node)
        return ast.copy_location(ast.Assign([target], value), node)

    def _held(self, node: ast.AugAssign) -> ast.AST:
        """`target op= value` with its target evaluated once, as set(operator(get(base, index), value))."""
        target: Any = node.target
        target.value, node.value = self.visit(target.value), self.visit(node.value)
        is_item = isinstance(target, ast.Subscript)
        if is_item:
            target.slice = self.visit(target.slice)
        if not self._wants(node, "cd_held"):
            return node
        where = _index(target.slice) if is_item else ast.copy_location(ast.Constant(target.attr), target)
        kind = ast.copy_location(ast.Constant(not is_item), target)
        got = self._call(node, target.value, where, kind, attribute="cd_hold", at=target)
        changed = self._call(node, got, node.value, attribute="cd_held")
        return ast.copy_location(ast.Expr(self._call(node, changed, attribute="cd_keep", at=target)), node)

    def _load(self, node: ast.AugAssign) -> ast.expr:
        target = copy.deepcopy(node.target)
        if isinstance(target, ast.Subscript) and self._wants(node, "cd_get"):
            return self._call(node, _loading(target.value), _index(target.slice), attribute="cd_get", at=target)
        return _loading(target)

    def visit_Return(self, node: ast.Return | ast.Yield) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
            if self._wants(node) and node.value is not None:
                node.value = self._call(node, node.value, at=node.value)
        return node

    visit_Yield = visit_Return  # noqa: N815


class _Doubling(_Rewriting):
    """Doubles the bodies of loops, also of those that stand in the plain body of another, and puts sites into one body.

    A frame that runs the plain body of an outer loop so can still come to the sites of an inner one.
    """

    def __init__(self) -> None:
        super().__init__(None)
        self._has_sites = False  # what is being visited is the body with sites of some loop

    def _wants(self, node: ast.AST, attribute: str = "cd_site") -> bool:
        return self._has_sites and super()._wants(node, attribute)

    def _visited(self, body: list[ast.stmt], has_sites: bool) -> list[ast.stmt]:
        before, self._has_sites = self._has_sites, has_sites
        visited = [self.visit(statement) for statement in body]
        self._has_sites = before
        return visited

    def _scope(self, node: Any) -> Any:
        if not hasattr(node, "cd_left"):
            node.body = self._visited(node.body, has_sites=False)  # functions get sites at their next call
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _scope  # noqa: N815

    def _two_bodies(self, node: Any) -> None:
        if self._doubles(node):
            plain = [_copied(statement) for statement in node.body]
            first = plain[0]
            if not self._has_sites:  # else code would grow with a power of the nesting, not with its square
                plain = self._visited(plain, has_sites=False)
            body = self._visited(node.body, has_sites=True)
            switch = self._switch(node, first)
            node.body = [ast.copy_location(ast.If(switch, body, plain), switch)]
        else:
            node.body = self._visited(node.body, self._has_sites)
        node.orelse = self._visited(node.orelse, self._has_sites)

    def visit_While(self, node: Any) -> ast.AST:
        if self._doubles(node) and not isinstance(node.test, ast.Constant):
            plain, before, self._has_sites = _copied(node.test), self._has_sites, True
            node.test = self.visit(node.test)
            self._has_sites = before
            node.test = ast.copy_location(ast.IfExp(self._switch(node, plain), node.test, plain), plain)
        else:
            node.test = self.visit(node.test)
        self._two_bodies(node)
        return node  # type: ignore[no-any-return]


def _copied(node: Any) -> Any:
    """A copy of a syntax tree with its marks; several times as fast as `copy.deepcopy`."""
    made = node.__class__.__new__(node.__class__)
    fields = made.__dict__
    for name, value in node.__dict__.items():
        if isinstance(value, ast.AST):
            fields[name] = _copied(value)
        elif isinstance(value, list):
            fields[name] = [_copied(each) if isinstance(each, ast.AST) else each for each in value]
        else:
            fields[name] = value
    return made


def _loading(node: ast.expr) -> ast.expr:
    if hasattr(node, "ctx"):
        node.ctx = ast.Load()
    return node


def _index(index: ast.expr) -> ast.expr:
    """The index as an expression: `a:b` becomes slice(a, b, None), which only subscripts may write as `a:b`."""
    if isinstance(index, ast.Slice):
        parts = [
            part or ast.copy_location(ast.Constant(None), index) for part in (index.lower, index.upper, index.step)
        ]
        made = ast.copy_location(ast.Constant(f"{_SITE}slice"), index)
        return ast.copy_location(ast.Call(made, parts, []), index)
    if isinstance(index, ast.Tuple):
        return ast.copy_location(ast.Tuple([_index(e) for e in index.elts], ast.Load()), index)
    return index


def _where_called(node: ast.Call) -> ast.expr:
    """Where Python says that a call happens: a method call over several lines is at the line of its method."""
    method = node.func
    if not isinstance(method, ast.Attribute) or method.end_lineno == node.lineno:
        return node
    length = len(method.attr.encode())
    if method.end_lineno is None or method.end_col_offset is None or length > method.end_col_offset:
        return node
    at = copy.copy(node)
    at.lineno, at.col_offset = method.end_lineno, method.end_col_offset - length
    return at


def _can_be_doubled(loop: Any) -> bool:
    return not any(isinstance(n, ast.Global | ast.Nonlocal) for s in loop.body for n in ast.walk(s))


def _loop_lines(tree: ast.Module, count: int) -> tuple[tuple[int, int, bool], ...]:
    found = [(0, 0, False)] * count
    for node in ast.walk(tree):
        if hasattr(node, "cd_loop"):
            found[node.cd_loop] = (node.lineno, node.end_lineno, _can_be_doubled(node))  # type: ignore[attr-defined]
    return tuple(found)


def parsed(source: bytes, file: str) -> ast.Module:
    """The syntax tree of a source; its warnings are shown where it is compiled."""
    with unheard():
        return ast.parse(source, file)


def rewrite(
    tree: ast.Module,
    file: str,
    keep: Collection[int] | None = None,
    compiled: Compiled | None = None,
    doubled: bool = False,
) -> Rewritten:
    """The module with its sites (all, only those to keep, or only those in loops) in place; the tree is used up."""
    if any(isinstance(n, ast.Constant) and str(n.value).startswith("\0codedag:") for n in ast.walk(tree)):
        raise CannotRewrite("it contains a text that CodeDAG uses to mark places")
    sites, loops = number(tree, file, compiled)
    lines = _loop_lines(tree, loops)
    tree = ast.fix_missing_locations((_Doubling() if doubled else _Rewriting(keep)).visit(tree))
    with unheard():
        code = compile(tree, file, "exec", dont_inherit=True)
    return Rewritten(code, sites, loops, lines)


def bind(code: types.CodeType, sites: list[Any], switches: list[Any]) -> types.CodeType:
    """The code with its placeholders replaced by sites and switches, nested code included; the code is used up.

    The placeholder of a site that is None stays: it stands in the body of a loop whose switch is off.
    """
    return (
        bound_anew(code, sites, switches) if _fill is None else _fill(code, sites, switches, site_module.native.Spread)
    )


def bound_anew(code: types.CodeType, sites: list[Any], switches: list[Any]) -> types.CodeType:
    """The same with every code object made anew, where that is not possible in place or the code is used again."""

    def lookup(constant: Any) -> Any:
        if isinstance(constant, types.CodeType):
            return bound_anew(constant, sites, switches)
        if isinstance(constant, str) and constant.startswith("\0codedag:"):
            return _object_for(constant, sites, switches)
        return constant

    return code.replace(co_consts=tuple(lookup(c) for c in code.co_consts))


def _object_for(placeholder: str, sites: list[Any], switches: list[Any]) -> Any:
    if placeholder.startswith(_LOOP):
        return switches[int(placeholder[len(_LOOP) :])]
    if placeholder.startswith(_SPREAD):
        return site_module.native.Spread(sites[int(placeholder[len(_SPREAD) :])])
    name = placeholder[len(_SITE) :]
    return slice if name == "slice" else sites[int(name)]


def _in_place() -> Callable[..., types.CodeType] | None:
    if sys.version_info >= (3, 14):  # see _bind.c
        return None
    try:
        from codedag.instrument._bind import fill
    except ImportError:
        return None
    return fill


_fill = _in_place()
