"""The sites of a module: which calls, operators and subscripts there are, and which definitions are left alone."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from codedag.instrument.compiled import Compiled
from codedag.instrument.sites import BINARY, CALL, GETITEM, INPLACE, ITERATE, RETURN, SETITEM, UNARY, SiteInfo
from codedag.instrument.stable import Names

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


@dataclass(slots=True)
class _Numbering(ast.NodeVisitor):
    """Numbers the sites of a module in the order in which they are evaluated; marks them on the tree."""

    file: str
    names: Names
    sites: list[SiteInfo] = field(default_factory=list)
    loops: int = 0
    _owner: list[str] = field(default_factory=list)
    _functions: list[str] = field(default_factory=list)
    _inside: list[int] = field(default_factory=list)

    def _mark(self, node: Any, kind: int, name: str = "", attribute: str = "cd_site", at: Any = None) -> None:
        at = at or node
        setattr(node, attribute, len(self.sites))
        owner = ".".join(self._owner)
        position = (at.lineno, at.col_offset, at.end_lineno or at.lineno, at.end_col_offset or at.col_offset)
        self.sites.append(SiteInfo(len(self.sites), kind, name, self.file, *position, owner, tuple(self._inside)))

    # -- scopes: decorators, defaults and annotations stay as they are

    def _scope(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        if hasattr(node, "cd_left"):
            return
        outer_loops, self._inside = self._inside, []
        self._owner.append(node.name)
        self._functions.append("" if isinstance(node, ast.ClassDef) else node.name)
        self.names.enter(node)
        for statement in node.body:
            self.visit(statement)
        self.names.leave()
        self._functions.pop()
        self._owner.pop()
        self._inside = outer_loops

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _scope  # noqa: N815 - names of ast.NodeVisitor

    def visit_Lambda(self, node: ast.Lambda) -> None:
        if hasattr(node, "cd_left"):
            return
        self._owner.append("<lambda>")
        self.visit(node.body)
        self._owner.pop()

    # -- left alone: what prints itself, what other tools read, what has no value

    def _leave(self, node: ast.AST) -> None:
        return

    visit_JoinedStr = visit_Assert = visit_Delete = visit_Global = visit_Nonlocal = _leave  # noqa: N815
    visit_Import = visit_ImportFrom = visit_TypeAlias = _leave  # noqa: N815

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
        # A function that calls itself may do so very deeply, which only a plain call can: a site uses the C stack.
        if not (isinstance(node.func, ast.Name) and node.func.id in FRAME_SENSITIVE.union(self._functions)):
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
        if not self.names.can_be_read_twice(node):
            self.visit(node.target)
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

    def visit_Yield(self, node: ast.Yield) -> None:
        """A generator that a library drives hands it what it yields."""
        if node.value is not None and not isinstance(node.value, ast.Constant):
            self.visit(node.value)
            self._mark(node, RETURN)


def number(tree: ast.Module, file: str, compiled: Compiled | None = None) -> tuple[list[SiteInfo], int]:
    """The sites of a module in order of evaluation (marked on its nodes as `cd_site`), and how many loops it has."""
    compiled = compiled or Compiled()
    compiled.mark(tree)
    numbering = _Numbering(file, Names(tree))
    numbering.visit(tree)
    return numbering.sites, numbering.loops
