"""Programs with known dataflow, written by someone who had not read the recorder: each runs as `truth_strangers.py NAME`.

A chain "a > b > c" in the marks says that b consumed what a produced, and c what b produced. Names are the last
component of the operation's name. A chain holds for flow and carried edges alike. `sizes` are the bytes of an edge
and `counts` the calls of an operation.
"""

import asyncio
import collections
import contextlib
import dataclasses
import functools
import io
import itertools
import operator
import queue
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from scipy import fft, interpolate, ndimage, signal, stats
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

FLOW, SIZES, COUNTS = {}, {}, {}


def flow(*chains, sizes=None, counts=None):
    def mark(function):
        pairs = set()
        for chain in chains:
            names = [name.strip() for name in chain.split(">")]
            pairs |= set(zip(names, names[1:]))
        FLOW[function.__name__] = pairs
        SIZES[function.__name__] = {tuple(k.split(">")): v for k, v in (sizes or {}).items()}
        COUNTS[function.__name__] = counts or {}
        return function

    return mark


def picture(seed=0, size=32):
    return np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8)


# ---- vision in numpy, cv2, PIL, scipy


@flow("resize > cvtColor > GaussianBlur > Canny > count_nonzero", sizes={"resize>cvtColor": 768}, counts={"Canny": 1})
def edges_of_a_picture():
    small = cv2.resize(picture(), (16, 16))
    gray = cv2.cvtColor(small, cv2.COLOR_BGR2GRAY)
    soft = cv2.GaussianBlur(gray, (3, 3), 0)
    print(np.count_nonzero(cv2.Canny(soft, 10, 200)))


@flow("imencode > imdecode > flip > transpose > ascontiguousarray")
def encode_and_decode():
    ok, code = cv2.imencode(".png", picture())
    back = cv2.imdecode(code, cv2.IMREAD_COLOR)
    chw = np.ascontiguousarray(cv2.flip(back, 1).transpose(2, 0, 1))
    print(ok, chw.shape)


@flow("fromarray > resize > crop > convert > asarray > astype > truediv", sizes={"astype>truediv": 12 * 12 * 4})
def pillow_chain():
    im = Image.fromarray(picture())
    im = im.resize((20, 20), Image.BILINEAR).crop((4, 4, 16, 16)).convert("L")
    print((np.asarray(im).astype(np.float32) / 255).sum())


@flow("fromarray > save > open > rotate > array > mean")
def pillow_through_a_file_object():
    buffer = io.BytesIO()
    Image.fromarray(picture()).save(buffer, format="PNG")
    buffer.seek(0)
    print(np.array(Image.open(buffer).rotate(90)).mean())


@flow("fromarray > enhance > filter > autocontrast > array", "fromarray > enhance")
def pillow_enhancers():
    im = Image.fromarray(picture())
    im = ImageEnhance.Contrast(im).enhance(1.5)
    im = im.filter(ImageFilter.GaussianBlur(1))
    print(np.array(ImageOps.autocontrast(im)).max())


@flow("split > merge", "fromarray > split")
def pillow_bands():
    r, g, b = Image.fromarray(picture()).split()
    print(Image.merge("RGB", (b, g, r)).size)


@flow("gaussian_filter > sobel > gt > label", "label > center_of_mass", "gaussian_filter > center_of_mass")
def blobs():
    soft = ndimage.gaussian_filter(picture()[..., 0].astype(float), 2)
    mask = ndimage.sobel(soft) > 0.5
    labels, n = ndimage.label(mask)
    print(n, ndimage.center_of_mass(soft, labels, 1))


@flow("butter > filtfilt > welch > argmax", "sin > add > filtfilt", "normal > add")
def spectrum():
    t = np.linspace(0, 1, 500)
    rng = np.random.default_rng(3)
    x = np.sin(t * 60) + rng.normal(size=500)
    b, a = signal.butter(3, 0.1)
    y = signal.filtfilt(b, a, x)
    freq, power = signal.welch(y)
    print(freq[np.argmax(power)])


@flow("rfft > absolute > irfft", "rfft > angle > mul > exp > mul", "absolute > mul > irfft")
def spectral_edit():
    spec = fft.rfft(picture()[0, :, 0].astype(float))
    mag, phase = np.abs(spec), np.angle(spec)
    print(fft.irfft(mag * np.exp(1j * phase)).sum() + fft.irfft(mag).sum())


@flow("__call__ > diff > std", "uniform > sort > __call__", "linspace > __call__")
def interpolated():
    x = np.sort(np.random.default_rng(1).uniform(0, 9, 20))
    f = interpolate.interp1d(x, np.arange(20.0), bounds_error=False, fill_value=0.0)
    print(np.diff(f(np.linspace(1, 8, 30))).std())


@flow("histogram > cumsum", "astype > take", "cumsum > max > truediv > astype", "cumsum > truediv")
def equalise():
    gray = picture()[..., 1]
    hist, _ = np.histogram(gray, 256, (0, 256))
    cdf = hist.cumsum()
    lut = (cdf / cdf.max()).astype(np.float32)
    print(lut.take(gray).mean())


@flow("zscore > absolute > lt > getitem > mean", "zscore > getitem")
def outliers_away():
    z = stats.zscore(np.random.default_rng(0).normal(size=200))
    keep = np.abs(z) < 2
    print(z[keep].mean())


@flow("getitem > resize > setitem", "zeros > setitem > mean")
def paste_into_canvas():
    canvas = np.zeros((64, 64, 3), np.uint8)
    canvas[4:20, 4:20] = cv2.resize(picture()[2:30, 2:30], (16, 16))
    print(canvas.mean())


