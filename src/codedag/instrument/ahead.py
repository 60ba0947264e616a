"""Which functions of a file could run ahead of their turn, as far as their source says: nothing they do escapes a site.

A site can be asked before its operation runs; a plain store cannot.  So a function that sets attributes or globals,
calls something where no site stands, or catches everything, cannot be held back at the right moment.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from codedag.instrument.compiled import Compiled
from codedag.instrument.numbering import number
from codedag.instrument.rewrite import parsed

#: Methods that run only where a call says so.
#: Special methods that run only where somebody calls, and what runs when an object goes: not a part of what runs then.
_CALLED = frozenset(
    {"__init__", "__call__", "__new__", "__init_subclass__", "__class_getitem__", "__post_init__", "__del__"}
)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_MAY_NOT_RUN = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(slots=True)
class Ahead:
    """What the source of one function says about running it ahead of its turn."""

    owner: str
    cannot: str = ""  # why it cannot, "" if it can
    implicit: bool = False  # it may run without a call: a property, an operator, a length
    gate: int = -1  # a site that is executed before anything else it does, if there is one
    twice: bool = False  # there are two functions of this name: the gate is that of one of them
    # sites that may write into what the function alone holds -> the references to it if that is so
    own: dict[int, int] = field(default_factory=dict)
    # those of `x[i] op= v` with a local x -> the references to x more than to the memory of a view that nobody else has
    parts: dict[int, int] = field(default_factory=dict)

    def forbid(self, why: str) -> None:
        """Notes why it cannot; the first reason counts."""
        self.cannot = self.cannot or why


def used_unasked(source: bytes, path: str) -> set[str]:
    """The names of functions that something else may run than a call: given to a property, or a special method's.

    So is what a class body hands on: `value = property(get)`, `field(default_factory=make)`.
    """
    tree, found = parsed(source, path), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            inside = [part for statement in node.body for part in _own_nodes(statement) if isinstance(part, ast.Call)]
            found |= {name for call in inside for name in _handed_on(call)}
        elif isinstance(node, ast.Assign) and any(map(_is_special, node.targets)):
            found |= _functions_in(node.value)
        elif isinstance(node, ast.Dict):
            parts = zip(node.keys, node.values, strict=True)
            found |= {name for key, value in parts if key and _is_special(key) for name in _functions_in(value)}
        elif isinstance(node, ast.Call) and (_is_property(node.func) or any(map(_is_special, node.args))):
            found |= _handed_on(node)
    return found


def _is_special(node: ast.AST) -> bool:
    name = getattr(node, "attr", getattr(node, "id", getattr(node, "value", "")))
    return isinstance(name, str) and name.startswith("__") and name.endswith("__") and len(name) > 4


def _is_property(function: ast.expr) -> bool:
    return "property" in ast.unparse(function) if isinstance(function, ast.Name | ast.Attribute) else False


def _handed_on(call: ast.Call) -> set[str]:
    return {name for part in (*call.args, *(k.value for k in call.keywords)) for name in _functions_in(part)}


def _functions_in(node: ast.expr) -> set[str]:
    """The last names of functions that an expression may stand for."""
    if isinstance(node, ast.Lambda):
        return {"<lambda>"}
    if isinstance(node, ast.Name | ast.Attribute):
        return {node.id if isinstance(node, ast.Name) else node.attr}
    return {
        name for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr) for name in _functions_in(child)
    }


def aheads(source: bytes, path: str, compiled: Compiled) -> dict[str, Ahead]:
    """The functions of a file by qualified name, as sites name their owners; two of one name count as one."""
    tree = parsed(source, path)
    number(tree, path, compiled)
    found: dict[str, Ahead] = {}
    _Reading(found).walk(tree, [])
    return found


class _Reading:
    def __init__(self, found: dict[str, Ahead]) -> None:
        self.found = found

    def walk(self, node: ast.AST, names: list[str]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _SCOPES):
                name = getattr(child, "name", "<lambda>")
                if not isinstance(child, ast.ClassDef):
                    self._read(child, ".".join([*names, name]))
                self.walk(child, [*names, name])
            else:
                self.walk(child, names)

    def _read(self, function: Any, owner: str) -> None:
        known = owner in self.found
        ahead = self.found.setdefault(owner, Ahead(owner))
        ahead.twice |= known
        ahead.implicit |= _is_implicit(function)
        if any("cached_property" in ast.unparse(each) for each in getattr(function, "decorator_list", ())):
            ahead.forbid("what it gives is kept")
        if hasattr(function, "cd_left"):
            ahead.forbid("it is compiled by a library from its source")
            return
        _Body(function, ahead).read()


def _is_implicit(function: Any) -> bool:
    name = getattr(function, "name", "")
    if name.startswith("__") and name.endswith("__"):
        return name not in _CALLED
    written = [ast.unparse(each) for each in getattr(function, "decorator_list", ())]
    return any("property" in each or each.endswith((".setter", ".getter", ".deleter")) for each in written)


class _Body:
    """The statements of one function, without those of functions inside it."""

    def __init__(self, function: Any, ahead: Ahead) -> None:
        self.function, self.ahead = function, ahead
        body = function.body if isinstance(function.body, list) else [function.body]
        self.statements: list[ast.AST] = body
        self.nodes = [node for statement in body for node in _own_nodes(statement)]
        arguments = function.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        self.parameters = [each.arg for each in every if each is not None]
        self.shared = {name for n in self.nodes if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names}

    def read(self) -> None:
        for node in self.nodes:
            why = self._escapes(node)
            if why:
                self.ahead.forbid(f"{why} (line {getattr(node, 'lineno', '?')})")
        inner = [n for n in self.nodes if isinstance(n, _SCOPES)]
        used_inside = {n.id for scope in inner for n in ast.walk(scope) if isinstance(n, ast.Name)}
        stored = {n.id for n in self.nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        local = ({*self.parameters} | stored) - self.shared - used_inside
        for node in self.nodes:
            site, holders = _written(node, local, ())
            self.ahead.own |= {site: holders} if holders else {}
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript):
                self._change_of_a_part(node, node.target.value, local)
        for block in (n for n in self.nodes if isinstance(n, ast.With)):
            names = {item.optional_vars.id for item in block.items if isinstance(item.optional_vars, ast.Name)}
            inside = [node for statement in block.body for node in _own_nodes(statement)]
            self.ahead.own |= {s: h for node in inside for s, h in [_written(node, local, names)] if h}
        self.ahead.gate = self._gate()

    def _change_of_a_part(self, node: ast.AugAssign, whole: ast.expr, local: set[str]) -> None:
        """Notes the sites of `x[i] op= v`: what was read is held by the operator alone, x by its name and the store."""
        held = hasattr(node, "cd_held")  # then x is held until it is written, too
        operator, store = (
            getattr(node, name, -1) for name in (("cd_held", "cd_keep") if held else ("cd_site", "cd_set"))
        )
        self.ahead.own[operator] = 1
        if isinstance(whole, ast.Name) and whole.id in local:
            self.ahead.own[store] = 2
            self.ahead.parts |= {operator: 1 + held, store: 1}

    def _escapes(self, node: Any) -> str:
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            fresh = getattr(self.function, "name", "") == "__init__"
            if not (fresh and self.parameters[:1] == [getattr(node.value, "id", "")]):
                return f"it sets {ast.unparse(node)}"
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and node.id in self.shared:
            return f"it sets {node.id}, which other functions see"
        if isinstance(node, ast.Delete) and not all(isinstance(target, ast.Name) for target in node.targets):
            return f"it deletes {ast.unparse(node.targets[0])}"
        if isinstance(node, ast.Call) and not hasattr(node, "cd_site") and ast.unparse(node.func) != "super":
            return f"it calls {ast.unparse(node.func)} where no site stands"
        return _unusual(node)

    def _gate(self) -> int:
        statements = [s for s in self.statements if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        if not statements or self.ahead.gate >= 0:
            return self.ahead.gate
        first: Any = statements[0]
        while isinstance(first, ast.Try):
            first = first.body[0]
        heads = first.items if isinstance(first, ast.With) else [getattr(first, "test", getattr(first, "iter", first))]
        simple = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.If, ast.While, ast.With, ast.For)
        return _first_site(heads[0]) if isinstance(first, simple) or isinstance(self.function, ast.Lambda) else -1


def _unusual(node: Any) -> str:
    if isinstance(node, ast.ExceptHandler) and _catches_everything(node.type):
        return "it catches every exception"
    if isinstance(node, ast.Try) and any(_leaves(part) for part in node.finalbody):
        return "it catches every exception by leaving a `finally`"
    if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await | ast.AsyncFor | ast.AsyncWith):
        return "it is a generator or waits for others"
    if isinstance(node, ast.withitem) and not isinstance(node.context_expr, ast.Call):
        return f"it enters {ast.unparse(node.context_expr)}"
    if isinstance(node, ast.Import | ast.ImportFrom):
        return "it imports"
    return ""


def _catches_everything(kind: ast.expr | None) -> bool:
    if kind is None:
        return True
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(not isinstance(each, ast.Name) or each.id == "BaseException" for each in kinds if not _is_dotted(each))


def _leaves(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Return | ast.Break | ast.Continue) for node in _own_nodes(statement))


def _is_dotted(kind: ast.expr) -> bool:
    return isinstance(kind, ast.Attribute) and kind.attr != "BaseException"


def _own_nodes(node: ast.AST) -> list[ast.AST]:
    """A node and what is in it, without the bodies of functions and classes inside it; those stand for themselves."""
    found = [node]
    parts: list[ast.AST] = list(ast.iter_child_nodes(node))
    if isinstance(node, _SCOPES):
        inside = node.body if isinstance(node.body, list) else [node.body]
        parts = [part for part in parts if part not in inside]
    for part in parts:
        found += _own_nodes(part)
    return found


def _written(node: Any, local: set[str], entered: Collection[str]) -> tuple[int, int]:
    """The site that may write into something, and how many references its function has to that (0: cannot be told).

    One is that of the call; a local name is another; a `with` that is under way holds what it has entered.
    """
    target: Any = None
    if isinstance(node, ast.AugAssign):
        target = node.target
    elif isinstance(node, ast.Assign) and hasattr(node, "cd_site"):
        target = node.targets[0].value  # type: ignore[attr-defined]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        target = node.func.value
    elif isinstance(node, ast.For | ast.comprehension):
        target = node.iter  # what a loop runs over is used up by it
    number = getattr(node, "cd_site", -1)
    while isinstance(target, ast.Call) and _gives_itself(target.func):
        target = target.func.value  # type: ignore[attr-defined]
    if isinstance(target, ast.Name) and target.id in local:
        return number, 3 if target.id in entered else 2
    is_made_here = isinstance(target, ast.Call) and isinstance(node, ast.Call | ast.For | ast.comprehension)
    return number, 1 if is_made_here else 0


def _gives_itself(function: Any) -> bool:
    """Whether a method changes its object and gives it back, as torch marks such methods: `x.add_(1).mul_(2)`."""
    return isinstance(function, ast.Attribute) and function.attr.endswith("_") and not function.attr.startswith("_")


def _first_site(node: ast.AST) -> int:
    """The number of a site in here that is executed whenever this is, or -1."""
    if isinstance(node, _MAY_NOT_RUN):
        return -1
    inside = [site for child in ast.iter_child_nodes(node) if (site := _first_site(child)) >= 0]
    return inside[0] if inside else getattr(node, "cd_site", -1)
