"""Random programs that move data in every way the recorder has a rule for; statements may raise."""

from __future__ import annotations

import random

HEAD = """
import functools
import random
import threading
from dataclasses import dataclass
import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from PIL import Image, ImageEnhance

class Holder:
    def __init__(self, value):
        self.value = value
    def twice(self):
        return self.value * 2

class Slotted:
    __slots__ = ("value",)

@dataclass
class Sample:
    left: object
    right: object = None

class List(list):
    pass

def half(x):
    return x / 2

def deeper(x, depth):
    return x + 1 if depth == 0 else deeper(x, depth - 1)

def produce(x, n):
    for i in range(n):
        yield x + i

def echo(x):
    def answers():
        y = yield
        yield y * 2
    generator = answers()
    next(generator)
    return generator.send(x)

def in_thread(function, *args):
    box = []
    def work():
        try:
            box.append(function(*args))
        except Exception:
            pass
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return box[0] if box else None
"""

#: {a} and {b} are variables that exist, {new} is one that may, {n} a small number, {d} an element type.
STATEMENTS = """
{new} = np.ones((4, 6), {d!r})
{new} = np.arange(24.0).reshape(4, 6)
{new} = np.zeros({n} + 1, {d!r})
{new} = np.ones(({n}, {n}))
{new} = np.array(2.5)
{new} = np.array([(1, 2.0), (3, 4.0)], "i4,f8")
{new} = np.array(["a", "bc"])
{new} = np.array([{a}, {b}], object)
{new} = np.sqrt({a})
{new} = {a} + {b}
{new} = {a} * 2
{new} = -{a}
{new} = {a} > {b}
{new} = {a} @ {b}
{new} = {a}[1:]
{new} = {a}[::2]
{new} = {a}[0]
{new} = {a}[0, 0]
{new} = {a}["f1"]
{new} = {a}[{a} > 0]
{new} = {a}.T
{new} = {a}.reshape(-1)
{new} = {a}.astype({d!r})
{new} = {a}.copy()
{new} = as_strided({a}, {a}.shape, {a}.strides)
{new} = sliding_window_view({a}, 2, 0)
{new} = np.broadcast_to({a}, (3, 4, 6))
{new} = np.frombuffer(bytearray(64), np.uint8)
{new} = np.asarray(memoryview({a}))
{new} = np.ma.masked_greater({a}, 0.5)
{new} = np.asmatrix({a})
{new} = {a}.view(np.matrix)
{new} = np.stack([{a}, {b}])
{new} = np.concatenate(({a}, {b}), axis=0)
{new}, _ = np.split({a}, 2)
{new} = np.where({a} > 0, {a}, {b})
np.add({a}, {b}, out={a})
np.multiply({a}, 2, {b})
np.copyto({a}, {b})
{a} += 1
{a} *= {b}
{a}[1:] = {b}[1:]
{a}[:] = 0
{a}[0] += 2
{a}.sort()
{a}.fill(1)
{new} = {a}.mean()
{new} = float({a}.sum())
{new} = {a}.max() - {b}.min()
{new} = np.float32(3) * {a}.std()
{new} = float({a}) + float({b})
{new} = [{a}, {b}]
{new} = ({a}, [{b}])
{new} = {{"x": {a}, "y": {{"z": {b}}}}}
{new} = List([{a}])
{new} = Holder({a})
{new} = Sample({a}, right={b})
{new} = Slotted(); {new}.value = {a}
{new} = {a}.value
{new} = {a}.twice()
{new} = {a}.left
{new} = np.sum({a})
{new} = np.stack({a}[:2])
{a}.append({b})
{a}["k"] = {b}
{new} = {a}["x"]
{new} = half({a})
{new} = deeper({a}, 70)
{new} = [x for x in produce({a}, 3)]
{new} = list(map(half, [{a}, {b}]))
{new} = sorted([3, 1, 2], key=lambda i: float(np.sum({a})) * i)
{new} = in_thread(half, {a})
{new} = in_thread(np.exp, {a})
{new} = torch.from_numpy({a})
{new} = torch.ones(4, 6)
{new} = torch.relu({a})
{new} = {a}.numpy()
{new} = {a}.view(-1)
{new} = {a}.permute(1, 0)
{new} = {a}.clone()
{new} = {a}.to(torch.float16)
{a}.add_(1)
{a}.unsqueeze_(0)
{a}.t_()
{a}.data = {b}
{a}.zero_()
torch.add({a}, 1, out={a})
{new} = torch.stack([{a}, {a}])
{new} = {a}.to_sparse()
{new} = torch.ones(3, device="meta")
{new} = {a}[0:0]
{new} = torch.ones(3, requires_grad=True)
{new} = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
{new} = Image.fromarray(np.ones((4, 6), np.uint8))
{new} = {a}.resize((3, 2))
{new} = np.asarray({a})
{new} = np.linalg.inv({a})
{new} = {a}.missing
del {a}
{new} = {a}
{new} = {a}.tolist()
{new} = np.ones({n} * 3)[{n}:]
{new} = [np.ones(i + 1) * {n} for i in range(7)]
{new} = [np.sum(np.ones((i, i))) for i in range(1, 9)]
np.testing.assert_equal({a}, {a})
{a}.setflags(write=True)
np.put({a}, [0], 3)
np.fill_diagonal({a}, 1)
random.Random(1).shuffle({a})
{new} = functools.partial(np.add, {a})({b})
{new} = functools.partial(half, {a})()
{new} = list(map(np.sqrt, [{a}, {b}]))
{new} = sum(map(np.sqrt, [{a}, {b}]))
{new} = next(map(np.sqrt, [{a}]))
{new} = functools.reduce(lambda x, y: x + y, [{a}, {b}])
{new} = echo({a})
{new} = [row for row in {a}]
{new} = len({a})
{new} = [{a}][0]; [{a}].pop()
{new} = {{"x": {a}}}.get("x")
{new} = bytearray(64)
{new} = np.frombuffer({a}, np.uint8)
{new} = np.frombuffer(memoryview({a}), np.uint8)
{new} = [0.5] * 40 + [{a}]
{new} = [{a}] + [0] * 40
{new} = {{i: {a} for i in range(40)}}
{a}.paste({b})
{new} = ImageEnhance.Brightness({a}); {new} = {new}.enhance(1.5)
{new} = torch.ones(3, requires_grad=True); ({new} * 2).sum().backward()
{new} = torch.relu({a}).view(-1); torch.ones(4)
""".strip().splitlines()
TYPES = ["f8", "f4", "u1", "i8", "?", "c16", ">f4", "f2", "M8[s]", "S3", "O"]
NAMES = ["a", "b", "c", "d", "e", "f"]


def program(seed: int, statements: int = 60) -> str:
    """A module with one function `run`, in which every name begins as an array."""
    chosen = random.Random(seed)
    lines = [HEAD, "def run():", *(f"    {name} = np.full((4, 6), {i}.5)" for i, name in enumerate(NAMES))]
    indent = "    "
    for number in range(statements):
        if chosen.random() < 0.08:  # a loop over the next statements
            lines.append(f"    for i{number} in range({chosen.randint(2, 9)}):")
            for _ in range(chosen.randint(1, 4)):
                lines += _guarded(chosen, indent * 2)
        else:
            lines += _guarded(chosen, indent)
    return "\n".join([*lines, ""])


def _guarded(chosen: random.Random, indent: str) -> list[str]:
    a, b, new = (chosen.choice(NAMES) for _ in range(3))
    statement = chosen.choice(STATEMENTS).format(a=a, b=b, new=new, n=chosen.randint(0, 6), d=chosen.choice(TYPES))
    return [f"{indent}try:", f"{indent}    {statement}", f"{indent}except Exception:", f"{indent}    pass"]
