"""Python's own ways to pass data on: FLOW as in truth.py, ABSENT = pairs that must not be found, NBYTES = bytes of a pair.

Where experts may differ, a comment says why the pair stands as it does.
"""

import contextlib
import functools
import heapq
import io
import itertools
import logging
import operator
import queue
from collections import ChainMap, OrderedDict, defaultdict, deque

import numpy as np

FLOW = {}
ABSENT = {}
NBYTES = {}


def flows(*pairs, absent=(), nbytes=None):
    def keep(function):
        FLOW[function.__name__] = {tuple(pair.split(">")) for pair in pairs}
        ABSENT[function.__name__] = {tuple(pair.split(">")) for pair in absent}
        NBYTES[function.__name__] = {tuple(pair.split(">")): size for pair, size in (nbytes or {}).items()}
        return function

    return keep


# ---- words between operations ----------------------------------------------------------------------------------------


@flows("sqrt>print", "sqrt>exp", absent=["print>exp"])
def a_print_between(a):
    with contextlib.redirect_stdout(None):
        b = np.sqrt(a)
        print(b)
        return np.exp(b)


@flows("sqrt>exp", absent=["assert_allclose>exp", "assert_array_equal>exp", "debug>exp"])
def checks_between(a):
    b = np.sqrt(a)
    np.testing.assert_allclose(b, b)
    np.testing.assert_array_equal(b, b)
    assert b.shape == (16, 16)
    logging.getLogger("truth").debug("values %s", b)
    return np.exp(b)


@flows("sqrt>exp", absent=["append>exp", "put>exp", "add>exp"])
def containers_between(a):
    b = np.sqrt(a)
    seen, waiting = [], queue.Queue()
    seen.append(b)
    waiting.put(b)
    return np.exp(b)


def look_at(x):
    """Look at x, and change nothing."""
    x.sum()


@flows("sqrt>sum", "sqrt>exp", absent=["sum>exp", "look_at>exp"])
def a_function_that_returns_nothing(a):
    b = np.sqrt(a)
    look_at(b)
    return np.exp(b)


def scale_in_place(x):
    x *= 2


@flows("sqrt>imul", "imul>exp", absent=["sqrt>exp"])
def a_function_that_writes(a):
    b = np.sqrt(a)
    scale_in_place(b)
    return np.exp(b)


# ---- functions -------------------------------------------------------------------------------------------------------


@flows("sqrt>sin", "sin>exp")
def lambdas(a):
    first = lambda x: np.sqrt(x)
    second = lambda x, f=np.sin: f(x)
    return np.exp(second(first(a)))


@flows("sin>sqrt", "sqrt>stack", "stack>exp", absent=["sin>stack"])
def map_of_a_library_function(a):
    # Debatable: sqrt makes the arrays, though map calls it; one might also name the map or its next.
    parts = [np.sin(a), np.sin(a + 1)]
    drained, roots = [], map(np.sqrt, parts)
    while (x := next(roots, None)) is not None:
        drained.append(x)
    return np.exp(np.stack(drained))


@flows("sin>sqrt", "sqrt>stack", "stack>exp", absent=["sin>stack"])
def list_of_a_map(a):
    parts = [np.sin(a), np.sin(a)]
    return np.exp(np.stack(list(map(np.sqrt, parts))))


@flows("sqrt>stack", "sin>stack")
def filtered(a):
    parts = [np.sqrt(a), np.sin(a)]
    return np.stack(list(filter(lambda x: x.ndim == 2, parts)))


@flows("sqrt>add", "sin>add", "add>stack")
def zipped(a):
    left = [np.sqrt(a) for _ in range(2)]
    right = [np.sin(a) for _ in range(2)]
    return np.stack([x + y for x, y in zip(left, right, strict=True)])


@flows("sqrt>mul", "mul>stack")
def enumerated(a):
    return np.stack([x * i for i, x in enumerate([np.sqrt(a), np.sqrt(a)])])


@flows("sqrt>reduce", "reduce>exp")
def reduced(a):
    parts = [np.sqrt(a) for _ in range(3)]
    return np.exp(functools.reduce(operator.add, parts))


