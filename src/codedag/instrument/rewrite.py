"""The rewriter: every call, operator, subscript and augmented assignment of a module becomes a site.

Sites and loop switches are bound as *constants* of the code objects, so neither globals(), locals() nor co_names
show them.  The rewritten code has placeholders; `bind` puts the objects in.  Each loop body is emitted twice, once
with sites and once plain, because a frame that is already running cannot be given new code.
"""

from __future__ import annotations

import ast
import copy
import types
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from codedag.instrument.sites import BINARY, CALL, GETITEM, INPLACE, ITERATE, RETURN, SETITEM, UNARY, SiteInfo

BINARY_NAMES: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.LShift: "lshift", ast.RShift: "rshift", ast.BitOr: "or_",
    ast.BitXor: "xor", ast.BitAnd: "and_",
}  # fmt: skip
COMPARE_NAMES: dict[type[ast.AST], str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip
UNARY_NAMES: dict[type[ast.AST], str] = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert"}

#: Calls that look at the calling frame: wrapping them would show them ours (in the twin) or change what they see.
FRAME_SENSITIVE = frozenset(
    {"super", "locals", "globals", "vars", "dir", "eval", "exec", "breakpoint", "__import__", "reveal_type"}
)
#: Decorators whose functions another compiler reads as source or byte code.
COMPILED = frozenset(
    {"jit", "njit", "vectorize", "guvectorize", "stencil", "overload", "script", "script_method", "cfunc", "kernel"}
)
_SITE, _LOOP = "\0codedag:site:", "\0codedag:loop:"


@dataclass(slots=True)
class Rewritten:
    """A module after rewriting: code with placeholders, and the facts about its sites and loops."""

    code: types.CodeType
    sites: list[SiteInfo]
    loops: int


@dataclass(slots=True)
class _Numbering(ast.NodeVisitor):
    """Numbers the sites of a module in the order in which they are evaluated; marks them on the tree."""

    file: str
    sites: list[SiteInfo] = field(default_factory=list)
    loops: int = 0
    _owner: list[str] = field(default_factory=list)
    _inside: list[int] = field(default_factory=list)

    def _mark(self, node: Any, kind: int, name: str = "", attribute: str = "cd_site", at: Any = None) -> None:
        at = at or node
        setattr(node, attribute, len(self.sites))
        owner = ".".join(self._owner)
        position = (at.lineno, at.col_offset, at.end_lineno or at.lineno, at.end_col_offset or at.col_offset)
        self.sites.append(SiteInfo(len(self.sites), kind, name, self.file, *position, owner, tuple(self._inside)))

    # -- scopes: decorators, defaults and annotations stay as they are

    def _scope(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        if is_compiled_elsewhere(node):
            return
        outer_loops, self._inside = self._inside, []
        self._owner.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._owner.pop()
        self._inside = outer_loops

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _scope  # noqa: N815 - names of ast.NodeVisitor

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._owner.append("<lambda>")
        self.visit(node.body)
        self._owner.pop()

    # -- left alone: what prints itself, what other tools read, what has no value

    def _leave(self, node: ast.AST) -> None:
        return

    visit_JoinedStr = visit_Assert = visit_Delete = visit_Global = visit_Nonlocal = _leave  # noqa: N815
    visit_Import = visit_ImportFrom = _leave  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        for case in node.cases:
            for statement in case.body:
                self.visit(statement)

    # -- loops

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self._mark(node, ITERATE, at=node.iter)
        self._loop(node)

    def visit_While(self, node: ast.While) -> None:
        self._loop(node, node.test)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._loop(node)

    def _loop(self, node: Any, test: ast.expr | None = None) -> None:
        node.cd_loop = self.loops
        self.loops += 1
        self._inside.append(node.cd_loop)
        if test is not None:
            self.visit(test)
        for statement in node.body:
            self.visit(statement)
        self._inside.pop()
        for statement in node.orelse:
            self.visit(statement)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self.visit(node.iter)
        if not node.is_async:
            self._mark(node, ITERATE, at=node.iter)
        for condition in node.ifs:
            self.visit(condition)

    def _comprehension(self, node: Any) -> None:
        for generator in node.generators:
            self.visit(generator)
        for part in ("key", "value", "elt"):
            if hasattr(node, part):
                self.visit(getattr(node, part))

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension  # noqa: N815

    # -- sites: parts first, so that numbers grow in the order of evaluation

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Name) and node.func.id in FRAME_SENSITIVE):
            self._mark(node, CALL)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant):
            return
        self.generic_visit(node)
        self._mark(node, BINARY, BINARY_NAMES[type(node.op)])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not) and not isinstance(node.operand, ast.Constant):
            self._mark(node, UNARY, UNARY_NAMES[type(node.op)])

    def visit_Compare(self, node: ast.Compare) -> None:
        self.generic_visit(node)
        if len(node.ops) == 1 and type(node.ops[0]) in COMPARE_NAMES:
            self._mark(node, BINARY, COMPARE_NAMES[type(node.ops[0])])

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            self._mark(node, GETITEM)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.visit(target)
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
            self._mark(node, SETITEM)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if not _can_be_read_twice(node.target):
            self.visit(node.value)
            return
        if isinstance(node.target, ast.Subscript):
            self._mark(node, GETITEM, attribute="cd_get", at=node.target)
        self.visit(node.value)
        self._mark(node, INPLACE, "i" + BINARY_NAMES[type(node.op)].rstrip("_"))
        if isinstance(node.target, ast.Subscript):
            self._mark(node, SETITEM, attribute="cd_set")

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not isinstance(node.value, ast.Constant):
            self.visit(node.value)
            self._mark(node, RETURN)


