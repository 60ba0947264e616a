"""Small programs that use a value which could be kept: as key, value, container, default, global, in-place target.

Each is a body between HEAD and LOOP: `use(path)` gives what is printed for a file, `between(epoch)` runs after each
pass over the files.  What a program prints must not depend on whether anything of it is kept.
"""

from __future__ import annotations

HEAD = """
import hashlib, os, sys, threading, time, warnings
import cv2
import numpy as np

folder = sys.argv[1]
rng = np.random.default_rng(3)
paths = [os.path.join(folder, f"{i}.png") for i in range(24)]
numbers = [os.path.join(folder, f"{i}.npy") for i in range(24)]
for i, path in enumerate(paths):
    cv2.imwrite(path, rng.integers(0, 255, (40 + i % 3, 48, 3), dtype=np.uint8))
    np.save(numbers[i], rng.normal(size=(30, 20)).astype(np.float32))
    os.utime(path, (1e9, 1e9)), os.utime(numbers[i], (1e9, 1e9))
time.sleep(0.2)  # files that have just been written are not kept

def shown(value):
    if isinstance(value, np.ndarray):
        flags = (value.flags.writeable, value.flags.c_contiguous, value.flags.owndata)
        facts = repr((value.shape, value.strides, str(value.dtype), flags)).encode()
        return hashlib.sha256(np.ascontiguousarray(value).tobytes() + facts).hexdigest()[:12]
    return value

def between(epoch):
    pass
"""
LOOP = """
if __name__ == "__main__":
    for epoch in range(6):
        for path in files if "files" in globals() else paths:
            print(shown(use(path)))
        between(epoch)
"""

