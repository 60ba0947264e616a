"""Objects, threads, coroutines and plain numbers that pass data on: the same tables as truth_fresh.py."""

import array
import asyncio
import copy
import io
import math
import pickle
import queue
import random
import statistics
import struct
import threading
import weakref
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from typing import NamedTuple

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


# ---- objects ---------------------------------------------------------------------------------------------------------


@dataclass
class Sample:
    image: np.ndarray
    label: int = 0
    extras: dict = field(default_factory=dict)


@flows("sqrt>exp", "sin>cos", absent=["Sample>exp", "replace>exp", "sqrt>Sample"])
def dataclass_fields(a):
    s = replace(Sample(np.sqrt(a), extras={"m": np.sin(a)}), label=2)
    return np.exp(s.image), np.cos(s.extras["m"])


@dataclass(frozen=True, slots=True)
class Frame:
    pixels: np.ndarray

    def brighter(self):
        return Frame(np.multiply(self.pixels, 2))


@flows("sqrt>multiply", "multiply>multiply", "multiply>exp")
def frozen_dataclass(a):
    return np.exp(Frame(np.sqrt(a)).brighter().brighter().pixels)


class Batch(NamedTuple):
    images: np.ndarray
    labels: np.ndarray


@flows("sqrt>mean", "arange>sum", absent=["sqrt>sum", "arange>mean"])
def named_tuple(a):
    batch = Batch(np.sqrt(a), labels=np.arange(16))
    return batch.images.mean(), batch._replace(images=None).labels.sum()


class Slotted:
    __slots__ = ("__weakref__", "value")

    def __init__(self, value):
        self.value = value


@flows("sqrt>imul", "imul>exp")
def slots(a):
    s = Slotted(np.sqrt(a))
    s.value *= 3
    return np.exp(s.value)


class Transform(ABC):
    def __call__(self, x):
        return self.after(self.apply(x))

    def after(self, x):
        return np.clip(x, 0, 1)

    @abstractmethod
    def apply(self, x): ...


class Root(Transform):
    def apply(self, x):
        return np.sqrt(x)


class Louder(Root):
    def apply(self, x):
        return np.multiply(super().apply(x), 2)


class Compose:
    def __init__(self, *steps):
        self.steps = list(steps)

    def __call__(self, x):
        for step in self.steps:
            x = step(x)
        return x


@flows("sqrt>clip", "clip>sqrt", "sqrt>multiply", "multiply>clip", "clip>exp")
def class_hierarchy(a):
    return np.exp(Compose(Root(), Louder())(a))


class Lazy:
    def __init__(self, a):
        self.a, self._b = a, None

    @property
    def root(self):
        if self._b is None:
            self._b = np.sqrt(self.a)
        return self._b

    @root.setter
    def root(self, value):
        self._b = np.negative(value)


@flows("sqrt>exp", "sqrt>negative", "negative>cos")
def lazy_property(a):
    lazy = Lazy(a)
    b = np.exp(lazy.root)
    lazy.root = lazy.root
    return b, np.cos(lazy.root)


class Scaled:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return np.multiply(getattr(instance, self.name), 2)

    def __set__(self, instance, value):
        setattr(instance, self.name, np.sqrt(value))


class WithDescriptor:
    data = Scaled()


@flows("sqrt>multiply", "multiply>exp")
def descriptor(a):
    w = WithDescriptor()
    w.data = a
    return np.exp(w.data)


class Vec:
    def __init__(self, v):
        self.v = v

    def __add__(self, other):
        return Vec(np.add(self.v, other.v))

    def __iadd__(self, other):
        np.add(self.v, other.v, out=self.v)
        return self

    def __getitem__(self, i):
        return Vec(np.take(self.v, i, axis=0))

    def __array__(self, dtype=None, copy=None):
        return self.v


@flows("sqrt>add", "sin>add", "add>take", "take>exp")
def operators_of_a_user_class(a):
    return np.exp((Vec(np.sqrt(a)) + Vec(np.sin(a)))[[0, 1]].v)


@flows("sqrt>add", "sin>add", "add>exp")
def in_place_operator_of_a_user_class(a):
    x = Vec(np.sqrt(a))
    x += Vec(np.sin(a))
    return np.exp(x.v)


@flows("sqrt>exp")
def array_interface(a):
    return np.exp(np.asarray(Vec(np.sqrt(a))))


@flows("sqrt>exp", "sqrt>cos")
def set_and_get_by_name(a):
    box = Slotted(None)
    setattr(box, "value", np.sqrt(a))
    return np.exp(getattr(box, "value")), np.cos(vars(Sample(box.value))["image"])


