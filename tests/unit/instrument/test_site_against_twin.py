"""The C site and its plain-Python twin do the same: what they return, raise and tell a recorder, in the same order."""

from __future__ import annotations

import gc
import operator
import re
import sys
import threading
import weakref
from typing import Any

import pytest

from codedag.instrument import _site, _twin
from codedag.instrument.sites import (
    BINARY,
    CALL,
    GETITEM,
    INPLACE,
    ITERATE,
    PASS,
    RECORD,
    RETURN,
    SETITEM,
    UNARY,
    VARIANT,
    SiteInfo,
    make,
    use,
)
from codedag.instrument.sites import native as chosen

BOTH = pytest.mark.parametrize("native", [_site, _twin], ids=["c", "twin"])


def shown(value: Any) -> str:
    """The text of a value, without addresses."""
    return re.sub(r"0x[0-9a-f]+", "0x", repr(value))


class Telling:
    """A recorder that writes down what it is told; it can be made to fail at one of its methods."""

    def __init__(self, fails: str = "", error: type[BaseException] = ValueError) -> None:
        self.told: list[Any] = []
        self._paths: dict[Any, int] = {}
        self._fails, self._error = fails, error

    def _check(self, name: str) -> None:
        if name == self._fails:
            raise self._error("broken")

    def is_user(self, of: type) -> bool:
        self._check("is_user")
        return getattr(of, "__module__", "") == __name__

    def path(self, parent: int, site: Any) -> int:
        self._check("path")
        return self._paths.setdefault((parent, site.info), len(self._paths))

    def note(self, value: Any, before: Any) -> Any:
        self._check("note")
        self.told.append(("note", shown(value), before))
        return (before or 0) + 1

    def operation(self, path, site, function, args, keywords, result, total, own, returned, failed=False) -> None:
        self._check("operation")
        assert total >= own >= 0
        name = getattr(function, "__name__", type(function).__name__)
        self.told.append(("operation", path, site.info, name, shown(args), shown(keywords), shown(result), returned))

    def region(self, path, site, function, args, keywords, result, total, own, returned) -> None:
        self._check("region")
        self.told.append(("region", path, site.info, function.__name__, shown(args), shown(result)))


class Vector:
    """Something that moves data, with every operator."""

    def __init__(self, *v: float) -> None:
        self.v = v

    def __repr__(self) -> str:
        return f"Vector{self.v}"

    def __add__(self, o: Any) -> Any:
        return Vector(*self.v, *getattr(o, "v", (o,)))

    __radd__ = __iadd__ = __sub__ = __mul__ = __matmul__ = __pow__ = __lt__ = __eq__ = __and__ = __add__
    __hash__ = None  # type: ignore[assignment]

    def __neg__(self) -> Any:
        return Vector(*(-x for x in self.v))

    def __getitem__(self, i: Any) -> Any:
        return self.v[i]

    def __setitem__(self, i: Any, v: Any) -> None:
        self.v = (*self.v, i, v)

    def scaled(self, by: float = 1, *more: Any, **named: Any) -> Any:
        return Vector(*(x * by for x in self.v), *more, *named.values())


class Steps:
    """An iterator that works, and may fail at its end."""

    def __init__(self, n: int, error: BaseException | None = None) -> None:
        self.n, self.error = n, error

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        self.n -= 1
        if self.n < 0:
            raise self.error or StopIteration
        return Vector(self.n)


def boom(*args: Any, **keywords: Any) -> Any:
    raise LookupError(args, keywords)


class World:
    """Sites of one implementation, in one mode."""

    def __init__(self, native: Any, mode: int = RECORD) -> None:
        self.native, self.mode = native, mode

    def site(self, kind: int, number: int = 0, function: Any = None) -> Any:
        site = self.native.Site(kind, f"site {number}", function)
        site.mode = self.mode
        return site