#: The value is a key: of an assignment, of a subscript, of a dictionary.
KEYS = {
    "a mask selects what is set to a number": """
def use(path):
    mask = np.zeros((43, 48), np.uint8)[: 40 + int(os.path.basename(path)[:-4]) % 3]
    m = cv2.imread(path, 0) > 127
    mask[m] = 1
    return mask
""",
    "a mask selects what is set to numbers": """
def use(path):
    image = np.zeros((40 + int(os.path.basename(path)[:-4]) % 3, 48), np.int64)
    m = cv2.imread(path, 0) > 127
    image[m] = np.arange(int(m.sum()))
    return image
""",
    "a mask selects what is added to": """
def use(path):
    image = np.ones((40 + int(os.path.basename(path)[:-4]) % 3, 48), np.int64)
    image[cv2.imread(path, 0) > 127] += 5
    return image
""",
    "a mask is turned round and then selects": """
def use(path):
    image = np.ones((40 + int(os.path.basename(path)[:-4]) % 3, 48), np.int64)
    m = ~(cv2.imread(path, 0) > 127)
    image[m] = 3
    return image
""",
    "an image looks colours up": """
table = np.arange(256)[::-1].copy()
def use(path):
    index = cv2.imread(path, 0)
    return table[index]
""",
    "a table that is written looks colours up": """
table = np.arange(256)[::-1].copy()
def use(path):
    index = cv2.imread(path, 0)
    found = table[index]
    table[int(found[0, 0])] += 1
    return found
""",
    "bytes are the key of a dictionary": """
seen = {}
def use(path):
    image = cv2.imread(path)
    seen[image.tobytes()] = len(seen)
    return sorted(seen.values())[-1]
""",
    "numbers are places in an array": """
files = numbers
counts = np.zeros(30, int)
def use(path):
    order = np.load(path).argsort(axis=0)
    counts[order[0]] += 1
    return counts.copy()
""",
    "a scalar is a place": """
files = numbers
counts = [0] * 7
def use(path):
    at = int(np.load(path).sum()) % 7
    counts[at] += 1
    return list(counts)
""",
    "an item of a dictionary is deleted by it": """
files = numbers
def use(path):
    left = {n: n for n in range(5)}
    del left[int(abs(np.load(path).sum())) % 5]
    return sorted(left)
""",
    "tensors are selected by it": """
import torch
def use(path):
    m = torch.from_numpy(cv2.imread(path, 0)) > 127
    found = torch.zeros(m.shape)
    found[m] = 2.0
    return found.numpy()
""",
}
#: The value is what is assigned, or what something is assigned to.
VALUES = {
    "an image is put into a canvas": """
def use(path):
    canvas = np.zeros((50, 50, 3), np.uint8)
    image = cv2.imread(path)
    canvas[2 : 2 + image.shape[0], 1:49] = image
    return canvas
""",
    "an image is put into a canvas at once": """
canvas = np.zeros((40, 48, 3), np.uint8)
def use(path):
    canvas[:] = cv2.imread(path)[:40]
    return canvas
""",
    "a resized image is put into a batch": """
batch = np.zeros((4, 16, 16, 3), np.uint8)
place = [0]
def use(path):
    image = cv2.resize(cv2.imread(path), (16, 16))
    batch[place[0] % 4] = image
    place[0] += 1
    return batch.copy()
""",
    "an image is a value of a dictionary and written later": """
kept = {}
def use(path):
    kept[path] = cv2.imread(path)
    return kept[path]
def between(epoch):
    for each in kept.values():
        each[:] += 1
    print([int(each.sum()) for each in kept.values()])
""",
    "an image is an item of a list and written later": """
kept = [None] * 24
def use(path):
    at = int(os.path.basename(path)[:-4])
    kept[at] = cv2.imread(path, 0)
    kept[at - 1 if kept[at - 1] is not None else at][0] = 9
    return kept[at]
""",
    "a line of the image is set": """
def use(path):
    image = cv2.imread(path)
    image[:, 0] = 7
    return image
""",
    "a part of the image is set to another part": """
def use(path):
    image = cv2.imread(path)
    image[:10] = image[10:20]
    return image
""",
    "a mask of its own selects what is set": """
def use(path):
    image = cv2.imread(path, 0)
    image[image > 127] = 0
    return image
""",
    "an attribute is set and written": """
class Item: pass
last = Item()
last.image = np.zeros(3)
def use(path):
    before = int(last.image.sum())
    last.image = cv2.imread(path)
    last.image += 1
    return before, int(last.image.sum())
""",
    "a pixel of a picture is set": """
from PIL import Image
def use(path):
    picture = Image.open(path).convert("RGB")
    picture.putpixel((1, 1), (1, 2, 3))
    return np.array(picture)
""",
    "a pixel of a loaded picture is set": """
from PIL import Image
def use(path):
    picture = Image.open(path).convert("RGB")
    pixels = picture.load()
    pixels[2, 2] = (9, 9, 9)
    return np.array(picture)
""",
    "what is known of a picture is set": """
from PIL import Image
def use(path):
    picture = Image.open(path).convert("L")
    before = dict(picture.info)
    picture.info["seen"] = 1
    return before, sorted(picture.info), picture.size
""",
}
#: The value is written in its place, by a function, a method or an operator.
TARGETS = {
    "a number is added in place": """
def use(path):
    image = cv2.imread(path)
    image += 3
    return image
""",
    "out is the value itself": """
def use(path):
    image = cv2.imread(path)
    np.add(image, 1, out=image)
    return image
""",
    "a function gives its argument back": """
def use(path):
    image = np.load(path)
    image = np.clip(image, -0.5, 0.5, out=image)
    return image
files = numbers
""",
    "dst is the value itself": """
def use(path):
    image = cv2.imread(path)
    cv2.GaussianBlur(image, (3, 3), 0, dst=image)
    return image
""",
    "a method that gives nothing": """
files = numbers
def use(path):
    value = np.load(path)
    nothing = value.sort(axis=0)
    return nothing, shown(value)
""",
    "nothing is collected": """
files = numbers
results = []
def use(path):
    results.append(np.load(path).sort())
    return len(results), results[-1]
""",
    "it is filled": """
files = numbers
def use(path):
    value = np.load(path)
    before = float(value.sum())
    value.fill(2)
    return before, shown(value)
""",
    "it is copied to another": """
files = numbers
target = np.zeros((30, 20), np.float32)
def use(path):
    np.copyto(target, np.load(path))
    return target.copy()
""",
    "it says where another is written": """
def use(path):
    target = np.zeros((40 + int(os.path.basename(path)[:-4]) % 3, 48), int)
    np.putmask(target, cv2.imread(path, 0) > 100, 5)
    return target
""",
    "it is shuffled": """
files = numbers
draw = np.random.default_rng(1)
def use(path):
    value = np.load(path)
    draw.shuffle(value)
    return value
""",
    "a view of it is written": """
def use(path):
    image = cv2.imread(path)
    flat = image.ravel()
    flat[:5] = 1
    return image
""",
    "its transposed view is written": """
files = numbers
def use(path):
    value = np.load(path)
    turned = value.T
    turned[0] = 4
    return value
""",
    "a tensor shares its memory": """
import torch
def use(path):
    image = cv2.imread(path)
    tensor = torch.from_numpy(image)
    tensor.add_(1)
    return image
""",
    "a tensor is changed in place and given back": """
import torch
files = numbers
def use(path):
    tensor = torch.from_numpy(np.load(path)).mul_(2)
    return tensor.numpy()
""",
    "a picture is pasted into": """
from PIL import Image
def use(path):
    picture = Image.open(path).convert("RGB")
    picture.paste((1, 2, 3), (0, 0, 5, 5))
    return np.array(picture)
""",
    "a picture becomes its own thumbnail": """
from PIL import Image
def use(path):
    picture = Image.open(path)
    nothing = picture.thumbnail((10, 10))
    return nothing, picture.size, shown(np.array(picture))
""",
    "an array of a picture cannot be written": """
from PIL import Image
def use(path):
    array = np.asarray(Image.open(path))
    try:
        array[0] = 1
        return "written"
    except ValueError as error:
        return str(error)
""",
    "rows are set in another order": """
files = numbers
def use(path):
    value = np.load(path)
    value[::2], value[1::2] = value[1::2].copy(), value[::2].copy()
    return value
""",
}
#: The value outlives the call: as a default, a global, in a closure, a cache, another thread.
HOLDERS = {
    "a default collects": """
def use(path, seen=[]):
    seen.append(cv2.imread(path, 0))
    seen[0][0] += 1
    return len(seen), int(seen[0].sum()), int(seen[-1].sum())
""",
    "a default is added to": """
files = numbers
def use(path, total=np.zeros((30, 20))):
    total += np.load(path)
    return total.copy()
""",
    "a global is written by another function": """
latest = None
def use(path):
    global latest
    before = 0 if latest is None else int(latest.sum())
    latest = cv2.imread(path)
    spoil()
    return before
def spoil():
    latest[:5] = 0
""",
    "a closure keeps the last": """
def made():
    last = np.zeros(1)
    def use(path):
        nonlocal last
        before, last = last, cv2.imread(path, 0)
        before[...] = 1
        return int(last.sum())
    return use
use = made()
""",
    "a cache of the program hands out one object": """
from functools import lru_cache
@lru_cache
def read(path):
    return cv2.imread(path)
def use(path):
    image = read(path)
    image += 1
    return image
""",
    "a generator hands it out and goes on": """
def read(path):
    image = cv2.imread(path)
    yield image
    yield image.sum()
def use(path):
    steps = read(path)
    image = next(steps)
    image[0] = 0
    return int(next(steps))
""",
    "objects are told apart": """
kept = []
def use(path):
    kept.append(cv2.imread(path, 0))
    return len({id(each) for each in kept}), kept[-1] is kept[0]
""",
    "it is held weakly": """
import weakref
def use(path):
    image = cv2.imread(path, 0)
    reference = weakref.ref(image)
    alive = reference() is image
    del image
    return alive, reference() is None
""",
    "a class attribute is written": """
class Last:
    image = np.zeros((40, 48), np.uint8)
def use(path):
    Last.image[:40] = cv2.imread(path, 0)[:40]
    Last.image = Last.image + 1
    return Last.image
""",
    "a comprehension writes": """
def use(path):
    images = [cv2.imread(each, 0) for each in (path, path)]
    images[0][0] = 1
    return [int(each.sum()) for each in images], images[0] is images[1]
""",
    "a walrus and a conditional": """
def use(path):
    if (image := cv2.imread(path, 0)) is not None and image.mean() > 100:
        image[0] = 0
    return image if image[0].any() else image[1:]
""",
    "a lambda in between": """
brighter = lambda image: np.add(image, 1, out=image)
def use(path):
    image = cv2.imread(path)
    return brighter(image)
""",
    "threads read": """
from concurrent.futures import ThreadPoolExecutor
def read(path):
    mask = np.zeros((43, 48), np.uint8)
    m = cv2.imread(path, 0)[:40] > 99
    mask[:40][m] = 1
    return int(mask.sum())
pool = ThreadPoolExecutor(3)
def use(path):
    return list(pool.map(read, paths[:6]))
""",
    "threads write into what they read": """
from concurrent.futures import ThreadPoolExecutor
def read(path):
    image = cv2.imread(path)
    image += 1
    return int(image.sum())
pool = ThreadPoolExecutor(3)
def use(path):
    return list(pool.map(read, [path, path, *paths[:4]]))
""",
    "a thread writes while the program goes on": """
def use(path):
    image = cv2.imread(path)
    thread = threading.Thread(target=image.fill, args=(4,))
    thread.start()
    thread.join()
    return image
""",
    "workers set items": """
import torch
from torch.utils.data import DataLoader, Dataset
class Masks(Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, index):
        mask = np.zeros((40, 48), np.float32)
        m = cv2.imread(paths[index], 0)[:40] > 127
        mask[m] = 1
        return mask
files = [0]
loader = DataLoader(Masks(), batch_size=6, num_workers=2, multiprocessing_context="fork")
def use(path):
    return [shown(batch.numpy()) for batch in loader]
""",
    "workers that stay write into what they read": """
import torch
from torch.utils.data import DataLoader, Dataset
class Images(Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, index):
        image = cv2.resize(cv2.imread(paths[index]), (20, 20))
        image += 1
        return image
files = [0]
loader = DataLoader(Images(), 6, num_workers=2, persistent_workers=True, multiprocessing_context="fork")
def use(path):
    return [shown(batch.numpy()) for batch in loader]
""",
    "a dataset sets items in the program itself": """
import torch
from torch.utils.data import DataLoader, Dataset
class Masks(Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, index):
        image = cv2.imread(paths[index], 0)[:40]
        mask = torch.zeros(40, 48)
        mask[torch.from_numpy(image > 127)] = 1
        return mask, np.ascontiguousarray(image)
files = [0]
loader = DataLoader(Masks(), batch_size=6)
def use(path):
    return [(float(mask.sum()), shown(image.numpy())) for mask, image in loader]
""",
}
#: What the value depends on changes: the file, the settings, the library.
SURROUNDINGS = {
    "a file changes through a mapping that stays": """
files = numbers
maps = [np.memmap(path, np.uint8, "r+") for path in files[:6]]
for each in maps:
    each[-1] = each[-1]
time.sleep(0.2)
def use(path):
    return np.load(path)
def between(epoch):
    for each in maps:
        each[-8:] = epoch
""",
    "a file changes through a mapping that comes and goes": """
files = numbers
def use(path):
    return np.load(path)
def between(epoch):
    for path in files[::5]:
        np.memmap(path, np.uint8, "r+")[-8:] = epoch
""",
    "a file in memory changes through a mapping that comes and goes": """
import shutil, tempfile, atexit
place = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else folder)
atexit.register(shutil.rmtree, place)
files = [shutil.copy2(path, place) for path in numbers]
time.sleep(0.2)
def use(path):
    return np.load(path)
def between(epoch):
    for path in files[::5]:
        np.memmap(path, np.uint8, "r+")[-8:] = epoch
""",
    "a mapping of the file itself is read": """
files = numbers
def use(path):
    value = np.load(path, mmap_mode="r")
    return float(value.sum()), type(value).__name__, value.flags.writeable
""",
    "a file is written again with the old time": """
def use(path):
    return cv2.imread(path)
def between(epoch):
    for path in paths[::4]:
        cv2.imwrite(path, np.full((40, 48, 3), epoch, np.uint8))
        os.utime(path, (1e9, 1e9))
""",
    "two files change places": """
def use(path):
    return cv2.imread(path)
def between(epoch):
    os.rename(paths[0], paths[0] + "x"), os.rename(paths[1], paths[0]), os.rename(paths[0] + "x", paths[1])
""",
    "a link points to another file": """
link = os.path.join(folder, "link.png")
os.symlink(paths[0], link)
files = [link] * 8 + paths[:8]
def use(path):
    return cv2.imread(path)
def between(epoch):
    os.remove(link), os.symlink(paths[epoch + 1], link)
""",
    "the folder is another": """
os.makedirs(os.path.join(folder, "other"))
for i in range(24):
    cv2.imwrite(os.path.join(folder, "other", f"{i}.png"), np.full((8, 8, 3), i, np.uint8))
    os.utime(os.path.join(folder, "other", f"{i}.png"), (1e9, 1e9))
files = [os.path.basename(path) for path in paths]
time.sleep(0.2)
os.chdir(folder)
def use(path):
    return cv2.imread(path)
def between(epoch):
    os.chdir(os.path.join(folder, "other") if epoch % 2 == 0 else folder)
""",
    "files vanish": """
def use(path):
    image = cv2.imread(path)
    return None if image is None else int(image.sum())
def between(epoch):
    if epoch == 2:
        os.remove(paths[3])
""",
    "the processor flushes small numbers to zero": """
import torch
files = numbers
for path in files:
    np.save(path, np.full((40, 40), 2e-38, np.float32))
    os.utime(path, (1e9, 1e9))
time.sleep(0.2)
def use(path):
    value = np.load(path)
    return np.multiply(value, 0.25)
def between(epoch):
    torch.set_flush_denormal(epoch == 3)
""",
    "the processor flushes small numbers of slow calls": """
import torch
from scipy import ndimage
data = [np.zeros((400, 400)) for _ in range(4)]
for n, each in enumerate(data):
    each[::50, n::70] = 1e-305
def use(path):
    value = data[int(os.path.basename(path)[:-4]) % 4]
    return ndimage.gaussian_filter(value, 4.0)
def between(epoch):
    torch.set_flush_denormal(epoch == 3)
""",
    "the processor flushes small numbers of a chain": """
import torch
def use(path):
    image = cv2.imread(path)
    value = image.astype(np.float64)
    value = value * 2.0**-1040
    value = value + 0.0
    return value
def between(epoch):
    torch.set_flush_denormal(epoch == 3)
""",
    "a method that Pillow calls itself is replaced": """
from PIL import Image, ImageFile
own, count = ImageFile.ImageFile.load, [0]
def load(self):
    count[0] += 1
    return own(self)
def use(path):
    return np.asarray(Image.open(path).convert("RGB"))
def between(epoch):
    print(count)
    ImageFile.ImageFile.load = load if epoch % 2 == 1 else own
""",
    "a function that Pillow calls itself is replaced": """
from PIL import Image
own, count = Image.Image._new, [0]
def new(self, core):
    count[0] += 1
    return own(self, core)
def use(path):
    picture = Image.open(path).convert("L").resize((9, 9))
    return np.array(picture)
def between(epoch):
    print(count)
    Image.Image._new = new if epoch % 2 == 1 else own
""",
    "a reader of a library is replaced": """
count, own = [0], cv2.imread
def imread(*args):
    count[0] += 1
    return own(*args)
def use(path):
    return cv2.imread(path)
def between(epoch):
    print(count)
    cv2.imread = imread if epoch % 2 == 1 else own
""",
    "warnings become errors": """
files = numbers
def use(path):
    value = np.load(path)
    try:
        return np.sqrt(value)
    except RuntimeWarning as warning:
        return str(warning)
def between(epoch):
    warnings.simplefilter("error" if epoch % 2 else "ignore", RuntimeWarning)
""",
    "numpy raises from now on": """
files = numbers
def use(path):
    value = np.load(path)
    try:
        return np.log(np.abs(value) - 0.1)
    except FloatingPointError as error:
        return str(error)
warnings.simplefilter("ignore")
def between(epoch):
    np.seterr(invalid="raise" if epoch % 2 else "ignore")
""",
}
#: Slow calls on arrays that come again, or do not.
SLOW_CALLS = {
    "a slow call on arrays that never come again": """
from scipy import signal
count = [0]
def use(path):
    count[0] += 1
    value = np.arange(40_000.0)
    value[1::2] += count[0]
    return signal.medfilt(value, 5)
""",
    "a slow call whose result is written": """
from scipy import signal
data = [rng.normal(size=30_000) for _ in range(4)]
def use(path):
    found = signal.medfilt(data[int(os.path.basename(path)[:-4]) % 4], 5)
    found += 1
    return found
""",
    "a slow call whose argument is written": """
from scipy import signal
data = [rng.normal(size=30_000) for _ in range(4)]
def use(path):
    value = data[int(os.path.basename(path)[:-4]) % 4]
    found = signal.medfilt(value, 5)
    value[7] += 1
    return found
""",
    "a slow call with its result as a mask": """
from scipy import ndimage
data = [rng.normal(size=(200, 200)) for _ in range(4)]
def use(path):
    value = data[int(os.path.basename(path)[:-4]) % 4]
    canvas = np.zeros((200, 200))
    m = ndimage.gaussian_filter(value, 2) > 0
    canvas[m] = value[m]
    return canvas
""",
}
PROGRAMS = KEYS | VALUES | TARGETS | HOLDERS | SURROUNDINGS | SLOW_CALLS
