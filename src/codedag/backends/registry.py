"""The table of substitutions: which function can stand in for which, and for which calls.

Importing this module imports no framework. The backend files beside it (their names end in an underscore) and
the plug-ins of the entry point group `codedag.backends` are imported when the table is first asked; of the former only
those that have what is asked for, once it is known which these are.
"""

from __future__ import annotations

import enum
import functools
import importlib
import importlib.util
import inspect
import logging
import pkgutil
import random
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol, TypeVar

from codedag.backends import contents
from codedag.backends.hazards import hazard
from codedag.backends.not_built import NOT_BUILT, wants_extension
from codedag.backends.requirements import satisfied
from codedag.devices.present import is_accelerator
from codedag.instrument.signals import raised_by_handler
from codedag.ir.errors import CodedagError
from codedag.ir.verdict import No, Verdict, Yes

GROUP = "codedag.backends"
_log = logging.getLogger("codedag.backends")


class Equivalence(enum.Enum):
    """How near a substitute comes to its original; a plan uses EXACT unless the user opts in to more."""

    EXACT = "exact"
    ULP = "ulp"
    LEVEL1 = "level1"


EXACT = Equivalence.EXACT
ULP = Equivalence.ULP
LEVEL1 = Equivalence.LEVEL1


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of one call as they were written: positional and keyword."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, *args: Any, **kwargs: Any) -> Call:
        """The call that `f(*args, **kwargs)` would make."""
        return cls(args, kwargs)


class Outcome(NamedTuple):
    """What became of an attempt: a value, or the exception it ended with."""

    value: Any
    error: Exception | None


Guard = Callable[[Any], Verdict]
CallMaker = Callable[[random.Random], Call]
PartCheck = Callable[[tuple[Any, ...], dict[str, Any], Any], tuple[Verdict, float]]