@flows("sqrt>add", "add>add", "add>exp")
def reduced_by_a_user_function(a):
    parts = [np.sqrt(a) for _ in range(3)]
    return np.exp(functools.reduce(lambda x, y: np.add(x, y), parts))


@flows("sqrt>mul", "mul>add", "add>exp")
def operator_module(a):
    return np.exp(operator.add(operator.mul(np.sqrt(a), 2), 1))


@flows("sqrt>clip", "clip>exp")
def partial_of_a_library_function(a):
    unit = functools.partial(np.clip, a_min=0.1, a_max=0.9)
    return np.exp(unit(np.sqrt(a)))


@flows("sqrt>add", "sin>add", "add>exp")
def partial_that_holds_data(a):
    shift = functools.partial(np.add, np.sqrt(a))
    return np.exp(shift(np.sin(a)))


@flows("sqrt>sum", "sqrt>exp")
def sorted_with_a_key(a):
    parts = [np.sqrt(a), np.sqrt(a + 1)]
    ordered = sorted(parts, key=lambda x: float(x.sum()))
    return np.exp(ordered[0])


@flows("sqrt>stack", "sin>stack", "cos>stack")
def chained(a):
    return np.stack(list(itertools.chain([np.sqrt(a), np.sin(a)], [np.cos(a)])))


@flows("sqrt>mul", "mul>mean")
def sliced_and_cycled(a):
    out = []
    for x in itertools.islice(itertools.cycle([np.sqrt(a), np.sqrt(a)]), 3):
        out.append((x * 2).mean())
    return out


@flows("sqrt>add", "add>exp")
def starmapped(a):
    return [np.exp(x) for x in itertools.starmap(lambda x, y: x + y, [(np.sqrt(a), 1), (np.sqrt(a), 2)])]


@flows("sqrt>add", "sin>add", "add>exp")
def star_arguments(a):
    def total(*args, **keywords):
        return args[0] + keywords["other"]

    args, keywords = (np.sqrt(a),), {"other": np.sin(a)}
    return np.exp(total(*args, **keywords))


@flows("sqrt>clip", "clip>exp")
def keywords_of_a_library_function(a):
    options = {"a": np.sqrt(a), "a_min": 0, "a_max": 1}
    return np.exp(np.clip(**options))


TABLE = np.full((16, 16), 2.0)


@flows("sqrt>add", "add>exp")
def default_argument(a):
    def shifted(x, by=TABLE):
        return x + by

    return np.exp(shifted(np.sqrt(a)))


def descend(x, depth):
    if depth == 0:
        return np.cos(x)
    return descend(np.sqrt(x), depth - 1)


@flows("sqrt>sqrt", "sqrt>cos", "cos>exp")
def recursion(a):
    return np.exp(descend(a, 3))


@flows("sqrt>getitem", "getitem>getitem", "getitem>sum", "sum>add", "add>add", "add>exp")
def recursion_over_halves(a):
    def total(x):
        if x.shape[0] == 4:
            return x.sum(axis=0)
        half = x.shape[0] // 2
        return total(x[:half]) + total(x[half:])

    return np.exp(total(np.sqrt(a)))


@flows("sqrt>mul", "mul>mul", "mul>exp")
def nonlocal_state(a):
    state = np.sqrt(a)

    def step():
        nonlocal state
        state = state * 2

    step()
    step()
    return np.exp(state)


shared = None


@flows("sqrt>exp")
def global_state(a):
    global shared
    shared = np.sqrt(a)

    def read():
        return np.exp(shared)

    return read()


def twice(function):
    @functools.wraps(function)
    def inner(x):
        return function(function(x))

    return inner


@twice
def softened(x):
    return np.tanh(x)


@flows("sqrt>tanh", "tanh>tanh", "tanh>exp")
def decorated_twice(a):
    return np.exp(softened(np.sqrt(a)))


@flows("arange>sqrt", "sqrt>exp", "sqrt>sin")
def cached_result(a):
    @functools.lru_cache
    def table(n):
        return np.sqrt(np.arange(n, dtype=float))

    return np.exp(table(4)), np.sin(table(4))


@flows("sqrt>sin", "sqrt>cos")
def dispatch_table(a):
    table = {"s": np.sin, "c": np.cos}
    b = np.sqrt(a)
    return [table[k](b) for k in "sc"]


