"""A function of ours as source that stands by itself: with the imports, values and functions that it needs."""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any

from codedag.backends.registry import Substitution

_OURS = "codedag."


def standalone(function: Callable[..., Any], name: str) -> str:
    """The source of a module in which `name` is the function; raises LookupError if it needs what is not source."""
    collected = _Collected()
    collected.add(function)
    alias = [] if name == function.__name__ else [f"{name} = {function.__name__}"]
    head = "\n".join(["from __future__ import annotations", "", *sorted(collected.imports)])
    text = "\n\n\n".join([head, *collected.parts, *alias])
    missing = _undefined(text)
    if missing:
        raise LookupError(f"it uses {', '.join(sorted(missing))}, which is not source")
    return text


class _Collected:
    """What was found so far, each part after those that it needs."""

    def __init__(self) -> None:
        self.imports: set[str] = set()
        self.parts: list[str] = []
        self._seen: set[tuple[str, str]] = set()

    def add(self, thing: Any) -> None:
        """Adds a function or class with all that it uses."""
        self._add(inspect.getmodule(thing), thing.__name__, _source(thing))

    def _add(self, module: types.ModuleType | None, name: str, source: str) -> None:
        if module is None or (module.__name__, name) in self._seen:
            return
        self._seen.add((module.__name__, name))
        space = vars(module)
        source = self._freed(source, space)
        for each in _names(source):
            if each in space and each != name:
                self._need(module, each, space[each])
        self.parts.append(source)

    def _freed(self, source: str, space: dict[str, Any]) -> str:
        """The source with the originals of substitutions imported instead of asked for."""
        for name in set(_names(source)):
            value = space.get(name)
            if isinstance(value, Substitution):
                module, _, last = value.source.rpartition(".")
                if f"{name}.original()" in source:
                    self.imports.add(f"from {module} import {last} as original_{last}")
                source = source.replace(f"{name}.original()", f"original_{last}").replace(f"{name}.run(", f"{name}(")
                if _is_passed_on(source, name):
                    raise LookupError(f"it uses a part of CodeDAG ({name})")
        return source

    def _need(self, module: types.ModuleType, name: str, value: Any) -> None:
        value = inspect.unwrap(value.run if isinstance(value, Substitution) else value)
        if isinstance(value, types.ModuleType):
            if value.__name__.startswith(_OURS):
                raise LookupError(f"it uses a part of CodeDAG ({value.__name__})")
            self.imports.add(f"import {value.__name__} as {name}")
        elif isinstance(value, types.FunctionType) and "written_as" in vars(value):
            source, _, last = vars(value)["written_as"].rpartition(".")
            self.imports.add(f"from {source} import {last} as {name}")
        elif isinstance(value, types.FunctionType | type) and value.__module__.startswith(_OURS):
            self.add(value)
        elif isinstance(value, types.FunctionType | types.BuiltinFunctionType | type):
            self.imports.add(f"from {value.__module__} import {value.__name__} as {name}")
        else:
            self._add_value(module, name)

    def _add_value(self, module: types.ModuleType, name: str) -> None:
        """Adds what the module's source assigns to a name, or where it has it from."""
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and _assigns(node, name):
                assert node.value is not None
                text = ast.unparse(node) if _is_unpacking(node) else f"{name} = {ast.unparse(node.value)}"
                self._add(module, name, text)
                return
            if isinstance(node, ast.ImportFrom) and any((each.asname or each.name) == name for each in node.names):
                other = sys.modules[node.module or ""]
                if not other.__name__.startswith(_OURS):
                    self.imports.add(f"from {node.module} import {name}")
                else:
                    self._add_value(other, name)
                return
        raise LookupError(f"it uses {name}, which is not source")


def _assigns(node: ast.Assign | ast.AnnAssign, name: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = [each for target in targets for each in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return node.value is not None and any(isinstance(each, ast.Name) and each.id == name for each in names)


def _is_unpacking(node: ast.Assign | ast.AnnAssign) -> bool:
    return isinstance(node, ast.Assign) and any(isinstance(target, ast.Tuple) for target in node.targets)


def _source(thing: Any) -> str:
    """The source of a function or class without types and without what registers it with us."""
    text = textwrap.dedent(inspect.getsource(thing))
    (node,) = ast.parse(text).body
    if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name != thing.__name__:
        raise LookupError(f"{thing.__name__} is made by another function")
    if isinstance(node, ast.FunctionDef):
        node.decorator_list = []
    plain = _Plain(keep=isinstance(node, ast.ClassDef)).visit(node)
    return ast.unparse(ast.fix_missing_locations(plain))


class _Plain(ast.NodeTransformer):
    """Takes types away, which name things of ours; those of a class's own fields stay, a dataclass needs them."""

    def __init__(self, keep: bool) -> None:
        self._keep = keep

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """The function without types."""
        node.returns, keep, self._keep = None, self._keep, False
        self.generic_visit(node)
        self._keep = keep
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """The parameter without its type."""
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        """The assignment without its type; nothing if it assigns nothing."""
        if self._keep:
            node.annotation = ast.Name("object", ast.Load())
            return node
        return None if node.value is None else ast.Assign([node.target], node.value)


def _names(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            yield node.id


def _is_passed_on(source: str, name: str) -> bool:
    """Whether a name is used for more than calling it."""
    nodes = list(ast.walk(ast.parse(source)))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    return any(isinstance(node, ast.Name) and node.id == name and id(node) not in called for node in nodes)


def _undefined(text: str) -> set[str]:
    """The names that a module reads and nothing in it gives, by a rough look that knows no scopes."""
    given = set(dir(builtins))
    read: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else given).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            given.add(node.name)
        elif isinstance(node, ast.arg):
            given.add(node.arg)
        elif isinstance(node, ast.alias):
            given.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            given.add(node.name)
    return read - given
