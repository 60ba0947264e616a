"""Programs whose dataflow is known: FLOW[name] = the (producer, consumer) pairs, by the last part of operation names.

Each program takes one float32 array of shape (16, 16); pairs that start at that array are not listed.
"""

import asyncio
import functools
import threading
from collections import deque, namedtuple
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import cv2
import numpy as np
import torch

FLOW = {}


def flows(*pairs):
    def keep(function):
        FLOW[function.__name__] = {tuple(pair.split(">")) for pair in pairs}
        return function

    return keep


@flows("sqrt>sin", "sin>cos")
def straight(a):
    b = np.sqrt(a)
    c = np.sin(b)
    return np.cos(c)


@flows("sqrt>sin", "sin>cos")
def nested(a):
    return np.cos(np.sin(np.sqrt(a)))


@flows("sqrt>mul", "mul>add", "add>exp")
def operators(a):
    b = np.sqrt(a) * 2.0
    b = b + 1
    return np.exp(b)


@flows("sqrt>neg", "neg>absolute")
def unary(a):
    return np.absolute(-np.sqrt(a))


@flows("sqrt>sin", "sqrt>cos", "sin>add", "cos>add")
def diamond(a):
    b = np.sqrt(a)
    return np.sin(b) + np.cos(b)


@flows("sqrt>sin", "sqrt>cos")
def dead_branch(a):
    b = np.sqrt(a)
    np.sin(b)
    return np.cos(b)


@flows("sqrt>getitem", "getitem>exp")
def view(a):
    b = np.sqrt(a)
    return np.exp(b[2:8, ::2])


@flows("sqrt>getitem", "getitem>setitem", "setitem>exp")
def write_through_view(a):
    b = np.sqrt(a)
    v = b[2:8]
    v[:] = 0
    return np.exp(b)


@flows("sqrt>setitem", "setitem>exp")
def item_set(a):
    b = np.sqrt(a)
    b[0] = 5.0
    return np.exp(b)


@flows("sqrt>iadd", "iadd>exp")
def in_place(a):
    b = np.sqrt(a)
    b += 1
    return np.exp(b)


@flows("sqrt>imul", "imul>exp")
def in_place_on_alias(a):
    b = np.sqrt(a)
    c = b
    c *= 2
    return np.exp(b)


@flows("sin>imul", "imul>exp")
def in_place_on_attribute(a):
    box = type("Box", (), {})()
    box.value = np.sin(a)
    box.value *= 2
    return np.exp(box.value)


@flows("empty_like>sqrt", "sqrt>exp")
def out_keyword(a):
    buffer = np.empty_like(a)
    np.sqrt(a, out=buffer)
    return np.exp(buffer)


@flows("zeros>resize", "resize>exp")
def cv2_dst(a):
    target = np.zeros((8, 8), np.float32)
    cv2.resize(a, (8, 8), dst=target)
    return np.exp(target)


@flows("sqrt>rectangle", "rectangle>exp")
def cv2_draws_in_place(a):
    b = np.sqrt(a)
    cv2.rectangle(b, (1, 1), (5, 5), 1.0, -1)
    return np.exp(b)


@flows("sqrt>sort", "sort>exp")
def method_in_place(a):
    b = np.sqrt(a)
    b.sort(axis=0)
    return np.exp(b)


@flows("sqrt>fill", "fill>exp")
def fill(a):
    b = np.sqrt(a)
    b.fill(2.0)
    return np.exp(b)


@flows("sqrt>stack", "sin>stack", "stack>mean")
def through_list(a):
    parts = []
    parts.append(np.sqrt(a))
    parts.append(np.sin(a))
    return np.stack(parts).mean()


@flows("sqrt>exp", "exp>tanh")
def through_dict(a):
    d = {"x": np.sqrt(a)}
    d["y"] = np.exp(d["x"])
    return np.tanh(d["y"])


