"""Sites in plain Python: the same behaviour as _site.c where no C extension was built.

It gives the same graphs and results, but its frames are visible to the program and cost recursion depth.
"""

from __future__ import annotations

import threading
import time
import types
import weakref
from typing import Any

from codedag.instrument.signals import raised_by_handler

CALL, BINARY, UNARY, INPLACE, GETITEM, SETITEM, RETURN, ITERATE = range(8)
PASS, RECORD, VARIANT = range(3)

_now = time.perf_counter_ns
_NOTHING = object()  # what was called when nothing is to be told
_SCALARS = (int, bool, type(None), str, range, slice, type, types.FunctionType, types.ModuleType)
_NUMBERS = (int, float, bool)
_PLAIN_ITERABLES: tuple[type, ...] = (
    list, tuple, dict, str, range, set, frozenset, types.GeneratorType, zip, enumerate, map, filter,
    type({}.keys()), type({}.items()), type({}.values()),
)  # fmt: skip


class _Frame:
    __slots__ = ("child", "children", "overhead", "path", "returned", "site", "start", "user")

    def __init__(self, site: Site, user: bool) -> None:
        self.site, self.user = site, user
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
    spent = 0


_thread = _Thread()
_state = _State()


def start(recorder: object, user_files: set[str]) -> None:
    """Makes sites in mode RECORD tell this recorder."""
    _state.recorder, _state.user_files = recorder, user_files
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
    """Nothing: frames of the twin are visible anyway (docs/differences.md)."""


def spent() -> int:
    """Nanoseconds that recording itself took."""
    return _state.spent


class Switch:
    """Chooses the body of one loop: with sites (on) or plain."""

    __slots__ = ("on",)

    def __init__(self) -> None:
        self.on = False


class Site:
    """A place in user code that can be passed through, recorded or replaced."""

    __slots__ = ("calls", "function", "info", "kind", "mode", "nanoseconds", "variant")

    def __init__(self, kind: int, info: Any, function: Any = None) -> None:
        if not CALL <= kind <= ITERATE:
            raise ValueError("unknown kind of site")
        if kind in (BINARY, UNARY, INPLACE) and not hasattr(function, "__name__"):
            raise ValueError(f"not an operator: {function}")
        self.kind, self.info, self.function = kind, info, function
        self.mode = PASS
        self.variant: Any = None
        self.calls = self.nanoseconds = 0

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        """The result of the operation that stands here."""
        if self.mode == VARIANT and self.variant is not None:
            return self.variant(*args, **keywords)
        if self.mode == RECORD and _state.recording and not _thread.busy:
            return _record(self, args, keywords)
        return _forward(self, args, keywords)


class Spread:
    """Binds the function of `f(*a, **k)` to its site before the arguments are spread."""

    __slots__ = ("site",)

    def __init__(self, site: Site) -> None:
        self.site = site

    def __call__(self, function: Any, /) -> BoundSite:
        """What is called with the arguments once they are spread."""
        return BoundSite(self.site, function)


class BoundSite:
    """A function and the site where it is called; it has the name of the function, for Python's error messages."""

    __slots__ = ("function", "site")

    def __init__(self, site: Site, function: Any) -> None:
        self.site, self.function = site, function

    def __getattribute__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "function"), name)

    def __str__(self) -> str:
        return str(object.__getattribute__(self, "function"))

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        """The result of the call that stands here."""
        site = object.__getattribute__(self, "site")
        return site(object.__getattribute__(self, "function"), *args, **keywords)


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
        return _wrap_iterable(site, args[0])
    if _moves_nothing(kind, args) and not (kind <= INPLACE and any(map(_carries, args))):
        site.calls += 1
        return _forward(site, args, keywords)
    call = kind == CALL
    frame = _Frame(site, call and _is_user_callable(args[0]))
    mine = len(_thread.stack)
    _thread.stack.append(frame)
    try:
        result = _forward(site, args, keywords)
    except BaseException:
        _finish(mine, *_called(site, args), keywords, None, failed=True)
        raise
    _finish(mine, *_called(site, args), keywords, result)
    return result


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
    return function is not None and not isinstance(function, types.FunctionType)


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
    if not (frame.children > 0 if frame.user else _moved_data(frame, function, values, result)):
        frame.site.calls += 1
        frame.site.nanoseconds += total
        return
    path = _path_of(mine)
    told = (path, frame.site, function, args, keywords, result, total, total - frame.child, frame.returned)
    if frame.user:
        _state.recorder.region(*told)
    else:
        _state.recorder.operation(*told, failed)


def _path_of(i: int) -> int:
    if i < 0:
        return -1
    frame = _thread.stack[i]
    if frame.path < 0:
        frame.path = _state.recorder.path(_path_of(i - 1), frame.site)
        if i:
            _thread.stack[i - 1].children += 1
    return frame.path


def _recorder_failed(error: BaseException) -> None:
    _state.recording = False
    if _state.failure is None:
        _state.failure = f"{type(error)}: {error}"


def _note_return(value: Any) -> Any:
    stack = _thread.stack
    if stack and not stack[-1].user and type(value) not in _SCALARS and _state.recording and not _thread.busy:
        noted = _ask(_state.recorder.note, value, stack[-1].returned)
        if noted is not None:
            stack[-1].returned = noted
    return value


def _wrap_iterable(site: Site, iterable: Any) -> Any:
    if type(iterable) in _PLAIN_ITERABLES:
        return iterable
    inner = iter(iterable)
    return inner if type(inner) in _PLAIN_ITERABLES else SiteIterator(site, inner)


class SiteIterator:
    """The iterator of a `for` over something that works: each `__next__` is an operation."""

    __slots__ = ("inner", "site")

    def __init__(self, site: Site, inner: Any) -> None:
        self.site, self.inner = site, inner

    def __iter__(self) -> SiteIterator:
        return self

    def __next__(self) -> Any:
        if not (self.site.mode == RECORD and _state.recording and not _thread.busy):
            return next(self.inner)
        mine = len(_thread.stack)
        _thread.stack.append(_Frame(self.site, False))
        try:
            result = next(self.inner)
        except BaseException:
            _finish(mine, _NOTHING, (), {}, None, failed=True)  # the end of the loop: no operation
            raise
        _finish(mine, self.inner, (), {}, result)
        return result