@flows("sqrt>sin", "sin>mean")
def dispatch_by_name(a):
    b = getattr(np, "sin")(getattr(np, "sqrt")(a))
    return getattr(b, "mean")()


@flows("sqrt>reshape", "reshape>sum")
def bound_method_kept(a):
    b = np.sqrt(a)
    shape = b.reshape
    return shape(-1).sum()


@flows("sqrt>cumsum", "cumsum>exp")
def method_of_the_class(a):
    return np.exp(np.ndarray.cumsum(np.sqrt(a)))


# ---- control flow ----------------------------------------------------------------------------------------------------


@flows("sqrt>exp", "exp>cos")
def early_return(a):
    def maybe(x, stop):
        y = np.sqrt(x)
        if stop:
            return y
        return np.sin(y)

    return np.cos(np.exp(maybe(a, True)))


@flows("sqrt>tan", "tan>exp")
def for_else(a):
    b = np.sqrt(a)
    for i in range(2):
        if i == 5:
            break
    else:
        b = np.tan(b)
    return np.exp(b)


@flows("sqrt>mul", "mul>mul", "mul>mean", "mul>exp")
def while_by_value(a):
    b = np.sqrt(a) * 2
    while b.mean() < 10:
        b = b * 2
    else:
        c = np.exp(b)
    return c


@flows("sqrt>cos", absent=["sin>cos"])
def match_statement(a):
    match {"kind": "root", "data": np.sqrt(a), "other": np.sin(a)}:
        case {"kind": "root", "data": x}:
            return np.cos(x)
        case _:
            return None


@flows("sqrt>exp", "sqrt>cos")
def walrus(a):
    if (b := np.sqrt(a)) is not None:
        np.exp(b)
    return np.cos(b)


@flows("sqrt>exp", absent=["sin>exp"])
def conditional_expression(a):
    b, c = np.sqrt(a), np.sin(a)
    return np.exp(b if a.ndim == 2 else c)


@flows("sqrt>cos", "sin>exp", absent=["sqrt>exp", "sin>cos"])
def swapped(a):
    b, c = np.sqrt(a), np.sin(a)
    b, c = c, b
    return np.exp(b), np.cos(c)


@flows("sqrt>lt", "lt>all")
def chained_comparison(a):
    b = np.sqrt(a)
    return 0 < b.size < 300 and (b < 2).all()


@flows("sqrt>reshape", "sqrt>ravel", "ravel>exp")
def fallback(a):
    b = np.sqrt(a)
    try:
        c = b.reshape(7, 7)
    except ValueError:
        c = b.ravel()
    return np.exp(c)


@flows("sqrt>iadd", "iadd>exp")
def finally_writes(a):
    b = np.sqrt(a)
    try:
        try:
            raise KeyError("x")
        finally:
            b += 1
    except KeyError:
        pass
    return np.exp(b)


class Scope:
    def __init__(self, value):
        self.value = value

    def __enter__(self):
        return np.sin(self.value)

    def __exit__(self, *error):
        self.value *= 2
        return False


@flows("sqrt>sin", "sin>cos", "sqrt>imul", "imul>exp")
def context_manager(a):
    b = np.sqrt(a)
    with Scope(b) as c:
        d = np.cos(c)
    return d, np.exp(b)


@contextlib.contextmanager
def borrowed(x):
    yield np.sin(x)


@flows("sqrt>sin", "sin>exp")
def context_manager_by_generator(a):
    with borrowed(np.sqrt(a)) as x:
        return np.exp(x)


# ---- iteration -------------------------------------------------------------------------------------------------------


def leaves(a, depth):
    if depth == 0:
        yield np.sqrt(a)
    else:
        yield from leaves(a, depth - 1)
        yield from leaves(a + 1, depth - 1)


@flows("sqrt>stack", "stack>exp")
def yield_from(a):
    return np.exp(np.stack(list(leaves(a, 2))))


@flows("sqrt>mean", "mean>add", "add>add", "add>exp")
def generator_expression(a):
    total = 0.0
    for m in (np.sqrt(a).mean() for _ in range(3)):
        total = total + m
    return np.exp(total)