@flow("threshold > findContours > contourArea", "findContours > boundingRect")
def contours():
    _, mask = cv2.threshold(cv2.cvtColor(picture(), cv2.COLOR_BGR2GRAY), 128, 255, 0)
    found, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    print(max(cv2.contourArea(c) for c in found), [cv2.boundingRect(c) for c in found][:1])


@flow("getRotationMatrix2D > warpAffine > resize")
def warped():
    m = cv2.getRotationMatrix2D((16, 16), 30, 1.0)
    print(cv2.resize(cv2.warpAffine(picture(), m, (32, 32)), (8, 8)).sum())


@flow("calcHist > normalize > sum")
def normalised_in_place():
    hist = cv2.calcHist([picture()], [0], None, [16], [0, 256])
    cv2.normalize(hist, hist, 0, 1, cv2.NORM_MINMAX)
    print(hist.sum())


@flow("zeros > rectangle > circle > sum")
def drawn():
    canvas = np.zeros((32, 32), np.uint8)
    cv2.rectangle(canvas, (2, 2), (9, 9), 255, -1)
    cv2.circle(canvas, (20, 20), 5, 128, -1)
    print(canvas.sum())


@flow("split > equalizeHist > merge")
def channels_apart_and_together():
    print(cv2.merge([cv2.equalizeHist(c) for c in cv2.split(picture())]).shape)


@flow("astype > subtract > divide > clip > sum")
def out_arguments():
    x = picture().astype(np.float32)
    buf = np.empty_like(x)
    np.subtract(x, 128.0, out=buf)
    np.divide(buf, 64.0, out=buf)
    print(np.clip(buf, -1, 1).sum())


@flow("astype > isub > imul > sum", counts={"isub": 1, "imul": 1})
def augmented_in_place():
    x = picture().astype(np.float64)
    x -= 3
    x *= 2
    print(x.sum())


@flow("arange > reshape > getitem > iadd > sum")
def write_through_a_view():
    a = np.arange(24.0).reshape(4, 6)
    row = a[1]
    row += 5
    print(a.sum())


@flow("normal > where > nansum", "normal > lt > where")
def masked_away():
    x = np.random.default_rng(2).normal(size=(10, 10))
    x = np.where(x < 0, np.nan, x)
    print(np.nansum(x))


@flow("normal > lt > setitem > sum", "normal > setitem")
def mask_assignment():
    x = np.random.default_rng(2).normal(size=(10, 10))
    x[x < 0] = 0
    print(x.sum())


@flow("resize > append", "resize > stack > mean > sub > std", "stack > sub", sizes={"resize>stack": 5 * 192})
def stacked_list():
    batch = []
    for seed in range(5):
        batch.append(cv2.resize(picture(seed), (8, 8)))
    all_of_them = np.stack(batch)
    print((all_of_them - all_of_them.mean(axis=0)).std())


FLOW["stacked_list"].discard(("resize", "append"))


@flow("arange > getitem > mean > array > max", counts={"mean": 4})
def batches_by_slicing():
    data = np.arange(32.0)
    means = [data[i : i + 8].mean() for i in range(0, 32, 8)]
    print(np.array(means).max())


@flow("mean > add > truediv", "add > add", counts={"mean": 6})
def running_total_of_scalars():
    total = 0.0
    for seed in range(6):
        total = total + picture(seed).mean()
    print(total / 6)


@flow("mean > iadd > sqrt", "iadd > iadd")
def running_total_augmented():
    total = np.float64(0)
    for seed in range(6):
        total += picture(seed).mean()
    print(np.sqrt(total))


@flow("mean > float > mul > full", "std > float", "float > add > full")
def through_floats():
    x = picture()
    m, s = float(x.mean()), float(x.std())
    print(np.full(3, m * 2).sum(), np.full(2, s + 1).sum())


@flow("percentile > clip > ptp")
def unpacked_percentiles():
    x = picture()
    low, high = np.percentile(x, [5, 95])
    print(np.ptp(np.clip(x, low, high)))


@flow("multiply > matmul > trace", "multiply > solve", "matmul > solve > norm")
def linear_algebra():
    a = np.multiply(np.eye(4), 3.0)
    b = a @ a
    print(np.trace(b), np.linalg.norm(np.linalg.solve(b, a)))


@flow("svd > diag > matmul", "svd > matmul > allclose", "matmul > matmul")
def low_rank():
    a = picture()[..., 0].astype(float)
    u, s, vt = np.linalg.svd(a)
    print(np.allclose(u @ np.diag(s) @ vt, a))


@flow("sqrt > save > load > sum")
def through_a_file():
    buf = io.BytesIO()
    np.save(buf, np.sqrt(np.arange(4.0)))
    buf.seek(0)
    print(np.load(buf).sum())


# ---- Python's own ways of moving data


@dataclasses.dataclass
class Sample:
    image: np.ndarray
    label: int
    meta: dict = dataclasses.field(default_factory=dict)


@flow("resize > mean > log", "resize > flip", "flip > sum")
def dataclass_samples():
    samples = [Sample(cv2.resize(picture(i), (8, 8)), i) for i in range(3)]
    for s in samples:
        s.meta["mean"] = s.image.mean()
        s = dataclasses.replace(s, image=cv2.flip(s.image, 0))
        print(np.log(s.meta["mean"] + 0) if False else np.log(s.meta["mean"]), s.image.sum())


class Compose:
    def __init__(self, steps):
        self.steps = steps

    def __call__(self, x):
        for step in self.steps:
            x = step(x)
        return x


class Resize:
    def __init__(self, n):
        self.n = n

    def __call__(self, x):
        return cv2.resize(x, (self.n, self.n))


class Normalise:
    mean = np.array([100.0, 110.0, 120.0])

    def __call__(self, x):
        return (x - self.mean) / 50