def story(native: Any, mode: int) -> list[Any]:
    """A bit of everything; what each step gave or raised."""
    w = World(native, mode)
    call, v = w.site(CALL, 1), Vector(1, 2)
    back, outer = w.site(RETURN, 2), w.site(CALL, 3)

    def user(x: Any) -> Any:
        return back(call(list, [v, x]))

    named = {"k": 2}
    steps = [
        lambda: call(v.scaled),
        lambda: call(v.scaled, 2),
        lambda: call(v.scaled, 2, 3, z=4),
        lambda: call(v.scaled, by=3),
        lambda: call(len, [1, 2]),
        lambda: call(max, 1, 2),
        lambda: call(sorted, [3, 1], reverse=True),
        lambda: call(int),
        lambda: call(boom, 1, k=2),
        lambda: call(None),
        lambda: call(len),
        lambda: call(Vector, 1),
        lambda: call(str, v),
        lambda: native.Spread(call)(v.scaled)(*[2, 3], z=4),
        lambda: native.Spread(call)(len)(*[[1]]),
        lambda: native.Spread(call)(boom)(*[1], **named),
        lambda: native.Spread(call)(boom)(**named),
        lambda: outer(user, 5),
        lambda: outer(list, map(user, [1, 2])),
        lambda: outer(sorted, [1], key=user),
        lambda: w.site(BINARY, 4, operator.add)(v, v),
        lambda: w.site(BINARY, 4, operator.add)(1, 2),
        lambda: w.site(BINARY, 4, operator.add)(1, "a"),
        lambda: w.site(BINARY, 5, operator.pow)(v, 2),
        lambda: w.site(BINARY, 5, operator.lt)(v, 2),
        lambda: w.site(BINARY, 5, operator.eq)(v, v),
        lambda: w.site(BINARY, 5, operator.matmul)(v, v),
        lambda: w.site(BINARY, 5, operator.and_)(v, v),
        lambda: w.site(UNARY, 6, operator.neg)(v),
        lambda: w.site(UNARY, 6, operator.neg)("a"),
        lambda: w.site(INPLACE, 7, operator.iadd)(v, 1),
        lambda: w.site(INPLACE, 7, operator.iadd)([1], [2]),
        lambda: w.site(GETITEM, 8, operator.getitem)(v, 0),
        lambda: w.site(GETITEM, 8, operator.getitem)(v, 9),
        lambda: w.site(GETITEM, 8, operator.getitem)({"a": v}, "a"),
        lambda: w.site(GETITEM, 8, operator.getitem)(v, slice(1)),
        lambda: w.site(SETITEM, 9, operator.setitem)(5, v, 0),
        lambda: w.site(SETITEM, 9, operator.setitem)(5, (), 0),
        lambda: w.site(SETITEM, 9, operator.setitem)(v, {}, "k"),
        lambda: list(w.site(ITERATE, 10)(Steps(3))),
        lambda: list(w.site(ITERATE, 10)(Steps(2, KeyError("end")))),
        lambda: list(w.site(ITERATE, 10)([1, 2])),
        lambda: list(w.site(ITERATE, 10)(x for x in [v])),
        lambda: list(w.site(ITERATE, 10)(5)),
        lambda: list(w.site(ITERATE, 10)(iter({1: 2}.items()))),
        lambda: list(w.site(ITERATE, 10)(map(user, [1]))),
        lambda: list(w.site(ITERATE, 10)(iter([1].pop, 2))),
        lambda: next(iter(w.site(ITERATE, 10)(Steps(0))), "default"),
    ]
    return [_gives(step) for step in steps]


def _gives(step: Any) -> Any:
    try:
        return shown(step())
    except Exception as error:  # noqa: BLE001 - what was raised is the result
        return type(error).__name__, re.sub(r"0x[0-9a-f]+", "0x", str(error))


def _told(native: Any, mode: int = RECORD) -> tuple[list[Any], list[Any]]:
    recorder = Telling()
    native.start(recorder, {__file__})
    try:
        given = story(native, mode)
    finally:
        native.stop()
    assert native.failure() is None
    return given, recorder.told


def test_both_tell_the_same_in_the_same_order() -> None:
    c, twin = _told(_site), _told(_twin)
    assert c[0] == twin[0]
    assert c[1] == twin[1]
    assert len(c[1]) > 30


@BOTH
def test_recording_changes_no_result(native: Any) -> None:
    recorded, told = _told(native, RECORD)
    passed, nothing = _told(native, PASS)
    assert recorded == passed
    assert told
    assert not nothing


@BOTH
@pytest.mark.parametrize("method", ["path", "operation", "region", "note", "is_user"])
def test_a_broken_recorder_never_reaches_the_program(native: Any, method: str) -> None:
    expected = story(native, PASS)
    native.start(Telling(method), {__file__})
    try:
        assert story(native, RECORD) == expected
        assert not native.is_recording()
        assert native.failure() == "<class 'ValueError'>: broken"
    finally:
        native.stop()


@BOTH
@pytest.mark.parametrize("method", ["path", "operation", "note", "is_user"])
def test_an_interrupt_in_the_recorder_is_the_programs_own(native: Any, method: str) -> None:
    native.start(Telling(method, KeyboardInterrupt), {__file__})
    try:
        with pytest.raises(KeyboardInterrupt):
            story(native, RECORD)
        assert native.is_recording()
    finally:
        native.stop()


@BOTH
def test_a_variant_takes_the_place_of_the_operation(native: Any) -> None:
    site = World(native, VARIANT).site(CALL)
    assert site(max, 1, 2) == 2  # no variant yet
    site.variant = lambda *a, **k: ("instead", a[1:], k)
    assert site(max, 1, k=2) == ("instead", (1,), {"k": 2})
    assert native.Spread(site)(max)(*[1], k=2) == ("instead", (1,), {"k": 2})
    site.variant = None
    assert site(max, 1, 2) == 2
    site.variant = boom
    with pytest.raises(LookupError):
        site(max, 1)


