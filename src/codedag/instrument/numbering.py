"""The sites of a module: which calls, operators and subscripts there are, and which definitions are left alone."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

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
    _is_async: list[bool] = field(default_factory=lambda: [False])

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
        self._is_async.append(isinstance(node, ast.AsyncFunctionDef))
        self.names.enter(node)
        for statement in node.body:
            self.visit(statement)
        self.names.leave()
        self._functions.pop()
        self._is_async.pop()
        self._owner.pop()
        self._inside = outer_loops

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _scope  # noqa: N815 - names of ast.NodeVisitor

    def visit_Lambda(self, node: ast.Lambda) -> None:
        if hasattr(node, "cd_left"):
            return
        self._owner.append("<lambda>")
        self._is_async.append(False)
        self.visit(node.body)
        if not isinstance(node.body, ast.Constant):
            self._give_back(node, node.body)
        self._is_async.pop()
        self._owner.pop()

    # -- left alone: what prints itself, what other tools read, what has no value

    def _leave(self, node: ast.AST) -> None:
        return

    visit_JoinedStr = visit_Assert = visit_Delete = visit_Global = visit_Nonlocal = _leave  # noqa: N815
    visit_Import = visit_ImportFrom = visit_TypeAlias = _leave  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
            self.visit(node.target)

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        for case in node.cases:
            for statement in case.body:
                self.visit(statement)

    # -- loops

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self._mark(node, ITERATE, at=node.iter)
        self.visit(node.target)
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
        elif isinstance(node.ctx, ast.Store):
            self._mark(node, SETITEM, attribute="cd_slot")

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
            self.generic_visit(node.targets[0])
            self._mark(node, SETITEM)
            return
        for target in node.targets:
            self.visit(target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if not self.names.can_be_read_twice(node):
            self._held(node)
            return
        if isinstance(node.target, ast.Subscript):
            self._mark(node, GETITEM, attribute="cd_get", at=node.target)
        self.visit(node.value)
        self._mark(node, INPLACE, "i" + BINARY_NAMES[type(node.op)].rstrip("_"))
        if isinstance(node.target, ast.Subscript):
            self._mark(node, SETITEM, attribute="cd_set")

    def _held(self, node: ast.AugAssign) -> None:
        """Marks `target op= value` whose target is evaluated once: what was read is held until it is written."""
        target: Any = node.target
        self.visit(target.value)
        if isinstance(target, ast.Subscript):
            self.visit(target.slice)
        can = isinstance(target, ast.Subscript) or not target.attr.startswith("__")  # Python mangles such names
        if can:
            self._mark(node, GETITEM, attribute="cd_hold", at=target)
        self.visit(node.value)
        if can:
            self._mark(node, INPLACE, "i" + BINARY_NAMES[type(node.op)].rstrip("_"), attribute="cd_held")
            self._mark(node, SETITEM, attribute="cd_keep", at=target)

    def visit_Return(self, node: ast.Return | ast.Yield) -> None:
        if node.value is not None and not isinstance(node.value, ast.Constant):
            self.visit(node.value)
            self._give_back(node, node.value)

    visit_Yield = visit_Return  # noqa: N815

    def _give_back(self, node: ast.Return | ast.Yield | ast.Lambda, value: ast.expr) -> None:
        """Marks what is handed to the caller: by the site that makes it, if there is one, else by a site of its own.

        What a coroutine returns goes to the one who awaits it, whatever library call happens to run the loop.
        """
        if self._is_async[-1]:
            return
        number = getattr(value, "cd_site", None)
        if number is None:
            self._mark(node, RETURN, at=value)
        else:
            self.sites[number] = replace(self.sites[number], returns=True)


def number(tree: ast.Module, file: str, compiled: Compiled | None = None) -> tuple[list[SiteInfo], int]:
    """The sites of a module in order of evaluation (marked on its nodes as `cd_site`), and how many loops it has."""
    compiled = compiled or Compiled()
    compiled.mark(tree)
    numbering = _Numbering(file, Names(tree))
    numbering.visit(tree)
    return numbering.sites, numbering.loops
