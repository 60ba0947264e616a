"""Plain loops as people write them, and some that make trouble: each prints what it gives and how the generators are left."""

HEAD = """
import glob, hashlib, os, random, sys, time
import cv2
import numpy as np
random.seed(0); np.random.seed(0)
D = sys.argv[1]
paths = sorted(glob.glob(os.path.join(D, "*.jpg")))
assert len(paths) == 48
def h(x):
    if isinstance(x, np.ndarray): return hashlib.sha256(x.tobytes()).hexdigest()[:10] + str(x.shape) + str(x.dtype)
    if isinstance(x, dict): return {k: h(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)): return [h(v) for v in x]
    return x
def rest(): print(random.random(), np.random.rand())
def load(path, size=48):
    image = cv2.imread(path)
    image = cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA)
    return cv2.GaussianBlur(image, (0, 0), 3).astype(np.float32) / 255.0
def jitter(image):
    if random.random() < 0.5: image = image[:, ::-1]
    return image * np.random.uniform(0.9, 1.1)
"""

PROGRAMS = {
    "list": """
for epoch in range(8):
    print(h([load(p, 40 + epoch) for p in paths]))
rest()
""",
    "list_draws": """
def batches():
    order = list(paths); random.shuffle(order)
    for k in range(0, 48, 16):
        yield np.stack([jitter(load(p)) for p in order[k:k + 16]]), [random.random() for _ in range(3)]
for epoch in range(6):
    for b in batches(): print(h(b))
rest()
""",
    "dict": """
for epoch in range(8):
    print(h({p[-6:]: load(p).mean() for p in paths}))
rest()
""",
    "inline": """
out = []
for epoch in range(6):
    for p in paths:
        im = cv2.imread(p)
        im = cv2.cvtColor(im, cv2.COLOR_BGR2GRAY)
        im = cv2.GaussianBlur(cv2.resize(im, (64, 64)), (0, 0), 3)
        im = im.astype("float32") / 255
        if random.random() < 0.5: im = np.fliplr(im)
        im -= im.mean()
        out.append(im)
    print(h(out[-48:]))
rest()
""",
    "enumerate_zip": """
labels = list(range(48))
feats = np.zeros((48, 3), np.float32)
for epoch in range(8):
    for i, (p, y) in enumerate(zip(paths, labels)):
        feats[i] = load(p).mean(axis=(0, 1)) + y
    print(h(feats))
rest()
""",
    "function_draws": """
for epoch in range(8):
    got = []
    for p in paths: got.append(jitter(load(p)))
    print(h(got))
rest()
""",
    "body_draws": """
for epoch in range(8):
    for i, p in enumerate(paths):
        x = jitter(load(p))
        if i % 5 == 0: x = x + random.random()
        print(h(x))
rest()
""",
    "state": """
class Config: size = 32
cfg = Config()
def read(p): return load(p, cfg.size)
for epoch in range(8):
    for i, p in enumerate(paths):
        x = read(p)
        if i % 7 == 3: cfg.size = 30 + i % 9
        print(h(x))
rest()
""",
    "files": """
import shutil, tempfile
T = tempfile.mkdtemp()
mine = [shutil.copy2(p, T) for p in paths]
for m in mine: os.utime(m, (1, 1))
time.sleep(0.3)
for epoch in range(8):
    for i, p in enumerate(mine):
        x = load(p)
        if i % 11 == 2: cv2.imwrite(mine[(i + 3) % 48], np.full((50, 50, 3), i + epoch, np.uint8))
        print(h(x))
shutil.rmtree(T)
rest()
""",
    "raises": """
def careful(p, i):
    x = load(p)
    if i % 13 == 5 and random.random() < 2: raise ValueError(i)
    return x
for epoch in range(8):
    try:
        for i, p in enumerate(paths):
            try:
                x = careful(p, i)
            except ValueError as error:
                print("raised", error); continue
            print(h(x))
        print(h([careful(p, i) for i, p in enumerate(paths)]))
    except ValueError as error:
        print("ended", error, random.random())
rest()
""",
    "break": """
for epoch in range(8):
    n = 0
    for p in paths:
        x = jitter(load(p))
        n += 1
        if n == 10 + epoch: break
    print(h(x), n, random.random())
rest()
""",
    "list_changes": """
for epoch in range(6):
    todo = list(paths[:24])
    for p in todo:
        x = load(p)
        if len(todo) < 40: todo.append(paths[len(todo)])
        print(h(x))
    print(len(todo))
rest()
""",
    "exchanged": """
def outer():
    factor = 1.0
    def more():
        nonlocal factor
        factor += 0.25
    for epoch in range(6):
        todo = list(paths)
        for i, p in enumerate(todo):
            x = load(p) * factor
            if i % 19 == 7: todo[i + 2] = paths[0]
            if i % 23 == 9: more()
            print(h(x))
outer()
class Body:
    found = []
    for p in paths * 4: found.append(load(p, 40))
print(h(Body.found))
rest()
""",
    "yields": """
scale = [1.0]
def gen():
    for p in paths:
        x = load(p)
        yield x * scale[0]
for epoch in range(8):
    for k, x in enumerate(gen()):
        if k % 17 == 16: scale[0] += 0.5
        print(h(x))
rest()
""",
    "carried": """
previous = np.zeros((48, 48, 3), np.float32)
for epoch in range(8):
    for p in paths:
        x = load(p)
        previous = 0.9 * previous + 0.1 * x
    print(h(previous))
rest()
""",
    "prints": """
for epoch in range(6):
    for p in paths:
        print("reading", p[-6:])
        x = load(p)
        print(h(x))
rest()
""",
    "own_list": """
for epoch in range(8):
    for p in paths:
        parts = []
        x = load(p)
        parts.append(x)
        for k in range(3):
            parts.append(cv2.blur(x, (k + 1, k + 1)))
        print(h(parts))
rest()
""",
    "nested": """
def one(p): return [cv2.blur(load(p), (k, k)) for k in (1, 2, 3)]
for epoch in range(6):
    print(h([[y.mean() for y in one(p)] for p in paths]))
    print(h([sum([y.mean() for y in z]) for z in [one(p) for p in paths]]))
rest()
""",
    "iterators": """
def pieces(x):
    for k in range(3): yield x[k::3] * random.random()
for epoch in range(6):
    got = []
    for p in paths:
        x = load(p)
        for a, b in zip(pieces(x), range(3)): got.append(a.mean() + b)
    print(h(got))
    print(h([list(map(float, load(p)[0, 0])) for p in paths]))
rest()
""",
    "mutates": """
seen = {}
def remember(p):
    seen[p] = seen.get(p, 0) + 1
    return load(p) * seen[p]
for epoch in range(6):
    print(h([remember(p) for p in paths]))
    for p in paths: print(h(remember(p)))
print(len(seen)); rest()
""",
    "exhausted": """
for epoch in range(6):
    it = iter(paths)
    first = [load(p) for p, _ in zip(it, range(20))]
    print(h(first), next(it)[-6:], h([load(p) for p in it]))
rest()
""",
    "methods": """
class Reader:
    def __init__(self, size): self.size, self.mean = size, np.array([0.4, 0.5, 0.6], np.float32)
    def norm(self, x): return (x - self.mean) / 0.25
    def __call__(self, p): return self.norm(load(p, self.size))
    def all(self, paths):
        return np.stack([self(p) for p in paths])
    def each(self, paths):
        for p in paths:
            x = self.norm(load(p, self.size))
            self.size = self.size
            yield x.transpose(2, 0, 1)
r = Reader(44)
for epoch in range(6):
    print(h(r.all(paths)))
    for x in r.each(paths): print(h(x))
rest()
""",
    "class_state": """
class CFG: size, gain = 32, 1.0
class Prepare:
    def __call__(self, p): return load(p, CFG.size) * CFG.gain
class Seldom(Prepare): pass
prepare = Seldom()
for epoch in range(8):
    for i, p in enumerate(paths):
        x = prepare(p)
        if i % 37 == 19: CFG.size = 30 + (i + epoch) % 9
        if i % 41 == 23: CFG.gain += 0.125
        if epoch == 5 and i == 30: Prepare.__call__ = lambda self, p: load(p, 20)
        print(h(x))
rest()
""",
    "special_globals": """
SIZE, LOW = 32, 0
class Prepare:
    def __call__(self, p): return load(p, SIZE)
    def __getitem__(self, i): return load(paths[i], SIZE + LOW)
prepare = Prepare()
def scaled(p, by=1.0): return load(p) * by
for epoch in range(8):
    for i, p in enumerate(paths):
        x = prepare(p)
        if i % 37 == 19: SIZE = 30 + (i + epoch) % 9
        print(h(x))
    for i in range(48):
        x = prepare[i]
        if i % 41 == 23: LOW += 1
        print(h(x))
    for i, p in enumerate(paths):
        x = scaled(p)
        if i % 41 == 13: scaled.__defaults__ = (1.0 + epoch,)
        print(h(x))
rest()
""",
    "warns": """
import warnings
def ratio(x): return 1.0 / (x - x.min()) if x.mean() > 0.45 else x
counts = []
with warnings.catch_warnings(record=True) as shown:
    warnings.simplefilter("always")
    for epoch in range(8):
        for i, p in enumerate(paths):
            x = ratio(load(p))
            counts.append(len(shown))
            if i == 20: shown.clear()
            print(h(x))
print(counts)
rest()
""",
    "odd_numbers": """
np.seterr(all="ignore")
found = []
np.seterrcall(lambda kind, flag: found.append(kind))
def ratio(x): return 1.0 / (x - x.min())
try:
    for epoch in range(8):
        for i, p in enumerate(paths):
            x = ratio(load(p))
            print(h(x), len(found))
            if epoch == 4 and i == 9: np.seterr(all="call")
            if epoch == 5 and i == 9: np.seterr(all="ignore")
            if epoch == 6 and i == 40: np.seterr(divide="raise")
except FloatingPointError as error: print(error, i)
rest()
""",
    "finalizers": """
import gc
gone = []
def note(x): gone.append(x)
class Node:
    def __init__(self, i): self.i, self.me, self.pad = i, self, [[] for _ in range(30)]
    def __del__(self): note(self.i)
class Tmp:
    def __init__(self, x): self.x = x
    def __del__(self): gone.append("tmp")
def parts(p): return load(p), [[k] for k in range(90)]
def held(p): return Tmp(load(p)).x.mean()
made = 0
for epoch in range(8):
    for p in paths:
        x = parts(p)
        n = Node(made); made += 1; del n
        print(h(x[0]))
    print(h([parts(p)[0] for p in paths]))
    for p in paths[:20]:
        x = held(p)
        print(x, gone.count("tmp"))
gc.collect()
print(made, len(gone), sorted(map(str, gone)))
rest()
""",
    "walrus": """
for epoch in range(6):
    print(h([y for p in paths if (y := load(p)).mean() > 0.2]))
    print(h(y))
rest()
""",
    "skips": """
for epoch in range(6):
    for p in paths + ["/nonexistent.jpg"] + paths[:5]:
        im = cv2.imread(p)
        if im is None: continue
        im = cv2.GaussianBlur(cv2.resize(im, (48, 48)), (0, 0), 4)
        if im.mean() > 150: break
        print(h(im))
rest()
""",
}  # fmt: skip