def attempt(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Outcome:
    """The value of a call of code that is not ours, or the exception that it raised."""
    try:
        return Outcome(function(*args, **kwargs), None)
    except Exception as error:  # foreign code may raise anything, and what it raised is the answer
        if raised_by_handler(error.__traceback__):
            raise
        return Outcome(None, error)


class Substitution:
    """A function that can stand in for another one, with the guard that says for which calls."""

    __slots__ = (
        "_bind",
        "_guard",
        "_make_call",
        "_original",
        "_partly",
        "equivalence",
        "into",
        "needs",
        "pu",
        "run",
        "source",
        "source_needs",
        "stays",
    )

    def __init__(
        self,
        run: Callable[..., Any],
        *,
        source: str,
        into: str,
        equivalence: Equivalence,
        needs: str,
        source_needs: str,
        pu: str,
        stays: bool = False,
    ) -> None:
        self.run = run
        self.stays = stays  # it takes and gives what is held on its device (on_device.Held)
        self.source = source
        self.into = into
        self.equivalence = Equivalence(equivalence)
        self.needs = needs
        self.source_needs = source_needs
        self.pu = pu
        self._bind: Callable[..., Any] | None = None  # made for the first call: most are never asked
        self._guard: Guard = _no_guard
        self._make_call: CallMaker | None = None
        self._original: Callable[..., Any] | None = None
        self._partly: PartCheck | None = None

    def __repr__(self) -> str:
        return f"<{self.name} {self.equivalence.value}>"

    @property
    def name(self) -> str:
        """The name by which reports and caches know it: `source -> library`."""
        return f"{self.source} -> {self.into}"

    @property
    def module(self) -> str:
        """The module that registered it."""
        return str(self.run.__module__)

    @property
    def takes(self) -> str:
        """The calls that it takes, in the words of its guard."""
        return " ".join((inspect.getdoc(self._guard) or "").split())

    def guard(self, function: Guard) -> Guard:
        """The decorated guard: it is given the bound arguments by attribute and answers Yes or No(reason)."""
        self._guard = function
        return function

    def calls(self, function: CallMaker) -> CallMaker:
        """The decorated generator of random calls, including calls to decline and calls that must raise."""
        self._make_call = function
        return function

    def partly(self, function: PartCheck) -> PartCheck:
        """The decorated check of a result against the original on a part of a call; it also estimates the original's
        seconds.  For calls of single elements of which each is computed by itself.
        """
        self._partly = function
        return function

    @property
    def part_check(self) -> PartCheck | None:
        """The check on a part of a call, if there is one."""
        return self._partly

    def random_call(self, rng: random.Random) -> Call:
        """One random call; the same state of the generator gives the same call in fresh objects."""
        if self._make_call is None:
            raise CodedagError(f"{self.name} has no generator of calls", hint="Decorate one with `.calls`.")
        return self._make_call(rng)

    def accepts(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Verdict:
        """Yes if the substitute can run this call, else the reason why the original must."""
        if self._bind is None:
            self._bind = _binder(self.run)
        try:
            bound = self._bind(*args, **kwargs)
        except TypeError:
            return No(f"the arguments do not fit the signature of {self.source}")
        verdict = self._guard(bound)
        reason = hazard((*args, *kwargs.values())) if verdict else ""
        return No(reason) if reason else verdict

    def original(self) -> Callable[..., Any]:
        """The function that it stands in for, as it was when first asked for."""
        if self._original is None:
            self._original = _resolve(self.source)
        return self._original

    def remember(self, original: Callable[..., Any]) -> None:
        """Sets the function that it stands in for, while something else may be found under its name."""
        self._original = original

    def available(self) -> Verdict:
        """Yes if both libraries are installed in a version that this substitution knows."""
        for requirement in (self.source_needs, self.needs):
            verdict = satisfied(requirement) if requirement else Yes
            if not verdict:
                return verdict
        return No(NOT_BUILT) if wants_extension(self.run) else Yes


class Decorator(Protocol):
    """What `substitutes(...)` returns: a decorator that turns a function into a Substitution."""

    def __call__(self, function: Callable[..., Any], /) -> Substitution:
        """The registered substitution."""
        ...


Function = TypeVar("Function", bound=Callable[..., Any])


def written_as(original: str) -> Callable[[Function], Function]:
    """Marks a function that is no source by itself: code to adopt without CodeDAG has the original in its place."""

    def mark(function: Function) -> Function:
        vars(function)["written_as"] = original
        return function

    return mark


def substitutes(
    source: str,
    *,
    into: str,
    gives: Equivalence,
    needs: str,
    source_needs: str = "",
    pu: str = "cpu",
    stays: bool = False,
) -> Decorator:
    """A decorator that registers a function, written with the source's own signature, as its substitute.

    The unit `cpu` says that the thread that calls does the work, by whose own time it is compared with the original.
    """

    def register(function: Callable[..., Any], /) -> Substitution:
        made = Substitution(
            function,
            source=source,
            into=into,
            equivalence=gives,
            needs=needs,
            source_needs=source_needs,
            pu=pu,
            stays=stays,
        )
        _table.add(made)
        return made

    return register


def find(source_name: str, pu: str = "") -> tuple[Substitution, ...]:
    """The substitutions for a function (on one PU, if named), by its public name or the private module it lives in."""
    for name in (source_name, *_public(source_name), *_inherited(source_name)):
        _table.load(name, pu)
        found = tuple(made for made in _table.of(name) if pu in ("", made.pu))
        if found:
            return found
    return ()


def runs_on(substitution: Substitution, pu: str) -> bool:
    """Whether a substitution is for a unit; those that torch runs anywhere are for each of its accelerators."""
    family = pu.partition(":")[0]
    return pu == substitution.pu or family == substitution.pu != "cpu" or (substitution.stays and is_accelerator(pu))


def known_sources() -> tuple[str, ...]:
    """The names of all functions that have a substitute; as far as they are known, no backend is loaded for this."""
    return _table.sources()


def all_substitutions() -> tuple[Substitution, ...]:
    """All substitutions, built in and plugged in, in the order of their names."""
    _table.load()
    return _table.all()


def problems() -> Mapping[str, str]:
    """The backend files and plug-ins that could not be loaded, each with the reason."""
    _table.load()
    return dict(_table.problems)


class _Table:
    """The registered substitutions, and what went wrong while they were loaded."""

    def __init__(self) -> None:
        self.problems: dict[str, str] = {}
        self._by_key: dict[tuple[str, str, str], Substitution] = {}
        self._by_source: dict[str, tuple[Substitution, ...]] = {}
        self._loaded = False
        self._modules: contents.Modules | None = None  # where the substitutes for each function are, if that is known
        # Two locks: whoever imports a backend directly holds Python's lock of that module and adds to the table, while
        # `load` waits for that module.  So `load` must not hold what `add` needs.
        self._loading, self._lock = threading.RLock(), threading.RLock()

    def add(self, made: Substitution) -> None:
        """Adds one; a module that is imported again replaces what it registered before."""
        with self._lock:
            before = self._by_key.get((made.source, made.into, made.module))
            self._by_key[made.source, made.into, made.module] = made
            others = [one for one in self._by_source.get(made.source, ()) if one is not before]
            self._by_source[made.source] = tuple(sorted([*others, made], key=_place))

    def of(self, source: str) -> tuple[Substitution, ...]:
        return self._by_source.get(source, ())

    def all(self) -> tuple[Substitution, ...]:
        with self._lock:
            return tuple(self._by_key[key] for key in sorted(self._by_key))

    def sources(self) -> tuple[str, ...]:
        """The functions that have a substitute, in the order of their names."""
        with self._loading:
            known = self._known()
        if known is None:
            self.load()
        return tuple(sorted({*(known or ()), *self._by_source}))

    def load(self, source: str | None = None, pu: str = "") -> None:
        """Loads all substitutions, or at least those for one function (on one PU)."""
        if self._loaded:
            return
        with self._loading:
            known = self._known() if source is not None else None
            if known is not None:
                for name, on in known.get(source or "", ()):
                    if pu in ("", on) and name not in self.problems:
                        self._load_one(name, functools.partial(importlib.import_module, name))
            elif not self._loaded:
                self._load_all()
                self._loaded = True

    def _known(self) -> contents.Modules | None:
        if self._modules is None and not self._loaded:
            self._modules = attempt(contents.recall, GROUP).value
        return self._modules

    def _load_all(self) -> None:
        import importlib.metadata  # with its mail parser: not for a program that has no use for it

        for name in _built_in():
            self._load_one(name, functools.partial(importlib.import_module, name))
        points = sorted(importlib.metadata.entry_points(group=GROUP), key=lambda point: point.name)
        if not points and not self.problems:
            own = [made for made in tuple(self._by_key.values()) if made.module.startswith(f"{__package__}.")]
            attempt(contents.keep, [(made.source, made.module, made.pu) for made in own])
        for point in points:
            self._load_one(f"{point.name} = {point.value}", point.load)

    def _load_one(self, name: str, load: Callable[[], Any]) -> None:
        """Loads one module; one that fails leaves a reason behind and no half of its substitutions."""
        before = dict(self._by_key)
        error = attempt(load).error
        if error is not None:
            with self._lock:
                self._by_key = before
                self._index()
            self.problems[name] = f"{type(error).__name__}: {error}"
            _log.warning("backend %s is left out: %s", name, self.problems[name])

    def _index(self) -> None:
        by_source: dict[str, tuple[Substitution, ...]] = {}
        for made in sorted(self._by_key.values(), key=_place):
            by_source[made.source] = (*by_source.get(made.source, ()), made)
        self._by_source = by_source


_table = _Table()


def _place(made: Substitution) -> tuple[bool, str]:
    """Where a substitution stands among others: ours first, by module, whatever was loaded first."""
    return not made.module.startswith(f"{__package__}."), made.module


def _built_in() -> tuple[str, ...]:
    import codedag.backends as room

    found = (module.name for module in pkgutil.iter_modules(room.__path__, room.__name__ + "."))
    return tuple(sorted(name for name in found if name.endswith("_")))


def _public(name: str) -> Iterator[str]:
    """The names under which a library may show the function, without private modules and then without inner ones.

    scipy.ndimage._filters.sobel is scipy.ndimage.sobel, skimage.morphology.gray.erosion skimage.morphology.erosion.
    Whoever uses what is found compares the functions themselves.
    """
    *modules, last = name.split(".")
    modules = [part for part in modules if not part.startswith("_")]
    while modules:
        yield ".".join([*modules, last])
        modules.pop()


def _inherited(name: str) -> Iterator[str]:
    """The name by the class that defines a method, where it is called by one that inherits it.

    PIL.ImageEnhance.Contrast.enhance is PIL.ImageEnhance._Enhance.enhance.
    """
    path, _, method = name.rpartition(".")
    module, _, owner = path.rpartition(".")
    kind = getattr(sys.modules.get(module), "__dict__", {}).get(owner)
    if isinstance(kind, type):
        definer = next((each for each in type.mro(kind) if method in vars(each)), kind)
        if definer is not kind:
            yield f"{definer.__module__}.{definer.__qualname__}.{method}"


def _no_guard(call: Any) -> Verdict:
    return No("the substitution has no guard")


def _binder(function: Callable[..., Any]) -> Callable[..., Any]:
    """A callable that takes the function's arguments and gives them back by attribute, defaults filled in."""
    signature = inspect.signature(function)
    more = [p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD]
    places = frozenset(p.name for p in signature.parameters.values() if p.kind is p.POSITIONAL_ONLY)
    try:
        fields = [_field(parameter) for parameter in signature.parameters.values()]
        # A generated __init__ binds in a microsecond; Signature.bind needs ten.
        made = make_dataclass("Bound", fields, slots=True, eq=False, repr=False)
    except (TypeError, ValueError):  # a kind of parameter or a default that a dataclass cannot have
        return functools.partial(_bind_slowly, signature)
    if more:
        names = frozenset(signature.parameters).difference(more, places)
        return functools.partial(_bind_with_more, made, names, functools.partial(_bind_slowly, signature))
    return functools.partial(_bind_by_place, made, places) if places else made


def _bind_by_place(made: Callable[..., Any], places: frozenset[str], /, *args: Any, **kwargs: Any) -> Any:
    """The bound arguments, if none is given by keyword that may only be given by position."""
    if kwargs and not places.isdisjoint(kwargs):
        raise TypeError("a positional-only argument is given by keyword")
    return made(*args, **kwargs)


def _bind_with_more(
    made: Callable[..., Any], names: frozenset[str], slowly: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """The bound arguments of a function that takes any keyword."""
    return made(*args, **kwargs) if names.issuperset(kwargs) else slowly(*args, **kwargs)


def _field(parameter: inspect.Parameter) -> tuple[str, Any, Any]:
    if parameter.kind is parameter.VAR_POSITIONAL:
        raise TypeError(parameter.kind)
    if parameter.kind is parameter.VAR_KEYWORD:
        return parameter.name, Any, field(default_factory=dict, init=False)
    keyword_only = parameter.kind is parameter.KEYWORD_ONLY
    if parameter.default is parameter.empty:
        return parameter.name, Any, field(kw_only=keyword_only)
    return parameter.name, Any, field(default=parameter.default, kw_only=keyword_only)


def _bind_slowly(signature: inspect.Signature, /, *args: Any, **kwargs: Any) -> SimpleNamespace:
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return SimpleNamespace(**bound.arguments)


def _resolve(name: str) -> Callable[..., Any]:
    """The object behind a dotted name; a library that cannot be found is not imported."""
    found = attempt(pkgutil.resolve_name, name) if _findable(name.partition(".")[0]) else Outcome(None, None)
    if not callable(found.value):
        reason = f": {found.error}" if found.error else ""
        raise CodedagError(f"{name} cannot be found{reason}", hint="Is the library installed, in the right version?")
    return found.value  # type: ignore[no-any-return]


def _findable(library: str) -> bool:
    return attempt(importlib.util.find_spec, library).value is not None