@flows("sqrt>sin", "sin>exp")
def sent_into_a_generator(a):
    def worker():
        x = yield
        while True:
            x = yield np.sin(x)

    w = worker()
    next(w)
    return np.exp(w.send(np.sqrt(a)))


@flows("sqrt>sin", "sin>cos", "cos>stack")
def pipeline_of_generators(a):
    def load():
        for i in range(3):
            yield np.sqrt(a + i)

    def augment(items):
        for x in items:
            yield np.sin(x)

    def finish(items):
        yield from (np.cos(x) for x in items)

    return np.stack([x for x in finish(augment(load()))])


class KernelPool:
    def __init__(self, a):
        self.a = a

    def __len__(self):
        return 3

    def __getitem__(self, i):
        if i >= 3:
            raise IndexError(i)
        return np.sqrt(self.a + i)


@flows("add>sqrt", "sqrt>exp", "exp>stack")
def sequence_protocol(a):
    return np.stack([np.exp(x) for x in KernelPool(a)])


class Counter:
    def __init__(self, a):
        self.a, self.n = a, 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 3:
            raise StopIteration
        self.n += 1
        return np.sqrt(self.a)


@flows("sqrt>exp", "exp>concatenate")
def iterator_protocol(a):
    return np.concatenate([np.exp(x) for x in Counter(a)])


@flows("frombuffer>exp", "exp>sum")
def iter_with_sentinel(a):
    file = io.BytesIO(bytes(64))
    return [np.exp(np.frombuffer(part, np.uint8)).sum() for part in iter(lambda: file.read(16), b"")]


@flows("sqrt>exp", absent=["sin>exp"])
def rows_of_an_array(a):
    # Iterating an array gives views of its rows; the rows carry the array's producer.
    return [np.exp(row) for row in np.sqrt(a)]


@flows("sqrt>exp", "sin>cos", absent=["sqrt>cos", "sin>exp"])
def starred_unpacking(a):
    first, *rest = [np.sqrt(a), np.sin(a), 3]
    return np.exp(first), np.cos(rest[0])


@flows("sqrt>concatenate", "concatenate>mean", nbytes={"sqrt>concatenate": 3 * 1024, "concatenate>mean": 3 * 1024})
def list_built_in_a_loop(a):
    parts = []
    for i in range(3):
        parts.append(np.sqrt(a + i))
    return np.concatenate(parts).mean()


@flows("sqrt>vstack", "sin>vstack")
def dict_of_arrays(a):
    d = {"x": np.sqrt(a)}
    d.update(y=np.sin(a))
    return np.vstack(list(d.values()))


@flows("sqrt>exp", "sqrt>cos")
def default_dict_of_lists(a):
    groups = defaultdict(list)
    for i in range(4):
        groups[i % 2].append(np.sqrt(a))
    return [np.exp(x) for x in groups[0]], {k: np.cos(v[0]) for k, v in groups.items()}


@flows("sqrt>add", "sin>add", "cos>exp", absent=["cos>add"])
def nested_containers(a):
    batch = {"inputs": {"left": [np.sqrt(a)], "right": (np.sin(a), 3)}, "extra": [{"deep": np.cos(a)}]}
    return batch["inputs"]["left"][0] + batch["inputs"]["right"][0], np.exp(batch["extra"][0]["deep"])


@flows("sqrt>exp", "sin>cos", absent=["sqrt>cos"])
def layered_dicts(a):
    both = ChainMap({"x": np.sqrt(a)}, OrderedDict(y=np.sin(a)))
    return np.exp(both["x"]), np.cos(both.get("y"))


@flows("sqrt>exp", "exp>add")
def heap_and_deque(a):
    heap = []
    for i in (3, 1, 2):
        heapq.heappush(heap, (i, np.sqrt(a)))
    ring = deque(maxlen=2)
    while heap:
        ring.append(np.exp(heapq.heappop(heap)[1]))
    return ring[0] + ring[1]


@flows("sqrt>exp", absent=["sin>exp"])
def mixed_short_list(a):
    parts = [1.5, "name", None, np.sqrt(a), np.sin(a)]
    return np.exp(parts[3])


@flows("sqrt>stack", "stack>exp")
def reversed_and_sliced(a):
    parts = [np.sqrt(a + i) for i in range(4)]
    return np.exp(np.stack(list(reversed(parts))[1:3]))
