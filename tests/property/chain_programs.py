"""Random programs: functions with chains of element-wise operations, as source code, and calls to make of them."""

# ruff: noqa: E501 - lists of snippets, which are read as lists
from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

DTYPES = ["np.float32", "np.float64", "np.float16", "np.uint8", "np.int16", "np.int32", "np.int64", "bool", "float", "int",
          "'float32'", "'f4'", "'>f4'", "np.dtype('float32')", "np.uint16", "np.int8"]  # fmt: skip
COMMON = ["np.float32"] * 6 + ["np.float64"] * 2
NUMBERS = ["2", "0.5", "255", "255.0", "1.0", "-1", "0", "0.0", "-0.0", "3", "300", "-3", "1e-3", "127.5", "np.float32(0.3)",
           "np.float64(1.7)", "np.int64(3)", "np.uint8(7)", "np.float16(0.5)", "True", "1/3", "1e38", "1e-45", "float('nan')",
           "float('inf')", "np.array(0.25)", "np.array(3, np.int32)", "np.bool_(True)"]  # fmt: skip
MILD = [
    "2",
    "0.5",
    "255.0",
    "1.7",
    "3",
    "np.float32(0.3)",
    "np.float64(1.7)",
    "127.5",
    "a",
    "b",
    "self.scale",
    "params[1]",
]
LEAVES = ["random.uniform(0.5, 1.5)", "np.random.rand()", "random.randint(1, 5)", "self.scale", "params[0]", "user(a)",
          "float(b)", "rng.uniform(0.1, 1)", "max(a, 1)", "table['k']", "np.float32(a)", "log('leaf', 2.0)",
          "evil(img)", "boom(a)", "self.jitter()", "abs(b)"]  # fmt: skip
CHANNEL = ["mean", "std", "mean3", "lut[0]"]
BOUNDS = [
    "0, 255",
    "0, 1",
    "0.0, 1.0",
    "None, 200",
    "5, None",
    "None, None",
    "-1, 1",
    "-0.0, 9",
    "lo, hi",
    "10, 300",
    "1.5, 2.5",
]

HEAD = """
import random
import numpy as np
import torch

rng = np.random.default_rng(5)
seen = []
params = [1.25, 0.75]
table = {'k': 2.5}
lut = [np.array([3.0, 2.0, 1.0], np.float32)]
lo, hi = np.array([1.0, 2.0, 3.0], np.float32), np.array([90.0, 80.0, 200.0], np.float32)

def user(value):
    return value * 2 + 1

def log(word, value):
    seen.append(word)
    return value

def evil(img):
    seen.append('evil')
    if isinstance(img, np.ndarray) and img.flags.writeable and img.size:
        img.reshape(-1)[:1] += 1 if img.dtype != bool else 0
    return 1.5

def boom(value):
    seen.append('boom')
    if len(seen) % 3 == 0:
        raise KeyError('boom')
    return value

class Thing:
    scale = 1.5
    def jitter(self):
        seen.append('jitter')
        return random.gauss(1, 0.1)

"""