@flow("resize > cvtColor > sub > truediv > transpose > sum", "array > sub", counts={"resize": 2})
def composed_transforms():
    pipeline = Compose([Resize(8), functools.partial(cv2.cvtColor, code=cv2.COLOR_BGR2RGB), Normalise(), np.transpose])
    for seed in range(2):
        print(pipeline(picture(seed)).sum())


@flow("sqrt > square > tanh > sum")
def reduced_composition():
    compose = functools.reduce(lambda f, g: lambda x: g(f(x)), [np.sqrt, np.square, np.tanh])
    print(compose(np.arange(5.0)).sum())


@flow("full > reduce > sum")
def reduced_sum():
    arrays = [np.full(4, float(i)) for i in range(4)]
    print(functools.reduce(operator.add, arrays).sum())


@flow("full > sqrt > stack")
def mapped():
    print(np.stack(list(map(np.sqrt, [np.full(4, float(i)) for i in range(4)]))).sum())


@flow("full > exp > vstack", "full > mean")
def mapped_lambda_and_filtered():
    arrays = [np.full(4, float(i)) for i in range(4)]
    kept = filter(lambda a: a.mean() > 0.5, arrays)
    print(np.vstack(list(map(lambda a: np.exp(a), kept))).shape)


@flow("full > mul > concatenate > cumsum")
def generators_in_a_chain():
    def source():
        for i in range(3):
            yield np.full(4, i + 1.0)

    def scale(items, by):
        for item in items:
            yield item * by

    print(np.concatenate(list(scale(source(), 3))).cumsum()[-1])


@flow("full > sub > max")
def generator_with_send():
    def demean():
        x = yield
        while True:
            x = yield x - 1

    g = demean()
    next(g)
    print([g.send(np.full(3, float(i))).max() for i in range(3)])


@flow("full > sin > stack > mean")
def batched_by_islice():
    stream = (np.sin(np.full(3, float(i))) for i in range(6))
    while batch := list(itertools.islice(stream, 2)):
        print(np.stack(batch).mean())


@flow("full > cos > dot", "full > dot")
def zipped_and_chained():
    a = [np.full(3, float(i)) for i in range(3)]
    b = [np.cos(x) for x in itertools.chain(a[:1], a[1:])]
    print(sum(float(np.dot(x, y)) for x, y in zip(a, b)))


@flow("full > __next__ > max", "full > max")
def accumulated():
    print([x.max() for x in itertools.accumulate([np.full(3, float(i)) for i in range(3)])])


@flow("sqrt > exp > sum", "sqrt > tanh")
def dict_pipeline():
    stages = {"a": lambda d: np.sqrt(d["x"]), "b": lambda d: np.exp(d["a"]), "c": lambda d: np.tanh(d["a"])}
    d = {"x": np.arange(4.0)}
    for name, stage in stages.items():
        d[name] = stage(d)
    out = {**d, "z": 1}
    print(out["b"].sum(), out["c"].shape)


@flow("arange > square > hypot", "arange > sqrt > hypot", "hypot > sum")
def star_arguments():
    def apply(f, *args, **kw):
        return f(*args, **kw)

    x = np.arange(4.0)
    pair = (np.square(x), np.sqrt(x))
    print(apply(np.sum, apply(np.hypot, *pair), axis=0))


