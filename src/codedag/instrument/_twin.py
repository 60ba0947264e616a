"""Sites in plain Python: the same behaviour as _site.c where no C extension was built.

It gives the same graphs and results, but its frames are visible to the program and cost recursion depth.
"""

from __future__ import annotations

import functools
import gc
import threading
import types
import weakref
from typing import Any

from codedag.instrument._twin_bound import BoundSite, Spread
from codedag.instrument._twin_held import held
from codedag.instrument._twin_switch import Counter, CountingSwitch, Flag, Switch
from codedag.instrument.signals import raised_by_handler
from codedag.ir import clock as time

__all__ = ["BoundSite", "Counter", "CountingSwitch", "Flag", "Site", "Spread", "Switch"]

CALL, BINARY, UNARY, INPLACE, GETITEM, SETITEM, RETURN, ITERATE = range(8)
PASS, RECORD, VARIANT = range(3)

_now = time.perf_counter_ns
_NOTHING = object()  # what was called when nothing is to be told
_SCALARS = (int, bool, type(None), str, range, slice, type, types.FunctionType, types.ModuleType)
_NUMBERS = (int, float, bool)
_MANY = 1024  # executions without data after which somebody is told, and again after twice as many
_PLAIN_ITERABLES: tuple[type, ...] = (
    list, tuple, dict, str, range, set, frozenset, types.GeneratorType, map, filter,
    type({}.keys()), type({}.items()), type({}.values()),
)  # fmt: skip
_SAMPLES: tuple[Any, ...] = ([], (), range(0), range(1 << 70), {}, {}.values(), {}.items(), set(), "", b"")
_PLAIN_ITERATORS: tuple[type, ...] = (
    *_PLAIN_ITERABLES, *(type(iter(each)) for each in _SAMPLES), reversed, type(reversed([])),
)  # fmt: skip


class _Frame:
    __slots__ = (
        "base",
        "child",
        "children",
        "level",
        "opaque",
        "overhead",
        "path",
        "peak",
        "returned",
        "site",
        "start",
        "user",
    )

    def __init__(self, site: Site, user: bool) -> None:
        stack = _thread.stack
        self.level: int = (stack[-1].level if stack else 0) + user
        self.opaque = 0 < _state.deepest < self.level  # what runs inside is not recorded: it lies too deep
        self.site, self.user = site, user and not self.opaque
        self.base = self.peak = 0
        if _state.measures_memory:
            self.base = self.peak = _read_memory(stack[-1] if stack else None)[0]
        self.child = self.overhead = self.children = 0
        self.path = -1
        self.returned: Any = None
        self.start = _now()


class _Thread(threading.local):
    def __init__(self) -> None:
        self.stack: list[_Frame] = []
        self.busy = False


class _State:
    recorder: Any = None
    user_files: set[str] = set()
    user_types: dict[weakref.ref[type], bool] = {}
    failure: str | None = None
    recording = False
    spent = told = deepest = 0
    keeper: Any = None
    keep_at = 1 << 63
    idler: Any = None
    measures_memory = False
    placeholders: tuple[type, ...] = ()


_thread = _Thread()
_state = _State()


def start(recorder: object, user_files: set[str], max_depth: int = 0) -> None:
    """Makes sites in mode RECORD tell this recorder; calls of user code deeper than `max_depth` are not looked into."""
    _state.recorder, _state.user_files, _state.deepest = recorder, user_files, max_depth
    _state.user_types = {}
    _state.failure, _state.recording = None, True


def stop() -> None:
    """Ends recording."""
    _state.recording = False


def is_recording() -> bool:
    """Whether a recorder is being told."""
    return _state.recording


def failure() -> str | None:
    """Why recording ended by itself, or None."""
    return _state.failure


def hide(what: object, /) -> None:
    """Nothing: frames of the twin are visible anyway."""


def spent() -> int:
    """Nanoseconds that recording itself took."""
    return _state.spent


def usual() -> float:
    """Nanoseconds that recording one operation takes."""
    return _state.spent / max(_state.told, 1)


