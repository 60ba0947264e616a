"""Scopes, control flow, generators, exceptions: features whose meaning a rewriter could break."""
import asyncio
import contextlib
import contextvars
import functools
import itertools
import random
import sys
import traceback


def half_way():
    """The test replaces this to flip the mode of all sites in the middle of a feature."""


def s_closure():
    n = 0

    def inc(d=1):
        nonlocal n
        n += d
        return n

    inc()
    half_way()
    inc(4)
    return n, [f() for f in [lambda i=i: i * i for i in range(4)]], [f() for f in [lambda: i for i in range(4)]]


def s_defaults_evaluated_once():
    log = []

    def make(v):
        log.append(v)
        return []

    def f(x, acc=make(1)):
        acc.append(x)
        return acc

    f(1)
    return f(2), log


COUNT = 0


def s_global():
    global COUNT, FRESH
    COUNT = 4
    COUNT += 1
    FRESH = COUNT * 2
    found = "FRESH" in globals()
    del FRESH
    return COUNT, found, "FRESH" in globals()


def s_decorators():
    order = []

    def d(tag):
        order.append(("make", tag))

        def wrap(f):
            order.append(("wrap", tag))

            @functools.wraps(f)
            def inner(*a, **k):
                order.append(("call", tag))
                return f(*a, **k)

            return inner

        return wrap

    @d("a")
    @d("b")
    def f(x):
        "doc"
        return x + 1

    return f(1), order, f.__name__, f.__doc__, f.__wrapped__(2)


def s_generator_send_throw_close():
    out = []

    def g():
        try:
            x = yield 1
            while True:
                try:
                    x = yield x * 2
                except KeyError as e:
                    x = len(str(e))
        finally:
            out.append("closed")

    it = g()
    a = next(it)
    b = it.send(10)
    half_way()
    c = it.throw(KeyError("abc"))
    it.close()
    return a, b, c, out


def s_generator_state():
    def g(a):
        b = a + 1
        yield b
        b = yield from (i for i in [b])
        return b

    it = g(1)
    before = it.gi_frame.f_lineno - g.__code__.co_firstlineno, dict(it.gi_frame.f_locals)
    next(it)
    after = it.gi_frame.f_lineno - g.__code__.co_firstlineno, dict(it.gi_frame.f_locals)
    return before, after, list(it), it.gi_frame


def s_yield_from():
    def a():
        r = yield 1
        return r or 7

    def b():
        r = yield from a()
        yield r
        yield from [8, 9]
        return "end"

    it = b()
    got = [next(it), it.send(None), next(it)]
    try:
        while True:
            got.append(next(it))
    except StopIteration as e:
        got.append(e.value)
    return got


def s_generator_return_in_loop():
    def g():
        for i in range(5):
            if i == 2:
                return "early"
            yield i

    def h():
        return (yield from g())

    it = h()
    out = []
    try:
        while 1:
            out.append(next(it))
    except StopIteration as stop:
        return out, stop.value


def s_generator_stopiteration_inside():
    def g():
        yield next(iter([]))

    try:
        list(g())
    except RuntimeError as e:
        return str(e), type(e.__cause__).__name__


def s_generator_expression_laziness():
    log = []

    def t(x):
        log.append(x)
        return x

    g = (t(i) * 2 for i in t([1, 2, 3]) if t(i) > 1)
    log.append("made")
    first = next(g)
    log.append("first")
    return first, list(g), log


def s_generator_expression_bad_iterable():
    try:
        (x for x in 5)
    except TypeError as e:
        return str(e)


def s_comprehension_scoping():
    x = "outer"
    a = [x for x in range(3)]
    b = {x: y for x, y in zip("ab", [1, 2])}
    c = {i % 2 for i in range(5)}
    d = [(i, j) for i in range(3) for j in range(i) if (i + j) % 2]
    e = [[j * i for j in range(2)] for i in range(2)]
    return x, a, b, c, d, e


def s_walrus():
    a = [y for x in range(5) if (y := x * 2) > 3]
    b = (n := 10) + n
    while (m := b) > 15:
        b -= 1
    return a, y, b, n, m


def s_iteration_protocols():
    class I:
        def __getitem__(self, i):
            if i > 2:
                raise IndexError
            return i

    class R:
        def __reversed__(self):
            return iter("r")

    return [x for x in I()], [x for x in iter([1, 2].pop, 1)], [x for x in reversed(R())], list(map(str, I()))


def s_iterator_identity():
    it = iter([1, 2, 3])
    out = []
    for x in it:
        out.append((x, next(it, None)))
    c = itertools.count()
    for i in c:
        if i > 3:
            break
    return out, next(c)


