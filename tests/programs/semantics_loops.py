"""Loops, whose bodies the rewriter emits twice: every way in and out of them, also when switched while running."""
import functools


def half_way():
    """The test replaces this to flip the mode of all sites in the middle of a feature."""


def s_break_continue_else():
    out = []
    for n in range(4):
        for i in range(3):
            half_way()
            if i == n:
                break
            if i == 1:
                continue
            out.append((n, i))
        else:
            out.append("else")
    return out


def s_while_else():
    out, n = [], 0
    while n < 6:
        n += 1
        half_way()
        if n == 2:
            continue
        if n == 20:
            break
        out.append(n * 2)
    else:
        out.append("else")
    while True:
        n -= 1
        if n < 3:
            break
    else:
        out.append("never")
    while 0:
        out.append("never")
    else:
        out.append("else of 0")
    return out, n


def s_while_with_calls_in_test():
    items = [1, 2, 3, 0, 4]
    out = []
    while items and items.pop() + len(items) > 2:
        half_way()
        out.append(len(items))
    return out, items


def s_while_walrus():
    items = [3, 2, 1]
    out = []
    while (x := items.pop() if items else None) is not None:
        half_way()
        out.append(x + 1)
    return out, x


def s_try_inside_loop():
    out = []
    for i in range(5):
        half_way()
        try:
            if i == 1:
                continue
            if i == 4:
                break
            out.append(10 // (i - 2))
        except ZeroDivisionError as e:
            out.append(str(e))
        else:
            out.append("fine")
        finally:
            out.append(("finally", i))
    return out


def s_loop_inside_try():
    out = []
    try:
        for i in [1, 2, 0, 4]:
            half_way()
            out.append(4 / i)
    except ZeroDivisionError as e:
        out.append((i, str(e)))
    finally:
        for j in range(2):
            out.append(j + i)
    return out


def s_return_in_loops():
    def f(n):
        for i in range(10):
            half_way()
            while True:
                if i * 2 >= n:
                    return i
                break
        return -1

    return f(5), f(100)


def s_with_inside_loop():
    log = []

    class C:
        def __init__(self, n):
            self.n = n

        def __enter__(self):
            log.append(("in", self.n))
            return self

        def __exit__(self, *a):
            log.append(("out", self.n, a[0]))
            return self.n == 2

    for i in range(5):
        half_way()
        with C(i) as c:
            if i == 1:
                continue
            if i == 2:
                raise ValueError(c.n)
            if i == 3:
                break
            log.append(c.n)
    return log


def s_nested_loops_switched():
    out = []
    for i in range(3):
        for j in range(3):
            half_way()
            k = 0
            while k < 3:
                half_way()
                out.append(i * 100 + j * 10 + k)
                k += 1
    return out


TOTAL = 0


def s_global_in_loop():
    for i in range(4):
        global TOTAL
        TOTAL = i
        half_way()
        TOTAL += i * 2
    return TOTAL


def s_nonlocal_in_loop():
    total = 0

    def f():
        for i in range(4):
            nonlocal total
            half_way()
            total += i
        while total < 20:
            nonlocal_count[0] += 1
            total += 3
        return total

    nonlocal_count = [0]
    return f(), total, nonlocal_count


def s_inner_function_with_nonlocal_in_loop():
    out = []
    for i in range(3):
        count = 0

        def inc():
            nonlocal count
            count += i
            return count

        half_way()
        inc()
        out.append(inc())
    return out


def s_class_in_loop():
    made = []
    for i in range(4):
        half_way()

        class K:
            n = i * 2
            items = [j + n for j in range(0)] or [i]

            def get(self):
                return self.n + i

        made.append(K)
    return [(k.n, k().get(), k.items, k.__qualname__) for k in made], len(set(made))


def s_lambda_in_loop():
    late, early = [], []
    for i in range(4):
        half_way()
        late.append(lambda: i * 10)
        early.append(lambda i=i: i * 10)
    return [f() for f in late], [f() for f in early]


def s_function_in_loop_with_decorator():
    out = []
    for i in range(4):

        @functools.lru_cache(None)
        def f(x, i=i):
            half_way()
            return x * 2 + i

        out.append((f(1), f(1), f.cache_info().hits, f.__qualname__, f.__wrapped__.__code__.co_firstlineno))
    return out


def s_import_in_loop():
    out = []
    for i in range(3):
        import math
        from os.path import join as j

        half_way()
        out.append((math.floor(i + 0.5), j("a", str(i))))
    return out


def s_comprehension_in_loop():
    out = []
    for i in range(3):
        half_way()
        out.append([x * i for x in range(3) if x + i > 1])
        out.append({x: y for x in range(2) for y in [x + i]})
        out.append(sum(x + i for x in range(3)))
    return out, x if (x := 5) else None


def s_generator_in_loop():
    def g(n):
        for i in range(n):
            half_way()
            got = yield i * 2
            if got:
                yield got + 1

    it = g(4)
    return [next(it), it.send(5), next(it), *it]


def s_generators_created_before_a_switch():
    gens = []
    for i in range(3):
        gens.append(x + i for x in range(3))
        half_way()
    return [list(g) for g in gens]


def s_del_in_loop():
    out = []
    for i in range(3):
        x = i + 1
        half_way()
        out.append(x * 2)
        del x
    return out, "x" in locals(), i


def s_loop_target_kinds():
    d, o = {}, type("O", (), {})()
    for d["k"] in [1, 2]:
        half_way()
    for o.x in "ab":
        pass
    for a, (b, *c) in [(1, (2, 3, 4))]:
        pass
    for [e, f] in ["xy"]:
        pass
    n = [0, 0, 0]
    for i, n[i] in enumerate([5, 6, 7]):
        pass
    return d, o.x, a, b, c, e, f, n


def s_loop_variable_after():
    for i in []:
        pass
    try:
        i
    except UnboundLocalError as e:
        first = type(e).__name__
    for i in range(3):
        pass
    return first, i


def s_mutating_while_iterating():
    n = [1, 2, 3]
    out = []
    for x in n:
        half_way()
        if len(n) < 6:
            n.append(x * 10)
        out.append(x)
    try:
        d = {1: 1}
        for k in d:
            d[k + 1] = 1
    except RuntimeError as e:
        out.append(str(e))
    return out


def s_loop_over_user_iterator():
    class It:
        def __init__(self):
            self.n = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.n += 1
            if self.n > 4:
                raise StopIteration
            return self.n

    it = It()
    out = []
    for x in it:
        half_way()
        out.append(x + next(it, 0))
    for x in it:
        out.append("more")
    return out, it.n


def s_stop_iteration_escapes():
    class It:
        def __iter__(self):
            return self

        def __next__(self):
            return inner()

    def inner():
        raise StopIteration(5)

    return [x for x in It()], next(It(), "default")


def s_loop_else_with_raise():
    def f(n):
        for i in range(n):
            if i == 2:
                break
        else:
            raise KeyError(n * 2)
        return i

    out = []
    for n in (1, 3, 5):
        half_way()
        try:
            out.append(f(n))
        except KeyError as e:
            out.append(e.args)
    return out


def s_recursion_through_loops():
    def walk(t):
        out = []
        for x in t:
            half_way()
            out += walk(x) if isinstance(x, list) else [x * 2]
        return out

    return walk([1, [2, [3, 4], 5], 6])


def s_docstring_like_first_statement():
    for i in range(2):
        "text"
        half_way()
    while i:
        "more"
        i -= 1
    return i


def s_star_and_slices_in_loops():
    n, out = list(range(6)), []
    for i in range(1, 4):
        half_way()
        n[i : i + 1] = [i * 10]
        n[-i] += 1
        out.append((*n[:2], *n[i:]))
    return n, out


def s_float_accumulation_order():
    total, items = 0.0, [0.1, 1e16, -1e16, 0.3]
    for x in items:
        half_way()
        total += x
    return total, sum(x * 3 for x in items)


def s_line_numbers_in_both_bodies():
    import traceback

    out = []
    for i in range(4):
        half_way()
        try:
            [1][i
                + 1]
        except IndexError as e:
            out.append([(f.lineno, f.colno) for f in traceback.extract_tb(e.__traceback__)])
    return out
