"""Functions of one row of a table as functions of the values that they read.

`row["price"] * row.count` reads two columns.  The same function with these values as parameters needs no row, and rows
are what costs the time.  It is made from the source, at the same lines, and runs the same operations in the same order
on the same values.  Since it may be run again for comparison, or instead of the original up to a failure, it must not
do anything beside giving its result: all that it calls is known, and it touches nothing that others can see.
"""

from __future__ import annotations

import ast
import builtins
import copy
import itertools
import math
import re
import sys
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from codedag.backends.row_source import Definition, Unfit, definition_of
from codedag.instrument.warned import unheard

ATOMS: frozenset[type] = frozenset({int, float, bool, complex, str, bytes, type(None)})
_BUILTINS = (
    "abs all any bool chr dict divmod enumerate float frozenset int isinstance len list max min ord pow range repr "
    "reversed round set sorted str sum tuple zip"
)
_TYPES: tuple[type, ...] = (bool, bytes, complex, dict, float, frozenset, int, list, set, str, tuple)
_NUMPY = (
    "abs absolute arccos arccosh arcsin arcsinh arctan arctan2 arctanh cbrt ceil clip cos cosh deg2rad degrees exp "
    "exp2 expm1 float32 float64 floor fmax fmin fmod hypot int32 int64 isfinite isinf isnan isclose log log10 log1p "
    "log2 maximum minimum mod power rad2deg radians round sign sin sinh sqrt square tan tanh trunc where"
)
_PANDAS = "isna isnull notna notnull"
_RE = "findall fullmatch match search split sub"
#: Methods of plain values and of containers that the function itself has made.
_METHODS = frozenset(
    name
    for kind in (str, bytes, int, float, complex, list, tuple, dict, set, frozenset, re.Match)
    for name in dir(kind)
    if not name.startswith("_")
)
_HOLDING = frozenset(
    name for kind in (list, dict, set) for name in dir(kind)
)  # methods by which containers take a value
_LOOKS = frozenset({"get", "keys", "values", "items", "index", "count"})  # methods that leave a container alone
_EXCEPTIONS = tuple(each for each in vars(builtins).values() if isinstance(each, type) and issubclass(each, Exception))
_COLLECTING = (dict, frozenset, list, set, tuple, sorted, map, zip, enumerate)
_CONTAINERS = (dict, list, tuple, set, frozenset)
MOST = 100_000  # values of a container of the program's that are looked at
_STATEMENTS = (
    ast.Return, ast.Assign, ast.AugAssign, ast.If, ast.For, ast.While, ast.Expr, ast.Pass, ast.Break, ast.Continue,
    ast.Try,
)  # fmt: skip


@dataclass(slots=True)
class RowFunction:
    """A function of one row: the columns that it reads, in the order of the parameters of the function made of it."""

    columns: list[str]
    by_values: types.FunctionType
    held: list[str]  # columns that may be read twice in a row and put into containers, which ask for identity first


def row_function(function: Any, columns: Iterable[Any], attributes: Any) -> RowFunction:
    """The function of values that does what a function of a row does, or Unfit with the reason.

    `columns` are those of the table, `attributes` is a class: what it has is not a column when it is read as `row.x`.
    """
    function = _behind(function)
    node = definition_of(function)
    reader = _Reader(function, node, frozenset(c for c in columns if type(c) is str), attributes)
    reader.check()
    return RowFunction(reader.read, _compiled(function, node, reader), sorted(reader.again) if reader.holds else [])


def _behind(function: Any) -> types.FunctionType:
    """The function that is called by `lambda row: function(row)`, else the function itself."""
    if type(function) is not types.FunctionType:
        raise Unfit("not a plain function")
    node = definition_of(function)
    if isinstance(node, ast.Lambda) and isinstance(node.body, ast.Call) and isinstance(node.body.func, ast.Name):
        names = [each.id for each in node.body.args if isinstance(each, ast.Name)]
        whole = len(names) == len(node.body.args) == 1 and not node.body.keywords
        if whole and names == [each.arg for each in node.args.args] and node.body.func.id not in names:
            found = _found(function, node.body.func.id)
            if type(found) is types.FunctionType:
                return _behind(found)
    return function