def path() -> int:
    """The recorder's number of the chain of sites that is running, or -1."""
    return _path_of(len(_thread.stack) - 1) if _state.recording else -1


def amend(function: Any, /) -> bool:
    """Gives the library call that is running `function(what it was given so far)`; False if none runs."""
    stack = _thread.stack
    if not stack or stack[-1].user or stack[-1].opaque or not _state.recording:
        return False
    stack[-1].returned = function(stack[-1].returned)
    return True


def keep_by(function: Any, nanoseconds: int, /) -> None:
    """Calls the function after so many nanoseconds, and again after what it returns."""
    _state.keeper = function
    _state.keep_at = 1 << 63 if function is None else _now() + nanoseconds


def idle_by(function: Any, /) -> None:
    """Calls `function(site, what was called there or None)` where a site was executed many times without data."""
    _state.idler = function


def _count(site: Site, called: Any) -> None:
    site.calls += 1
    if site.calls >= _MANY and site.calls & (site.calls - 1) == 0 and _state.idler is not None and _state.recording:
        _state.idler(site, called)


def measure_memory(yes: bool, /) -> None:
    """Reads tracemalloc around every call, or does not."""
    _state.measures_memory = yes


def _read_memory(above: _Frame | None) -> tuple[int, int]:
    import tracemalloc  # with pickle: only where memory is looked at

    current, peak = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    if above is not None:
        above.peak = max(above.peak, peak)
    return current, peak


def _keep() -> None:
    _state.keep_at = 1 << 63
    wait = _ask(_state.keeper)
    if wait is not None and wait > 0:
        _state.keep_at = _now() + wait


class Site:
    """A place in user code that can be passed through, recorded or replaced."""

    __slots__ = (
        "always", "calls", "flag", "follows", "function", "info", "kind", "mode", "nanoseconds", "outermost", "regions",
        "returns", "turns", "variant", "watch",
    )  # fmt: skip

    def __init__(self, kind: int, info: Any, function: Any = None, returns: bool = False) -> None:
        if not CALL <= kind <= ITERATE:
            raise ValueError("unknown kind of site")
        if kind in (BINARY, UNARY, INPLACE) and not hasattr(function, "__name__"):
            raise ValueError(f"not an operator: {function}")
        self.kind, self.info, self.function = kind, info, function
        self.mode = PASS
        self.variant: Any = None
        self.calls = self.nanoseconds = self.outermost = self.regions = 0
        self.returns = returns
        self.watch: Any = None
        self.flag: Flag | None = None
        self.follows = self.always = 0
        self.turns: Any = None

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        """The result of the operation that stands here."""
        if INPLACE <= self.kind <= SETITEM and (found := held(self, args)):
            return found[0]
        if self.turns is not None:
            self.turns.on  # noqa: B018 - reading a counting switch is a turn
        if self.mode == VARIANT and self.variant is not None and _is_on(self, args, keywords):
            return self.variant(*args, **keywords)
        if self.mode == RECORD and _is_seen() and not (self.outermost and _thread.stack and not _thread.stack[-1].user):
            return _record(self, args, keywords)
        return _forward(self, args, keywords)