def s_iterator_errors():
    class It:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            self.n -= 1
            if self.n < 0:
                raise ValueError("broken")
            return self.n

    out = []
    try:
        for x in It(2):
            out.append(x)
    except ValueError as e:
        out.append((str(e), len(traceback.extract_tb(e.__traceback__))))
    for bad in (5, None, type("N", (), {"__iter__": lambda s: 3})()):
        try:
            for x in bad:
                pass
        except TypeError as e:
            out.append(str(e))
    return out


def s_unpacking():
    a, *b, (c, d) = [1, 2, 3, (4, 5)]
    [e, f], g = "xy", 1
    h = i = [0]
    h[0], j = 5, h
    out = []
    for bad in ([1], [1, 2, 3], 5):
        try:
            k, m = bad
        except (ValueError, TypeError) as err:
            out.append(str(err))
    return a, b, c, d, e, f, g, h is i, i, j, out


def s_chained_comparison():
    calls = []

    def f(x):
        calls.append(x)
        return x

    return 1 < f(2) < f(3), 5 < f(1) < f(9), 1 < f(2) == 2 != f(0), calls


def s_short_circuit():
    log = []

    def t(v):
        log.append(v)
        return v

    return (0 and 1 / 0, 1 or 1 / 0, t(0) or t(2) and t(3), not t(""), t(1) if t([]) else t(4)), log


def s_evaluation_order():
    log = []

    def t(n, v):
        log.append(n)
        return v

    d = {}
    t("o", d)[t("k", 1)] = t("v", 2)
    t("f", max)(t("a", 1), *t("b", [2]), **t("c", {}))
    t("x", d)[t("i", 1)], d[t("j", 2)] = t("r", (1, 2))
    {t("k1", 1): t("v1", 1), t("k2", 2): t("v2", 2)}
    t("g", dict)(a=t("ka", 1), b=t("kb", 2))
    t("l", 1) + t("m", 2) * t("n", 3)
    t("p", d)[t("q", 1) : t("s", 2)] if 0 else t("e", None)
    d[t("y", 5)] = d[t("z", 6)] = t("w", 1)
    t("cls", Base)().attr = t("val", 2)
    return log, d


class Base:
    pass


def s_match():
    class P:
        __match_args__ = ("x", "y")

        def __init__(self, x, y):
            self.x, self.y = x, y

    def m(v):
        match v:
            case {"k": [a, *r], **rest}:
                return a, r, rest
            case P(x=0, y=b) | P(b, 0):
                return "p", b
            case [1, (2 | 3) as c]:
                return "seq", c
            case str(s) if len(s) > 2:
                return "long", s
            case -1 | 2.5 | None:
                return "lit"
            case _:
                return "other"

    return [m(v) for v in ({"k": [1, 2, 3], "z": 1}, P(0, 5), P(6, 0), [1, 3], "abc", "a", -1, 2.5, None, 9)]


def s_match_in_loop():
    out = []
    for v in [1, [2], {"a": 3}, "s"]:
        half_way()
        match v:
            case int(n) if n + 1 > 1:
                out.append(n + 10)
                continue
            case [x]:
                out.append(x * 2)
            case {"a": y}:
                out.append(y - 1)
                break
    return out


def s_with():
    log = []

    @contextlib.contextmanager
    def cm(n):
        log.append(("in", n))
        try:
            yield n
        except ValueError as e:
            log.append(str(e))
        finally:
            log.append(("out", n))

    with cm(1) as v, cm(v + 1) as w:
        raise ValueError("x" * w)
    with cm(3) if log else cm(4) as q:
        pass
    return log, q


def s_with_targets():
    @contextlib.contextmanager
    def cm(v):
        yield v

    d = {}
    with cm((1, 2)) as (a, d["k"]):
        pass
    o = Base()
    with cm(5) as o.z:
        o.z += a
    return d, o.z


def s_exit_stack_and_suppress():
    log = []
    with contextlib.ExitStack() as stack:
        stack.callback(log.append, "callback")
        with contextlib.suppress(KeyError):
            {}["x"]
        log.append("body")
    return log


def s_exception_type_line():
    try:
        [][3]
    except IndexError as e:
        return type(e).__name__, e.__traceback__.tb_lineno - s_exception_type_line.__code__.co_firstlineno


def raises(x):
    return x / 0


def s_traceback_frames():
    try:
        [raises(i) for i in [3]]
    except ZeroDivisionError as e:
        return [(f.name, f.lineno, f.line, f.colno, f.end_colno) for f in traceback.extract_tb(e.__traceback__)]


