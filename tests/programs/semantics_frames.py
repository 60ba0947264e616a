"""Features that look at frames, names and processes: what a rewriter could show by accident."""
import gc
import inspect
import logging
import sys
import threading
import traceback
import warnings


def half_way():
    """The test replaces this to flip the mode of all sites in the middle of a feature."""


def s_locals():
    a = 3
    b = a + 1
    c = [a * i for i in range(2)]
    return sorted(locals().items())


def s_locals_in_comprehension():
    return [sorted(k for k in locals() if k != ".0") for x in [1]]


def s_globals_are_clean():
    return sorted(k for k in globals() if not k.startswith("__"))


def s_vars_and_dir():
    x = 1
    y = x + 1
    return sorted(vars()), dir()


def s_eval_exec():
    x = 5
    space = {}
    exec("y = x + 1", {"x": x}, space)
    f = eval("lambda a: a + x", {"x": x})
    return eval("x + 1"), space, f(1), [eval("i * 2") for i in [4]]


def s_compile_and_exec_code():
    code = compile("def f(n):\n    return n * 2\nr = f(4)", "<made>", "exec")
    space = {}
    exec(code, space)
    return space["r"]


def caller_name(depth=1):
    return sys._getframe(depth).f_code.co_name


def s_getframe():
    return caller_name(), caller_name(1), (lambda: caller_name())(), [caller_name() for _ in [0]]


def s_frame_depth():
    def depth():
        f, n = sys._getframe(), 0
        while f is not None:
            f, n = f.f_back, n + 1
        return n

    return depth() - (lambda: depth())(), [depth()][0] - depth()


def s_inspect_stack():
    return [f.function for f in inspect.stack()[:1]], inspect.currentframe().f_code.co_name


def s_inspect_caller_line():
    def where():
        return inspect.currentframe().f_back.f_lineno

    first = s_inspect_caller_line.__code__.co_firstlineno
    got = [where() - first, (where()
                             - first)]
    return got, where() - first


def s_caller_positions():
    def where():
        f = inspect.currentframe().f_back
        return list(f.f_code.co_positions())[f.f_lasti // 2]

    class K:
        pass

    k = K
    k.where = staticmethod(where)
    return where(), 1 if where() else 2, (k
                                          .where()), k.where(
    ), [where() for _ in [1]]


def deprecated():
    warnings.warn("old", DeprecationWarning, stacklevel=2)


def s_warnings_stacklevel():
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        deprecated()
        warnings.warn("here")
    first = s_warnings_stacklevel.__code__.co_firstlineno
    return [(str(x.message), x.lineno - first, x.filename == __file__) for x in w]


def s_warnings_once_per_place():
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("default")
        for _ in range(3):
            half_way()
            warnings.warn("again")
    return len(w)


def s_logging_caller():
    records = []

    class H(logging.Handler):
        def emit(self, r):
            records.append((r.funcName, r.lineno - s_logging_caller.__code__.co_firstlineno, r.getMessage()))

    log = logging.getLogger("codedag-test-semantics")
    log.propagate = False
    log.handlers = [H()]
    log.warning("x %d", 1)
    log.error("y", stacklevel=1)
    return records


def s_print_stack():
    return [line.name for line in traceback.extract_stack()][-1:], traceback.format_stack()[-1]


def depth_reached(n):
    return 1 + depth_reached(n - 1) if n else 0


def s_recursion_depth():
    limit, here = sys.getrecursionlimit(), len(inspect.stack(0))
    sys.setrecursionlimit(here + 300)
    try:
        least = 0
        for n in range(200, 320):
            try:
                least = depth_reached(n)
            except RecursionError:
                break
        return least
    finally:
        sys.setrecursionlimit(limit)


def s_recursion_error_is_caught():
    def f():
        return f() + 1

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 200)
    try:
        f()
    except RecursionError as e:
        return str(e)[:32]
    finally:
        sys.setrecursionlimit(limit)


def s_deep_recursion():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(60_000)
    try:
        return depth_reached(50_000)
    finally:
        sys.setrecursionlimit(limit)


class Node:
    def __init__(self, child):
        self.child = child

    def depth(self):
        return 1 + self.child.depth() if self.child else 1

    def walk(self):
        yield self
        if self.child:
            yield from self.child.walk()


def s_deep_method_recursion():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(60_000)
    try:
        node = None
        for _ in range(8_000 if sys.version_info < (3, 12) else 1_200):
            node = Node(node)
        n = node.depth()
        while node is not None:
            node = node.child
        return n
    finally:
        sys.setrecursionlimit(limit)


def s_refcount():
    a = [1]
    b = object()
    c = a
    n = sys.getrefcount(a)
    return n, sys.getrefcount([]), [sys.getrefcount(b)][0], sys.getrefcount([b][0]), c is a


def s_refcount_in_operators():
    class K:
        def __add__(self, o):
            return sys.getrefcount(self), sys.getrefcount(o)

        __getitem__ = __lt__ = __iadd__ = __add__

        def __neg__(self):
            return sys.getrefcount(self)

        def __setitem__(self, i, v):
            log.append((sys.getrefcount(self), sys.getrefcount(v)))

    log = []
    a, b = K(), K()
    a[0] = b
    c = a
    c += b
    return a + b, K() + K(), a[b], a < b, -a, -K(), log