def _is_on(site: Site, args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Whether the variant runs: no flag is off, or the call began at another site while it was on."""
    if site.flag is None or site.flag.on:
        return True
    return bool(site.follows) and any(type(value) in _state.placeholders for value in (*args, *keywords.values()))


def placeholders(types: tuple[type, ...], /) -> None:
    """Says which types stand for values on their way through a change."""
    _state.placeholders = types


def _is_seen() -> bool:
    """Whether what happens now is recorded: not in the recorder itself, and not below the deepest level."""
    stack = _thread.stack
    return _state.recording and not _thread.busy and not (stack and stack[-1].opaque)


def method(site: Site, function: Any) -> Any:
    """What a class can have instead of a method, with a site in it."""

    @functools.wraps(function)
    def called(*args: Any, **keywords: Any) -> Any:
        raised: type[BaseException] | None = None
        result = None
        try:
            result = site(function, *args, **keywords)
        except BaseException as error:
            raised = type(error)
            raise
        finally:
            if site.watch is not None and (_state.recording or site.always) and not _thread.busy:
                _ask(site.watch, args, result, raised)
        return result

    return called


def _forward(site: Site, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    kind = site.kind
    if kind == CALL:
        return args[0](*args[1:], **keywords)
    if kind in (BINARY, INPLACE, UNARY):
        return site.function(*args)
    if kind == GETITEM:
        return args[0][args[1]]
    if kind == SETITEM:
        args[1][args[2]] = args[0]
        return None
    return args[0]


def _record(site: Site, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    kind = site.kind
    if kind == RETURN:
        return _note_return(args[0])
    if kind == ITERATE:
        given = args[0] if site.variant is None else site.variant(args[0])
        return given if given is not args[0] else _wrap_iterable(site, args[0])
    if _moves_nothing(kind, args) and not (kind <= INPLACE and any(map(_carries, args))):
        _ask(_count, site, None)
        return _forward(site, args, keywords)
    call = kind == CALL
    frame = _Frame(site, call and _is_user_callable(args[0]))
    site.regions |= frame.user
    mine = len(_thread.stack)
    _thread.stack.append(frame)
    try:
        result = _forward(site, args, keywords)
    except BaseException:
        _finish(mine, *_called(site, args), keywords, None, failed=True)
        raise
    _finish(mine, *_called(site, args), keywords, result)
    return _note_return(result) if site.returns else result


def _called(site: Site, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    return (args[0], args[1:]) if site.kind == CALL else (site.function, args)


def _moves_nothing(kind: int, args: tuple[Any, ...]) -> bool:
    if kind in (BINARY, INPLACE):
        return type(args[0]) in _NUMBERS and type(args[1]) in _NUMBERS
    if kind == UNARY:
        return type(args[0]) in _NUMBERS
    if kind == GETITEM:
        return type(args[0]) in (list, tuple, dict, str)
    return kind == SETITEM and type(args[1]) in (list, dict)


def _carries(number: Any) -> bool:
    """Whether a number came out of an operation on data, so that arithmetic with it is one too."""
    ask = getattr(_state.recorder, "carries", None)
    return type(number) is float and ask is not None and bool(_ask(ask, number))


def _is_user_callable(f: Any) -> bool:
    if isinstance(f, types.MethodType):
        f = f.__func__
    if isinstance(f, types.FunctionType):
        return f.__code__.co_filename in _state.user_files
    if isinstance(f, types.BuiltinFunctionType):
        return False
    of = f if isinstance(f, type) else type(f)
    key = weakref.ref(of)  # a class must not live longer because it was called
    known = _state.user_types.get(key)
    if known is None:
        answer = _ask(_state.recorder.is_user, of)
        if answer is None:
            return False
        known = _state.user_types[key] = bool(answer)
    return known


def _ask(method: Any, *args: Any) -> Any:
    """What the recorder answers, None if it failed; what a signal handler raised meanwhile is the program's own."""
    _thread.busy = True
    try:
        return method(*args)
    except Exception as error:
        if raised_by_handler(error.__traceback__):
            raise
        _recorder_failed(error)
        return None
    finally:
        _thread.busy = False


def _moved_data(frame: _Frame, function: Any, values: tuple[Any, ...], result: Any) -> bool:
    if frame.children or frame.returned is not None:
        return True
    if type(result) not in _SCALARS and type(result) not in (float, bytes):
        return True
    if any(type(value) not in _SCALARS for value in values):
        return True
    if isinstance(function, types.BuiltinFunctionType):
        own = function.__self__
        return own is not None and type(own) not in _SCALARS
    return function is not None and not isinstance(function, (types.FunctionType, type))


def _finish(
    mine: int, function: Any, args: tuple[Any, ...], keywords: dict[str, Any], result: Any, failed: bool = False
) -> None:
    end = _now()
    stack = _thread.stack
    frame = stack[mine]
    total = end - frame.start - frame.overhead
    del stack[mine + 1 :]
    try:
        if function is not _NOTHING and not (failed and frame.user) and _state.recording and not _thread.busy:
            _ask(_tell, mine, frame, function, args, keywords, result, total, failed)
            if end >= _state.keep_at:
                _keep()
    finally:
        del stack[mine:]
        cost = _now() - end
        _state.spent += cost
        if mine:
            parent = stack[mine - 1]
            parent.child += total
            parent.overhead += frame.overhead + cost


def _tell(
    mine: int, frame: _Frame, function: Any, args: tuple[Any, ...], keywords: dict[str, Any], result: Any, total: int,
    failed: bool,
) -> None:  # fmt: skip
    values = (*args, *keywords.values())
    if _state.measures_memory:
        frame.peak = max(frame.peak, _read_memory(None)[1])
        if mine:
            _thread.stack[mine - 1].peak = max(_thread.stack[mine - 1].peak, frame.peak)
    if not (frame.children > 0 if frame.user else _moved_data(frame, function, values, result)):
        _count(frame.site, function if frame.user else None)
        frame.site.nanoseconds += total
        return
    path = _path_of(mine)
    _state.told += 1
    if _state.measures_memory:
        _state.recorder.peak(frame.peak - frame.base)
    told = (path, frame.site, function, args, keywords, result, total, total - frame.child, frame.returned)
    if frame.user:
        _state.recorder.region(*told)
    elif _state.recorder.operation(*told, failed) is not False:
        _mark(mine)


def _path_of(i: int) -> int:
    if i < 0:
        return -1
    frame = _thread.stack[i]
    if frame.path < 0:
        frame.path = _state.recorder.path(_path_of(i - 1), frame.site)
    return frame.path


def _mark(mine: int) -> None:
    """The operation in this frame moved data: so do the calls around it."""
    for frame in _thread.stack[:mine]:
        frame.children = 1


def _recorder_failed(error: BaseException) -> None:
    _state.recording = False
    if _state.failure is None:
        _state.failure = f"{type(error)}: {error}"


def _note_return(value: Any) -> Any:
    stack = _thread.stack
    if stack and not stack[-1].user and type(value) not in _SCALARS and _is_seen():
        noted = _ask(_state.recorder.note, value, stack[-1].returned)
        if noted is not None:
            stack[-1].returned = noted
    return value


def _wrap_iterable(site: Site, iterable: Any) -> Any:
    if type(iterable) in _PLAIN_ITERABLES:
        return iterable
    if type(iterable) in (zip, enumerate):
        worker = _worker_inside(iterable)
        return iterable if worker is None else SiteIterator(site, iterable, worker)
    inner = iter(iterable)
    plain = type(inner) in _PLAIN_ITERATORS and type(inner) is not reversed  # that may be of an array
    return inner if plain else SiteIterator(site, inner, inner)


def _worker_inside(thing: Any) -> Any:
    """What works inside `enumerate(...)` and `zip(...)`: the first iterator that is not a plain one."""
    for inside in gc.get_referents(thing):
        if type(inside) in (tuple, zip, enumerate):
            found = _worker_inside(inside)
            if found is not None:
                return found
        elif type(inside) not in _PLAIN_ITERATORS and hasattr(type(inside), "__next__"):
            return inside
    return None


class SiteIterator:
    """The iterator of a `for` over something that works: each `__next__` is an operation."""

    __slots__ = ("inner", "site", "told")

    def __init__(self, site: Site, inner: Any, told: Any) -> None:
        self.site, self.inner, self.told = site, inner, told

    def __iter__(self) -> SiteIterator:
        return self

    def __next__(self) -> Any:
        if self.site.mode != RECORD or not _is_seen():
            return next(self.inner)
        mine = len(_thread.stack)
        _thread.stack.append(_Frame(self.site, False))
        try:
            result = next(self.inner)
        except BaseException:
            _finish(mine, _NOTHING, (), {}, None, failed=True)  # the end of the loop: no operation
            raise
        _finish(mine, self.told, (), {}, result)
        return result