@flows("sqrt>exp")
def weak_reference(a):
    b = np.sqrt(a)
    return np.exp(weakref.ref(b)())


class Cache(dict):
    def __missing__(self, key):
        self[key] = np.sqrt(key * np.ones(4))
        return self[key]


@flows("ones>mul", "mul>sqrt", "sqrt>exp")
def missing_key(a):
    c = Cache()
    return np.exp(c[2]), np.exp(c[2])


@flows("sqrt>iadd", "iadd>iadd", "iadd>exp")
def running_state(a):
    class Running:
        def __init__(self):
            self.total = np.sqrt(a)

        def add(self, x):
            self.total += x

    r = Running()
    for i in range(3):
        r.add(i)
    return np.exp(r.total)


@flows("sqrt>deepcopy", "deepcopy>exp")
def deep_copy_of_an_array(a):
    return np.exp(copy.deepcopy(np.sqrt(a)))


@flows("sqrt>deepcopy", "deepcopy>iadd", "sqrt>cos", "iadd>exp", absent=["iadd>cos"])
def deep_copy_of_an_object(a):
    s = Sample(np.sqrt(a))
    t = copy.deepcopy(s)
    t.image += 1
    return np.exp(t.image), np.cos(s.image)


@flows("sqrt>iadd", "iadd>cos")
def shallow_copy_shares(a):
    s = Sample(np.sqrt(a))
    t = copy.copy(s)
    t.image += 1
    return np.cos(s.image)


@flows("sqrt>dumps", "dumps>loads", "loads>exp")
def pickled(a):
    # Debatable whether bytes carry flow: they are the array's data, so they do.
    return np.exp(pickle.loads(pickle.dumps(np.sqrt(a))))


# ---- bytes -----------------------------------------------------------------------------------------------------------


@flows("sqrt>tobytes", "tobytes>frombuffer", "frombuffer>exp")
def to_bytes_and_back(a):
    return np.exp(np.frombuffer(np.sqrt(a).tobytes(), np.float32))


@flows("pack>frombuffer", "frombuffer>sum")
def struct_packed(a):
    return np.frombuffer(struct.pack("4f", 1, 2, 3, 4), np.float32).sum()


@flows("frombuffer>iadd", "iadd>exp")
def bytearray_shared(a):
    raw = bytearray(64)
    x = np.frombuffer(raw, np.float32)
    y = np.frombuffer(raw, np.float32)
    x += 1
    return np.exp(y)


@flows("sqrt>memoryview", "memoryview>cast", "cast>frombuffer", "frombuffer>iadd", "iadd>exp", absent=["sqrt>exp"])
def memoryview_of_an_array(a):
    b = np.sqrt(a)
    c = np.frombuffer(memoryview(b).cast("B"), np.float32)
    c += 1
    return np.exp(b)


@flows("sqrt>save", "save>load", "load>exp", absent=["save>sqrt", "sqrt>exp"])
def saved_and_loaded(a):
    file = io.BytesIO()
    np.save(file, np.sqrt(a))
    file.seek(0)
    return np.exp(np.load(file))


@flows("frombuffer>mul", "mul>sum")
def standard_array(a):
    return (np.frombuffer(array.array("f", [1, 2, 3]), np.float32) * 2).sum()


# ---- numbers ---------------------------------------------------------------------------------------------------------


@flows("sqrt>mean", "mean>item", "item>sub", "sub>exp")
def item_of_a_scalar(a):
    m = np.sqrt(a).mean().item()
    return np.exp(a - m)


@flows("max>float", "float>truediv", "truediv>exp")
def float_conversion(a):
    return np.exp(a / float(a.max()))


@flows("sum>sqrt", "sqrt>truediv", "truediv>exp")
def math_of_a_scalar(a):
    return np.exp(a / math.sqrt(a.sum()))


@flows("argmax>getitem", "getitem>exp")
def index_from_a_reduction(a):
    i = a.sum(axis=1).argmax()
    return np.exp(a[i])


@flows("mean>mul", "mul>add", "add>exp")
def arithmetic_of_scalars(a):
    m = a.mean()
    return np.exp(m * 2.0 + 1.0)


@flows("mean>float", "float>mul", "mul>add", "add>exp")
def arithmetic_of_python_floats(a):
    return np.exp(float(a.mean()) * 2.0 + 1.0)


@flows("min>sub", "max>sub", "sub>truediv", "truediv>exp")
def normalised(a):
    low, high = a.min(), a.max()
    return np.exp((a - low) / (high - low))