# ---- reading a function


@dataclass(slots=True)
class _Reader:
    """Looks at every node of a function; raises Unfit at the first that is not known to be harmless."""

    function: types.FunctionType
    node: Definition
    columns: frozenset[str]  # empty for a function that the row function calls
    attributes: Any = None
    row: str | None = field(init=False, default=None)
    read: list[str] = field(init=False, default_factory=list)
    places: dict[int, str] = field(init=False, default_factory=dict)  # nodes that read a column
    local: set[str] = field(init=False, default_factory=set)
    known: set[Any] = field(default_factory=set)  # functions that are being looked at
    again: set[str] = field(init=False, default_factory=set)  # columns that may be read more than once in a row
    loops: int = field(init=False, default=0)  # around the node that is looked at
    holds: bool = field(init=False, default=False)  # whether it has containers of its own

    def check(self) -> None:
        """Nothing, or Unfit."""
        args = self.node.args
        if args.vararg or args.kwarg or args.kwonlyargs or getattr(self.node, "decorator_list", None):
            raise Unfit("odd parameters, or a decorator")
        if any(not _is_plain(value) for value in self.function.__defaults__ or ()):
            raise Unfit("a parameter whose default is not a plain value")
        self.local = {each.arg for each in (*args.posonlyargs, *args.args)}
        self._take_row(args)
        if isinstance(self.node, ast.Lambda):
            self._result(self.node.body)
            return
        self.local |= set(_bound(self.node.body))
        if self.row in set(_bound(self.node.body)):
            raise Unfit("the row is given another value")
        for statement in self.node.body:
            self._statement(statement)

    def _take_row(self, args: ast.arguments) -> None:
        if not self.columns:
            return
        places = [*args.posonlyargs, *args.args]
        if not places or len(places) - len(args.defaults) != 1:
            raise Unfit("not a function of one row")
        self.row = places[0].arg
        self.local.discard(self.row)

    # -- statements

    def _statement(self, node: ast.stmt) -> None:
        if not isinstance(node, _STATEMENTS):
            raise Unfit(f"a statement that is not looked into ({type(node).__name__.lower()})")
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            self._target(target)
        self.loops += isinstance(node, ast.For | ast.While)
        for part in ("value", "test", "iter"):
            if getattr(node, part, None) is not None:
                (self._result if isinstance(node, ast.Return) else self._value)(getattr(node, part))
        for handler in getattr(node, "handlers", ()):
            self._handler(handler)
        for part in ("body", "orelse", "finalbody"):
            for each in getattr(node, part, ()):
                self._statement(each)
        self.loops -= isinstance(node, ast.For | ast.While)

    def _handler(self, node: ast.ExceptHandler) -> None:
        kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type] if node.type else []
        if any(not isinstance(k, ast.Name) or self._resolved(k) not in _EXCEPTIONS for k in kinds):
            raise Unfit("an exception that is not a builtin one")
        for each in node.body:
            self._statement(each)

    def _target(self, node: ast.expr | None) -> None:
        """A local name, several, or an element of a local container."""
        if isinstance(node, ast.Tuple | ast.List):
            for each in node.elts:
                self._target(each)
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in self.local:
            self.holds = True
            self._value(node.slice)
        elif node is not None and not (isinstance(node, ast.Name) and node.id in self.local):
            raise Unfit("it changes something that is not its own")

    def _result(self, node: ast.expr) -> None:
        if self.row is not None and isinstance(node, _MANY):
            raise Unfit("it gives more than single values")
        self._value(node)

    # -- expressions

    def _value(self, node: ast.AST) -> None:
        """An expression whose value is plain, or a container that the function itself has made."""
        self.holds |= isinstance(node, _MANY)
        if self._is_read(node) or isinstance(node, ast.Constant):
            return
        if isinstance(node, ast.Name):
            if node.id.startswith("__"):
                raise Unfit("a private name, which means another in a class")
            if node.id not in self.local and not _is_plain(self._resolved(node)):
                raise Unfit(f"{node.id} is not a plain value")
        elif isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, ast.Attribute):
            self._attribute(node)
        elif isinstance(node, ast.Subscript):
            self._looked_into(node.value)
            self._value(node.slice)
        elif isinstance(node, ast.Compare):
            self._comparison(node)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            self._comprehension(node)
        elif isinstance(node, _PLAIN):
            for child in ast.iter_child_nodes(node):
                if not isinstance(child, ast.expr_context | ast.operator | ast.unaryop | ast.boolop):
                    self._value(child)
        else:
            raise Unfit(f"an expression that is not looked into ({type(node).__name__.lower()})")

    def _is_read(self, node: ast.AST) -> bool:
        """Whether a node is the row's value of a column; then it is noted."""
        name = None
        if self.row is None or not isinstance(node, ast.Subscript | ast.Attribute):
            return False
        if not isinstance(node.value, ast.Name) or node.value.id != self.row:
            return False
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            name = node.slice.value
        elif isinstance(node, ast.Attribute) and not node.attr.startswith("_"):
            name = None if hasattr(self.attributes, node.attr) else node.attr
        if type(name) is not str or name not in self.columns or not isinstance(node.ctx, ast.Load):
            raise Unfit("it does more with the row than to read single columns")
        if name not in self.read:
            self.read.append(name)
        if self.loops or (name in self.places.values() and id(node) not in self.places):
            self.again.add(name)
        self.places[id(node)] = name
        return True

    def _attribute(self, node: ast.Attribute) -> None:
        """An attribute of a plain value, or a plain value of a module."""
        if node.attr.startswith("_"):
            raise Unfit("a private attribute")
        base = self._resolved(node.value) if isinstance(node.value, ast.Name) else None
        if isinstance(base, types.ModuleType):
            if node.attr not in base.__dict__ or not _is_plain(base.__dict__[node.attr]):
                raise Unfit(f"{node.attr} is not a plain value")
            return
        if node.attr not in _METHODS and node.attr not in ("real", "imag"):
            raise Unfit(f"an attribute that is not looked into ({node.attr})")
        self._value(node.value)

    def _looked_into(self, node: ast.expr) -> None:
        """A value, or a container of the program's that is only looked into."""
        if isinstance(node, ast.Name) and node.id not in self.local and node.id != self.row:
            if not _is_plain(self._resolved(node), inside=True):
                raise Unfit(f"{node.id} is not a plain value or a container of such")
            return
        self._value(node)

    def _comparison(self, node: ast.Compare) -> None:
        self._value(node.left)
        operands = (node.left, *node.comparators)
        for how, (one, each) in zip(node.ops, itertools.pairwise(operands), strict=True):
            if isinstance(how, ast.Is | ast.IsNot) and not (_is_singleton(one) or _is_singleton(each)):
                raise Unfit("it asks whether two values are one object")
            (self._looked_into if isinstance(how, ast.In | ast.NotIn) else self._value)(each)

    def _comprehension(self, node: Any) -> None:
        before = set(self.local)
        self.loops += 1
        for generator in node.generators:
            self._value(generator.iter)
            bound = set(_targets(generator.target))
            if generator.is_async or self.row in bound:
                raise Unfit("an odd comprehension")
            self.local |= bound
            for condition in generator.ifs:
                self._value(condition)
        for part in ("elt", "key", "value"):
            if hasattr(node, part):
                self._value(getattr(node, part))
        self.loops -= 1
        self.local = before

    # -- calls

    def _call(self, node: ast.Call) -> None:
        named = isinstance(node.func, ast.Name) and node.func.id not in self.local
        function = self._resolved(node.func) if named else self._of_module(node.func)
        if function is None:
            self._method(node)
        else:
            self._is_known(function)
            self.holds |= function in _COLLECTING
        for number, each in enumerate((*node.args, *(keyword.value for keyword in node.keywords))):
            if function is isinstance and number == 1:
                self._types(each)
            elif function is map and number == 0:
                self._mapped(each)
            elif function is len or function is sorted or function is sum:
                self._looked_into(each)
            else:
                self._value(each.value if isinstance(each, ast.Starred) else each)

    def _of_module(self, node: ast.expr) -> Any:
        """The function that `module.name` stands for; None if it is not that of a module."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id != self.row:
            base = None if node.value.id in self.local else self._resolved(node.value)
            if isinstance(base, types.ModuleType):
                return base.__dict__.get(node.attr, base)
        return None

    def _method(self, node: ast.Call) -> None:
        """A method of a value of the function's own, or one that only looks into a container of the program's."""
        func = node.func
        if not isinstance(func, ast.Attribute) or func.attr not in _METHODS or self._is_read(func):
            raise Unfit("a call that is not looked into")
        self.holds |= func.attr in _HOLDING
        if isinstance(func.value, ast.Name) and func.value.id not in self.local:
            held = self._resolved(func.value)
            if type(held) is re.Pattern and func.attr in _RE.split():
                return
            if not _is_plain(held) and not (func.attr in _LOOKS and _is_plain(held, inside=True)):
                raise Unfit(f"{func.value.id} is not a plain value")
            return
        self._value(func.value)

    def _is_known(self, function: Any) -> None:
        if type(function) is types.FunctionType and not _is_listed(function):
            if function in self.known or function is self.function:
                return
            self.known.add(function)
            called = _Reader(function, definition_of(function), frozenset(), known=self.known)
            called.check()
            self.holds |= called.holds
        elif not _is_listed(function):
            raise Unfit(f"{getattr(function, '__name__', 'a function')} is not known to do nothing else")

    def _mapped(self, node: ast.expr) -> None:
        named = isinstance(node, ast.Name) and node.id not in self.local
        function = self._resolved(node) if named else self._of_module(node)
        if function is None or function is map:
            raise Unfit("a function that is not known")
        self._is_known(function)

    def _types(self, node: ast.expr) -> None:
        for each in node.elts if isinstance(node, ast.Tuple) else [node]:
            found = self._resolved(each) if isinstance(each, ast.Name) else self._of_module(each)
            if found not in _TYPES and not _is_scalar_type(found):
                raise Unfit("a class that is not a builtin one")

    def _resolved(self, node: Any) -> Any:
        """What a name that is not local stands for now."""
        if not isinstance(node, ast.Name) or node.id == self.row:
            raise Unfit("it does more with the row than to read single columns")
        return node if node.id in self.local else _found(self.function, node.id)


_MANY = (ast.Tuple, ast.List, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_PLAIN = (
    ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.IfExp, ast.JoinedStr, ast.FormattedValue, ast.Tuple, ast.List, ast.Set,
    ast.Dict, ast.Slice,
)  # fmt: skip


def _is_singleton(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or type(node.value) is bool)


def _found(function: types.FunctionType, name: str) -> Any:
    """What a name of a function that is not local stands for now."""
    free = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    if name in free:
        try:
            return free[name].cell_contents
        except ValueError:
            raise Unfit(f"{name} has no value yet") from None
    space = function.__globals__
    if name in space:
        return space[name]
    found = space.get("__builtins__", builtins)
    found = found if isinstance(found, dict) else vars(found)
    if name not in found:
        raise Unfit(f"{name} is not there")
    return found[name]


def _is_plain(value: Any, inside: bool = False) -> bool:
    """Whether a value cannot change and runs no code of the program's; `inside`: or is a container of such."""
    if type(value) in ATOMS or _is_scalar_type(type(value)):
        return True
    if not inside or type(value) not in _CONTAINERS or len(value) > MOST:
        return False
    parts = (*value, *value.values()) if type(value) is dict else tuple(value)
    return all(type(each) in ATOMS or _is_scalar_type(type(each)) for each in parts)


