"""What a program changes in place under another name, as far as its source says: `w = data.mean; w += 1; w -= 1`.

Each name may stand for what was assigned to it anywhere in its function, each attribute for what was assigned to one of
its name anywhere.  What a call gives may be what it was given, or a part or view of that, unless it is known to be new.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

Key = tuple[str, str]  # the function of a local name ("": none), "." for attributes, "()" for results; and a name
ANY: Key = ("*", "*")  # something that a loop or next() came to, whatever it is
#: Methods that change their object in place, beside those of torch, whose names end with "_".
CHANGES = frozenset(
    """
    append extend insert remove pop clear sort reverse add discard update fill put difference_update
    intersection_update symmetric_difference_update itemset resize partition setfield byteswap appendleft popleft
    extendleft rotate setdefault popitem setflags
    """.split()  # noqa: SIM905
)
_WRITERS = frozenset(
    """
    shuffle copyto put place putmask put_along_axis fill_diagonal heappush heappop heapify heapreplace heappushpop
    insort insort_left insort_right rectangle line circle putText fillPoly fillConvexPoly drawContours polylines
    ellipse floodFill setattr memmove memset pack_into readinto
    """.split()  # noqa: SIM905
)
_NEW = frozenset(
    """
    len int float str bool range sum abs round print repr isinstance type deepcopy item tolist astype clone mean
    std format split strip lower upper join copy zeros ones empty full arange zeros_like ones_like empty_like rand
    randn random perf_counter time sqrt exp log tobytes hexdigest
    """.split()  # noqa: SIM905
)
_VIEWS = frozenset({"T", "mT", "H", "data", "flat", "real", "imag", "values", "grad", "__dict__"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Aliases:
    """The names of a program, what they may stand for, and which ones are changed in place."""

    def __init__(self) -> None:
        self.changed: set[Key] = set()
        self._sources: defaultdict[Key, set[Key]] = defaultdict(set)
        self._parameters: defaultdict[str, list[list[Key]]] = defaultdict(list)
        self._calls: list[tuple[str, list[set[Key]], dict[str | None, set[Key]], bool]] = []

    def read(self, tree: ast.AST, path: str, apart: Collection[str] = ()) -> None:
        """Takes in a file; functions that are `apart` change nothing."""
        _Reader(self, path, apart).walk(tree, _Scope("", "", {}, None), False)

    def names(self) -> set[str]:
        """The names of globals and attributes that may stand for something that is changed; "*" if anything may."""
        self._bind()
        waiting, found = list(self.changed), set(self.changed)
        while waiting:
            new = self._sources.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        return {name for kind, name in found if kind in ("", ".", "*")}

    def stands_for(self, key: Key, sources: Iterable[Key]) -> None:
        """Notes what a name may stand for."""
        self._sources[key].update(sources)

    def defined(self, name: str, parameters: list[Key]) -> None:
        """Notes the parameters of a function."""
        self._parameters[name].append(parameters)

    def called(self, name: str, args: list[set[Key]], keywords: dict[str | None, set[Key]], bound: bool) -> None:
        """Notes what a function of some name is called with; `bound` if it may be a method."""
        self._calls.append((name, args, keywords, bound))

    def _bind(self) -> None:
        for name, args, keywords, bound in self._calls:
            for parameters in self._parameters.get(name, ()):
                for first in (0, 1) if bound else (0,):
                    for key, sources in zip(parameters[first:], args, strict=False):
                        self._sources[key] |= sources
                for key in parameters:
                    self._sources[key] |= keywords.get(key[1], set()) | keywords.get(None, set())
        self._calls = []


class _Scope:
    """A function, and the names that are its own."""

    def __init__(self, name: str, owner: str, own: dict[str, Key], outer: _Scope | None) -> None:
        self.name, self.owner, self.own, self.outer = name, owner, own, outer

    def key(self, name: str) -> Key:
        found = self.own.get(name)
        if found is None:
            return self.outer.key(name) if self.outer is not None else ("", name)
        return found


class _Reader:
    def __init__(self, into: Aliases, path: str, apart: Collection[str]) -> None:
        self.into, self.path, self.apart = into, path, apart

    def walk(self, node: ast.AST, scope: _Scope, loops: bool, owner: str = "") -> None:
        for child in ast.iter_child_nodes(node):
            inner, named = scope, owner
            if isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
                named = f"{owner}.{getattr(child, 'name', '<lambda>')}".lstrip(".")
            if isinstance(child, _FUNCTIONS):
                inner = self._function(child, scope, named)
            inside = loops or isinstance(child, ast.For | ast.While | ast.AsyncFor)
            self._read(child, inner, inside)
            self.walk(child, inner, inside, named)

    def _function(self, node: Any, outer: _Scope, owner: str) -> _Scope:
        name, place = getattr(node, "name", "<lambda>"), f"{self.path}:{node.lineno}:{node.col_offset}"
        args = node.args
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
        given = [each.arg for each in every if each is not None]
        parts = [n for n in ast.walk(node) if isinstance(n, ast.Name | ast.Global)]
        shared = {each for n in parts if isinstance(n, ast.Global) for each in n.names}
        stored = {n.id for n in parts if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        own = {each: (place, each) for each in {*given, *stored} - shared}
        self.into.defined(name, [(place, each) for each in given])
        return _Scope(name, owner, own, outer)

    def _read(self, node: Any, scope: _Scope, loops: bool) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, self._direct(node.value, scope), scope)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            self._assign(node.target, self._direct(node.value, scope), scope)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            sources = self._direct(node.iter, scope)
            self._assign(node.target, sources | ({ANY} if sources else set()), scope)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._assign(node.optional_vars, self._direct(node.context_expr, scope), scope)
        elif isinstance(node, ast.Return | ast.Yield) and node.value is not None:
            self.into.stands_for(("()", scope.name), self._direct(node.value, scope))
        elif isinstance(node, ast.Call):
            self._call(node, scope)
        if scope.name != "__init__" and (scope.name or loops) and scope.owner not in self.apart:
            self.into.changed |= self._changes(node, scope)

    def _assign(self, target: Any, sources: set[Key], scope: _Scope) -> None:
        for part in target.elts if isinstance(target, ast.Tuple | ast.List) else ():
            self._assign(part, sources, scope)
        if not isinstance(target, ast.Tuple | ast.List):
            for key in self._direct(target, scope):
                self.into.stands_for(key, sources)

    def _call(self, node: ast.Call, scope: _Scope) -> None:
        args = [self._direct(each, scope) for each in node.args]
        keywords = {each.arg: self._direct(each.value, scope) for each in node.keywords}
        bound = isinstance(node.func, ast.Attribute)
        self.into.called(_name(node.func), args, keywords, bound)

    def _changes(self, node: Any, scope: _Scope) -> set[Key]:
        """What a statement or call changes in place; what is changed by a text as key is a dict, which counts it."""
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            return set() if _text(node.slice) else self._direct(node.value, scope)
        if isinstance(node, ast.AugAssign):
            return self._direct(node.target, scope)
        if not isinstance(node, ast.Call):
            return set()
        name = _name(node.func)
        changed = [each.value for each in node.keywords if each.arg in ("out", "dst")]
        if isinstance(node.func, ast.Attribute) and (name in CHANGES or (name.endswith("_") and name[0] != "_")):
            changed.append(node.func.value)
        if name in _WRITERS:
            changed += node.args
        return {key for each in changed for key in self._direct(each, scope)}

    def _direct(self, node: Any, scope: _Scope) -> set[Key]:
        """The names that the value of an expression, or what is in it, may be known by."""
        if isinstance(node, ast.Name):
            return {scope.key(node.id)}
        if isinstance(node, ast.Attribute):
            return {(".", node.attr)} | (self._direct(node.value, scope) if node.attr in _VIEWS else set())
        if isinstance(node, ast.Subscript):
            text = _text(node.slice)
            return self._direct(node.value, scope) | ({(".", text)} if text else set())
        if isinstance(node, ast.Call):
            return self._given(node, scope)
        parts: list[Any] = []
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            parts = node.elts
        elif isinstance(node, ast.Dict | ast.BoolOp):
            parts = node.values
        elif isinstance(node, ast.IfExp):
            parts = [node.body, node.orelse]
        elif isinstance(node, ast.Starred | ast.NamedExpr | ast.Await):
            parts = [node.value]
        return {key for part in parts for key in self._direct(part, scope)}

    def _given(self, node: ast.Call, scope: _Scope) -> set[Key]:
        name = _name(node.func)
        if name in _NEW or name[:1].isupper():
            return set()
        parts: list[Any] = [*node.args, *(each.value for each in node.keywords)]
        if isinstance(node.func, ast.Attribute):
            parts.append(node.func.value)
        found = {key for part in parts for key in self._direct(part, scope)} | {("()", name)}
        if name == "getattr":
            found |= {(".", _text(each)) for each in node.args[1:2] if _text(each)}
        return found | ({ANY} if name == "next" else set())


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _text(node: Any) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
