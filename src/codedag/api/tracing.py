"""`codedag.trace`: a context manager, a decorator and a wrapper around the same trace of this process."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

from codedag.api.run import Run
from codedag.instrument.selection import FilterConfig
from codedag.trace.live import Live, Roots, default_roots, site_of_call

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class Wrapped(Protocol[P, R]):
    """A function that is traced when it is called; `run` is its latest trace, None before the first call."""

    run: Run | None

    def __call__(self, *args: P.args, **keywords: P.kwargs) -> R:
        """What the function itself returns."""
        ...


class Tracing:
    """A trace that is yet to begin: enter it, or give it a function to trace."""

    def __init__(
        self, roots: Roots | None, drill: str | Iterable[str], filter_config: FilterConfig | None, max_depth: int,
        samples: bool = False,
    ) -> None:  # fmt: skip
        self._roots, self._drill = roots, (drill,) if isinstance(drill, str) else tuple(drill)
        self._filter, self._max_depth, self._samples = filter_config, max_depth, samples
        self._live: Live | None = None
        self._run: Run | None = None

    def __enter__(self) -> Run:
        return self._enter(self._roots, body=True)

    def __exit__(self, kind: object, *raised: object) -> None:
        assert self._live is not None
        assert self._run is not None
        live, run, self._live, self._run = self._live, self._run, None, None
        run.status = "ok" if kind is None else "failed"
        live.stop()

    def _enter(self, roots: Roots | None, body: bool) -> Run:
        live = Live(roots, self._drill, self._filter, self._max_depth, body=body, samples=self._samples)
        live.start()
        self._live, self._run = live, Run(live)
        return self._run

    def __call__(self, function: Callable[P, R]) -> Wrapped[P, R]:
        """The function, traced each time it is called; a call of itself inside belongs to the same trace."""
        return _wrapped(function, self._around(function))

    def _around(self, function: Callable[..., Any]) -> Callable[[], _Around]:
        code = getattr(inspect.unwrap(function), "__code__", None)
        roots = self._roots
        if roots is None and code is not None and Path(code.co_filename).is_file():
            roots = default_roots(code.co_filename)
        fresh = Tracing(roots, self._drill, self._filter, self._max_depth, self._samples)
        return lambda: _Around(fresh)


class _Around:
    """The trace around one call: none, if the call is inside one that this wrapper began."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._mine = tracing._live is None

    def __enter__(self) -> Run | None:
        return self._tracing._enter(self._tracing._roots, body=False) if self._mine else None

    def __exit__(self, *raised: object) -> None:
        if self._mine:
            self._tracing.__exit__(*raised)


def _wrapped(function: Callable[P, R], around: Callable[[], _Around]) -> Wrapped[P, R]:
    if inspect.isasyncgenfunction(function):
        raise TypeError("an asynchronous generator cannot be wrapped; use `with codedag.trace():` around its loop")
    if inspect.iscoroutinefunction(function):
        wrapper = _coroutine(function, around)
    elif inspect.isgeneratorfunction(function):
        wrapper = _generator(function, around)
    else:
        wrapper = _plain(function, around)
    wrapper.run = None
    return cast("Wrapped[P, R]", wrapper)


def _plain(function: Callable[..., Any], around: Callable[[], _Around]) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **keywords: Any) -> Any:
        with around() as run:
            if run is None:
                return function(*args, **keywords)
            wrapper.run = run  # type: ignore[attr-defined]
            return site_of_call(function)(function, *args, **keywords)

    return wrapper


def _coroutine(function: Callable[..., Any], around: Callable[[], _Around]) -> Any:
    @functools.wraps(function)
    async def wrapper(*args: Any, **keywords: Any) -> Any:
        with around() as run:
            wrapper.run = run or wrapper.run  # type: ignore[attr-defined]
            return await function(*args, **keywords)

    return wrapper


def _generator(function: Callable[..., Any], around: Callable[[], _Around]) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **keywords: Any) -> Generator[Any, Any, Any]:
        with around() as run:
            wrapper.run = run or wrapper.run  # type: ignore[attr-defined]
            return (yield from function(*args, **keywords))

    return wrapper


@overload
def trace(
    function: Callable[P, R],
    /,
    *,
    roots: Roots | None = None,
    drill: str | Iterable[str] = (),
    filter_config: FilterConfig | None = None,
    max_depth: int = 0,
    samples: bool = True,
) -> Wrapped[P, R]: ...
@overload
def trace(
    *,
    roots: Roots | None = None,
    drill: str | Iterable[str] = (),
    filter_config: FilterConfig | None = None,
    max_depth: int = 0,
    samples: bool = True,
) -> Tracing: ...


def trace(
    function: Callable[..., Any] | None = None,
    /,
    *,
    roots: Roots | None = None,
    drill: str | Iterable[str] = (),
    filter_config: FilterConfig | None = None,
    max_depth: int = 0,
    samples: bool = True,
) -> Any:
    """A trace to enter (`with codedag.trace() as run:`), or the function, traced when it is called.

    `roots` are the directories whose code is the program's own: by default the caller's and the working directory.
    `drill` names installed packages to look into, `filter_config` says which modules and functions are looked at, and
    `max_depth` limits how deep calls are followed (0: no limit).  Unless `samples` is false, what went into the first
    execution of each operation is kept as long as the Run is, in a private folder: `codedag.optimise` measures with it.
    """
    if function is not None and not callable(function):
        raise TypeError(f"trace() wraps a function, not {type(function).__name__}; directories are given with roots=")
    tracing = Tracing(roots, drill, filter_config, max_depth, samples)
    return tracing if function is None else tracing(function)
