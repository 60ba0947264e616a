"""Classes, operators and arguments: features whose meaning a rewriter could break. Each s_* returns a comparable value."""
import abc
import collections
import copy
import dataclasses
import enum
import functools
import inspect
import operator
import pickle
import typing
import weakref


def half_way():
    """The test replaces this to flip the mode of all sites in the middle of a feature."""


class Base:
    def __init__(self):
        self.z = 1

    def hi(self, k=2):
        return self.z + k

    @property
    def triple(self):
        return self.z * 3


class Derived(Base):
    def __init__(self):
        super().__init__()
        self.__private = 5
        self.__private += 2

    def hi(self, k=2):
        half_way()
        return super().hi(k) * 10 + self.__private

    def __mangled(self):
        return "mangled", self.__private

    def call_mangled(self):
        return self.__mangled()

    @classmethod
    def cm(cls):
        return cls.__name__

    @staticmethod
    def sm(x):
        return x + 1


def s_super():
    return Derived().hi(), Derived().triple, Derived.cm(), Derived.sm(4)


def s_mangled_names():
    d = Derived()
    return d.call_mangled(), sorted(vars(d)), d._Derived__private


def s_class_cell():
    class K:
        def me(self):
            return __class__.__name__, super().__repr__()[:5]

    return K().me()[0]


def s_super_in_comprehension_argument():
    class K(Base):
        def hi(self, k=2):
            return [super(K, self).hi(i) for i in range(k)]

    return K().hi(3)


def s_slots():
    class S:
        __slots__ = ("a", "b")

        def __init__(self):
            self.a = 1
            self.a += 1

    s = S()
    try:
        s.c = 1
    except AttributeError as e:
        return s.a, type(e).__name__, hasattr(s, "b")


def s_property_set_delete():
    log = []

    class P:
        @property
        def v(self):
            log.append("get")
            return 3

        @v.setter
        def v(self, x):
            log.append(("set", x))

        @v.deleter
        def v(self):
            log.append("del")

    p = P()
    p.v += 4
    del p.v
    return log


def s_metaclass():
    class M(type):
        def __new__(m, n, b, ns, tag=None):
            ns["names"] = sorted(k for k in ns if not k.startswith("__"))
            ns["tag"] = tag
            return super().__new__(m, n, b, ns)

        def __call__(cls, *a):
            return ("made", super().__call__(*a).x)

    class K(metaclass=M, tag="t"):
        x = 1 + 1
        y = [x * i for i in range(3)] if False else sum([1, 2])

        def b(self):
            pass

    return K.names, K.tag, K(), K.y


def s_metaclass_prepare_sees_names():
    seen = []

    class Space(dict):
        def __getitem__(self, k):
            seen.append(("get", k))
            return super().__getitem__(k)

        def __setitem__(self, k, v):
            seen.append(("set", k))
            super().__setitem__(k, v)

    class M(type):
        @classmethod
        def __prepare__(m, n, b):
            return Space()

        def __new__(m, n, b, ns):
            return super().__new__(m, n, b, dict(ns))

    class K(metaclass=M):
        a = [1]
        a[0] += 2
        a += [3]
        b = a[0]

    return seen, K.a, K.b


def s_descriptors():
    log = []

    class D:
        def __set_name__(self, o, n):
            log.append(("name", n))

        def __get__(self, o, t):
            return 42 if o is None else o.__dict__.get("p", 7)

        def __set__(self, o, v):
            o.__dict__["p"] = v * 2

    class H:
        p = D()

    h = H()
    first = h.p
    h.p = 5
    h.p += 1
    return log, H.p, first, h.p


def s_getattr_hooks():
    log = []

    class G:
        def __getattr__(self, n):
            log.append(n)
            return lambda *a: (n, a)

        def __setattr__(self, n, v):
            log.append(("set", n))

    g = G()
    r = g.anything(1, 2)
    g.x = 3
    g.x = g.y
    return r, log


@dataclasses.dataclass(order=True)
class Data:
    x: int = 1
    y: list = dataclasses.field(default_factory=list)
    z: "typing.ClassVar[int]" = 5

    def __post_init__(self):
        self.y.append(self.x)


def s_dataclass():
    return Data(2) > Data(1), repr(Data()), dataclasses.asdict(Data(3)), [f.name for f in dataclasses.fields(Data)]