class Bad:
    def __getitem__(self, i):
        raise KeyError(i)

    def __setitem__(self, i, v):
        raise KeyError(i, v)

    def __call__(self, *a):
        raise ValueError(a)

    def method(self, *a):
        raise OSError(a)

    def me(self, *a):
        return self

    def __iter__(self):
        raise AttributeError("iter")

    def __neg__(self):
        raise MemoryError

    def __add__(self, o):
        raise ArithmeticError

    __iadd__ = __lt__ = __add__


def s_traceback_positions():
    b = Bad()
    d = [1, (1,)]

    def subscript(): return 1 + (b)[  # noqa
        0]
    def store():
        b[1
          ] = 5
    def stores(): b[1] = b[2] = 0
    def call(): return (b)(1, *[2])
    def method():
        return (b.me()
                .me(1)
                .method(1,
                        2))
    def starred_method():
        return (b.me()
                .method(*[1],
                        2))
    def keyword_method():
        return (b
                .me(*[],
                    )
                .method(x=1))
    def unary(): return 2 * (-b)
    def binary(): return (1, (b
        + 2))
    def compare(): return [b < 1, 2]
    def augmented():
        c = b
        c += 1
    def augmented_item(): d[1][0] += 1
    def augmented_get():
        b[0] += 1
    def augmented_set():
        t = (1, 2)
        t[0] += 5
    def augmented_attribute():
        d.x += 1
    def for_loop():
        for x in b:
            pass
    def for_call():
        for x in iter(5): pass
    def for_next():
        def g():
            yield 1
            raise KeyError
        for x in map(int, g()):
            pass
    def comprehension(): return [x for x in b if x]
    def attribute(): return (b
        .nothing)
    def missing(): return undefined_name(1)  # noqa
    def while_test():
        while b[3]:
            pass
    def returned():
        return b[
            1]
    def lambda_body(): return (lambda: b(1))()
    def default():
        def f(x=b(1)): pass
    def decorator():
        @b
        def f(): pass
    def class_body():
        class K:
            x = b[1]
    def assertion(): assert b[1], b
    def fstring(): return f"{b[1]}"
    def deletion(): del b[1]
    def raising():
        raise b(
            1)
    def unpack(): x, y = d[1]
    def unpack_star(): return print(*b)
    def with_item():
        with b(1): pass
    def exhausted(): return next(iter(()))
    def conditional(): return 1 if b[1] else 2
    def boolean(): return 1 and b[1] or 2
    def matching():
        match b[1]:
            case 1: pass
    def slicing(): return d["a":](1)

    out = []
    for f in (
        subscript, store, stores, call, method, starred_method, keyword_method, unary, binary, compare, augmented, augmented_item,
        augmented_get, augmented_set, augmented_attribute, for_loop, for_call, for_next, comprehension, attribute, missing, while_test,
        returned, lambda_body, default, decorator, class_body, assertion, fstring, deletion, raising, unpack, unpack_star, with_item,
        exhausted, conditional, boolean, matching, slicing,
    ):
        try:
            f()
        except Exception as e:
            frames = traceback.extract_tb(e.__traceback__)
            out.append((f.__name__, type(e).__name__, [(s.name, s.lineno, s.end_lineno, s.colno, s.end_colno) for s in frames]))
    return out


def s_exception_context():
    out = []
    try:
        try:
            raises(1)
        except ZeroDivisionError as e:
            raise KeyError("k") from e
    except KeyError as e:
        out.append((type(e.__cause__).__name__, type(e.__context__).__name__, e.__suppress_context__))
    try:
        try:
            raises(1)
        except ZeroDivisionError:
            {}["q"]
    except KeyError as e:
        out.append((e.__cause__, type(e.__context__).__name__, e.__context__.__traceback__.tb_lineno))
    try:
        try:
            raises(1)
        finally:
            int("x")
    except ValueError as e:
        out.append(type(e.__context__).__name__)
    return out, sys.exc_info()


def s_exc_info_inside_handler():
    def current():
        return sys.exc_info()[0]

    out = [current()]
    try:
        raises(0)
    except ZeroDivisionError:
        out.append(current())
        try:
            [][0]
        except IndexError:
            out.append(current())
        out.append(current())
        out.append((lambda: current())())
    out.append(current())
    return out


def s_finally_order():
    log = []

    def f(n):
        for i in range(3):
            try:
                log.append(("try", i))
                if i == n:
                    return i + 10
                if n == 7:
                    continue
                if n == 8:
                    break
            except ValueError:
                pass
            else:
                log.append("else")
            finally:
                log.append(("finally", i))
        return None

    return [f(n) for n in (0, 1, 7, 8)], log


def s_finally_overrides():
    def f():
        try:
            return raises(1)
        finally:
            return 5  # noqa: B012

    def g():
        for i in range(3):
            try:
                raises(1)
            finally:
                continue  # noqa: B012
        return i

    return f(), g()