@dataclass
class Writer:
    """Writes one function; knows of the value only whether it is an array or a tensor and how its axes stand."""

    rng: random.Random
    wild: float  # how often something unusual is written
    tensor: bool = False
    lines: list[str] = field(default_factory=list)
    chw: bool = False

    def pick(self, common: list[str], rare: list[str]) -> str:
        return self.rng.choice(rare if self.rng.random() < self.wild else common)

    def number(self) -> str:
        if self.rng.random() < 0.15:
            return self.pick(["random.uniform(0.5, 1.5)", "np.random.rand()", "self.scale", "user(a)"], LEAVES)
        return self.pick(MILD, NUMBERS)

    def parameter(self) -> str:
        if self.rng.random() < 0.25:
            base = self.rng.choice(CHANNEL)
            if self.tensor:
                base = f"torch.tensor({self.rng.choice(['[.1, .2, .3]', '[1, 2, 3]'])})"
                return f"{base}[:, None, None]" if self.chw else base
            return f"{base}[:, None, None]" if self.chw or self.rng.random() < self.wild / 4 else base
        if self.tensor and self.rng.random() < 0.1:
            return self.rng.choice(["torch.tensor(0.5)", "torch.tensor(2)", "torch.ones(1)"])
        return self.number()

    def step(self, x: str) -> str:
        return self.tensor_step(x) if self.tensor else self.array_step(x)

    def array_step(self, x: str) -> str:
        r, p = self.rng, self.parameter
        kind = r.choices(["op", "rop", "ufunc", "clip", "cast", "view", "slice", "pack", "tensor", "compare", "unary"],
                         [30, 8, 10, 12, 14, 10, 5, 8, 9, 2, 4])[0]  # fmt: skip
        if kind == "op":
            return f"({x} {r.choice('+-*/')} {p()})"
        if kind == "rop":
            return f"({p()} {r.choice('+-*/')} {x})"
        if kind == "ufunc":
            name = r.choice(["add", "subtract", "multiply", "divide", "true_divide", "minimum", "maximum"])
            swapped = r.random() < 0.2
            return f"np.{name}({p()}, {x})" if swapped else f"np.{name}({x}, {p()})"
        if kind == "clip":
            bounds = self.pick(["0, 255", "0, 1"], BOUNDS)
            if r.random() < 0.15 and "lo" not in bounds:
                low, high = bounds.split(", ")
                names = r.choice([("a_min", "a_max"), ("min", "max")])
                bounds = f"{names[0]}={low}, {names[1]}={high}"
            return f"np.clip({x}, {bounds})" if r.random() < 0.6 else f"{x}.clip({bounds})"
        if kind == "cast":
            dtype = self.pick(COMMON, DTYPES)
            extra = self.pick([""], [", copy=False", ", copy=True", ", order='F'", ", casting='safe'", ", 'C'"])
            return r.choice([f"{x}.astype({dtype}{extra})"] * 4 + [f"np.{r.choice(['float32', 'float64', 'uint8', 'int16', 'int32'])}({x})",
                            f"{x}.astype(dtype={dtype})"])  # fmt: skip
        if kind == "view":
            self.chw = not self.chw
            there = self.chw
            return r.choice([
                f"{x}.transpose({'2, 0, 1' if there else '1, 2, 0'})", f"np.moveaxis({x}, {'-1, 0' if there else '0, -1'})",
                f"np.transpose({x}, {'(2, 0, 1)' if there else '[1, 2, 0]'})", f"{x}.swapaxes(0, 2)", f"np.swapaxes({x}, 0, 1)",
                f"{x}.transpose()", f"np.rollaxis({x}, 2)"])  # fmt: skip
        if kind == "slice":
            return x + r.choice(["[:, ::-1]", "[..., ::-1]", "[::-1]", "[2:40, 3:60]", "[:]", "[::2, ::3]", "[..., :2]", "[:, :, ::-1]", "[0]", "[None]",
                                 "[..., 0:1]", "[np.int64(1):]", "[:, :, :]"])  # fmt: skip
        if kind == "pack":
            return r.choice([f"np.ascontiguousarray({x})", f"{x}.copy()", f"np.array({x})", f"np.asarray({x})",
                             f"np.array({x}, dtype=np.float32)", f"np.asarray({x}, np.float64)",
                             f"np.ascontiguousarray({x}, dtype=np.float32)"])  # fmt: skip
        if kind == "tensor":
            self.tensor = True
            return r.choice([f"torch.from_numpy({x})", f"torch.as_tensor({x})", f"torch.tensor({x})", f"torch.from_numpy(np.ascontiguousarray({x}))",
                             f"torch.as_tensor({x}, dtype=torch.float32)", f"torch.tensor({x}, dtype=torch.float64)"])  # fmt: skip
        if kind == "compare":
            return f"({x} {r.choice(['<', '<=', '>', '>=', '==', '!='])} {self.number()})"
        return r.choice([f"(-{x})", f"(+{x})", f"np.sqrt({x})", f"np.square({x})", f"np.abs({x})", f"np.negative({x})"])

    def tensor_step(self, x: str) -> str:
        r, p = self.rng, self.parameter
        kind = r.choices(["op", "rop", "method", "inplace", "clamp", "cast", "view", "pack", "unary", "compare"],
                         [20, 6, 12, 12, 8, 12, 8, 8, 3, 2])[0]  # fmt: skip
        if kind == "op":
            return f"({x} {r.choice('+-*/')} {p()})"
        if kind == "rop":
            return f"({p()} {r.choice('+-*/')} {x})"
        if kind == "method":
            name = r.choice(["add", "sub", "mul", "div", "true_divide"])
            extra = (
                self.pick([""], [", rounding_mode='floor'"])
                if name == "div"
                else self.pick([""], [", alpha=2"])
                if name in ("add", "sub")
                else ""
            )
            return f"torch.{name}({x}, {p()}{extra})" if r.random() < 0.3 else f"{x}.{name}({p()}{extra})"
        if kind == "inplace":
            return f"{x}.{r.choice(['add_', 'sub_', 'mul_', 'div_'])}({p()})"
        if kind == "clamp":
            bounds = self.pick(
                ["0, 1", "0, 255", "min=0", "max=200.5"],
                ["-1, 1", "min=0.5, max=2", "0", "None, 3", "-0.0, 0.5", "torch.tensor(0.), torch.tensor(1.)"],
            )
            name = r.choice(["clamp", "clip", "clamp_", "clip_"])
            return f"{x}.{name}({bounds})"
        if kind == "cast":
            return x + self.pick([".float()", ".to(torch.float32)"], [".double()", ".int()", ".long()", ".short()", ".half()", ".to(torch.uint8)", ".type(torch.float32)",
                                 ".type('torch.FloatTensor')", ".to('cpu')", ".to(dtype=torch.float64)", ".to(torch.float16)", ".to(torch.bfloat16)", ".type()",
                                 ".to(torch.device('cpu'))", ".to('cpu', torch.float32)", ".to(torch.ones(2, dtype=torch.float64))", ".to(torch.bool)"])  # fmt: skip
        if kind == "view":
            self.chw = not self.chw
            return x + r.choice(
                [
                    ".permute(2, 0, 1)" if self.chw else ".permute(1, 2, 0)",
                    ".permute((2, 0, 1))",
                    ".transpose(0, 2)",
                    ".transpose(-1, 0)",
                ]
            )
        if kind == "pack":
            return r.choice(
                [
                    f"{x}.contiguous()",
                    f"{x}.clone()",
                    f"torch.as_tensor({x})",
                    f"{x}.contiguous(memory_format=torch.contiguous_format)",
                ]
            )
        if kind == "unary":
            return r.choice([f"(-{x})", f"(+{x})", f"{x}.abs()", f"{x}.neg()", f"{x}.abs_()", f"torch.neg({x})"])
        return f"({x} {r.choice(['<', '>=', '=='])} {self.number()})"

    def augmented(self, x: str) -> str:
        return f"{x} {self.rng.choice(['+=', '-=', '*=', '/='])} {self.parameter()}"

    def body(self) -> list[str]:
        r = self.rng
        x, lines = "img", []
        if self.tensor:
            expression = self.pick(
                ["img.float()", "img.to(torch.float32)", "(img * 0.5)", "img.double()"],
                ["(img + 1)", "img.div(255)", "img.mul(2)", "(img > 3)"],
            )
        else:
            expression = self.pick(["img.astype(np.float32)"] * 4 + ["(img / 255.0)", "(img * a)", "np.float32(img)", "(img - mean)"],
                                   ["(img + 1)", "(img + 300)", "(-img)", "np.sqrt(img)", "(img > 9)", "np.clip(img, 5, 99)", "img.astype(np.uint8, copy=False)",
                                    "np.uint8(img)", "img.clip(3, 90)", "np.minimum(img, 40)", "(2 * img)", "(lut[0] * img)"])  # fmt: skip
        for _ in range(r.randint(1, 9)):
            where = r.random()
            if where < 0.45:
                expression = self.step(expression)
            elif where < 0.85:
                x = r.choice(["x", "x", "y", "z"])
                lines.append(f"{x} = {expression}")
                if r.random() < 0.12:
                    lines.append(self.pick(["print(a)", "c = random.random()", "c = a * 2"], ["c = log('between', a)", "img[0] = 7", "mean[0] += 1", "c = img.mean()", "np.add(a, 1)",
                                 "c = np.zeros(3)", "c = evil(img)", "c = boom(1)", f"c = {x}.dtype", "np.clip(mean, 0, 1, out=mean)", "c = [v for v in params]"]))  # fmt: skip
                if r.random() < 0.25:
                    lines.append(self.augmented(x))
                expression = self.step(x)
            else:
                expression = self.step(expression)
        return [*lines, f"return {expression}"]


