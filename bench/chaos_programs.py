"""Small programs of many kinds, each of which prints digests of all that it computes: what `bench/chaos.py` runs.

They do what makes running ahead hard: draws from generators that others hold, state that changes between batches and
is put back, aliases, methods that are exchanged, exceptions, loops that are left early.
"""

from __future__ import annotations

_HEAD = """
import hashlib, random, sys, warnings
import numpy as np
random.seed(1); np.random.seed(2)
digest = hashlib.sha256()
def take(*values):
    for value in values:
        if isinstance(value, (list, tuple)): take(*value)
        elif hasattr(value, "numpy"): digest.update(value.detach().numpy().tobytes())
        elif hasattr(value, "tobytes"): digest.update(value.tobytes())
        else: digest.update(repr(value).encode())
def end():
    print(digest.hexdigest(), random.random(), np.random.rand())
"""
_TORCH = (
    _HEAD
    + """
import torch
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1); torch.manual_seed(3)
def work(x, k=3):
    for _ in range(k): x = np.sort(x * 1.5 % 7.0)[::-1]
    return np.ascontiguousarray(x)
"""
)

PROGRAMS = {
    "list of images": """
import cv2
def load(k, rng):
    image = np.full((60, 80, 3), k % 251, np.uint8)
    image = cv2.resize(cv2.GaussianBlur(image, (5, 5), 1.0), (64, 48))
    if rng.random() < 0.5: image = image[:, ::-1]
    return (image.astype(np.float32) / 255.0 - np.float32(0.4)) * np.float32(rng.random())
rng = np.random.default_rng(1)
for turn in range(40):
    for first in range(0, 24, 8):
        take(np.stack([load(k, rng) for k in range(first, first + 8)]))
take(rng.random()); end()
""",
    "global generators in a list": """
def item(i):
    x = np.sort(np.arange(3000.0) * i % 31)
    return x[::-1] * random.random() if np.random.rand() < 0.5 else x + random.gauss(0, 1)
for turn in range(60):
    take([item(i) for i in range(9)])
    if turn % 7 == 3: take(random.random())
end()
""",
    "loop with what is around": """
scale, seen, rows = 1.0, [], [np.arange(2000.0) + i for i in range(30)]
def part(x, s): return np.sort(x * s % 11)
def main():
    global scale
    total = 0.0
    for turn in range(25):
        for i, row in enumerate(rows):
            y = part(row, scale)
            z = y[::-1].copy()
            total += float(z[i]) + np.random.rand()
            if i == 17 and turn % 3 == 1: scale = 1.0 + turn
            if i == 23 and turn % 5 == 2: rows[i][5] = turn
            if i > 26 and turn % 4 == 0: break
            take(z)
        seen.append(total)
    take(seen)
main(); end()
""",
    "a generator and nested lists": """
def cut(x, k): return np.sort(x[k : k + 500] % 13) + k
def stream(n):
    for i in range(n):
        x = np.arange(3000.0) * (i + 1)
        yield [cut(x, k) for k in range(0, 2400, 300)]
for turn in range(6):
    for parts in stream(12):
        take(sum(float(p[3]) for p in parts), parts, np.random.rand())
        if turn == 4 and random.random() < 0.1: break
end()
""",
    "exceptions in items": """
def item(i, at):
    x = np.sort(np.arange(2000.0) * i % 17)
    if i == at: raise ValueError(i, random.random())
    return x * random.random()
for turn in range(60):
    try:
        take([item(i, turn % 16) for i in range(12)])
    except ValueError as error:
        take(error.args)
end()
""",
    "warnings in items": """
said = []
warnings.showwarning = lambda m, *a, **k: said.append(str(m))
warnings.simplefilter("always")
def item(i):
    x = np.sort(np.arange(2000.0) - i)
    if i == 5: warnings.warn(f"odd {i}")
    return np.sqrt(x + (0 if i % 7 else 1))
for turn in range(40): take([item(i) for i in range(10)])
take(said, len(said)); end()
""",
    "code that is exchanged": """
def one(x): return np.sort(x % 7.0)
def two(x): return np.sort(x % 7.0) * np.random.rand()
class Kind:
    def __call__(self, x): return one(x)
def three(self, x): return two(x) + random.random()
kind = Kind()
for turn in range(80):
    take([kind(np.arange(2000.0) * i) for i in range(8)])
    if turn == 30: one.__code__ = two.__code__
    if turn == 50: Kind.__call__ = three
    if turn == 65: three.__code__ = three.__code__.replace(co_consts=three.__code__.co_consts)
end()
""",
    "constants that are exchanged": """
def one(x): return np.sort(x % 7.0) + 3.0
for turn in range(80):
    take([one(np.arange(2000.0) * i) for i in range(8)])
    if turn % 20 == 11:
        was = one.__code__
        constants = [c + 1 if c in (3.0, 4.0, 5.0) and type(c) is float else c for c in was.co_consts]
        one.__code__ = was.replace(co_consts=tuple(constants))
end()
""",
    "functions made anew": """
def make(k):
    def f(x): return np.sort(x * k % 5.0) + np.random.rand()
    return f
for turn in range(50):
    f = make(turn)
    take([f(np.arange(2000.0) + i) for i in range(8)])
    g = lambda x: f(x) - random.random()
    take([g(np.arange(2000.0) + i) for i in range(8)])
end()
""",
    "plain Python": """
def parse(line, seen):
    out = []
    for word in line.split():
        if word not in seen: seen[word] = len(seen)
        out.append(seen[word])
    return sorted(out)[:20]
def score(i): return sum((i * k) % 97 for k in range(400)) + random.randrange(10)
seen = {}
for turn in range(40):
    lines = [" ".join(f"w{(i * turn * k) % 501}" for k in range(60)) for i in range(10)]
    take([parse(line, seen) for line in lines], [score(i) for i in range(10)])
end()
""",
    "pandas": """
import pandas as pd
frame = pd.DataFrame({"a": np.arange(400) % 7, "v": np.random.rand(400)})
def part(k, f): return np.sort(f["v"].to_numpy() * k)[: 50 + k]
for turn in range(25):
    take([part(k, frame) for k in range(8)])
    for name, rows in frame.groupby("a"):
        take(name, np.sort(rows["v"].to_numpy() + turn))
    if turn % 6 == 2: frame.loc[3, "v"] = turn
    if turn % 6 == 4: frame["v"] = frame["v"] + np.random.rand()
end()
""",
    "pictures of PIL": """
from PIL import Image, ImageFilter
def item(i):
    image = Image.fromarray(np.full((48, 64, 3), i % 251, np.uint8)).resize((40, 30))
    if random.random() < 0.5: image = image.transpose(Image.FLIP_LEFT_RIGHT)
    return np.asarray(image.filter(ImageFilter.BLUR), np.float32) / 255.0
for turn in range(50): take([item(i + turn) for i in range(8)])
end()
""",
    "own random class": """
class Counter(random.Random):
    drawn = 0
    def random(self):
        self.drawn += 1
        return super().random()
own, other = Counter(5), np.random.RandomState(6)
class Held:
    value = property(lambda self: other.rand())
held = Held()
def item(i): return np.sort(np.arange(2000.0) * i % 9) * own.random() + held.value
for turn in range(50): take([item(i) for i in range(8)])
take(own.drawn, other.rand()); end()
""",
    "loop that exits": """
def item(i, turn):
    x = np.sort(np.arange(2000.0) * i % 9) + np.random.rand()
    if i == 6 and turn == 41: sys.exit(f"{digest.hexdigest()} {random.random()} {np.random.rand()}")
    return x
for turn in range(60): take([item(i, turn) for i in range(8)])
end()
""",
}