def s_except_variable_is_deleted():
    e = 1
    try:
        raises(1)
    except ZeroDivisionError as e:
        pass
    return "e" in locals()


def s_exception_groups():
    out = []
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2), KeyError(3)])
    except* ValueError as e:
        out.append([str(x) for x in e.exceptions])
    except* (TypeError, KeyError) as e:
        out.append(len(e.exceptions))
    return out


def s_raise_forms():
    out = []
    for make in (lambda: ValueError, lambda: ValueError("x"), lambda: 5):
        try:
            raise make()
        except (ValueError, TypeError) as e:
            out.append(repr(e))
    try:
        try:
            raises(1)
        except ZeroDivisionError:
            raise
    except ZeroDivisionError as e:
        out.append(len(traceback.extract_tb(e.__traceback__)))
    return out


def s_assert():
    x = [1]
    try:
        assert x[0] == 2, f"{x[0]} {len(x)}"
    except AssertionError as e:
        return str(e)


def s_fstring():
    v, w = 3.14159, 10
    return f"{v:.2f} {v!r:>10} {v + 1=} {w:>{w}} {'%s' % w} {[i * 2 for i in range(3)]} {(lambda: w)()}"


def s_async():
    log = []

    class A:
        async def __aenter__(self):
            log.append("in")
            return self

        async def __aexit__(self, *a):
            log.append("out")
            return True

        def __aiter__(self):
            self.n = 0
            return self

        async def __anext__(self):
            self.n += 1
            if self.n > 3:
                raise StopAsyncIteration
            await asyncio.sleep(0)
            return self.n

    async def ag():
        for i in range(3):
            await asyncio.sleep(0)
            yield i * 2

    async def main():
        out = [x async for x in ag()] + await asyncio.gather(*(asyncio.sleep(0, i) for i in range(3)))
        async with A() as a:
            async for x in a:
                half_way()
                if x == 2:
                    continue
                out.append(x)
            else:
                out.append("else")
            raise ValueError
        out.append({k: v async for k, v in pairs()})
        out.append([await asyncio.sleep(0, i) for i in range(2)])
        return out

    async def pairs():
        yield 1, 2

    return asyncio.run(main()), log


def s_async_generator_protocol():
    async def ag():
        try:
            got = yield 1
            while True:
                got = yield got + 1
        finally:
            closed.append(True)

    closed = []

    async def main():
        g = ag()
        out = [await g.asend(None), await g.asend(5)]
        await g.aclose()
        return out

    return asyncio.run(main()), closed


def s_async_exceptions_and_cancel():
    async def slow():
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    async def bad():
        await asyncio.sleep(0)
        return [][0]

    log = []

    async def main():
        t = asyncio.create_task(slow())
        await asyncio.sleep(0)
        t.cancel()
        got = await asyncio.gather(t, bad(), return_exceptions=True)
        return [type(e).__name__ for e in got]

    return asyncio.run(main()), log


def s_contextvars():
    var = contextvars.ContextVar("var", default=0)

    async def child(n):
        var.set(var.get() + n)
        await asyncio.sleep(0)
        return var.get()

    async def main():
        var.set(10)
        got = await asyncio.gather(child(1), child(2))
        return got, var.get()

    ctx = contextvars.copy_context()
    return asyncio.run(main()), ctx.run(lambda: var.set(5) and var.get()), var.get()


def s_random_streams():
    import numpy as np

    random.seed(5)
    np.random.seed(5)
    rng = np.random.default_rng(5)
    a = [random.random() for _ in range(3)], np.random.rand(2).tolist(), rng.integers(0, 100, 3).tolist()
    return a, hash(random.getstate()), int(np.random.get_state()[1][0]), rng.bit_generator.state["state"]["state"]


def s_numpy_values():
    import numpy as np

    a = np.arange(12.0).reshape(3, 4)
    b = a
    b *= 2
    b[1:, ..., 2] += 1
    v = a[0]
    v[:] = 7
    c = (a - a.mean()) / a.std()
    with np.errstate(divide="ignore"):
        d = 1 / (a - 7)
    e = a @ a.T
    m = a > 3
    a[m] = -1
    return b is a, a.tolist(), c.tolist(), np.isinf(d).sum(), e.shape, a.dtype, (a == b).all(), m.sum(), a[[0, 1], [1, 2]].tolist()


def s_numpy_out_and_ufuncs():
    import numpy as np

    a = np.ones(4)
    out = np.zeros(4)
    r = np.add(a, 2, out=out)
    np.multiply.at(out, [0, 0], 2)
    return r is out, out.tolist(), np.add.reduce(a), type(a.sum()).__name__, (a[1:3].base is a)