@flows("sqrt>exp", "sin>cos")
def through_tuple(a):
    pair = np.sqrt(a), np.sin(a)
    x, y = pair
    return np.exp(x), np.cos(y)


@flows("sqrt>exp")
def through_deque(a):
    waiting = deque()
    waiting.append(np.sqrt(a))
    return np.exp(waiting.popleft())


class Holder:
    def __init__(self, value):
        self.value = value

    def go(self):
        return np.exp(self.value)

    @property
    def doubled(self):
        return self.value * 2

    def __call__(self, x):
        return np.cos(x)


@flows("sqrt>exp", "exp>tanh")
def through_attribute(a):
    return np.tanh(Holder(np.sqrt(a)).go())


@flows("sqrt>mul", "mul>exp")
def through_property(a):
    return np.exp(Holder(np.sqrt(a)).doubled)


@flows("sqrt>cos")
def callable_object(a):
    return Holder(None)(np.sqrt(a))


@dataclass
class Sample:
    image: object
    label: int = 0


@flows("sqrt>exp")
def through_dataclass(a):
    sample = Sample(np.sqrt(a), label=3)
    return np.exp(sample.image)


Pair = namedtuple("Pair", "left right")


@flows("sqrt>add", "sin>add")
def through_namedtuple(a):
    pair = Pair(np.sqrt(a), right=np.sin(a))
    return pair.left + pair.right


@flows("sqrt>exp")
def through_closure(a):
    b = np.sqrt(a)

    def inner():
        return np.exp(b)

    return inner()


def helper(x, *, scale=1.0):
    return np.sin(x) * scale


@flows("sqrt>sin", "sin>mul", "mul>exp")
def through_function(a):
    return np.exp(helper(np.sqrt(a), scale=2.0))


@flows("sqrt>sin", "sin>mul", "mul>exp")
def through_partial(a):
    scaled = functools.partial(helper, scale=3.0)
    return np.exp(scaled(np.sqrt(a)))


def wrapped(function):
    @functools.wraps(function)
    def inner(*args, **keywords):
        return function(*args, **keywords)

    return inner


@wrapped
def half(x):
    return np.sqrt(x)


@flows("sqrt>exp")
def through_decorator(a):
    return np.exp(half(a))


def produce(a):
    for _ in range(3):
        yield np.sqrt(a)


@flows("sqrt>exp", "exp>stack")
def through_generator(a):
    return np.stack([np.exp(x) for x in produce(a)])


@flows("sqrt>exp", "exp>stack")
def through_comprehension(a):
    parts = [np.sqrt(a) for _ in range(3)]
    return np.stack([np.exp(p) for p in parts])


@flows("sqrt>exp", "exp>add", "add>add")
def reduction_loop(a):
    total = 0.0
    for _ in range(4):
        total = np.exp(np.sqrt(a)) + total
    return total


@flows("sin>exp")
def reused_ids(a):
    last = None
    for _ in range(20):
        b = np.sqrt(a)
        del b
        c = np.sin(a)
        last = np.exp(c)
        del c
    return last


@flows("sqrt>sin", "sin>exp", "zeros>inv")
def after_exception(a):
    b = np.sqrt(a)
    try:
        c = np.linalg.inv(np.zeros((3, 3)))
    except np.linalg.LinAlgError:
        c = np.sin(b)
    return np.exp(c)


@flows("sqrt>exp", "exp>stack")
def through_threads(a):
    results = {}

    def work(key):
        results[key] = np.exp(np.sqrt(a))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return np.stack([results[0], results[1]])


def root(a):
    return np.sqrt(a)


@flows("sqrt>exp")
def through_executor(a):
    with ThreadPoolExecutor(1) as pool:
        return np.exp(pool.submit(root, a).result())


@flows("sqrt>stack")
def through_map(a):
    return np.stack(list(map(root, [a, a])))


async def later(a):
    await asyncio.sleep(0)
    return np.sqrt(a)


