"""Datasets whose items could be kept, or must not be: each is the source of a class `Data` and of what happens between
two passes.  `between(data, number)` runs after each pass; what items hold must not depend on whether they are kept.
"""

from __future__ import annotations

HEAD = """
import functools, os, random, sys, threading, time, warnings
import numpy as np
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

def between(data, number):
    pass

def made(folder):
    return Data(folder)

class Base(Dataset):
    def __init__(self, folder):
        rng = np.random.default_rng(1)
        self.table = rng.normal(size=(12, 5)).astype(np.float32)
        self.tensor = torch.from_numpy(rng.integers(0, 255, (12, 4, 4), dtype=np.uint8))
        self.labels = list(range(12))
        self.paths = [os.path.join(folder, f"{i}.npy") for i in range(12)]
        self.scale, self.steps, self.names = 2.0, [halve, shift], {i: f"item {i}" for i in range(12)}
        for path, row in zip(self.paths, self.table):
            if not os.path.exists(path):
                np.save(path, row)
            os.utime(path, (1e9, 1e9))
    def __len__(self):
        return 12

def halve(x):
    return x / 2

def shift(x):
    return x + OFFSET

OFFSET = 1.5
"""

#: Items that are kept from the second pass on.
KEPT = {
    "a row of a table": """
class Data(Base):
    def __getitem__(self, i):
        return torch.from_numpy(self.table[i] * self.scale), self.labels[i]
""",
    "a file": """
class Data(Base):
    def __getitem__(self, i):
        return np.load(self.paths[i]) * self.scale
""",
    "a path of its own": """
import pathlib
class Data(Base):
    def __init__(self, folder):
        super().__init__(folder)
        self.paths = [pathlib.Path(path) for path in self.paths]
    def __getitem__(self, i):
        return self.paths[i].read_bytes(), self.paths[i].exists()
""",
    "a dictionary of parts": """
class Data(Base):
    def __getitem__(self, i):
        image = self.tensor[i].float().div(255)
        return {"image": image, "label": self.labels[i], "name": self.names[i], "sizes": [1, 2, i]}
""",
    "a loop over transforms": """
class Data(Base):
    def __getitem__(self, i):
        x = self.tensor[i].float()
        for step in self.steps:
            x = step(x)
        return x
""",
    "methods, properties and defaults": """
class Data(Base):
    @property
    def factor(self):
        return self.scale * 3
    @staticmethod
    def clipped(x, low=-1.0, high=1.0):
        return np.clip(x, low, high)
    @classmethod
    def named(cls, i):
        return cls.__name__ + str(i)
    def __getitem__(self, i):
        return self.clipped(self.table[i] * self.factor, high=2.0), self.named(i)
""",
    "an attribute of a function": """
def scaled(x):
    return x * scaled.by
scaled.by = 2
class Data(Base):
    def __getitem__(self, i):
        return scaled(self.table[i])
""",
    "the data of a tensor": """
class Data(Base):
    def __getitem__(self, i):
        return self.tensor.data[i] * 2
""",
    "a mean of all": """
MEAN = np.zeros(5, np.float32)
class Data(Base):
    def __getitem__(self, i):
        return (self.table[i] - MEAN) / 2
""",
    "numbered and paired loops, shapes": """
class Data(Base):
    def __getitem__(self, i):
        x = self.tensor[i].float()
        height, width = x.shape
        for number, step in enumerate(self.steps):
            x = step(x) + number
        for label, path in zip(self.labels, self.paths):
            x = x + label
        return x.reshape(width, height) / x.shape[0], self.tensor.shape[0]
""",
    "the items of its parent": """
class Low(Base):
    @property
    def factor(self):
        return self.scale
    def __getitem__(self, i):
        return self.table[i] * self.factor, self.labels[i]
class Middle(Low):
    @property
    def factor(self):
        return super().factor + 1
class Data(Middle):
    def __getitem__(self, i):
        x, label = super().__getitem__(i)
        return x + 1, label, i
class Other(Middle):
    def __getitem__(self, i):
        return self.table[i] - 1, i
""",
    "private names": """
class Data(Base):
    __names = ("a", "b")
    def __init__(self, folder):
        super().__init__(folder)
        self.__scale = 3
    def __scaled(self, x):
        return x * self.__scale
    def __getitem__(self, i):
        return self.__scaled(self.table[i]), self.__names[i % 2]
""",
    "a part of a dataset": """
class Data(Base):
    def __getitem__(self, i):
        return self.tensor[i].float() + 1, i
def made(folder):
    return Subset(Data(folder), list(range(12))[::-1])
""",
    "two datasets in one": """
class Data(Base):
    def __len__(self):
        return 6
    def __getitem__(self, i):
        return self.tensor[i].float() + 1, i
def made(folder):
    return ConcatDataset([Data(folder), Data(folder)])
""",
    "a module that normalises": """
class Normalise(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.std = [0.5], [0.25]
    def forward(self, x):
        mean, std = torch.as_tensor(self.mean), torch.as_tensor(self.std)
        return x.clone().sub_(mean).div_(std)
class Data(Base):
    def __init__(self, folder):
        super().__init__(folder)
        self.transform = Normalise()
    def __getitem__(self, i):
        return self.transform(self.tensor[i].float())
""",
    "a partial, a closure and a callable object": """
def scaled(by):
    def apply(x):
        return x * by
    return apply
class Add:
    def __init__(self, value):
        self.value = value
    def __call__(self, x):
        return x + self.value
class Data(Base):
    def __init__(self, folder):
        super().__init__(folder)
        self.every = (scaled(3), Add(1), functools.partial(np.clip, a_min=-1, a_max=1))
    def __getitem__(self, i):
        first, second, third = self.every
        return third(second(first(self.table[i])))
""",
    "comprehensions, conditions and texts": """
class Data(Base):
    def __getitem__(self, i):
        rows = [self.table[i] * k for k in range(3) if k != 1]
        name = f"{i:03d}.{'even' if i % 2 == 0 else 'odd'}"
        if 0 <= i < 6 and not self.names[i].endswith("9"):
            rows.append(self.table[0] + 1)
        return np.stack(rows), name, len(self.labels)
""",
    "writes into what it made": """
class Data(Base):
    def __getitem__(self, i):
        x = np.zeros((4, 5), np.float32)
        x[1] = self.table[i]
        x[2, :3] += 5
        x *= 2
        return x
""",
    "an assertion and an early return": """
class Data(Base):
    def __getitem__(self, i):
        assert i < len(self.labels)
        if i in (3, 5):
            return self.table[i] + 1
        return self.table[i] - 1
""",
}
#: Items that change with what they are made from, or with the settings around them.
CHANGING = {
    "an attribute is set": (
        "KEPT:a row of a table",
        """
def between(data, number):
    data.scale += 1
""",
    ),
    "a row is written": (
        "KEPT:a row of a table",
        """
def between(data, number):
    data.table[number] += 1
""",
    ),
    "a label is set": (
        "KEPT:a row of a table",
        """
def between(data, number):
    data.labels[number] = -number
""",
    ),
    "a tensor is written": (
        "KEPT:a dictionary of parts",
        """
def between(data, number):
    data.tensor[number] += 1
""",
    ),
    "a tensor is written through numpy": (
        "KEPT:a dictionary of parts",
        """
def between(data, number):
    data.tensor.numpy()[number] += 1
""",
    ),
    "an attribute of a function is set": (
        "KEPT:an attribute of a function",
        """
def between(data, number):
    scaled.by += 1
""",
    ),
    "a partial has another keyword": (
        "KEPT:a partial, a closure and a callable object",
        """
def between(data, number):
    data.every[2].keywords["a_min"] = number / 2
""",
    ),
    "a tensor has other data": (
        "KEPT:the data of a tensor",
        """
def between(data, number):
    data.tensor.data = data.tensor.data + 1
""",
    ),
    "a mean goes to and fro": (
        "KEPT:a mean of all",
        """
def between(data, number):
    MEAN[:] = 1 - MEAN
""",
    ),
    "a loop has other steps": (
        "KEPT:numbered and paired loops, shapes",
        """
def between(data, number):
    data.steps[number % 2] = halve
    data.labels[number] = -number
""",
    ),
    "its parent is another": (
        "KEPT:the items of its parent",
        """
def between(data, number):
    if number == 1:
        Low.factor = property(lambda self: 7)
    elif number == 2:
        Data.__bases__ = (Other,)
    else:
        Middle.__getitem__ = lambda self, i: (self.table[i], number)
""",
    ),
    "an entry of a dictionary is set": (
        "KEPT:a dictionary of parts",
        """
def between(data, number):
    data.names[number] = "another"
""",
    ),
    "a file is written": (
        "KEPT:a file",
        """
def between(data, number):
    np.save(data.paths[number], data.table[number] * 7)
""",
    ),
    "a file is written and has its old time": (
        "KEPT:a file",
        """
def between(data, number):
    np.save(data.paths[number], data.table[number] * 7)
    os.utime(data.paths[number], (1e9, 1e9))
""",
    ),
    "a file is replaced by another one": (
        "KEPT:a file",
        """
def between(data, number):
    os.rename(data.paths[number], data.paths[number] + ".old")
    os.rename(data.paths[number + 1], data.paths[number])
    np.save(data.paths[number + 1], data.table[0])
""",
    ),
    "a file is written through a mapping": (
        "KEPT:a file",
        """
def between(data, number):
    mapped = np.load(data.paths[number], mmap_mode="r+")
    mapped[0] += 3
    mapped.flush()
""",
    ),
    "paths are relative and the folder changes": (
        "KEPT:a file",
        """
def made(folder):
    data = Data(folder)
    other = os.path.join(folder, "other")
    os.makedirs(other, exist_ok=True)
    for i in range(12):
        np.save(os.path.join(other, f"{i}.npy"), data.table[i] * 9)
    data.paths = [f"{i}.npy" for i in range(12)]
    data.folders = [folder, other]
    os.chdir(folder)
    return data
def between(data, number):
    os.chdir(data.folders[(number + 1) % 2])
""",
    ),
    "a link leads elsewhere": (
        "KEPT:a file",
        """
def between(data, number):
    os.rename(data.paths[3], data.paths[3] + ".real")
    os.symlink(data.paths[number + 4], data.paths[3])
    os.rename(data.paths[3] + ".real", data.paths[3] + ".old")
""",
    ),
    "a global is set": (
        "KEPT:a loop over transforms",
        """
def between(data, number):
    global OFFSET
    OFFSET += 1
""",
    ),
    "a function is replaced": (
        "KEPT:a loop over transforms",
        """
def between(data, number):
    data.steps[0] = lambda x: x * number
""",
    ),
    "a transform is added": (
        "KEPT:a loop over transforms",
        """
def between(data, number):
    data.steps.append(halve)
""",
    ),
    "a function gets other code": (
        "KEPT:a loop over transforms",
        """
def between(data, number):
    if number == 1:
        halve.__code__ = (lambda x: x / 4).__code__
""",
    ),
    "defaults are set": (
        "KEPT:methods, properties and defaults",
        """
def between(data, number):
    Data.clipped.__defaults__ = (-0.1 * number, 1.0)
""",
    ),
    "a method is replaced in the class": (
        "KEPT:methods, properties and defaults",
        """
def between(data, number):
    Data.named = classmethod(lambda cls, i: "other")
""",
    ),
    "a method is replaced in the object": (
        "KEPT:methods, properties and defaults",
        """
def between(data, number):
    data.named = lambda i: "mine"
""",
    ),
    "a property is replaced": (
        "KEPT:methods, properties and defaults",
        """
def between(data, number):
    Data.factor = property(lambda self: -number)
""",
    ),
    "the class is another": (
        "KEPT:a row of a table",
        """
class Other(Base):
    def __getitem__(self, i):
        return i
def between(data, number):
    if number == 1:
        data.__class__ = Other
""",
    ),
    "indices of a part are set": (
        "KEPT:a part of a dataset",
        """
def between(data, number):
    data.indices[0] = number
""",
    ),
    "a cell of a closure is set": (
        "KEPT:a partial, a closure and a callable object",
        """
def between(data, number):
    data.every[0].__closure__[0].cell_contents = number
""",
    ),
    "an attribute of a transform is set": (
        "KEPT:a partial, a closure and a callable object",
        """
def between(data, number):
    data.every[1].value = number
""",
    ),
    "a module's list is written": (
        "KEPT:a module that normalises",
        """
def between(data, number):
    data.transform.mean[0] = number / 7
""",
    ),
    "a module gets a hook": (
        "KEPT:a module that normalises",
        """
def between(data, number):
    if number == 1:
        data.transform.register_forward_hook(lambda module, args, out: out + 1)
""",
    ),
    "the default dtype": (
        "KEPT:a module that normalises",
        """
def between(data, number):
    torch.set_default_dtype(torch.float64 if number % 2 == 0 else torch.float32)
""",
    ),
    "gradients are recorded": (
        "KEPT:a module that normalises",
        """
def between(data, number):
    torch.set_grad_enabled(number % 2 == 0)
""",
    ),
    "small numbers are flushed": (
        "KEPT:a row of a table",
        """
def between(data, number):
    data.table[:] = 1e-39
    torch.set_flush_denormal(number % 2 == 0)
""",
    ),
    "numpy raises": (
        "KEPT:a row of a table",
        """
def between(data, number):
    data.table[2] = 3e38
    np.seterr(over="raise" if number == 1 else "ignore")
""",
    ),
    "warnings are errors": (
        "KEPT:a row of a table",
        """
def between(data, number):
    data.table[2] = 3e38
    np.seterr(over="warn")
    warnings.simplefilter("error" if number == 1 else "ignore")
""",
    ),
    "a library function is replaced": (
        "KEPT:comprehensions, conditions and texts",
        """
before = np.stack
def between(data, number):
    np.stack = (lambda rows: before(rows) + 1) if number == 1 else before
""",
    ),
    "what was handed out is written": (
        "KEPT:a dictionary of parts",
        """
def used(item):
    item["image"] += 1
    item["sizes"].append(3)
    item["label"] = -1
""",
    ),
    "files vanish": (
        "KEPT:a file",
        """
def between(data, number):
    os.remove(data.paths[number])
""",
    ),
    "a path of its own leads to another file": (
        "KEPT:a path of its own",
        """
def between(data, number):
    np.save(data.paths[number], np.zeros(number + 2))
    data.paths[number + 5].unlink()
""",
    ),
    "a file is cut short": (
        "KEPT:a file",
        """
def between(data, number):
    os.truncate(data.paths[number], 10)
""",
    ),
}
#: Items that are never kept, and a word of the reason.
REFUSED = {
    "random draws": (
        "draws random numbers: random.Random.random",
        """
class Data(Base):
    def __getitem__(self, i):
        return self.table[i] * (random.random() if i >= 0 else 1)
""",
    ),
    "numpy draws": (
        "draws random numbers",
        """
class Data(Base):
    def __getitem__(self, i):
        return self.table[i] + np.random.normal()
""",
    ),
    "torch draws": (
        "draws random numbers",
        """
class Data(Base):
    def __getitem__(self, i):
        return self.tensor[i] * torch.rand(1)
""",
    ),
    "a generator of its own draws": (
        "draws random numbers",
        """
class Data(Base):
    def __init__(self, folder):
        super().__init__(folder)
        self.rng = np.random.default_rng(5)
    def __getitem__(self, i):
        return self.table[i] + self.rng.normal(size=5)
""",
    ),
    "a new generator draws": (
        "",
        """
class Data(Base):
    def __getitem__(self, i):
        return self.table[i] + np.random.default_rng(i).normal(size=5)
""",
    ),
    "a draw in a branch that comes late": (
        "draws random numbers",
        """
class Data(Base):
    def __getitem__(self, i):
        if self.scale > 3:
            return self.table[i] * random.random()
        return random.randint(1, 5)
""",
    ),
    "a counter": (
        "",
        """
class Data(Base):
    def __init__(self, folder):
        super().__init__(folder)
        self.count = 0
    def __getitem__(self, i):
        self.count += 1
        return self.table[i] + self.count
""",
    ),
    "a cache of its own": (
        "",
        """
class Data(Base):
    def __init__(self, folder):
        super().__init__(folder)
        self.cache = {}
    def __getitem__(self, i):
        if i not in self.cache:
            self.cache[i] = self.table[i] * 2
        return self.cache[i]
""",
    ),
    "its own memory": (
        "did not make",
        """
class Data(Base):
    def __getitem__(self, i):
        return self.table[i]
def used(item):
    item += 1
""",
    ),
    "one object for all": (
        "did not make",
        """
class Data(Base):
    def __getitem__(self, i):
        return self.names
def used(item):
    item["n"] = len(item)
""",
    ),
    "two names for one array": (
        "share memory",
        """
class Data(Base):
    def __getitem__(self, i):
        x = self.table[i] * 2
        return x, x[1:]
def used(item):
    item[0][:] = 0
""",
    ),
    "two names for one list": (
        "the same object twice",
        """
class Data(Base):
    def __getitem__(self, i):
        sizes = [i, i + 1]
        return sizes, {"sizes": sizes}
def used(item):
    item[0].append(1)
    assert len(item[1]["sizes"]) == 3
""",
    ),
    "two names for one picture": (
        "the same object twice",
        """
from PIL import Image
class Data(Base):
    def __getitem__(self, i):
        picture = Image.fromarray(self.tensor[i].numpy()).convert("RGB")
        return {"image": picture, "original": picture}
def used(item):
    assert item["image"] is item["original"]
""",
    ),
    "a record that is written": (
        "a copy of its tuple could be told",
        """
class Data(Base):
    def __init__(self, folder):
        super().__init__(folder)
        self.records = np.array([(i, i / 2) for i in range(12)], dtype=[("a", "i4"), ("b", "f8")])
    def __getitem__(self, i):
        return self.records.copy()[i], self.table[i] * 2
def used(item):
    item[0]["b"] += 1
""",
    ),
    "the digits of an array": (
        "print options",
        """
class Data(Base):
    def __getitem__(self, i):
        return str(self.table[i])
""",
    ),
    "the clock": (
        "",
        """
class Data(Base):
    def __getitem__(self, i):
        return self.table[i] * (time.time() > 0)
""",
    ),
    "a lock": (
        "enters",
        """
class Data(Base):
    def __init__(self, folder):
        super().__init__(folder)
        self.lock = threading.Lock()
    def __getitem__(self, i):
        with self.lock:
            return self.table[i] * 2
""",
    ),
    "a print": (
        "print",
        """
class Data(Base):
    def __getitem__(self, i):
        print("item", i, file=sys.stderr)
        return self.table[i] * 2
""",
    ),
    "an object of a class": (
        "makes an object",
        """
class Pair:
    def __init__(self, x):
        self.x = x
    def __eq__(self, other):
        return bool((self.x == other.x).all())
class Data(Base):
    def __getitem__(self, i):
        return Pair(self.table[i] * 2)
""",
    ),
    "getattribute of its own": (
        "__getattribute__",
        """
class Data(Base):
    def __getattribute__(self, name):
        found = object.__getattribute__(self, name)
        return found * random.random() if name == "scale" else found
    def __getitem__(self, i):
        return self.table[i] * self.scale
""",
    ),
    "an operator of its own": (
        "",
        """
class Odd:
    def __rmul__(self, other):
        return other * random.random()
    __array_ufunc__ = None
class Data(Base):
    def __getitem__(self, i):
        return self.table[i] * Odd()
""",
    ),
    "a write into a table": (
        "did not make",
        """
class Data(Base):
    def __getitem__(self, i):
        row = self.table[i]
        row += 1
        return row * 2
""",
    ),
    "a write through a view": (
        "did not make",
        """
class Data(Base):
    def __getitem__(self, i):
        row = torch.from_numpy(self.table[i])
        row.add_(1)
        return row * 2
""",
    ),
    "an item that raises now and then": (
        "",
        """
class Data(Base):
    def __getitem__(self, i):
        try:
            return np.load(self.paths[i] + "x")
        except OSError:
            return self.table[i] * random.random()
""",
    ),
    "a handler for everything": (
        "draws random numbers",
        """
class Data(Base):
    def __getitem__(self, i):
        try:
            x = random.random()
        except BaseException:
            x = 5
        return self.table[i] * x
""",
    ),
    "a setting of a library": (
        "",
        """
class Data(Base):
    def __getitem__(self, i):
        torch.set_default_dtype(torch.float64)
        x = torch.zeros(2)
        torch.set_default_dtype(torch.float32)
        return x
""",
    ),
    "a hash": (
        "",
        """
class Data(Base):
    def __getitem__(self, i):
        return hash(self.names[i])
""",
    ),
    "a pipe": (
        "",
        """
class Data(Base):
    def __getitem__(self, i):
        with open("/dev/urandom", "rb") as file:
            return np.frombuffer(file.read(4), np.uint8) * 0
""",
    ),
}
#: Items of one dataset that do not all do the same, so that what holds for some does not for others.
MIXED = {
    "late items draw": """
class Data(Base):
    def __getitem__(self, i):
        x = self.table[i] * 2
        if i > 8:
            x = x + random.random()
        return x
""",
    "items with some label draw": """
class Data(Base):
    def __getitem__(self, i):
        label = self.labels[i]
        return self.table[i] * (random.random() if label == 9 else 1)
""",
    "some functions draw": """
def drawn(x):
    return x * random.random()
class Data(Base):
    def __init__(self, folder):
        super().__init__(folder)
        self.every = [halve] * 9 + [drawn] * 3
    def __getitem__(self, i):
        return self.every[i](self.table[i])
""",
    "some objects draw": """
class Step:
    def __init__(self, draws):
        self.draws = draws
    def apply(self, x):
        return x * random.random() if self.draws else x * 2
class Data(Base):
    def __init__(self, folder):
        super().__init__(folder)
        self.every = [Step(i > 8) for i in range(12)]
    def __getitem__(self, i):
        return self.every[i].apply(self.table[i])
""",
    "another element than that of the index is read and written": """
class Data(Base):
    def __getitem__(self, i):
        return self.table[min(i, 8)] * 2
def between(data, number):
    data.table[8] += 1
""",
    "an element of a table of tables is read and written": """
class Data(Base):
    def __getitem__(self, i):
        half = self.table[i // 6 * 6]
        return half * 2
def between(data, number):
    data.table[6] += 1
""",
    "the label of another is read and set": """
class Data(Base):
    def __getitem__(self, i):
        other = (i + 7) % 12
        return self.table[i] * 2, self.labels[other]
def between(data, number):
    data.labels[2 + number] = -number
""",
    "one element is of another type": """
class Data(Base):
    def __init__(self, folder):
        super().__init__(folder)
        self.labels[9] = np.float32(9)
    def __getitem__(self, i):
        return self.table[i] * self.labels[i]
def between(data, number):
    data.labels[10] = number + 0.5
""",
    "an item with its own number is written": """
class Data(Base):
    def __getitem__(self, i):
        return self.tensor[i].float(), self.labels[i]
def between(data, number):
    data.tensor[9 - number] += 1
    data.labels[11 - number] = "text"
""",
    "the index chooses a function of a tuple": """
class Data(Base):
    def plain(self, x):
        return x * 2
    def drawn(self, x):
        return x * np.float32(random.random())
    def __getitem__(self, i):
        return (self.plain, self.drawn)[i > 8](self.table[i])
""",
    "the index chooses a function of a new dictionary": """
class Data(Base):
    def plain(self, x):
        return x * 2
    def drawn(self, x):
        return x * np.float32(random.random())
    def __getitem__(self, i):
        return {False: self.plain, True: self.drawn}[i > 8](self.table[i])
""",
    "the index leads to another branch of a function": """
def changed(is_late, x):
    if is_late:
        return x * np.float32(random.random())
    return x * 2
class Data(Base):
    def __getitem__(self, i):
        return changed(i > 8, self.table[i])
""",
    "some labels are no numbers": """
class Data(Base):
    def __init__(self, folder):
        super().__init__(folder)
        self.words = [str(i) for i in range(9)] + ["x", "y", "z"]
    def __getitem__(self, i):
        try:
            label = int(self.words[i])
        except ValueError:
            label = random.randint(0, 100)
        return label, self.table[i] * 2
""",
    "a default is the index of some items": """
class Data(Base):
    def __getitem__(self, i, other=5):
        return self.table[i] + self.table[other]
def between(data, number):
    data.table[5] += number == 3
""",
    "some items warn in each pass": """
heard = []
class Data(Base):
    def __init__(self, folder):
        super().__init__(folder)
        self.table = np.abs(self.table)
        self.table[9:] = -1
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *more: heard.append(message)
    def __getitem__(self, i):
        return np.log(self.table[i])
def between(data, number):
    assert len(heard) == 3 * number + 3
""",
}
PROGRAMS = KEPT | MIXED | {name: KEPT[of.removeprefix("KEPT:")] + source for name, (of, source) in CHANGING.items()}
PROGRAMS |= {name: source for name, (_, source) in REFUSED.items()}