def _is_scalar_type(kind: Any) -> bool:
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and isinstance(kind, type) and kind.__module__ == "numpy" and _is_number(numpy, kind)


def _is_number(numpy: Any, kind: type) -> bool:
    return issubclass(kind, numpy.number | numpy.bool_)


def _is_listed(function: Any) -> bool:
    """Whether a function is among those known to do nothing but to give a result."""
    homes: list[tuple[Any, Iterable[str]]] = [
        (builtins, [*_BUILTINS.split(), "map"]),
        (math, [name for name in vars(math) if not name.startswith("_")]),
        (re, _RE.split()),
        (sys.modules.get("numpy"), _NUMPY.split()),
        (sys.modules.get("pandas"), _PANDAS.split()),
    ]
    own = getattr(function, "__module__", "") if type(function) is types.FunctionType else ""  # else it is written in C
    return any(
        function is getattr(home, name, None) and own.partition(".")[0] in ("", home.__name__)
        for home, names in homes
        if home
        for name in names
    )


def _bound(body: Iterable[ast.stmt]) -> Iterator[str]:
    """The names that statements bind."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign | ast.AugAssign | ast.For):
                for target in getattr(node, "targets", [getattr(node, "target", None)]):
                    yield from _targets(target)
            elif isinstance(node, ast.ExceptHandler) and node.name:
                yield node.name


def _targets(node: Any) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Tuple | ast.List):
        for each in node.elts:
            yield from _targets(each)


# ---- making a function of values


class _Reading(ast.NodeTransformer):
    """Puts a parameter in the place of every value that is read from the row."""

    def __init__(self, names: dict[int, str]) -> None:
        self.names = names

    def visit(self, node: ast.AST) -> Any:
        if id(node) in self.names:
            return ast.copy_location(ast.Name(self.names[id(node)], ast.Load()), node)
        return self.generic_visit(node)


def _compiled(function: types.FunctionType, node: Definition, reader: _Reader) -> types.FunctionType:
    """The function of the columns' values, with the original's globals, closure, lines and defaults."""
    names = {column: f"codedag_{number}" for number, column in enumerate(reader.read)}
    kept: dict[int, Any] = {}
    made = copy.deepcopy(node, kept)
    _Reading({id(kept[place]): names[column] for place, column in reader.places.items()}).visit(made)
    first = (made.args.posonlyargs or made.args.args)[0]
    made.args.posonlyargs = [ast.copy_location(ast.arg(name), first) for name in names.values()]
    made.args.args = [*node.args.posonlyargs, *node.args.args][1:]
    made.args.defaults = []  # the function's own are used, as they are: to compile them could find a function in there
    code = _inner_code(function, made)
    free = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    closure = tuple(free[name] for name in code.co_freevars)
    return types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)


def _inner_code(function: types.FunctionType, made: Any) -> types.CodeType:
    """The code of a definition inside a function that has the variables which it takes from around it."""
    cells = ", ".join(function.__code__.co_freevars)
    module = ast.parse(f"def around():\n    {cells + ' = ' + cells if cells else 'pass'}\n")
    module.body[0].body.append(made if isinstance(made, ast.stmt) else ast.copy_location(ast.Expr(made), made))  # type: ignore[attr-defined]
    with unheard():
        around = compile(ast.fix_missing_locations(module), function.__code__.co_filename, "exec", dont_inherit=True)
    for code in _code_constants(around):
        for inner in _code_constants(code):
            if inner.co_name == function.__code__.co_name:
                return inner
    raise Unfit("its code is not found")


def _code_constants(code: types.CodeType) -> list[types.CodeType]:
    return [each for each in code.co_consts if isinstance(each, types.CodeType)]