LOADERS = {
    "draws": """
class Data(Dataset):
    def __len__(self): return 40
    def __getitem__(self, i):
        x = work(np.arange(1500.0) * i + random.random())
        return torch.from_numpy(x) + torch.rand(1), np.random.rand()
for turn in range(8):
    for x, y in DataLoader(Data(), batch_size=4, shuffle=True):
        take(x, y, torch.rand(1))
        if turn == 5 and random.random() < 0.2: break
end()
""",
    "kept and changed in place": """
class Data(Dataset):
    def __init__(self): self.kept = [torch.arange(900.0) + i for i in range(40)]
    def __len__(self): return 40
    def __getitem__(self, i): return self.kept[i], torch.from_numpy(work(self.kept[(i + 1) % 40].numpy()))
data = Data()
for turn in range(8):
    for pairs in DataLoader(data, batch_size=4, shuffle=True, collate_fn=list):
        for x, y in pairs:
            take(x, y)
            x.mul_(1.01)
            y += 1
end()
""",
    "put back under another name": """
class Data(Dataset):
    def __init__(self): self.mean, self.rows = np.full(900, 0.5), [1.0, 2.0]
    def __len__(self): return 60
    def __getitem__(self, i): return torch.from_numpy(work(np.arange(900.0) * i - self.mean) * self.rows[0])
data = Data()
other, numbers = data.mean, data.rows
def busy(a):
    a += 1.0
    for _ in range(30): np.sort(np.arange(20_000.0) % 7)
    a -= 1.0
for turn in range(8):
    for x in DataLoader(data, batch_size=4, shuffle=True):
        take(x); busy(other)
        numbers[0] = 5.0
        for _ in range(30): np.sort(np.arange(20_000.0) % 7)
        numbers[0] = 1.0
end()
""",
    "methods that are exchanged": """
class Data(Dataset):
    size = 900
    def __len__(self): return 40
    def load(self, i): return np.arange(float(self.size)) * i
    def __getitem__(self, i): return torch.from_numpy(work(self.load(i)))
def noisy(self, i): return np.arange(900.0) * i + np.random.rand()
def quiet(self, i): return np.arange(900.0) * i
for turn in range(12):
    for number, x in enumerate(DataLoader(Data(), batch_size=4)):
        take(x)
        if turn in (5, 6, 9) and number == 4: Data.load = noisy if turn != 6 else quiet
        if turn == 10 and number == 3: Data.size = 800; Data.load = quiet; quiet.__code__ = noisy.__code__
end()
""",
    "a cache and a count": """
class Data(Dataset):
    def __init__(self): self.cache, self.calls = {}, 0
    def __len__(self): return 30
    def __getitem__(self, i):
        self.calls += 1
        if i not in self.cache: self.cache[i] = work(np.arange(900.0) * i)
        return torch.from_numpy(self.cache[i] + random.random()), self.calls
for turn in range(8):
    data = Data()
    for x, y in DataLoader(data, batch_size=4, shuffle=True): take(x, y)
end()
""",
    "errors and a generator of its own": """
class Data(Dataset):
    def __init__(self): self.rng = np.random.default_rng(4)
    def __len__(self): return 40
    def __getitem__(self, i):
        x = work(np.arange(900.0) * i) * self.rng.random()
        if i == 23 and self.rng.random() < 0.5: raise KeyError(i)
        return torch.from_numpy(x)
data, g = Data(), torch.Generator().manual_seed(5)
for turn in range(10):
    batches = iter(DataLoader(data, batch_size=4, shuffle=True, generator=g))
    while True:
        try: take(next(batches))
        except StopIteration: break
        except KeyError as error: take(error.args)
take(data.rng.random(), torch.rand(1, generator=g)); end()
""",
}

SOURCES = {name: _HEAD + source for name, source in PROGRAMS.items()} | {
    f"loader: {name}": _TORCH + source for name, source in LOADERS.items()
}