@flows("sqrt>maximum", "maximum>exp")
def through_async(a):
    async def main():
        x, y = await asyncio.gather(later(a), later(a))
        return np.maximum(x, y)

    return np.exp(asyncio.run(main()))


@flows("sqrt>from_numpy", "from_numpy>mul_", "mul_>exp")
def torch_shares_memory(a):
    b = np.sqrt(a)
    t = torch.from_numpy(b)
    t.mul_(2)
    return np.exp(b)


@flows("from_numpy>relu", "relu>numpy", "numpy>exp")
def torch_to_numpy(a):
    t = torch.relu(torch.from_numpy(a))
    return np.exp(t.numpy())


@flows("from_numpy>relu", "relu>reshape", "reshape>add_", "add_>exp")
def torch_view_written(a):
    u = torch.relu(torch.from_numpy(a))
    v = u.reshape(-1)
    v.add_(1)
    return torch.exp(u)


@flows("from_numpy>permute", "permute>float", "float>truediv", "truediv>sub")
def torch_chain(a):
    t = torch.from_numpy(a).permute(1, 0).float() / 255.0
    return t - 0.5


@flows("mean>sub", "sub>truediv", "std>truediv", "truediv>exp")
def scalars_carry(a):
    m = a.mean()
    s = a.std()
    return np.exp((a - m) / s)


@flows("mean>float", "float>sub", "sub>exp")
def python_float_carries(a):
    m = float(a.mean())
    return np.exp(a - m)


@flows("svd>exp")
def many_results(a):
    _, s, _ = np.linalg.svd(a)
    return np.exp(s)


@flows("sqrt>gt", "gt>getitem", "sqrt>getitem", "getitem>exp")
def mask(a):
    b = np.sqrt(a)
    return np.exp(b[b > 0.5])


@flows("sqrt>exp")
def attribute_transpose(a):
    return np.exp(np.sqrt(a).T)


@flows("zeros>exp")
def only_the_shape(a):
    b = np.sqrt(a)
    return np.exp(np.zeros(b.shape))


@flows("sqrt>where", "gt>where", "sqrt>gt", "where>exp")
def where(a):
    b = np.sqrt(a)
    return np.exp(np.where(b > 0.5, b, 0))


@flows("sqrt>concatenate", "sin>concatenate", "concatenate>exp")
def concatenate_keyword_axis(a):
    return np.exp(np.concatenate((np.sqrt(a), np.sin(a)), axis=1))


@flows("sqrt>cos", "sin>cos")
def either_branch(a):
    out = []
    for i in range(4):
        b = np.sqrt(a) if i % 2 else np.sin(a)
        out.append(np.cos(b))
    return out


@flows("astype>GaussianBlur", "GaussianBlur>cvtColor", "cvtColor>resize", "resize>sqrt")
def cv2_chain(a):
    b = cv2.GaussianBlur((a * 255).astype(np.uint8), (3, 3), 0)
    c = cv2.cvtColor(b, cv2.COLOR_GRAY2BGR)
    return np.sqrt(cv2.resize(c, (8, 8)))


@flows("sqrt>copy", "copy>iadd", "sqrt>exp")
def copy_is_not_shared(a):
    b = np.sqrt(a)
    c = b.copy()
    c += 1
    return np.exp(b)


@flows("sqrt>split", "split>exp", "split>sin")
def split(a):
    left, right = np.split(np.sqrt(a), 2)
    return np.exp(left), np.sin(right)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 4)

    def forward(self, x):
        return torch.relu(self.layer(x))


@flows("from_numpy>__call__", "__call__>relu", "relu>mean")
def module(a):
    return Net()(torch.from_numpy(a)).mean()


class Items(torch.utils.data.Dataset):
    def __init__(self, a):
        self.a = a

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.from_numpy(np.sqrt(self.a + index)), index


@flows("add>sqrt", "sqrt>from_numpy", "from_numpy>__next__", "__next__>mean")
def loader(a):
    return [images.mean() for images, _ in torch.utils.data.DataLoader(Items(a), batch_size=2)]