@BOTH
def test_a_variant_may_take_itself_away(native: Any) -> None:
    site = World(native, VARIANT).site(BINARY, 0, operator.add)

    class Once:
        def __call__(self, a: Any, b: Any) -> Any:
            site.variant = None
            gc.collect()
            return a - b

    site.variant = Once()
    assert site(5, 3) == 2
    assert site(5, 3) == 8


@BOTH
def test_wrong_sites_are_refused(native: Any) -> None:
    with pytest.raises(ValueError):
        native.Site(99, "x")
    with pytest.raises((ValueError, AttributeError)):
        native.Site(BINARY, "x", None)
    for kind in range(8):
        with pytest.raises((TypeError, IndexError)):
            World(native).site(kind, 0, operator.neg if kind == UNARY else operator.add)()


@BOTH
@pytest.mark.parametrize("mode", [PASS, RECORD, VARIANT])
def test_nothing_leaks(native: Any, mode: int) -> None:
    n = 100_000 if native is _site else 5_000
    w, v, key = World(native, mode), Vector(1), object()
    call, add, bound = w.site(CALL), w.site(BINARY, 0, operator.add), native.Spread(w.site(CALL))
    get, loop, fails = w.site(GETITEM, 0, operator.getitem), w.site(ITERATE), w.site(CALL)
    if mode == VARIANT:
        call.variant, add.variant, get.variant = operator.call, operator.add, operator.getitem
        bound.site.variant = operator.call
    table = {1: key}

    def once() -> None:
        call(id, key)
        call(dict, k=key)
        add(v, 1)
        get(table, 1)
        bound(id)(*(key,))
        for _ in loop(Steps(1)):
            pass
        try:
            fails(boom, key)
        except LookupError:
            pass

    class Silent(Telling):
        def operation(self, *told: Any) -> None:
            pass

        region = operation

    native.start(Silent(), {__file__})
    try:
        once()
        gc.collect()
        before = sys.getrefcount(key), sys.getrefcount(v), sys.getrefcount(call), len(gc.get_objects())
        for _ in range(n // 10 if mode == RECORD else n // 5):
            once()
        gc.collect()
        after = sys.getrefcount(key), sys.getrefcount(v), sys.getrefcount(call), len(gc.get_objects())
    finally:
        native.stop()
    assert after[:3] == before[:3]
    assert abs(after[3] - before[3]) < 50


@BOTH
def test_a_cycle_through_a_site_iterator_is_collected(native: Any) -> None:
    native.start(Telling(), {__file__})
    site = World(native).site(ITERATE)
    steps = Steps(3)
    steps.me = site(steps)  # type: ignore[attr-defined]
    assert type(steps.me).__name__ == "SiteIterator"  # type: ignore[attr-defined]
    native.stop()
    gone = weakref.ref(steps)
    del steps
    gc.collect()
    assert gone() is None


@BOTH
def test_threads_record_apart(native: Any) -> None:
    recorder = Telling()
    native.start(recorder, {__file__})
    w, wrong = World(native), []
    call, add = w.site(CALL, 1), w.site(BINARY, 2, operator.add)

    def work(n: int) -> None:
        for i in range(200):
            if call(lambda x: add(x, n), Vector(i)).v != (i, n):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    native.stop()
    assert not wrong
    assert native.failure() is None
    assert sum(t[0] == "operation" for t in recorder.told) == 6 * 200
    assert {t[1] for t in recorder.told if t[0] == "operation"} == {1}  # below the call, never below another thread's


def test_deep_recursion_ends_in_an_exception() -> None:
    """A million levels through a site: Python has room for them, the C stack has not, and must not overflow."""
    call = World(_site, PASS).site(CALL)

    def down(n: int) -> int:
        return call(down, n + 1)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000_000)
    try:
        with pytest.raises(RecursionError):
            down(0)
    finally:
        sys.setrecursionlimit(limit)


@BOTH
def test_deep_recursion_is_recorded(native: Any) -> None:
    recorder = Telling()
    native.start(recorder, {__file__})
    call, v = World(native).site(CALL), Vector(1)

    def down(n: int) -> Any:
        return call(down, n - 1) if n else call(list, [v])

    down(100)
    native.stop()
    assert native.failure() is None
    assert sum(t[0] == "region" for t in recorder.told) == 100


@BOTH
def test_sites_can_be_sent_to_another_process(native: Any) -> None:
    import pickle

    use(native)
    try:
        info = SiteInfo(0, BINARY, "add", "a.py", 1, 0, 1, 5, "f")
        site, switch = make(info), native.Switch()
        site.mode, switch.on = RECORD, True
        again = pickle.loads(
            pickle.dumps([site, switch, native.Spread(make(SiteInfo(1, CALL, "", "a.py", 1, 0, 1, 5, "f")))])
        )
    finally:
        use(chosen)
    assert again[0].mode == PASS
    assert again[0].info == info
    assert again[0](2, 3) == 5
    assert again[1].on is False
    assert again[2](max)(*[1, 2]) == 2