@flow("resize > concatenate > var")
def recursive_pyramid():
    def pyramid(x):
        if x.shape[0] <= 4:
            return [x.ravel()]
        return [x.ravel(), *pyramid(cv2.resize(x, (x.shape[1] // 2, x.shape[0] // 2)))]

    print(np.concatenate(pyramid(picture())).var())


FLOW["recursive_pyramid"] = {
    ("resize", "ravel"),
    ("ravel", "concatenate"),
    ("concatenate", "var"),
    ("resize", "resize"),
}


class Lazy:
    def __init__(self, seed):
        self.raw = picture(seed)

    @property
    def gray(self):
        return cv2.cvtColor(self.raw, cv2.COLOR_BGR2GRAY)

    @functools.cached_property
    def small(self):
        return cv2.resize(self.gray, (8, 8))

    def __getitem__(self, key):
        return self.small[key]

    def __add__(self, other):
        return cv2.add(self.small, other.small)


@flow("cvtColor > resize > getitem > sum", "resize > add > mean", counts={"cvtColor": 2, "resize": 2})
def properties_and_magic_methods():
    a, b = Lazy(0), Lazy(1)
    print(a[2:4].sum(), a.small.shape, (a + b).mean())


@flow("resize > sub > absolute > sum", counts={"resize": 3})
def cache_hits():
    @functools.lru_cache(maxsize=None)
    def load(i):
        return cv2.resize(picture(i), (4, 4))

    for i in (0, 1, 2, 0, 1, 2):
        print(np.abs(load(i) - 7).sum())


@flow("sqrt > log1p > sum")
def decorated():
    def logged(f):
        @functools.wraps(f)
        def inner(*a, **k):
            return f(*a, **k)

        return inner

    @logged
    def one(x):
        return np.sqrt(x)

    @logged
    def two(x):
        return np.log1p(x)

    print(two(one(np.arange(5.0))).sum())


@flow("ones > mul > add > sum", "mul > mul", "add > add")
def closure_with_state():
    def ema(beta):
        state = np.ones(4)

        def update(x):
            nonlocal state
            state = state * beta + x
            return state

        return update

    step = ema(0.9)
    for i in range(4):
        print(step(i).sum())


FLOW["closure_with_state"] = {("ones", "mul"), ("mul", "add"), ("add", "mul"), ("add", "sum")}


@flow("zeros > add > truediv", "square > add", "add > add", counts={"square": 3})
def state_in_a_class():
    class Stats:
        def __init__(self):
            self.total, self.n = np.zeros(3), 0

        def push(self, x):
            self.total = self.total + np.square(x)
            self.n += 1

    s = Stats()
    for i in range(3):
        s.push(np.arange(3.0) + i)
    print(s.total / s.n)


FLOW["state_in_a_class"] = {("zeros", "add"), ("add", "square"), ("square", "add"), ("add", "add"), ("add", "truediv")}


@flow("arange > inv", "arange > reshape > pinv > sum", "reshape > inv")
def fallback_after_an_error():
    a = np.arange(9.0).reshape(3, 3)
    a[:] = 1
    try:
        b = np.linalg.inv(a)
    except np.linalg.LinAlgError:
        b = np.linalg.pinv(a)
    print(b.sum())


FLOW["fallback_after_an_error"] = {("reshape", "setitem"), ("setitem", "pinv"), ("pinv", "sum"), ("arange", "reshape")}


@flow("sqrt > divide > sum")
def context_managers():
    @contextlib.contextmanager
    def loaded():
        yield np.sqrt(np.arange(1, 5.0))

    with loaded() as x, np.errstate(all="ignore"):
        print(np.divide(x, 3).sum())


@flow("roll > append > popleft", "roll > mean")
def deque_window():
    window = collections.deque(maxlen=3)
    base = np.arange(5.0)
    for i in range(5):
        window.append(np.roll(base, i))
    print(np.mean([w for w in window]))


FLOW["deque_window"] = {("arange", "roll"), ("roll", "mean")}


@flow("sqrt > sort > searchsorted", "arange > sqrt")
def namedtuple_and_unpacking():
    Pair = collections.namedtuple("Pair", "left right")
    x = np.sqrt(np.arange(9.0))
    (first, *rest), last = [Pair(x, 1), Pair(np.sort(x), 2)], 3
    print(np.searchsorted(rest[0].left, first.left).sum() + last)


FLOW["namedtuple_and_unpacking"].add(("sqrt", "searchsorted"))


@flow("full > tanh > stack > sum", counts={"tanh": 4})
def thread_pool_map():
    with ThreadPoolExecutor(2) as pool:
        print(np.stack(list(pool.map(np.tanh, [np.full(3, float(i)) for i in range(4)]))).sum())


@flow("full > mul > cbrt > sum", counts={"cbrt": 4})
def thread_pool_user_function():
    def work(x):
        return np.cbrt(x * 2)

    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(work, np.full(3, float(i))) for i in range(4)]
        print(sum(sorted(float(j.result().sum()) for j in as_completed(jobs))))


@flow("full > expm1 > concatenate > sum")
def queue_between_threads():
    todo, done = queue.Queue(2), queue.Queue()

    def worker():
        while (x := todo.get()) is not None:
            done.put(np.expm1(x))

    t = threading.Thread(target=worker)
    t.start()
    for i in range(4):
        todo.put(np.full(2, float(i)))
    todo.put(None)
    t.join()
    print(np.concatenate([done.get() for _ in range(4)]).sum())


@flow("full > sinh > cosh > vstack > sum")
def asyncio_gather():
    async def one(i):
        x = np.sinh(np.full(2, float(i)))
        await asyncio.sleep(0)
        return np.cosh(x)

    async def main():
        return await asyncio.gather(*(one(i) for i in range(3)))

    print(np.vstack(asyncio.run(main())).sum())


@flow("full > sinh > hstack > sum")
def asyncio_queue_and_generator():
    async def main():
        q = asyncio.Queue()

        async def produce():
            for i in range(3):
                await q.put(np.full(2, float(i)))
            await q.put(None)

        async def consume():
            while (x := await q.get()) is not None:
                yield np.sinh(x)

        task = asyncio.create_task(produce())
        out = [x async for x in consume()]
        await task
        return np.hstack(out)

    print(asyncio.run(main()).sum())


@flow("full > to_thread > run > mean")
def asyncio_to_thread():
    async def main():
        x = await asyncio.to_thread(np.sqrt, np.full(2, 4.0))
        return x

    print(np.mean(asyncio.run(main())))


@flow("arange > take > compress > sum", "arange > gt > compress")
def numpy_functions_on_methods():
    x = np.arange(10.0)
    y = np.take(x, [1, 5, 7])
    print(np.compress(x[:3] > -1, y).sum())


FLOW["numpy_functions_on_methods"] = {("arange", "take"), ("take", "compress"), ("gt", "compress"), ("compress", "sum")}


@flow("arange > sort")
def sorted_in_place():
    x = np.arange(10.0)[::-1].copy()
    x.sort()
    print(np.median(x))


FLOW["sorted_in_place"] = {("arange", "getitem"), ("getitem", "copy"), ("copy", "sort"), ("sort", "median")}


@flow("sum > max")
def best_of_many():
    best, where = -1.0, None
    for i in range(4):
        x = cv2.resize(picture(i), (4, 4))
        score = x.std()
        if score > best:
            best, where = score, x
    print(np.log(best), where.sum())


FLOW["best_of_many"] = {("resize", "std"), ("std", "log"), ("resize", "sum")}


@flow("sqrt > array > mean")
def list_of_scalars():
    values = [np.sqrt(np.float64(i)) for i in range(4)]
    print(np.array(values).mean())


@flow("sum > truediv > sqrt")
def softmax_by_hand():
    x = np.linspace(0, 1, 5)
    e = np.exp(x - x.max())
    print(np.sqrt(e / e.sum()))


FLOW["softmax_by_hand"] = {
    ("linspace", "max"),
    ("linspace", "sub"),
    ("max", "sub"),
    ("sub", "exp"),
    ("exp", "sum"),
    ("exp", "truediv"),
    ("sum", "truediv"),
    ("truediv", "sqrt"),
}


@flow("pad > sliding_window_view > mean > ravel")
def sliding_windows():
    x = np.pad(np.arange(10.0), 2)
    w = np.lib.stride_tricks.sliding_window_view(x, 3)
    print(w.mean(axis=-1).ravel()[0])


@flow("einsum > add > maximum", "normal > einsum", counts={"maximum": 3})
def numpy_layers():
    rng = np.random.default_rng(0)
    h = rng.normal(size=(2, 4))
    for w in [rng.normal(size=(4, 4)) for _ in range(3)]:
        h = np.maximum(np.einsum("bi,ij->bj", h, w) + 1, 0)
    print(h.shape)


FLOW["numpy_layers"].add(("maximum", "einsum"))


@flow("loadtxt > mean")
def text_table():
    table = np.loadtxt(io.StringIO("1 2\n3 4\n"))
    print(table.mean(0))


@flow("apply_along_axis > sum", "arange > reshape > apply_along_axis")
def along_an_axis():
    print(np.apply_along_axis(lambda r: r[::-1], 1, np.arange(12.0).reshape(3, 4)).sum())


@flow("normal > minimize", "minimize > allclose")
def optimised_by_scipy():
    from scipy import optimize

    target = np.random.default_rng(0).normal(size=3)
    r = optimize.minimize(lambda p: float(((p - target) ** 2).sum()), np.zeros(3))
    print(np.allclose(r.x, target, atol=1e-3))


FLOW["optimised_by_scipy"] = {("zeros", "minimize"), ("minimize", "allclose"), ("normal", "allclose"), ("normal", "sub")}


# ---- torch


class Pictures(Dataset):
    def __init__(self, n=4, transform=None):
        self.n, self.transform = n, transform

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        x = cv2.resize(picture(i), (8, 8))
        if self.transform:
            x = self.transform(x)
        return torch.from_numpy(x).permute(2, 0, 1), i


@flow(
    "resize > from_numpy > permute > __next__ > float > div > mean",
    sizes={"resize>from_numpy": 768, "permute>__next__": 768},
    counts={"resize": 4, "__next__": 2},
)
def loader_in_this_process():
    for x, y in DataLoader(Pictures(), batch_size=2):
        print(x.float().div(255).mean().item(), y.tolist())


@flow(
    "resize > from_numpy > permute > __next__ > float > mean",
    sizes={"resize>from_numpy": 768, "permute>__next__": 768},
    counts={"resize": 4, "__next__": 2},
)
def loader_with_workers():
    for x, _ in DataLoader(Pictures(), batch_size=2, num_workers=2):
        print(x.float().mean().item())


@flow("resize > from_numpy > permute > __next__ > sum", counts={"resize": 4, "__next__": 2})
def loader_with_persistent_spawned_workers():
    loader = DataLoader(Pictures(2), batch_size=2, num_workers=1, persistent_workers=True, multiprocessing_context="spawn")
    for _ in range(2):
        for x, _ in loader:
            print(x.sum().item())


def pad_collate(items):
    xs = [F.pad(x.float(), (0, i)) if i % 1 else x.float() for x, i in items]
    return {"x": torch.stack(xs), "y": torch.tensor([i for _, i in items])}


@flow("permute > float > stack > mul", "tensor > sub", counts={"stack": 2})
def custom_collate():
    for batch in DataLoader(Pictures(), batch_size=2, collate_fn=pad_collate):
        print((batch["x"] * 2).shape, (batch["y"] - 1).tolist())


@flow("permute > float > stack > __next__ > mul", "tensor > __next__ > sub", counts={"stack": 2})
def custom_collate_in_workers():
    for batch in DataLoader(Pictures(), batch_size=2, collate_fn=pad_collate, num_workers=2):
        print((batch["x"] * 2).shape, (batch["y"] - 1).tolist())


@flow("resize > GaussianBlur > sub > truediv > from_numpy > permute > __next__ > std")
def loader_with_composed_transform():
    t = Compose([functools.partial(cv2.GaussianBlur, ksize=(3, 3), sigmaX=0), Normalise()])
    for x, _ in DataLoader(Pictures(transform=t), batch_size=4):
        print(x.std().shape)


class Stream(IterableDataset):
    def __iter__(self):
        for i in range(4):
            yield torch.full((3,), float(i)).sqrt()


@flow("full > sqrt > __next__ > exp", counts={"sqrt": 4})
def iterable_dataset():
    for x in DataLoader(Stream(), batch_size=2):
        print(x.exp().sum())


@flow("randn > __next__ > matmul > add", "TensorDataset > __next__")
def tensor_dataset():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(6, 3), torch.arange(6))
    w = torch.ones(3)
    for x, y in DataLoader(Subset(data, [0, 1, 2, 3]), batch_size=2):
        print((x @ w + y).shape)


FLOW["tensor_dataset"] = {
    ("randn", "__next__"),
    ("arange", "__next__"),
    ("__next__", "matmul"),
    ("ones", "matmul"),
    ("matmul", "add"),
    ("__next__", "add"),
}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x):
        h = self.body(x)
        return F.log_softmax(h, dim=1)


@flow("randn > __call__ > log_softmax > nll_loss > backward", "log_softmax > argmax > eq > sum", counts={"backward": 3})
def training_loop():
    torch.manual_seed(0)
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        x, y = torch.randn(5, 4), torch.zeros(5, dtype=torch.long)
        out = net(x)
        loss = F.nll_loss(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print((out.argmax(1) == y).sum().item())


@flow("backward > step", "step > __call__", "__call__ > mse_loss > backward", "randn > __call__")
def optimiser_is_an_operation():
    torch.manual_seed(0)
    net = nn.Linear(4, 1)
    opt = torch.optim.Adam(net.parameters())
    x = torch.randn(5, 4)
    for _ in range(3):
        opt.zero_grad(set_to_none=True)
        F.mse_loss(net(x), torch.zeros(5, 1)).backward()
        opt.step()
    print(net.weight.shape)


@flow("randn > mul_ > add_ > clamp_ > sum")
def torch_in_place():
    x = torch.randn(4)
    x.mul_(2).add_(1)
    x.clamp_(0)
    print(x.sum().shape)


@flow("zeros > view > fill_ > sum", "zeros > view")
def torch_view_write():
    x = torch.zeros(4, 4)
    v = x.view(-1)
    v.fill_(3)
    print(x.sum().item())


@flow("randn > chunk > mul > cat > relu", "randn > chunk > sigmoid > mul")
def torch_gate():
    a, b = torch.randn(2, 8).chunk(2, dim=1)
    print(torch.cat([a * b.sigmoid(), a]).relu().shape)


FLOW["torch_gate"].add(("chunk", "cat"))


@flow("from_numpy > mul_ > sum", "ones > from_numpy")
def shared_with_numpy():
    a = np.ones(4)
    t = torch.from_numpy(a)
    t.mul_(3)
    print(a.sum())


@flow("randn > unfold > mean > numpy > resize")
def torch_to_cv2():
    x = torch.randn(1, 16).unfold(1, 4, 2).mean(0).numpy()
    print(cv2.resize(x, (2, 2)).shape)


@flow("randn > conv2d > batch_norm > relu > max_pool2d > flatten > linear", "randn > linear")
def functional_layers():
    x, w = torch.randn(1, 3, 8, 8), torch.randn(2, 3, 3, 3)
    x = F.relu(F.batch_norm(F.conv2d(x, w), torch.zeros(2), torch.ones(2)))
    x = torch.flatten(F.max_pool2d(x, 2), 1)
    print(F.linear(x, torch.randn(5, 18)).shape)


FLOW["functional_layers"] = {p for p in FLOW["functional_layers"]} | {("zeros", "batch_norm"), ("ones", "batch_norm")}


@flow("embedding > scaled_dot_product_attention > mean > topk", "tensor > embedding")
def attention():
    e = F.embedding(torch.tensor([[1, 2, 3]]), torch.eye(5))
    a = F.scaled_dot_product_attention(e, e, e)
    values, where = a.mean(1).topk(2)
    print(values.shape, where.shape)


FLOW["attention"].add(("eye", "embedding"))


@flow("randn > lt > masked_fill > logsumexp", "randn > masked_fill")
def torch_masks():
    x = torch.randn(3, 3)
    print(x.masked_fill(x < 0, -9.0).logsumexp(0).shape)


@flow("ones > setitem > index_select > sum")
def torch_setitem():
    x = torch.ones(4, 4)
    x[1:3] = 0
    print(x.index_select(0, torch.tensor([1])).sum().item())


@flow("randn > save > load > abs")
def torch_checkpoint():
    b = io.BytesIO()
    torch.save({"w": torch.randn(3)}, b)
    b.seek(0)
    print(torch.load(b)["w"].abs().shape)


@flow("backward > clip_grad_norm_", "clip_grad_norm_ > gt")
def clipped_gradients():
    w = torch.ones(3, requires_grad=True)
    (w * 2).sum().backward()
    n = nn.utils.clip_grad_norm_([w], 1.0)
    print(bool(n > 0))


@flow("__call__ > mean > backward", "__call__ > __call__")
def modules_one_by_one():
    torch.manual_seed(0)
    layers = nn.ModuleList([nn.Linear(4, 4), nn.Tanh()])
    x = torch.ones(2, 4)
    for layer in layers:
        x = layer(x)
    x.mean().backward()
    print(x.shape)


@flow("ones > mul > add > item > append", "mul > add")
def no_grad_evaluation():
    losses = []
    with torch.no_grad():
        for i in range(3):
            losses.append((torch.ones(3) * i + 1).sum().item())
    print(np.mean(losses))


FLOW["no_grad_evaluation"] = {("ones", "mul"), ("mul", "add"), ("add", "sum"), ("sum", "item"), ("item", "mean")}


@flow("pin > to", "ones > to > half > float > sum")
def moved_and_cast():
    print(torch.ones(4).to("cpu", torch.float64).half().float().sum().item())


FLOW["moved_and_cast"].discard(("pin", "to"))


@flow("stack > unbind > sum")
def stacked_and_unbound():
    xs = [torch.full((2,), float(i)) for i in range(3)]
    print([x.sum().item() for x in torch.stack(xs).unbind()])


FLOW["stacked_and_unbound"].add(("full", "stack"))

# ---- arrays that are iterated, unpacked and handed to Python's own functions


@flow("linspace > sqrt > stack", counts={"sqrt": 3})
def rows_in_a_loop():
    out = []
    for row in np.linspace(0, 1, 12).reshape(3, 4):
        out.append(np.sqrt(row))
    print(np.stack(out).shape)


FLOW["rows_in_a_loop"] = {("linspace", "reshape"), ("reshape", "sqrt"), ("sqrt", "stack")}


@flow("sin > hypot > sum")
def unpacked_rows():
    first, second = np.sin(np.arange(8.0).reshape(2, 4))
    print(np.hypot(first, second).sum())


@flow("sin > dot")
def unpacked_with_a_star():
    first, *rest = np.sin(np.arange(12.0).reshape(3, 4))
    print(np.dot(first, rest[1]))


@flow("sin > cos > stack")
def comprehension_over_an_array():
    a = np.sin(np.arange(12.0).reshape(3, 4))
    print(np.stack([np.cos(row) for row in a]).shape)


@flow("sin > multiply", "cos > multiply > sum")
def zipped_arrays():
    a, b = np.sin(np.eye(3)), np.cos(np.eye(3))
    print([np.multiply(r, s).sum() for r, s in zip(a, b)])


@flow("sin > tanh > sum")
def enumerated_array():
    for i, row in enumerate(np.sin(np.eye(3))):
        print(i, np.tanh(row).sum())


@flow("sin > list > vstack")
def listed_array():
    rows = list(np.sin(np.eye(3)))
    print(np.vstack(rows[::-1]).shape)


@flow("randn > relu > stack > sum")
def rows_of_a_tensor():
    print(torch.stack([row.relu() for row in torch.randn(3, 2)]).sum().shape)


@flow("randn > mm > sum")
def unpacked_tensor():
    a, b = torch.randn(2, 3, 3)
    print(torch.mm(a, b).sum().shape)


@flow("std > sqrt > full")
def through_the_math_module():
    import math

    print(np.full(2, math.sqrt(picture().std())).sum())


@flow("std > round > full", "max > int > zeros")
def through_round_and_int():
    x = picture()
    print(np.full(2, round(x.std(), 2)).sum(), np.zeros(int(x.max())).shape)


@flow("std > sum > full")
def through_builtin_sum():
    print(np.full(2, sum([picture(i).std() for i in range(3)])).sum())


FLOW["through_builtin_sum"] = {("std", "sum"), ("sum", "full"), ("full", "sum")}


@flow("std > max > full")
def through_builtin_max():
    print(np.full(2, max(picture(i).std() for i in range(3))).min())


FLOW["through_builtin_max"] = {("std", "full"), ("full", "min")}


@flow("resize > std", "resize > flip")
def sorted_by_a_key():
    xs = sorted([cv2.resize(picture(i), (4, 4)) for i in range(3)], key=lambda a: a.std())
    print(cv2.flip(xs[0], 0).sum())


@flow("imwrite > imread > resize")
def through_a_named_file():
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.png")
        cv2.imwrite(path, cv2.flip(picture(), 0))
        print(cv2.resize(cv2.imread(path), (4, 4)).shape)


FLOW["through_a_named_file"] = {("flip", "imwrite"), ("imread", "resize")}


@flow("sin > deepcopy > iadd", "sin > copy > iadd")
def copied():
    import copy

    a = np.sin(np.eye(2))
    b, c = copy.deepcopy(a), a.copy()
    b += 1
    c += 2
    print(b.sum(), c.sum())


FLOW["copied"] |= {("iadd", "sum")}


@flow("sin > sum", "sin > mul")
def attribute_views():
    a = np.sin(np.ones((2, 3))) + 0
    print(a.T.sum(), (a.real * 2).shape)


FLOW["attribute_views"] = {("sin", "add"), ("add", "sum"), ("add", "mul"), ("ones", "sin")}


@flow("sin > fill > sum")
def flat_and_fill():
    a = np.sin(np.ones((2, 3)))
    a.fill(3)
    print(a.sum())


@flow("sin > sum")
def attribute_of_a_module():
    class Config:
        pass

    setattr(Config, "table", np.sin(np.ones(3)))
    print(getattr(Config, "table").sum(), vars(Config)["table"].shape)


@flow("permute > __next__ > mul > sum")
def loader_enumerated_and_sliced():
    for step, (x, _) in enumerate(itertools.islice(DataLoader(Pictures(), batch_size=1), 2)):
        print(step, (x * 2).sum().item())


@flow("permute > next > add > sum")
def first_batch_only():
    x, _ = next(iter(DataLoader(Pictures(), batch_size=2)))
    print((x + 1).sum().item())


@flow("permute > __next__ > mul > sum", counts={"mul": 4})
def loader_behind_a_generator():
    def progress(items):
        for item in items:
            yield item

    for epoch in range(2):
        for x, _ in progress(DataLoader(Pictures(), batch_size=2)):
            print(epoch, (x * 2).sum().item())


@flow("permute > stack > sub > mean")
def collated_by_a_lambda():
    loader = DataLoader(Pictures(), batch_size=2, collate_fn=lambda items: torch.stack([x for x, _ in items]))
    print([(x - 1).float().mean().item() for x in loader])


FLOW["collated_by_a_lambda"] = {("permute", "stack"), ("stack", "sub"), ("sub", "float"), ("float", "mean")}


@flow("mul > sum > grad > sub", "ones > mul")
def functional_gradient():
    w = torch.ones(3, requires_grad=True)
    (g,) = torch.autograd.grad((w * 2).sum(), w)
    print((w - g).shape)


FLOW["functional_gradient"] |= {("ones", "grad"), ("ones", "sub")}


@flow("backward > sub_", "ones > mul > sum > backward")
def gradient_descent_by_hand():
    w = torch.ones(3, requires_grad=True)
    for _ in range(2):
        (w * 2).sum().backward()
        with torch.no_grad():
            w.sub_(0.1 * w.grad)
        w.grad.zero_()
    print(w.sum().item())


FLOW["gradient_descent_by_hand"] = {
    ("ones", "mul"),
    ("mul", "sum"),
    ("sum", "backward"),
    ("mul", "sub_"),
    ("ones", "sub_"),
    ("sub_", "mul"),
    ("sub_", "sub_"),
    ("sub_", "sum"),
    ("backward", "mul"),
    ("backward", "zero_"),
    ("zero_", "backward"),
}


@flow("ones > Parameter > mul_ > sum")
def parameter_data():
    p = nn.Parameter(torch.ones(3))
    p.data.mul_(2)
    print(p.sum().item())


@flow("sqrt > mul > sum")
def executor_in_a_loop():
    async def main():
        loop = asyncio.get_running_loop()

        def work(a):
            return np.sqrt(a)

        x = await loop.run_in_executor(None, work, np.full(2, 4.0))
        return x * 2

    print(asyncio.run(main()).sum())


@flow("sqrt > mul > sum", "full > sqrt")
def user_function_in_a_thread():
    async def main():
        def work(a):
            return np.sqrt(a)

        return (await asyncio.to_thread(work, np.full(2, 4.0))) * 2

    print(asyncio.run(main()).sum())


@flow("sqrt > exp")
def done_callback():
    out = []
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(lambda: np.sqrt(np.arange(3.0)))
        job.add_done_callback(lambda j: out.append(np.exp(j.result())))
    print(out[0].sum())


@flow("sqrt > map > stack")
def process_pool():
    import multiprocessing

    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(np.stack(pool.map(root, [np.full(2, float(i)) for i in range(4)])).sum())
        pool.close()
        pool.join()


def root(a):
    return np.sqrt(a)


@flow("cumsum > searchsorted", "random > searchsorted > getitem")
def weighted_choice():
    rng = np.random.default_rng(0)
    w = np.cumsum(np.ones(4))
    print(np.array(["a", "b", "c", "d"])[np.searchsorted(w, rng.random(5) * 4)])


FLOW["weighted_choice"] = {("ones", "cumsum"), ("cumsum", "searchsorted"), ("random", "mul"), ("mul", "searchsorted"), ("searchsorted", "getitem")}


@flow("sin > getitem > setitem")
def swapped():
    a = np.sin(np.arange(4.0))
    a[0], a[1] = a[1], a[0]
    print(np.sum(a))


FLOW["swapped"] = {("sin", "getitem"), ("getitem", "setitem"), ("setitem", "sum"), ("sin", "setitem"), ("setitem", "setitem")}


@flow("resize > mean > gt", "resize > blur", "resize > medianBlur")
def branches():
    for i in range(4):
        x = cv2.resize(picture(i), (8, 8))
        y = cv2.blur(x, (3, 3)) if x.mean() > 127 else cv2.medianBlur(x, 3)
        print(y.sum())


FLOW["branches"] |= {("blur", "sum"), ("medianBlur", "sum")}

# ---- writes that are easy to lose


@flow("sin > gt > getitem > imul > setitem > tan", "sin > getitem", "sin > setitem", "gt > setitem")
def masked_augmented_assignment():
    a = np.sin(np.arange(1.0, 9.0))
    mask = a > 0
    a[mask] *= 2
    print(np.tan(a).shape)


@flow("sin > gt > getitem > imul > setitem > tan", "sin > getitem", "sin > setitem", "gt > setitem")
def computed_mask_augmented():
    a = np.sin(np.arange(1.0, 9.0))
    a[a > 0] *= 2
    print(np.tan(a).shape)


@flow("sin > getitem > iadd > setitem > tan", "sin > setitem")
def computed_base_augmented():
    d = {"a": np.sin(np.arange(1.0, 9.0))}
    d["a"][0] += 2
    print(np.tan(d["a"]).shape)


@flow("sin > getitem > iadd > setitem > tan", "sin > setitem")
def attribute_augmented():
    class Holder:
        pass

    h = Holder()
    h.a, i = np.sin(np.arange(1.0, 9.0)), 1
    h.a[i] += 2
    print(np.tan(h.a).shape)


@flow("sin > iadd > tan")
def attribute_replaced():
    class Holder:
        pass

    h = Holder()
    h.a = np.sin(np.arange(1.0, 9.0))
    h.a += 2
    print(np.tan(h.a).shape)


@flow("sin > getitem > iadd > setitem > tan", "sin > setitem")
def computed_index_augmented():
    a, i = np.sin(np.arange(1.0, 9.0)), 1
    a[i + 1] += 2
    print(np.tan(a).shape)


@flow("sin > getitem > iadd > setitem > tan", "sin > setitem", counts={"setitem": 1})
def picked_augmented_assignment():
    a = np.sin(np.arange(1.0, 9.0))
    a[[0, 2]] += 1
    print(np.tan(a).shape)


@flow("sin > setitem > tan", "cos > setitem")
def pair_with_a_subscript():
    a, b = np.sin(np.ones(4)), np.cos(np.ones(2))
    a[:2], n = b, 1
    print(np.tan(a).shape, n)


@flow("sin > setitem > tan", "cos > setitem")
def assigned_in_a_chain():
    a, b = np.sin(np.ones(4)), np.cos(np.ones(2))
    a[:2] = a[2:] = b
    print(np.tan(a).shape)


FLOW["assigned_in_a_chain"].add(("setitem", "setitem"))


@flow("sin > setitem > tan", "cos > setitem")
def loop_into_a_subscript():
    a = np.sin(np.ones(4))
    for a[0] in [np.cos(np.ones(())) for _ in range(2)]:
        pass
    print(np.tan(a).shape)


@flow("sin > setitem > tan")
def annotated_subscript():
    a = np.sin(np.ones(4))
    a[0]: float = 3.0
    print(np.tan(a).shape)


@flow("sin > setitem > tan")
def flat_subscript():
    a = np.sin(np.ones((2, 2)))
    a.flat[1:3] = 0.0
    print(np.tan(a).shape)


@flow("sin > readinto > tan")
def read_into_an_array():
    a = np.sin(np.ones(2))
    io.BytesIO(bytes(16)).readinto(a)
    print(np.tan(a).sum())


@flow("sin > add > tan", "cos > add")
def destination_by_position():
    a, b = np.sin(np.ones((4, 4))), np.cos(np.ones((4, 4)))
    cv2.add(b, b, a)
    print(np.tan(a).shape)

if __name__ == "__main__":
    for name in sys.argv[1:] or FLOW:
        globals()[name]()
