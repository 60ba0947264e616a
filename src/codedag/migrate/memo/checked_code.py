"""Checked twins of Python functions: the same code, in which every operation first asks a checker whether it may run.

A twin is compiled from the function's source.  Calls, operators, subscripts, attributes, loops and tests become calls
of the checker (`checker.py`).  It runs what is known to have no effect and ends the twin before anything else, so a
twin that ends early has done nothing that anybody could notice.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Iterator
from functools import lru_cache
from types import CellType, CodeType, FunctionType
from typing import Any, cast

from codedag.instrument.warned import unheard
from codedag.ir.verdict import No

PREFIX = "_codedag_"
#: What a twin calls; each is a free variable of it.
HELPERS = (
    "aug_item", "call", "context", "contains", "formatted", "imported", "item", "iterated", "made", "mapping", "member",
    "method", "operate", "parent", "refuse", "set_item", "slice", "test", "unpacked", "varying",
)  # fmt: skip
#: Of a subscript: the second argument of the function, if it is never set, the same for all items, or anything else.
GIVEN, STABLE, VARYING = range(3)
_OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.LShift: "lshift", ast.RShift: "rshift", ast.BitOr: "or_",
    ast.BitXor: "xor", ast.BitAnd: "and_", ast.UAdd: "pos", ast.USub: "neg", ast.Invert: "invert", ast.Eq: "eq",
    ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip
_WORDS = {
    "Raise": "it raises an exception", "Lambda": "it makes a function", "FunctionDef": "it makes a function",
    "ClassDef": "it makes a class", "Import": "it imports a module", "ImportFrom": "it imports from a package",
    "Attribute": "it assigns an attribute", "Assign": "it assigns an attribute", "AugAssign": "it assigns an attribute",
    "Subscript": "it assigns several elements at once", "Delete": "it deletes something",
}  # fmt: skip
_FUTURE = 0x1FE0000  # the flags of `from __future__ import`
_PLAIN = (ast.Pass, ast.Break, ast.Continue, ast.Constant, ast.Name, ast.Starred, ast.keyword, ast.ExceptHandler)
_KEPT = (ast.Return, ast.Expr, ast.Try, ast.Tuple, ast.arguments, ast.arg, ast.comprehension, ast.withitem)


class Twins:
    """The checked twins of functions, by code object, for one checker."""

    def __init__(self, checker: Any) -> None:
        self._cells = {PREFIX + name: CellType(getattr(checker, name)) for name in HELPERS}
        self._codes: dict[
            tuple[int, bool], tuple[CodeType, CodeType | No]
        ] = {}  # by identity: hashing a code object takes long

    def of(self, function: FunctionType, is_method: bool) -> FunctionType | No:
        """The twin of a function, with its defaults, globals and closure; or why there is none."""
        key = (id(function.__code__), is_method)
        known = self._codes.get(key)
        if known is None:
            known = self._codes[key] = (function.__code__, checked_code(function.__code__, is_method))
        code = known[1]
        if isinstance(code, No):
            return code
        own = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        closure = tuple(own.get(name) or self._cells[name] for name in code.co_freevars)
        twin = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
        twin.__kwdefaults__ = function.__kwdefaults__
        return twin


def checked_code(code: CodeType, is_method: bool) -> CodeType | No:
    """The code of a twin; No if the source is not there, is not what runs, or has statements that are not followed.

    Of a method, the first argument is the same object for all items.
    """
    name = code.co_qualname
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return No(f"{name} is a generator")
    tree = _source_of(code)
    if isinstance(tree, No):
        return tree
    if any(isinstance(each, ast.Global | ast.Nonlocal) for each in ast.walk(tree)):
        return No(f"{name} has a global or nonlocal statement")
    if not any(_is_same(each, code) for each in _codes_of(code.co_filename).get(code.co_firstlineno, ())):
        return No(f"{name} does not run what its source says")
    checked = _Checked(_class_of(code), is_method).visit(ast.fix_missing_locations(tree))
    found = _inner(_compiled(ast.fix_missing_locations(checked), code), code)
    return No(f"{name} cannot be followed") if found is None else found


def _source_of(code: CodeType) -> ast.AST | No:
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :]
    if not lines:
        return No(f"{code.co_qualname} has no source")
    try:
        text = textwrap.dedent("".join(inspect.getblock(lines)))
        if code.co_name == "<lambda>":
            return _lambda_in(text, code)
        tree = ast.parse(text).body[0]
    except (SyntaxError, IndentationError, IndexError, ValueError):
        return No(f"the source of {code.co_qualname} cannot be read")
    if not isinstance(tree, ast.FunctionDef):
        return No(f"{code.co_qualname} is not a plain function")
    tree.name, tree.decorator_list, tree.returns = PREFIX, [], None  # a function that names itself means a global
    for each in ast.walk(tree.args):
        if isinstance(each, ast.arg):
            each.annotation = None
    count = len(tree.args.defaults)
    tree.args.defaults = [ast.Constant(None) for _ in range(count)]  # the function's own are taken
    tree.args.kw_defaults = [None if each is None else ast.Constant(None) for each in tree.args.kw_defaults]
    ast.increment_lineno(tree, code.co_firstlineno - 1)
    return tree


def _lambda_in(text: str, code: CodeType) -> ast.AST | No:
    """The only lambda of a line, as a function of the same name."""
    for end in range(len(text), 0, -1):  # the line may end inside of a call that began before it
        at = text.find("lambda")
        try:
            found = ast.parse(text[at:end].strip().rstrip(","), mode="eval").body
        except SyntaxError:
            continue
        if text.count("lambda") == 1 and isinstance(found, ast.Lambda):
            tree = ast.FunctionDef(PREFIX, found.args, [ast.Return(found.body)], [])
            return ast.increment_lineno(ast.fix_missing_locations(tree), code.co_firstlineno - 1)
        break
    return No("the source of a lambda cannot be told from others in its line")


def _compiled(tree: Any, code: CodeType) -> CodeType:
    """A module with the function inside of one that has its free variables, and of its class for private names."""
    inner: Any = tree
    if name := _class_of(code):
        inner = ast.ClassDef(name, [], [], [tree], [], **_more())
    names = [*code.co_freevars, *(PREFIX + name for name in HELPERS)]
    given = ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])
    outer = ast.FunctionDef(f"{PREFIX}outer", given, [inner], [], **_more())
    module = ast.fix_missing_locations(ast.Module([outer], []))
    with unheard():
        flags = code.co_flags & _FUTURE
        return cast("CodeType", compile(module, code.co_filename, "exec", dont_inherit=True, flags=flags))


def _class_of(code: CodeType) -> str:
    """The name of the class that a method was defined in, or nothing."""
    parts = code.co_qualname.split(".")
    return parts[-2] if len(parts) > 1 and parts[-2] != "<locals>" else ""


def _more() -> dict[str, Any]:
    return {"type_params": []} if "type_params" in ast.ClassDef._fields else {}


def _inner(module: CodeType, code: CodeType) -> CodeType | None:
    """The code of the function in the module that was compiled for it."""
    return next((each for each in _every(module) if each.co_name == PREFIX), None)


def _every(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _every(each)


@lru_cache(maxsize=32)
def _codes_of(path: str) -> dict[int, list[CodeType]]:
    """All code of a source file by its first line; none if it cannot be compiled."""
    found: dict[int, list[CodeType]] = {}
    try:
        with unheard():
            module = compile("".join(linecache.getlines(path)), path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return found
    for each in _every(module):
        found.setdefault(each.co_firstlineno, []).append(each)
    return found


def _is_same(one: CodeType, other: CodeType) -> bool:
    names = (
        "co_name",
        "co_code",
        "co_names",
        "co_varnames",
        "co_freevars",
        "co_cellvars",
        "co_argcount",
        "co_kwonlyargcount",
    )
    if any(getattr(one, name) != getattr(other, name) for name in names):
        return False
    if len(one.co_consts) != len(other.co_consts):
        return False
    return all(
        _is_same(a, b)
        if isinstance(a, CodeType) and isinstance(b, CodeType)
        else (type(a), repr(a)) == (type(b), repr(b))
        for a, b in zip(one.co_consts, other.co_consts, strict=True)
    )


class _Checked(ast.NodeTransformer):
    """Puts calls of the checker in the place of operations; what it does not know refuses when it is reached."""

    def __init__(self, owner: str, is_method: bool) -> None:
        self._owner, self._is_method = owner.lstrip("_"), is_method

    def _attribute(self, name: str) -> ast.Constant:
        """The name of an attribute as the compiler writes it: private ones have that of their class in front."""
        is_private = name.startswith("__") and not name.endswith("__") and self._owner
        return ast.Constant(f"_{self._owner}{name}" if is_private else name)

    def generic_visit(self, node: ast.AST) -> Any:
        if isinstance(node, (*_PLAIN, *_KEPT, ast.expr_context)):
            return super().generic_visit(node)
        return self._refused(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        if getattr(self, "_inside", False):
            return self._refused(node)
        self._inside = True
        arguments = node.args
        given = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        set_ = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)}
        self._first = given[0] if self._is_method and not {*given[:1]} & set_ else None
        self._given, self._local = set(given[1:2]) - set_, set_ | set(given[1 if self._is_method else 0 :])
        self._local |= {each.arg for each in (arguments.vararg, arguments.kwarg) if each is not None}
        node.body = [each for statement in node.body for each in _listed(self.visit(statement))]
        return node

    def _refused(self, node: ast.AST) -> Any:
        what = type(node).__name__
        call = _call("refuse", ast.Constant(_WORDS.get(what, f"a {what} is not followed")))
        return ast.copy_location(ast.Expr(call) if isinstance(node, ast.stmt) else call, node)

    def _is_stable(self, node: ast.AST) -> bool:
        """Whether an expression gives the same for all items, as long as names and attributes hold what they do."""
        if isinstance(node, ast.Name):
            return node.id not in self._local
        if isinstance(node, ast.Attribute):
            return self._is_stable(node.value)
        if isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp):
            return all(self._is_stable(e) for e in ast.iter_child_nodes(node) if isinstance(e, ast.expr))
        return isinstance(node, ast.Constant)

    def _noted(self, node: Any) -> Any:
        """What decides how the item goes on: the checker is told if that may differ from item to item."""
        return self.visit(node) if self._is_stable(node) else _call("varying", self.visit(node))

    # -- expressions

    def visit_Call(self, node: ast.Call) -> Any:
        target = node.func
        if isinstance(target, ast.Name) and target.id == "super":
            return self._super(node)
        args = [self._argument(each) for each in node.args]
        keywords = [
            ast.keyword(
                each.arg, _call("mapping", self.visit(each.value)) if each.arg is None else self.visit(each.value)
            )
            for each in node.keywords
        ]
        if isinstance(target, ast.Attribute):
            first = [self.visit(target.value), self._attribute(target.attr)]
            return ast.copy_location(_call("method", *first, *args, keywords=keywords), node)
        return ast.copy_location(_call("call", self.visit(target), *args, keywords=keywords), node)

    def _super(self, node: ast.Call) -> Any:
        if node.args or node.keywords or self._first is None:
            return self._refused(node)
        holders = [ast.Name(name, ast.Load()) for name in ("super", "__class__", self._first)]
        return ast.copy_location(_call("parent", *holders), node)

    def _argument(self, node: Any) -> Any:
        if isinstance(node, ast.Starred):
            return ast.Starred(_call("unpacked", self.visit(node.value)), ast.Load())
        if isinstance(node, ast.GeneratorExp):  # of operations without effects: all at once is the same
            return self.visit(ast.copy_location(ast.ListComp(node.elt, node.generators), node))
        return self.visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if not isinstance(node.ctx, ast.Load):
            return self._refused(node)
        return ast.copy_location(_call("member", self.visit(node.value), self._attribute(node.attr)), node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        if not isinstance(node.ctx, ast.Load):
            return self._refused(node)
        is_given = isinstance(node.slice, ast.Name) and node.slice.id in self._given
        kind = ast.Constant(GIVEN if is_given else STABLE if self._is_stable(node.slice) else VARYING)
        return ast.copy_location(_call("item", self.visit(node.value), self.visit(node.slice), kind), node)

    def visit_Slice(self, node: ast.Slice) -> Any:
        parts = [
            ast.Constant(None) if each is None else self.visit(each) for each in (node.lower, node.upper, node.step)
        ]
        return ast.copy_location(_call("slice", *parts), node)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        words = ast.Constant(_OPERATORS[type(node.op)])
        return ast.copy_location(_call("operate", words, self.visit(node.left), self.visit(node.right)), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            return ast.copy_location(ast.UnaryOp(ast.Not(), self._test(node.operand)), node)
        if isinstance(node.operand, ast.Constant):
            return node
        words = ast.Constant(_OPERATORS[type(node.op)])
        return ast.copy_location(_call("operate", words, self.visit(node.operand)), node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        if len(node.ops) > 1:
            middle = [each for each in node.comparators[:-1] if not isinstance(each, ast.Name | ast.Constant)]
            if middle:
                return self._refused(node)
            every = [node.left, *node.comparators]
            parts: list[Any] = [ast.Compare(every[at], [op], [every[at + 1]]) for at, op in enumerate(node.ops)]
            return self.visit(ast.copy_location(ast.BoolOp(ast.And(), parts), node))
        left, op, right = self.visit(node.left), node.ops[0], self.visit(node.comparators[0])
        if isinstance(op, ast.Is | ast.IsNot):
            return ast.copy_location(ast.Compare(left, [op], [right]), node)
        if isinstance(op, ast.In | ast.NotIn):
            found: Any = _call("contains", left, right)
            return ast.copy_location(ast.UnaryOp(ast.Not(), found) if isinstance(op, ast.NotIn) else found, node)
        return ast.copy_location(_call("operate", ast.Constant(_OPERATORS[type(op)]), left, right), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        first = [_call("test", self._noted(each), ast.Constant(True)) for each in node.values[:-1]]
        return ast.copy_location(ast.BoolOp(node.op, [*first, self.visit(node.values[-1])]), node)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        return ast.copy_location(ast.IfExp(self._test(node.test), self.visit(node.body), self.visit(node.orelse)), node)

    def visit_List(self, node: ast.List) -> Any:
        if not isinstance(node.ctx, ast.Load):
            return node
        every = [self._argument(each) for each in node.elts]
        return ast.copy_location(_call("made", ast.List(every, ast.Load())), node)

    def visit_Tuple(self, node: ast.Tuple) -> Any:
        if not isinstance(node.ctx, ast.Load):
            return node
        return ast.copy_location(ast.Tuple([self._argument(each) for each in node.elts], ast.Load()), node)

    def visit_Dict(self, node: ast.Dict) -> Any:
        if any(each is None or not isinstance(each, ast.Constant) for each in node.keys):
            return self._refused(node)
        node.values = [self.visit(each) for each in node.values]
        return ast.copy_location(_call("made", node), node)

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        for each in node.generators:
            if each.is_async or not _is_names(each.target):
                return self._refused(node)
            pairs = ast.Constant(isinstance(each.target, ast.Tuple))
            each.iter = _call("iterated", self._noted(each.iter), pairs)
            each.ifs = [self._test(test) for test in each.ifs]
        node.elt = self.visit(node.elt)
        return ast.copy_location(_call("made", node), node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        for each in node.values:
            if isinstance(each, ast.FormattedValue):
                each.value = _call("formatted", self.visit(each.value))
                if each.format_spec is not None and any(
                    not isinstance(part, ast.Constant) for part in getattr(each.format_spec, "values", ())
                ):
                    return self._refused(node)
        return node

    def _test(self, node: Any) -> Any:
        return ast.copy_location(_call("test", self._noted(node)), node)

    # -- statements

    def visit_Assign(self, node: ast.Assign) -> Any:
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Subscript):
            parts = [self.visit(node.value), self.visit(target.value), self.visit(target.slice)]
            return ast.copy_location(ast.Expr(_call("set_item", *parts)), node)
        if not all(map(_is_names, node.targets)):
            return self._refused(node)
        value = self.visit(node.value)
        if any(isinstance(each, ast.Tuple) for each in node.targets) and not isinstance(node.value, ast.Tuple):
            value = _call("unpacked", value)
        return ast.copy_location(ast.Assign(node.targets, value), node)

    def visit_Import(self, node: ast.Import) -> Any:
        if any("." in each.name for each in node.names):
            return self._refused(node)
        return [self._bound(node, each.asname or each.name, each.name) for each in node.names]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        if node.level or node.module is None or node.names[0].name == "*":
            return self._refused(node)
        return [self._bound(node, each.asname or each.name, node.module, each.name) for each in node.names]

    def _bound(self, node: ast.stmt, name: str, *what: str) -> ast.stmt:
        value = _call("imported", *map(ast.Constant, what))
        return ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if not isinstance(node.target, ast.Name):
            return self._refused(node)
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], self.visit(node.value)), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        name = ast.Constant("i" + _OPERATORS[type(node.op)].rstrip("_"))
        value = self.visit(node.value)
        if isinstance(node.target, ast.Name):
            read = ast.Name(node.target.id, ast.Load())
            return ast.copy_location(ast.Assign([node.target], _call("operate", name, read, value)), node)
        if isinstance(node.target, ast.Subscript):
            parts = [self.visit(node.target.value), self.visit(node.target.slice), name, value]
            return ast.copy_location(ast.Expr(_call("aug_item", *parts)), node)
        return self._refused(node)

    def visit_If(self, node: ast.If) -> Any:
        node.test = self._test(node.test)
        return self._bodies(node)

    def visit_While(self, node: ast.While) -> Any:
        return self.visit_If(node)  # type: ignore[arg-type]

    def visit_Try(self, node: ast.Try) -> Any:
        handled = [ast.copy_location(ast.Expr(_call("varying", ast.Constant(None))), node)] if node.handlers else []
        return [*handled, self.generic_visit(node)]  # an exception of another item would lead elsewhere

    def visit_Assert(self, node: ast.Assert) -> Any:
        refused = ast.Expr(_call("refuse", ast.Constant(f"an assertion fails in line {node.lineno}")))
        return ast.copy_location(ast.If(self._test(node.test), [ast.Pass()], [refused]), node)

    def visit_For(self, node: ast.For) -> Any:
        if not _is_names(node.target):
            return self._refused(node)
        pairs = ast.Constant(isinstance(node.target, ast.Tuple))
        node.iter = _call("iterated", self._noted(node.iter), pairs)
        return self._bodies(node)

    def visit_With(self, node: ast.With) -> Any:
        for each in node.items:
            if each.optional_vars is not None and not isinstance(each.optional_vars, ast.Name):
                return self._refused(node)
            each.context_expr = _call("context", self.visit(each.context_expr))
        return self._bodies(node)

    def _bodies(self, node: Any) -> Any:
        for field in ("body", "orelse"):
            if hasattr(node, field):
                setattr(node, field, [e for each in getattr(node, field) for e in _listed(self.visit(each))])
        return node


def _listed(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found]


def _is_names(target: ast.AST) -> bool:
    """Whether a target is a name, or a tuple of names."""
    if isinstance(target, ast.Tuple):
        return all(isinstance(each, ast.Name) for each in target.elts)
    return isinstance(target, ast.Name)


def _call(helper: str, *args: ast.expr, keywords: list[ast.keyword] | None = None) -> ast.Call:
    return ast.Call(ast.Name(PREFIX + helper, ast.Load()), list(args), keywords or [])