def is_compiled_elsewhere(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Whether a decorator says that another compiler reads this definition."""
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name in COMPILED:
            return True
    return False


def _can_be_read_twice(target: ast.expr) -> bool:
    """Whether an augmented assignment may be split into load, operate, store without a second side effect."""
    if isinstance(target, ast.Name):
        return True
    if isinstance(target, ast.Attribute):
        return isinstance(target.value, ast.Name)
    if isinstance(target, ast.Subscript):
        return isinstance(target.value, ast.Name) and _is_constant_index(target.slice)
    return False


def _is_constant_index(index: ast.expr) -> bool:
    return all(isinstance(n, ast.Name | ast.Constant | ast.Tuple | ast.Slice | ast.UnaryOp | ast.unaryop | ast.Load) for n in ast.walk(index))


class _Rewriting(ast.NodeTransformer):
    """Replaces marked nodes by calls of their sites; `keep` limits it to some sites (then loops stay single)."""

    def __init__(self, keep: Collection[int] | None) -> None:
        self.keep = keep

    def _wants(self, node: ast.AST, attribute: str = "cd_site") -> bool:
        number = getattr(node, attribute, None)
        return number is not None and (self.keep is None or number in self.keep)

    def _call(self, node: Any, *args: ast.expr, keywords: Any = (), attribute: str = "cd_site", at: Any = None) -> ast.Call:
        at = at or node
        site = ast.copy_location(ast.Constant(f"{_SITE}{getattr(node, attribute)}"), at)
        return ast.copy_location(ast.Call(site, list(args), list(keywords)), at)

    def _scope(self, node: Any) -> Any:
        if not is_compiled_elsewhere(node):
            node.body = [self.visit(statement) for statement in node.body]
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _scope  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        node.body = self.visit(node.body)
        return node

    def _leave(self, node: ast.AST) -> ast.AST:
        return node

    visit_JoinedStr = visit_Assert = visit_Delete = _leave  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_Match(self, node: ast.Match) -> ast.AST:
        node.subject = self.visit(node.subject)
        for case in node.cases:
            case.body = [self.visit(statement) for statement in case.body]
        return node

    # -- loops

    def _two_bodies(self, node: Any) -> None:
        plain = copy.deepcopy(node.body) if self._doubles(node) else None
        node.body = [self.visit(statement) for statement in node.body]
        node.orelse = [self.visit(statement) for statement in node.orelse]
        if plain is not None:
            choose = ast.copy_location(ast.If(self._switch(node, plain[0]), node.body, plain), plain[0])
            node.body = [choose]

    def _doubles(self, node: Any) -> bool:
        return self.keep is None and not any(isinstance(n, ast.Global | ast.Nonlocal) for s in node.body for n in ast.walk(s))

    def _switch(self, node: Any, at: ast.AST) -> ast.expr:
        constant = ast.copy_location(ast.Constant(f"{_LOOP}{node.cd_loop}"), at)
        return ast.copy_location(ast.Attribute(constant, "on", ast.Load()), at)

    def visit_For(self, node: Any) -> ast.AST:
        node.iter = self.visit(node.iter)
        if self._wants(node):
            node.iter = self._call(node, node.iter, at=node.iter)
        self._two_bodies(node)
        return node  # type: ignore[no-any-return]

    def visit_AsyncFor(self, node: Any) -> ast.AST:
        node.iter = self.visit(node.iter)
        self._two_bodies(node)
        return node  # type: ignore[no-any-return]

    def visit_While(self, node: Any) -> ast.AST:
        plain = copy.deepcopy(node.test)
        node.test = self.visit(node.test)
        if self._doubles(node):
            node.test = ast.copy_location(ast.IfExp(self._switch(node, plain), node.test, plain), plain)
        self._two_bodies(node)
        return node  # type: ignore[no-any-return]

    def visit_comprehension(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        if self._wants(node):
            node.iter = self._call(node, node.iter, at=node.iter)
        return node  # type: ignore[no-any-return]

    # -- sites

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return self._call(node, node.func, *node.args, keywords=node.keywords) if self._wants(node) else node

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
        return self._call(node, node.value, _index(node.slice)) if self._wants(node) else node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        if not self._wants(node):
            return node
        target = node.targets[0]
        assert isinstance(target, ast.Subscript)
        return ast.copy_location(ast.Expr(self._call(node, node.value, target.value, _index(target.slice))), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        node.value = self.visit(node.value)
        if not any(self._wants(node, a) for a in ("cd_site", "cd_get", "cd_set")):
            return node
        loaded = self._load(node)
        name = type(node.op)
        value: ast.expr = self._call(node, loaded, node.value) if self._wants(node) else None  # type: ignore[assignment]
        if value is None:  # an in-place operator that is not kept: its load or store is never kept alone
            raise AssertionError(f"half of an augmented assignment was kept: {name}")
        target = node.target
        if isinstance(target, ast.Subscript) and self._wants(node, "cd_set"):
            stored = self._call(node, value, copy.deepcopy(_loading(target.value)), _index(copy.deepcopy(target.slice)), attribute="cd_set")
            return ast.copy_location(ast.Expr(stored), node)
        return ast.copy_location(ast.Assign([target], value), node)

    def _load(self, node: ast.AugAssign) -> ast.expr:
        target = copy.deepcopy(node.target)
        if isinstance(target, ast.Subscript) and self._wants(node, "cd_get"):
            return self._call(node, _loading(target.value), _index(target.slice), attribute="cd_get", at=target)
        return _loading(target)

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
            if self._wants(node) and node.value is not None:
                node.value = self._call(node, node.value, at=node.value)
        return node


def _loading(node: ast.expr) -> ast.expr:
    if hasattr(node, "ctx"):
        node.ctx = ast.Load()
    return node


def _index(index: ast.expr) -> ast.expr:
    """The index as an expression: `a:b` becomes slice(a, b, None), which only subscripts may write as `a:b`."""
    if isinstance(index, ast.Slice):
        parts = [part or ast.copy_location(ast.Constant(None), index) for part in (index.lower, index.upper, index.step)]
        made = ast.copy_location(ast.Constant(f"{_SITE}slice"), index)
        return ast.copy_location(ast.Call(made, parts, []), index)
    if isinstance(index, ast.Tuple):
        return ast.copy_location(ast.Tuple([_index(e) for e in index.elts], ast.Load()), index)
    return index


def number(tree: ast.Module, file: str) -> tuple[list[SiteInfo], int]:
    """The sites of a module in order of evaluation (marked on its nodes as `cd_site`), and how many loops it has."""
    numbering = _Numbering(file)
    numbering.visit(tree)
    return numbering.sites, numbering.loops


def rewrite(tree: ast.Module, file: str, keep: Collection[int] | None = None) -> Rewritten:
    """The module with its sites (all, or only those to keep) in place; the tree is used up."""
    sites, loops = number(tree, file)
    tree = ast.fix_missing_locations(_Rewriting(keep).visit(tree))
    with warnings.catch_warnings():
        # The compiler warns that a text constant is not callable: ours is replaced before it runs.
        # The user's own warnings come from compiling the source as it stands, which is done first.
        warnings.simplefilter("ignore", SyntaxWarning)
        code = compile(tree, file, "exec", dont_inherit=True)
    return Rewritten(code, sites, loops)


def bind(code: types.CodeType, site: Callable[[int], Any], switch: Callable[[int], Any]) -> types.CodeType:
    """The code with its placeholders replaced by sites and switches, nested code included."""

    def lookup(constant: Any) -> Any:
        if isinstance(constant, types.CodeType):
            return bind(constant, site, switch)
        if isinstance(constant, str) and constant.startswith("\0codedag:"):
            if constant.startswith(_LOOP):
                return switch(int(constant[len(_LOOP) :]))
            name = constant[len(_SITE) :]
            return slice if name == "slice" else site(int(name))
        return constant

    return code.replace(co_consts=tuple(lookup(c) for c in code.co_consts))