def s_threads():
    out = []
    lock = threading.Lock()

    def work(n):
        total = 0
        for i in range(50):
            total += i * n
        with lock:
            out.append((n, total, threading.current_thread() is threading.main_thread()))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    half_way()
    for t in threads:
        t.join()
    local = threading.local()
    local.x = 1
    local.x += 1
    return sorted(out), local.x


def s_thread_pool():
    from concurrent.futures import ThreadPoolExecutor

    def f(x):
        if x == 3:
            raise ValueError(x)
        return x * x

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(f, i) for i in range(5)]
    return [repr(f.exception()) if f.exception() else f.result() for f in futures]


def s_thread_exception_hook():
    got = []
    before = threading.excepthook
    threading.excepthook = lambda a: got.append((a.exc_type.__name__, len(traceback.extract_tb(a.exc_traceback))))
    try:
        t = threading.Thread(target=lambda: [][1])
        t.start()
        t.join()
    finally:
        threading.excepthook = before
    return got


def s_settrace_sees_the_same_lines():
    lines = []

    def tracer(frame, event, arg):
        if frame.f_code.co_name == "traced":
            lines.append((event, frame.f_lineno - traced.__code__.co_firstlineno))
            return tracer

    def traced(n):
        x = n + 1
        y = [x]
        y[0] += 2
        return max(y[0], x)

    sys.settrace(tracer)
    try:
        traced(1)
    finally:
        sys.settrace(None)
    return lines


def s_settrace_sees_the_same_lines_in_loops():
    lines = []

    def tracer(frame, event, arg):
        if frame.f_code.co_name == "traced":
            lines.append((event, frame.f_lineno - traced.__code__.co_firstlineno))
            return tracer

    def traced(n):
        out = []
        for i in range(n):
            out.append(i)
            while len(out) < 3:
                out.append(
                    0)
                if i:
                    continue
            for j in (1,
                      2): out.append(j)
        for k in range(2):
            @staticmethod
            def f(): pass
        while True:
            n -= 1
            if n < 0:
                break
        while n < 2:
            class K:
                x = n
            n += 1
        else:
            n = [x + 1 for x in out]
        try:
            for x in out:
                if x:
                    return x
        finally:
            out.clear()

    sys.settrace(tracer)
    try:
        traced(2)
    finally:
        sys.settrace(None)
    return lines


def s_setprofile_sees_the_same_calls():
    seen = []

    def profiler(frame, event, arg):
        if event in ("call", "return"):
            seen.append((event, frame.f_code.co_name))

    def g(x):
        return x + 1

    def traced(n):
        return g(n) * 2

    sys.setprofile(profiler)
    try:
        traced(1)
    finally:
        sys.setprofile(None)
    return seen


def s_gc_of_cycles():
    class K:
        pass

    gone = []
    import weakref

    k = K()
    k.me = k
    k.f = lambda: k
    r = weakref.ref(k, lambda _: gone.append(1))
    del k
    gc.collect()
    return r() is None, gone


def s_no_objects_left():
    class K:
        pass

    def use():
        items = [K() for _ in range(10)]
        return sum(1 for i in items if i)

    use()
    gc.collect()
    return sum(type(o) is K for o in gc.get_objects())


def s_module_names():
    return __name__, __doc__[:8], __spec__ is None or __spec__.name, __file__[-21:], __package__


def s_import_forms():
    import os.path as p
    from collections import OrderedDict as O
    import xml.dom

    def inner():
        from math import sqrt, pi as the_pi

        return sqrt(4) + the_pi

    return p.join("a", "b"), O(a=1), xml.dom.__name__, inner()


def s_dunder_import():
    return __import__("os.path").__name__, __import__("json", fromlist=["dumps"]).dumps([1])


def s_exec_defines_functions():
    space = {}
    exec("def f(a, *, b=2):\n    return [a * i + b for i in range(3)]", space)
    return space["f"](3), space["f"](a=1, b=0)


def s_doctest():
    import doctest

    def f(x):
        """Twice.

        >>> f(2)
        4
        >>> f([1])[0]
        1
        """
        return x * 2

    runner = doctest.DocTestRunner(verbose=False)
    for test in doctest.DocTestFinder().find(f, "f", globs={"f": f}):
        runner.run(test)
    return runner.summarize(verbose=False)


def s_numba_functions_are_left_alone():
    try:
        import numba
    except ImportError:
        return "no numba"

    @numba.njit
    def decorated(a):
        total = 0
        for i in range(a.shape[0]):
            total += a[i] * 2
        return total

    def wrapped(a):
        return a[0] + len(a)

    import numpy as np

    quick = numba.njit(wrapped)
    slow = numba.jit(nopython=True)(wrapped)
    return int(decorated(np.arange(5))), int(quick(np.arange(3))), int(slow(np.arange(4))), wrapped([1])


def s_torch_jit_reads_source():
    try:
        import torch
    except ImportError:
        return "no torch"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(for_torch_jit)
        traced = torch.jit.trace(lambda x: x * 2 + 1, torch.ones(2))
    return scripted(torch.ones(2)).tolist(), traced(torch.zeros(2)).tolist()


def for_torch_jit(x):
    y = x * 2
    for i in range(3):
        y = y + i
    return y[0:1]


def s_torch_compile_with_one_graph():
    try:
        import torch
    except ImportError:
        return "no torch"

    @torch.compile(backend="eager", fullgraph=True)
    def f(x):
        return (x * 2 + 1)[0:1]

    return f(torch.ones(2)).tolist()
