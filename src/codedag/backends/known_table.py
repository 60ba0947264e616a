"""The table of known functions: what each of them does, found by identity, without running any code of the user's.

A row says what a call does if its arguments are plain: values of exact library types whose methods are known to be
the library's own.  What is not in the table is unknown, and so is a call with an argument that is not plain.
"""

from __future__ import annotations

import enum
import inspect
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from codedag.ir.verdict import No

Places = tuple[int | str, ...]
UNLIMITED = 99
UNBOUND = object()  # a function that belongs to no object


class Effect(enum.Enum):
    """What a call does beside giving a result."""

    PURE = "pure"
    READS = "reads files"
    DRAWS = "draws from a generator"
    WRITES = "writes into an argument"
    CLOCK = "reads the clock, the environment or other state of the process"


@dataclass(frozen=True, slots=True)
class Known:
    """What one call does.

    `fresh`: nobody else can reach memory of the result that can be written: no argument, no other result.
    `writes`: the arguments of this call that are written: positions, keywords, or "self" for a bound method.
    `files`: the arguments that name the files or folders it reads; "self" for a bound method.
    `generator`: from the called object to the generator that it advances.
    `deterministic`: equal arguments (and files, and thread settings) give equal results.
    `most`: positional arguments beyond this number would be written.
    `by_threads`: the last bits may depend on how many threads the library has.
    `one_at_a_time`: it changes settings of the process while it runs (the filters of warnings), so that two calls in
    two threads would undo each other's; `by_threads` is then true, too.
    """

    effect: Effect
    fresh: bool = True
    writes: Places = ()
    files: Places = ()
    generator: Callable[[Any], Any] | None = None
    deterministic: bool = True
    most: int = UNLIMITED
    by_threads: bool = False
    one_at_a_time: bool = False

    def paths(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
        """The files and folders that a call names; none if what it reads is not known from its arguments."""
        at: dict[Any, Any] = {"self": getattr(function, "__self__", None), **dict(enumerate(args)), **keywords}
        return [path for path in map(at.get, self.files) if path is not None]


@dataclass(frozen=True, slots=True)
class Row:
    """One function or method of the table.

    `outs`: arguments that are written when they are given and not None; `into_self`: a method that changes its object.
    `shallow`: moves what is inside of containers around and never looks at it; `opaque`: positions never looked at.
    `fresh` and `declines` may look at the arguments; an object is given to methods as the first of them.
    `stream`: from object and keywords to the generator that is advanced.
    """

    name: str
    effect: Effect = Effect.PURE
    fresh: bool | Callable[[tuple[Any, ...], dict[str, Any]], bool] = True
    outs: Places | None = None  # None: found in the signature when first asked for
    into_self: bool = False
    files: Places = ()
    stream: Callable[[Any, dict[str, Any]], Any] | None = None
    deterministic: bool = True
    most: int = UNLIMITED
    by_threads: bool = False
    one_at_a_time: bool = False
    shallow: bool = False
    opaque: tuple[int, ...] = ()
    declines: Callable[[tuple[Any, ...], dict[str, Any]], str] | None = None


class Table:
    """Rows by identity of functions, and by exact type and name of methods; and which values are plain."""

    def __init__(self) -> None:
        self.functions: dict[int, tuple[Any, Row]] = {}  # by id: to ask a user's object for its hash runs its code
        self.methods: dict[type, dict[str, tuple[Any, Row]]] = {}
        self.atoms: set[type] = set()  # nothing inside, cannot change
        self.held: dict[type, Callable[[Any], bool]] = {}  # plain if the check agrees: arrays, images
        self.classes: dict[int, type] = {}  # types that may be given as a value: dtypes, classes for isinstance
        self.callables: list[tuple[tuple[type, ...], Row, Callable[[Any], bool]]] = []  # objects that can be called
        self.families: dict[str, type] = {}  # package -> class whose subclasses in that package have its methods

    def functions_of(self, module: Any, names: str, **facts: Any) -> None:
        """Adds functions and classes of a module: those that are there and are the library's own."""
        top = module.__name__.partition(".")[0]
        for name in names.split():
            function = _unpatched(vars(module).get(name))  # to ask the module could make it load more
            if function is not None and _is_of(function, top):
                self.functions[id(function)] = (function, Row(f"{module.__name__}.{name}", **facts))

    def methods_of(self, kind: type, names: str, **facts: Any) -> None:
        """Adds methods of a type, for its exact instances."""
        rows = self.methods.setdefault(kind, {})
        for name in names.split():
            found = _unpatched(next((vars(c)[name] for c in kind.__mro__ if name in vars(c)), None))
            if found is not None:
                rows[name] = (found, Row(f"{kind.__module__}.{kind.__qualname__}.{name}", **facts))

    def add_atoms(self, kinds: Iterable[type]) -> None:
        """Adds types whose values cannot change and hold nothing; the types themselves may be given, too."""
        for kind in kinds:
            self.atoms.add(kind)
            self.classes[id(kind)] = kind

    def functions_in(self, package: str, names: str, **facts: Any) -> None:
        """Adds functions of all modules of a package that are loaded by now, under the names of the package."""
        wanted = frozenset(names.split())
        for module_name in [n for n in list(sys.modules) if n == package or n.startswith(f"{package}.")]:
            for name in wanted & vars(sys.modules[module_name]).keys():
                function = _unpatched(vars(sys.modules[module_name])[name])
                if callable(function) and _is_of(function, package.partition(".")[0]):
                    self.functions.setdefault(id(function), (function, Row(f"{package}.{name}", **facts)))

    def hold(self, kind: type, check: Callable[[Any], bool] = lambda value: True) -> None:
        """Adds a type whose exact instances are plain if the check agrees."""
        self.held[kind] = check
        self.classes[id(kind)] = kind

    # -- asking

    def row_of(self, function: Any) -> tuple[Row, Any] | None:
        """The row of a called object and the object it is bound to (or UNBOUND); None if it is unknown."""
        found = self.functions.get(id(function))
        if found is not None:
            return self.complete(function, found[1]), UNBOUND
        kind = type(function)
        if kind in _CAN_BE_BOUND:
            return self._bound(function)
        return self._unbound(function) if kind in _THROUGH_CLASS else self._callable(function)

    def _callable(self, value: Any) -> tuple[Row, Any] | None:
        for roots, row, check in self.callables:
            if any(root in bases(type(value)) for root in roots) and check(value):
                return row, value
        return None

    def complete(self, function: Any, row: Row) -> Row:
        """The row with the places of `out`, which are looked up when it is first asked for."""
        if row.outs is None:
            outs, most = outs_in_signature(function)
            row = replace(row, outs=outs, most=min(row.most, most))
            self.functions[id(function)] = (function, row)
        return row

    def _bound(self, function: Any) -> tuple[Row, Any] | None:
        owner = function.__self__
        if is_class(owner):
            return self._class_method(function, owner)
        rows = self.rows_for(type(owner))
        if type(function) is types.MethodType:
            plain = _unpatched(function.__func__)
            found = next((each for each in tuple(rows.values()) if _unpatched(each[0]) is plain), None)
        else:
            found = rows.get(function.__name__)
        return None if found is None else (found[1], owner)

    def _class_method(self, function: Any, owner: type) -> tuple[Row, Any] | None:
        if id(owner) not in self.classes:
            return None
        for defined, row in tuple(self.methods.get(owner, {}).values()):
            if type(defined) is classmethod and defined.__func__ is getattr(function, "__func__", None):
                return row, UNBOUND
            if type(defined) is types.ClassMethodDescriptorType and defined.__name__ == function.__name__:
                return row, UNBOUND
        return None

    def _unbound(self, function: Any) -> tuple[Row, Any] | None:
        found = self.methods.get(function.__objclass__, {}).get(function.__name__)
        return (_through_class(found[1]), UNBOUND) if found is not None and found[0] is function else None

    def rows_for(self, kind: type) -> dict[str, tuple[Any, Row]]:
        """The methods of exact instances of a type: its own rows, or those of the family that it is of."""
        rows = self.methods.get(kind)
        if rows is not None:
            return rows
        family = self.family_of(kind)
        return {} if family is None else self.methods.get(family, {})

    def family_of(self, kind: type) -> type | None:
        """The class of the table that this class of the same package derives from."""
        module = type.__getattribute__(kind, "__module__")
        base = self.families.get(module.partition(".")[0]) if type(module) is str else None
        if base is None or base not in bases(kind):
            return None
        return base if is_defined_in(kind, module) else None

    def plain(self, value: Any, shallow: bool = False, budget: int = 4096) -> bool:
        """Whether no code of the user's can run when a library looks at the value."""
        return self._spent(value, shallow, budget) >= 0

    def _spent(self, value: Any, shallow: bool, budget: int) -> int:
        """What is left of the budget after looking at a value; negative if it is not plain or too large to tell."""
        kind = type(value)
        if kind in self.atoms:
            return budget
        check = self.held.get(kind)
        if check is not None:
            return budget if check(value) else -1
        if kind in _CONTAINERS:
            if shallow:
                return budget
            return self._inside(value, kind, budget - len(value))
        return budget if self._is_known_thing(value, kind) else -1

    def _inside(self, value: Any, kind: type, budget: int) -> int:
        items = (each for pair in value.items() for each in pair) if kind is dict else iter(value)
        for item in items:
            if budget < 0:
                return -1
            budget = self._spent(item, False, budget)
        return budget

    def _is_known_thing(self, value: Any, kind: type) -> bool:
        if id(value) in self.classes:
            return True
        found = self.functions.get(id(value))  # a known pure function may be handed over: sorted(names, key=len)
        if found is not None:
            return found[1].effect is Effect.PURE
        if kind in _THROUGH_CLASS:
            row = self._unbound(value)
            return row is not None and row[0].effect is Effect.PURE
        family = self.family_of(kind)
        return family is not None and self.held[family](value)

    def is_atom(self, value: Any, depth: int = 4) -> bool:
        """Whether nothing in the value can change: a number, a text, or a tuple of such."""
        if type(value) is tuple:
            return depth > 0 and all(self.is_atom(item, depth - 1) for item in value)
        return type(value) in self.atoms or id(value) in self.classes or id(value) in self.functions

    def loads_later(self, value: Any) -> bool:
        """Whether looking at the value may change it: an image file that is read when its pixels are needed."""
        return type(value) not in self.held and self.family_of(type(value)) is not None


def only_atoms_inside(table: Table) -> Callable[[tuple[Any, ...], dict[str, Any]], bool]:
    """A rule for `fresh`: a new container is fresh if what it was filled with cannot change."""

    def rule(args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
        return all(_holds_only_atoms(table, value) for value in (*args, *keywords.values()))

    return rule


def _holds_only_atoms(table: Table, value: Any, budget: int = 4096) -> bool:
    kind = type(value)
    if kind is dict:
        return len(value) <= budget and all(table.is_atom(v) for v in value.values())
    if kind in _CONTAINERS:
        return len(value) <= budget and all(map(table.is_atom, value))
    return table.is_atom(value)


_PATCHES = "codedag.migrate._patch"
_CAN_BE_BOUND = (types.MethodType, types.BuiltinMethodType, types.MethodWrapperType)
_THROUGH_CLASS = (types.MethodDescriptorType, types.WrapperDescriptorType)
_DICT_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_CONTAINERS = frozenset({list, tuple, dict, set, frozenset, range, *_DICT_VIEWS})
_MRO: Any = type.__dict__["__mro__"]


def bases(kind: type) -> tuple[type, ...]:
    """A class and those it derives from, without asking its metaclass."""
    return _MRO.__get__(kind)  # type: ignore[no-any-return]


def is_class(value: Any) -> bool:
    """Whether a value is a class; `isinstance` would ask the value itself."""
    return issubclass(type(value), type)


def _unpatched(function: Any) -> Any:
    """The library's own function where a patch of ours stands in its place."""
    return function.__wrapped__ if type(function).__module__ == _PATCHES else function


def _is_of(function: Any, top: str) -> bool:
    """Whether a module's attribute is the library's own and not something put there by somebody else."""
    module = getattr(function, "__module__", None)
    if type(function) is types.FunctionType:
        return str(module).partition(".")[0].lstrip("_") == top.lstrip("_") or top in _SPREAD
    return True


#: Modules of the standard library whose functions say that they come from another one.
_SPREAD = frozenset({"os", "posixpath", "json", "re", "collections", "functools", "glob", "copy", "string", "math"})


def is_defined_in(kind: type, module: str) -> bool:
    """Whether a module holds this class under its name."""
    name = type.__getattribute__(kind, "__name__")
    return getattr(sys.modules.get(module), name, None) is kind


def _through_class(row: Row) -> Row:
    """The row of a method that is called through its class: the object is argument 0."""
    outs = tuple(place + 1 if isinstance(place, int) else place for place in row.outs or ())
    return replace(row, outs=(0, *outs) if row.into_self else outs, into_self=False, most=row.most + 1)


#: What libraries call an argument that they write into.
_OUT_NAMES = frozenset({"out", "output", "indices_out", "distances"})


def outs_in_signature(function: Any) -> tuple[Places, int]:
    """The places of `out` in a function's signature, and how many positional arguments come before the first."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        return ("out",), 1  # it cannot be asked: only the first argument is surely not written
    outs: list[int | str] = []
    for position, parameter in enumerate(parameters):
        if parameter.name in _OUT_NAMES:
            outs += [parameter.name] if parameter.kind is inspect.Parameter.KEYWORD_ONLY else [position, parameter.name]
    return tuple(outs) or ("out",), next((place for place in outs if isinstance(place, int)), UNLIMITED)


def known_of(table: Table, row: Row, owner: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Known | No:
    """What a call of the row's function does with these arguments, or why that is not known."""
    looked_at = [value for place, value in enumerate(args) if place not in row.opaque] if row.opaque else args
    for value in (*looked_at, *keywords.values()):
        if not table.plain(value, row.shallow):
            return No(f"{row.name} is given {named_type(value)}, which may run code of its own")
    seen = args if owner is UNBOUND else (owner, *args)
    if owner is not UNBOUND and row.stream is None and not table.plain(owner, row.shallow):
        return No(f"{row.name}: the object holds values that may run code of their own")
    why = row.declines(seen, keywords) if row.declines is not None else ""
    if why:
        return No(f"{row.name}: {why}")
    written = _written(table, row, owner, args, keywords)
    if len(args) > row.most and not written:
        return No(f"{row.name} has {len(args)} positional arguments; which of them it writes is not known")
    return _answer(row, owner, written, seen, keywords)


def _written(table: Table, row: Row, owner: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Places:
    """The arguments that are written: those named for it, and images that are only now read from their files."""
    into_self = row.into_self or (owner is not UNBOUND and table.loads_later(owner))
    named = tuple(place for place in row.outs or () if _is_given(table, place, args, keywords))
    later = tuple(place for place, value in enumerate(args) if place not in named and table.loads_later(value))
    return ("self", *named, *later) if into_self else (*named, *later)


def _answer(row: Row, owner: Any, written: Places, seen: tuple[Any, ...], keywords: dict[str, Any]) -> Known:
    fresh = row.fresh if isinstance(row.fresh, bool) else row.fresh(seen, keywords)
    effect = Effect.WRITES if written and row.effect in (Effect.PURE, Effect.READS) else row.effect
    return Known(
        effect, fresh and not set(written) & set(row.outs or ()), written, row.files if effect is Effect.READS else (),
        _generator(row, owner, keywords), row.deterministic and effect not in (Effect.DRAWS, Effect.CLOCK), row.most,
        row.by_threads or row.one_at_a_time, row.one_at_a_time,
    )  # fmt: skip


def _generator(row: Row, owner: Any, keywords: dict[str, Any]) -> Callable[[Any], Any] | None:
    if row.stream is None:
        return None
    drawn_from = row.stream(owner, keywords)
    return lambda called: drawn_from


def _is_given(table: Table, place: int | str, args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Whether something that can be written stands there: not None, nor a dtype."""
    if isinstance(place, int):
        return place < len(args) and not table.is_atom(args[place])
    return place in keywords and not table.is_atom(keywords[place])


def named_type(value: Any) -> str:
    """The name of a value's type, without asking the value."""
    kind = type(value)
    return f"{type.__getattribute__(kind, '__module__')}.{type.__getattribute__(kind, '__qualname__')}"