def program(seed: int, tensor: bool = False) -> str:
    """The source of one function `Net.f(self, img, a, b, mean, std, mean3)`, from a seed."""
    rng = random.Random(seed)
    writer = Writer(rng, rng.choice([0.0, 0.1, 0.3, 0.6]), tensor)
    body = "\n        ".join(writer.body())
    return f"{HEAD}class Net(Thing):\n    def f(self, img, a, b, mean, std, mean3):\n        {body}\n"


def images(rng: np.random.Generator, tensor: bool) -> list[Any]:
    """Inputs, ordinary ones first: layouts, then what a chain must decline."""
    import torch

    def picture(*shape: int) -> Any:
        values = rng.integers(0, 256, shape, np.uint8)
        values.reshape(-1)[: min(256, values.size)] = np.arange(256, dtype=np.uint8)[: min(256, values.size)]
        return values

    hwc = picture(48, 64, 3)
    read_only = picture(48, 64, 3)
    read_only.flags.writeable = False
    plain = [picture(48, 64, 3), picture(50, 70, 3), hwc[:, ::-1], picture(60, 90, 3)[5:53, 7:71], np.asfortranarray(picture(40, 60, 3)),
             picture(3, 48, 64).transpose(1, 2, 0), read_only, picture(48, 64, 3)[..., ::-1], picture(100, 128, 3)[::2, ::2]]  # fmt: skip
    odd = [picture(72, 64), picture(2, 48, 64, 3), picture(3, 48, 64), picture(1, 4800, 3), picture(4800, 1, 3), picture(48, 64, 1), picture(8, 8, 3),
           picture(0, 8, 3), picture(9000), np.broadcast_to(picture(48, 64, 1), (48, 64, 3)), picture(64, 64), picture(20, 17, 16),
           np.lib.stride_tricks.sliding_window_view(picture(90, 70), (3, 3))[..., 0]]  # fmt: skip
    if tensor:
        as_tensors = [torch.from_numpy(np.ascontiguousarray(p)) for p in [*plain, *odd] if p.flags.writeable]
        views = [torch.from_numpy(picture(3, 48, 64)).permute(1, 2, 0), torch.from_numpy(picture(96, 128, 3))[::2, ::2], torch.from_numpy(picture(60, 90, 3))[4:52, 3:67],
                 torch.from_numpy(picture(48, 64, 1)).expand(48, 64, 3)]  # fmt: skip
        return [
            *as_tensors[:2],
            *views,
            *as_tensors[2:],
            picture(48, 64, 3),
            torch.ones(48, 64, 3),
            torch.ones(48, 64, 3, requires_grad=True),
            None,
        ]
    wrong = [picture(48, 64, 3).astype(np.float32), picture(48, 64, 3).astype(">i2"), picture(48, 64, 3).tolist()[:2], None, 3.5, picture(48, 64, 3).astype(bool),
             np.ma.masked_array(picture(48, 64, 3), mask=False), picture(48, 64).view(np.matrix), torch.from_numpy(picture(48, 64, 3)), picture(48, 64, 3).astype(np.int16),
             picture(48, 64, 3).view(np.int8)]  # fmt: skip
    return [*plain, *odd, *wrong]