@flows("norm>truediv", "truediv>exp")
def norm_as_a_scalar(a):
    return np.exp(a / np.linalg.norm(a))


@flows("mean>array", "array>exp")
def array_of_scalars(a):
    values = [row.mean() for row in a]
    return np.exp(np.array(values))


@flows("sqrt>getitem", "getitem>mul", "sqrt>mul", "mul>exp")
def element_as_a_scalar(a):
    b = np.sqrt(a)
    return np.exp(b[0, 0] * b)


@flows("sum>round", "round>add", "add>exp")
def rounded(a):
    return np.exp(a + round(a.sum(), 2))


@flows("mean>max", "max>sub", "sub>exp")
def builtin_max(a):
    return np.exp(a - max(a.mean(), 0.1))


@flows("tolist>array", "sqrt>tolist", "array>exp")
def through_a_plain_list(a):
    # Debatable: tolist makes new floats; they came out of a data operation, so they carry.
    return np.exp(np.array(np.sqrt(a).tolist()))


# ---- randomness ------------------------------------------------------------------------------------------------------


@flows("normal>add", "add>exp")
def random_generator(a):
    rng = np.random.default_rng(0)
    return np.exp(a + rng.normal(size=a.shape))


@flows("arange>shuffle", "shuffle>getitem", "getitem>mean")
def shuffled_index(a):
    order = np.arange(16)
    np.random.default_rng(0).shuffle(order)
    return a[order].mean()


@flows("permutation>getitem", "getitem>mean")
def permuted_index(a):
    return a[np.random.default_rng(0).permutation(16)].mean()


@flows("sqrt>stack")
def shuffled_list(a):
    # random.shuffle moves references; it makes no data.
    parts = [np.sqrt(a + i) for i in range(3)]
    random.Random(0).shuffle(parts)
    return np.stack(parts)


# ---- threads ---------------------------------------------------------------------------------------------------------


def root(x):
    return np.sqrt(x)


@flows("sqrt>stack", "stack>exp")
def pool_map(a):
    with ThreadPoolExecutor(2) as pool:
        return np.exp(np.stack(list(pool.map(root, [a, a + 1, a + 2]))))


@flows("sqrt>mean")
def pool_as_completed(a):
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(root, a + i) for i in range(3)]
        return [f.result().mean() for f in as_completed(futures)]


@flows("sqrt>sin", "sin>cos")
def queues_between_threads(a):
    first, second = queue.Queue(maxsize=1), queue.Queue()

    def producer():
        for i in range(3):
            first.put(np.sqrt(a + i))
        first.put(None)

    def worker():
        while (x := first.get()) is not None:
            second.put(np.sin(x))
        second.put(None)

    threads = [threading.Thread(target=f) for f in (producer, worker)]
    for t in threads:
        t.start()
    out = []
    while (x := second.get()) is not None:
        out.append(np.cos(x))
    for t in threads:
        t.join()
    return out


@flows("zeros>setitem", "sqrt>setitem", "setitem>setitem", "setitem>sum")
def threads_fill_one_array(a):
    out = np.zeros((4, 16, 16))

    def work(i):
        out[i] = np.sqrt(a)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
        t.join()
    return out.sum()


# ---- coroutines ------------------------------------------------------------------------------------------------------


async def load(a, i):
    await asyncio.sleep(0)
    return np.sqrt(a + i)


@flows("sqrt>stack", "stack>exp")
def gathered(a):
    async def main():
        return np.stack(await asyncio.gather(*(load(a, i) for i in range(3))))

    return np.exp(asyncio.run(main()))


@flows("sqrt>sin", "sin>cos")
def async_queue(a):
    async def main():
        waiting, out = asyncio.Queue(1), []

        async def producer():
            for i in range(3):
                await waiting.put(np.sin(await load(a, i)))
            await waiting.put(None)

        async def consumer():
            while (x := await waiting.get()) is not None:
                out.append(np.cos(x))

        await asyncio.gather(producer(), consumer())
        return out

    return asyncio.run(main())


@flows("sqrt>sin", "sin>stack")
def async_generator(a):
    async def items():
        for i in range(3):
            yield await load(a, i)

    async def main():
        return np.stack([np.sin(x) async for x in items()])

    return asyncio.run(main())


@flows("sqrt>exp")
def task_result(a):
    async def main():
        task = asyncio.create_task(load(a, 1))
        await task
        return np.exp(task.result())

    return asyncio.run(main())


@flows("sqrt>exp", "exp>cos")
def in_a_thread_of_the_loop(a):
    async def main():
        return np.exp(await asyncio.to_thread(root, a))

    return np.cos(asyncio.run(main()))