@functools.lru_cache(None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def s_lru_cache():
    fib.cache_clear()
    return fib(50), fib.cache_info().misses


def s_cached_property_and_singledispatch():
    count = []

    class K:
        @functools.cached_property
        def v(self):
            count.append(1)
            return len(count)

    @functools.singledispatch
    def f(x):
        return "object"

    @f.register
    def _(x: int):
        return "int"

    k = K()
    return k.v, k.v, count, f(1), f("")


def s_enum():
    class E(enum.Enum):
        A = enum.auto()
        B = A.value + 10 if False else 7
        C = 1 << 5

        def up(self):
            return E(self.value)

    class F(enum.Flag):
        X = 1
        Y = X << 1
        Z = X | Y

    return [e.name for e in E], E.A.up() is E.A, F.Z.value, F.X | F.Y == F.Z


def s_namedtuple_and_typing():
    class T(typing.NamedTuple):
        a: int
        b: str = "x" * 2

    return T(1), T(1)._replace(a=2), T.__annotations__ == {"a": int, "b": str}


class Hinted:
    a: int = 1 + 1
    b: "list[int]" = [3]
    c: dict[str, int]
    d: typing.Optional[int] = None


def s_class_type_hints():
    return typing.get_type_hints(Hinted), Hinted.__annotations__, Hinted.a


def s_local_annotations():
    x: list[int] = [1]
    y: undefined_name  # noqa: F821 - a local annotation is not evaluated
    x[0]: int = 5
    return x, "y" in locals()


def s_abstract():
    class A(abc.ABC):
        @abc.abstractmethod
        def f(self): ...

    try:
        A()
    except TypeError as e:
        return str(e).replace("methods", "method")


def s_init_subclass_and_class_getitem():
    seen = []

    class A:
        def __init_subclass__(cls, **kw):
            seen.append((cls.__name__, kw))
            super().__init_subclass__()

        def __class_getitem__(cls, k):
            return (cls.__name__, k)

    class B(A, q=1 + 1):
        pass

    return seen, A[int], B[1:2, ...]


class Reflects:
    def __add__(self, o):
        return NotImplemented

    def __radd__(self, o):
        return ("r", o)

    def __lt__(self, o):
        return "lt"

    def __iadd__(self, o):
        return NotImplemented

    def __eq__(self, o):
        return NotImplemented

    __hash__ = object.__hash__

    def __matmul__(self, o):
        return "mm"

    def __rpow__(self, o, m=None):
        return ("rpow", o)


def s_not_implemented():
    q = Reflects()
    out = [1 + q, q < 3, 3 > q, q == 3, q != 3, q @ 1, 2**q]
    for make in (lambda: q + 1, lambda: q - 1, lambda: -q, lambda: q <= 1, lambda: ~q, lambda: q[0]):
        try:
            make()
        except TypeError as e:
            out.append(str(e))
    return out


def s_inplace_falls_back():
    q = Reflects()
    try:
        q += 1
    except TypeError as e:
        first = str(e)
    n = 5
    n += Reflects()
    return first, n


def s_reflected_of_subclass():
    class A:
        def __add__(self, o):
            return "A.add"

    class B(A):
        def __radd__(self, o):
            return "B.radd"

    return A() + B(), B() + A(), A() + A()


def s_operator_messages():
    out, t, n = [], (1, 2), None
    for f in (
        lambda: 1 + "a", lambda: "a" + 1, lambda: [] - [], lambda: {} @ {}, lambda: "a" % (1, 2), lambda: 1 / 0,
        lambda: 5 % 0, lambda: 2 << -1, lambda: [1][5], lambda: {}["k"], lambda: t["a"], lambda: n[0],
        lambda: n(), lambda: t(), lambda: len(), lambda: len(1), lambda: print(badkw=1),
        lambda: (lambda a: a)(), lambda: (lambda a: a)(1, 2), lambda: (lambda a: a)(b=1), lambda: max(*5),
        lambda: dict(**5), lambda: dict(a=1, **{"a": 2}), lambda: "%d" % "x", lambda: -"a", lambda: ~1.5,
        lambda: [] < 1, lambda: 1j < 2, lambda: [3] * 1.5, lambda: object()[1], lambda: {}[[]],
    ):  # fmt: skip
        try:
            out.append(f())
        except Exception as e:
            out.append((type(e).__name__, str(e), e.args if not isinstance(e, KeyError) else None))
    return out


def s_every_operator():
    a, b = 37, 5
    out = [a + b, a - b, a * b, a / b, a // b, a % b, a**b, a << b, a >> b, a | b, a ^ b, a & b, -a, +a, ~a]
    out += [a < b, a <= b, a > b, a >= b, a == b, a != b, a is b, a is not b, a in [b], a not in [b], not a]
    for op in ("+", "-", "*", "//", "%", "**", "<<", ">>", "|", "^", "&", "/"):
        x = a
        exec(f"x {op}= b", None, space := {"x": x, "b": b})
        out.append(space["x"])
    x = a
    x += b
    x -= 3
    x *= b
    x //= 2
    x %= 100
    x **= 2
    x <<= 2
    x >>= 1
    x |= 64
    x ^= 5
    x &= 1023
    x /= 3
    return out, x


def s_string_formatting():
    return "%d-%s" % (3, "a"), "ab" * 2, [1] * 3, "%s" % [1], "%(a)s" % {"a": 1}, b"%d" % 4


def s_arguments():
    def f(a, /, b, *c, d, e=5, **k):
        return a, b, c, d, e, k

    return f(1, 2, 3, d=4), f(1, b=2, d=3, a=9), f(*[1, 2], *(3, 4), d=5, **{"z": 1}, **{"y": 2})


def s_argument_named_like_ours():
    def f(self, site, args, kind, function, names):
        return self, site, args, kind, function, names

    return f(self=1, site=2, args=3, kind=4, function=5, names=6), dict(self=1, args=2, keywords=3)


def s_many_arguments():
    def f(*a, **k):
        return sum(a), len(k)

    return f(*range(300), **{f"k{i}": i for i in range(300)}), f(
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30
    )


def s_star_positions():
    return [*range(3), *"ab"], (*[1], 2), {*[1, 2]}, {**{"a": 1}, "b": 2}, print(*[], sep="", end="")


def s_slices():
    n = list(range(10))
    n[2:5] = [0]
    del n[0]
    n[::2] = [9] * len(n[::2])
    i, j = 1, 4
    return n[::-1], n[-3:], n[i:j], n[i:], n[:j], n[:], n[i:j:2], "text"[1:3], n[slice(1, 2)]


class Index:
    def __getitem__(self, i):
        return i

    def __setitem__(self, i, v):
        self.last = (i, v)

    def __delitem__(self, i):
        self.gone = i


def s_tuple_and_starred_indices():
    x, t = Index(), (1, 2)
    x[*t, 3] = 5
    del x[1:2, *t]
    return x[*t], x[0, *t, 1:2], x[1, ...], x[()], x[(1,)], x[1:2, ::3], x[:,], x.last, x.gone, x[None]


def s_augmented_targets():
    d = collections.defaultdict(int)
    d["a"] += 2
    d["a"] -= 1
    n = [1]
    m = n
    m += [2]
    o = Base()
    o.z += 5
    o.z *= 2
    grid = [[1, 2], [3, 4]]
    grid[1][0] += 10
    grid[-1][-1] -= 1
    k = 0
    n[k] += 100
    n[k:] *= 2
    return dict(d), n is m, n, o.z, grid


def s_augmented_side_effects():
    log = []

    def t(tag, v):
        log.append(tag)
        return v

    d = {1: 10}
    t("o", d)[t("k", 1)] += t("v", 5)
    o = Base()
    t("obj", o).z += t("w", 7)
    x = [0, 0, 0, 0]
    i = 1
    x[i] += (i := 3)
    y = [1, 2]
    z = y
    y[0] += (y := [50, 60])[0]
    return log, d, o.z, x, i, y, z


def s_augmented_rebinds_through_nonlocal():
    x, i = [0, 0, 0], 0
    first = x
    o = Base()
    other = o

    def bump():
        nonlocal x, i, o
        x, i, o = [9, 9, 9], 2, Base()
        return 5

    x[i] += bump()
    o.z += bump()
    return x, i, first, o.z, other.z


STORE, KEY, HOLDER = [0, 0, 0], 0, None


def rebind():
    global STORE, KEY, HOLDER
    STORE, KEY, HOLDER = [7, 7, 7], 1, Base()
    return 1


def s_augmented_rebinds_global():
    global STORE, KEY, HOLDER
    STORE, KEY, HOLDER = [0, 0, 0], 0, Base()
    first, holder = STORE, HOLDER
    STORE[KEY] += rebind()
    HOLDER.z += rebind()
    return first, STORE, KEY, holder.z, HOLDER.z


def s_augmented_index_has_side_effects():
    log = []

    class N:
        def __neg__(self):
            log.append("neg")
            return 0

        def __index__(self):
            log.append("index")
            return 1

    n, x = N(), [1, 2, 3]
    x[-n] += 1
    x[n] += 1
    return x, log


def s_augmented_order_of_get_and_value():
    log = []

    class L:
        def __init__(self, items):
            self.items = items

        def __getitem__(self, i):
            log.append(("get", i))
            return self.items[i]

        def __setitem__(self, i, v):
            log.append(("set", i, v))
            self.items[i] = v

    def v():
        log.append("value")
        return 1

    x = L([1, 2])
    x[0] += v()
    x[1] = x[0] = v()
    return x.items, log


def s_container_subclass_is_not_touched():
    log = []

    class L(list):
        def __getitem__(self, i):
            log.append(("get", i))
            return super().__getitem__(i)

        def __iter__(self):
            log.append("iter")
            return super().__iter__()

        def __len__(self):
            log.append("len")
            return super().__len__()

    class D(dict):
        def values(self):
            log.append("values")
            return super().values()

        items = __iter__ = values

    x, d = L([1, 2]), D(a=1)
    y = x[0] + x[1]
    [x, d][0].append(d["a"])
    return (lambda *a: y)(x, d), log


def s_augmented_on_tuple_item():
    t = ([1],)
    try:
        t[0] += [2]
    except TypeError as e:
        return str(e), t


def s_delete():
    log = []

    class Z:
        def __del__(self):
            log.append("gone")

    z = Z()
    w = [Z(), 1]
    del z
    log.append("after")
    del w[0], w
    o = Base()
    del o.z
    return log, hasattr(o, "z")


def s_lifetimes():
    log = []

    class Z:
        def __init__(self, n):
            self.n = n

        def __del__(self):
            log.append(self.n)

        def go(self, *a):
            log.append(("go", self.n))
            return self

        def __add__(self, o):
            return Z(self.n + o.n)

        def __getitem__(self, i):
            return Z(self.n * 100 + i)

    Z(1).go()
    log.append("a")
    Z(2) + Z(3)
    log.append("b")
    x = Z(6)
    x = x.go().go()
    x = Z(7)
    log.append("c")
    y = Z(8)[1]
    log.append("d")
    (Z(9), Z(10))[1]
    log.append("e")
    for z in [Z(11), Z(12)]:
        log.append("loop")
    del x, y, z
    return log


def s_weakref():
    a = Base()
    gone = []
    r = weakref.ref(a, lambda _: gone.append(1))
    a.hi()
    b = [a][0]
    del a
    alive = r() is not None
    del b
    return alive, r() is None, gone


def s_return_value_not_kept():
    refs = []

    def make():
        a = Base()
        refs.append(weakref.ref(a))
        return a

    def run():
        make().hi()
        return refs[-1]() is None

    return run(), [make() and refs[-1]() is None for _ in range(2)]


def module_level():
    return 1


class Outer:
    class Inner:
        def __eq__(self, o):
            return type(o) is type(self)

        __hash__ = None


def s_pickle():
    back = pickle.loads(pickle.dumps([module_level, Outer.Inner(), Data(4), functools.partial(operator.add, 1)]))
    try:
        pickle.dumps(lambda: 1)
    except (pickle.PicklingError, AttributeError) as e:
        message = type(e).__name__
    return back[0] is module_level, back[1] == Outer.Inner(), back[2], back[3](2), message


def s_copy():
    d = Data(4)
    e = copy.deepcopy(d)
    e.y[0] += 1
    return d, e, copy.copy(d).y is d.y, copy.deepcopy(module_level) is module_level


def s_signature_and_metadata():
    def f(a, b: int = 3, *c, d, **e) -> "str":
        "doc"
        return a

    return str(inspect.signature(f)), f.__doc__, f.__name__, f.__qualname__, f.__defaults__, f.__annotations__


def s_code_attributes():
    c = Derived.hi.__code__
    return c.co_argcount, c.co_varnames, c.co_freevars, c.co_cellvars, c.co_name, c.co_firstlineno, c.co_flags, c.co_names


def s_getsource():
    return inspect.getsource(module_level), inspect.getsource(Outer), inspect.getsource(lambda: 0)


def s_callable_objects():
    class C:
        def __call__(self, *a, **k):
            return a, k

    c = C()
    return c(1, b=2), [c(i) for i in range(2)], C()(*[1]), callable(c), functools.partial(c, 1)(2)


def s_containers_protocols():
    class B:
        def __len__(self):
            return 0

        def __contains__(self, x):
            return x == 3

        def __bool__(self):
            return True

        def __iter__(self):
            return iter([1, 2])

        def __call__(self):
            return self

        def __enter__(self):
            return 5

        def __exit__(self, *a):
            return False

    b = B()
    with b() as v:
        pass
    return len(b), 3 in b, 4 in b, bool(b), list(b), [*b], v, (lambda *a: a)(*b)


def s_conversions_stay_exact():
    return type(True + True), type(1 == 1), type(2**-1), 10**20 // 3, -7 // 2, -7 % 3, round(2.5), 0.1 + 0.2


def s_identity_of_results():
    a = []
    b = (lambda x: x)(a)
    big = 10**30
    return b is a, [a][0] is a, (a or 1) is a, {1: a}[1] is a, +big == big


# -- places that are evaluated once, and subscripts among several targets


class Noting(dict):
    def __init__(self, log):
        super().__init__(a=1, b=2)
        self.log = log

    def __getitem__(self, key):
        self.log.append(("get", key))
        return super().__getitem__(key)

    def __setitem__(self, key, value):
        self.log.append(("set", key, value))
        super().__setitem__(key, value)


def s_held_place_is_evaluated_once_and_in_order():
    log = []
    table = Noting(log)

    def base():
        log.append("base")
        return table

    def index():
        log.append("index")
        return "a"

    def value():
        log.append("value")
        table["b"] = 5
        return 10

    base()[index()] += value()
    return log, dict(table)


def s_held_value_may_change_the_place():
    items = [1, 2, 3]

    def change():
        items[0] = 100
        return 1

    items[len(items) - 3] += change()
    return items


def s_held_attribute_of_an_expression():
    class Inner:
        def __init__(self):
            self._n = 1

        @property
        def n(self):
            return self._n

        @n.setter
        def n(self, value):
            self._n = value * 2

    class Outer:
        inner = Inner()

    Outer.inner.n += 3
    Outer().inner.n -= 1
    return Outer.inner._n


def s_held_place_that_fails():
    found = []
    for source in ("[1][f() + 5] += 1", "{}[f()] += 1", "(1, 2)[f()] += 1", "o.x.y += 1", "[None][f()] += 1"):
        try:
            exec(source, {"f": int, "o": object()})
        except Exception as error:
            found.append((type(error).__name__, str(error)))

    def index():
        return 0

    try:
        (1, 2)[index()] += 5
    except TypeError as error:
        found.append((str(error), error.__traceback__.tb_lineno - index.__code__.co_firstlineno))
    return found


def s_held_place_with_a_slice():
    items = list(range(10))
    items[len(items) - 4 :] += [20, 21]
    grid = {(0, 1): [1]}
    grid[int("0"), 1] += [2]
    return items, grid


def s_subscripts_among_targets():
    log = []
    table = Noting(log)
    items = [0, 0, 0]
    table["a"], (items[0], *items[1:]), name = 1, (2, 3, 4), 5
    items[0], items[1] = items[1], items[0]
    table["b"] = items[2] = table["c"] = 7
    for items[1] in (8, 9):
        log.append(items[1])
    for number, items[0] in enumerate("xy"):
        pass
    items[2]: int = 11
    return log, items, dict(table), name, number


def s_subscript_targets_fail_in_order():
    items = [0]
    try:
        items[0], items[5], items[0] = 1, 2, 3
    except IndexError as error:
        return items, str(error)


def s_subscript_as_with_target():
    from contextlib import nullcontext

    table = {}
    with nullcontext(3) as table["x"], nullcontext(4) as table[len(table)]:
        pass
    return table


def s_held_place_in_a_coroutine():
    import asyncio

    async def one():
        await asyncio.sleep(0)
        return 1

    async def run():
        items = {"a": [1, 2]}
        items["a"][0] += await one()
        items["b"], items["c"] = await one(), 3
        return items

    return asyncio.run(run())
