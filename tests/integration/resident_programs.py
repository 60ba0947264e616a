"""A program whose values can stay on a device between its calls, and what it prints about where they were.

Run with the Python torch device of `second_device`; the tests read the last line.
"""

from __future__ import annotations

import json
import sys
import threading

import numpy as np
import second_device
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

kept = second_device.start()
import cv2  # noqa: E402 - a plan waits for it, and the device is there by then

import codedag  # noqa: E402
from codedag.backends.registry import find  # noqa: E402

DEVICE = "fakepu:0"
NAMES = ("resize", "flip", "cvtColor", "copyMakeBorder")
SEEN: list[str] = []


def straight(image):
    """Four calls, each value used once."""
    small = cv2.resize(image, (40, 30))
    turned = cv2.flip(small, 1)
    swapped = cv2.cvtColor(turned, cv2.COLOR_BGR2RGB)
    return cv2.copyMakeBorder(swapped, 2, 2, 3, 3, cv2.BORDER_REFLECT_101)


def nested(image):
    """The same without names, one value by keyword."""
    return cv2.copyMakeBorder(
        cv2.cvtColor(src=cv2.flip(cv2.resize(image, (40, 30)), 1), code=cv2.COLOR_BGR2RGB), 2, 2, 3, 3, 4
    )


def look(value):
    """A consumer that nobody knows."""
    SEEN.append(type(value).__name__)
    assert type(value) is np.ndarray
    assert value.flags.c_contiguous
    assert value.flags.owndata
    assert value.flags.writeable
    return value


def watched(image):
    """A function of the program's own in the middle."""
    small = look(cv2.flip(cv2.resize(image, (40, 30)), 1))
    return cv2.copyMakeBorder(cv2.cvtColor(small, cv2.COLOR_BGR2RGB), 2, 2, 3, 3, 4)


def asked(image):
    """Values that are asked for their type, an element, an attribute and their text, and used in an operator."""
    one = cv2.flip(cv2.resize(image, (40, 30)), 1)
    assert isinstance(one, np.ndarray)
    two = cv2.flip(cv2.resize(image, (40, 30)), 0)
    first = int(two[0, 0, 0])
    three = cv2.flip(cv2.resize(image, (40, 30)), -1)
    shape = three.shape
    text = str(cv2.flip(cv2.resize(image, (40, 30)), -1))
    four = cv2.flip(cv2.resize(image, (40, 30)), 1) + one
    return np.concatenate([four.ravel(), two.ravel(), three.ravel(), [first, *shape, len(text)]])


def declined(image):
    """A call in the middle that the guard does not take: the code is another one."""
    hsv = cv2.cvtColor(cv2.flip(cv2.resize(image, (40, 30)), 1), cv2.COLOR_BGR2HSV)
    return cv2.copyMakeBorder(cv2.flip(hsv, 0), 2, 2, 3, 3, 4)


def raising(image):
    """A call in the middle that raises, and a handler that goes on with what was there before."""
    small = cv2.resize(image, (40, 30))
    try:
        return cv2.copyMakeBorder(cv2.cvtColor(cv2.flip(small, 1), 99999), 2, 2, 3, 3, 4)
    except cv2.error as error:
        SEEN.append(type(error).__name__)
        return cv2.flip(small, 0)


def changed(image):
    """The input is overwritten between two calls of a chain."""
    image = image.copy()
    small = cv2.resize(image, (40, 30))
    image[:] = 0
    return cv2.flip(small, 1)


def twice(image):
    """A value that is used twice."""
    small = cv2.resize(image, (40, 30))
    return np.concatenate([cv2.flip(small, 1), cv2.flip(small, 0)])


def portrait(image):
    """Methods of a picture."""
    made = Image.fromarray(image)
    return np.array(made.resize((40, 30)).transpose(0).rotate(30).convert("L").crop((2, 2, 30, 20)))


def whole(image):
    """Functions of numpy."""
    return np.clip(np.sum(np.roll(image.astype(np.int64), 3, axis=0), axis=2), 100, 200)


FUNCTIONS = (straight, nested, watched, asked, declined, raising, changed, twice, portrait, whole)
OTHERS = ("numpy.roll", "numpy.sum", "numpy.clip")
PILLOW = tuple(f"PIL.Image.Image.{name}" for name in ("resize", "transpose", "rotate", "convert", "crop"))


class Photos(Dataset):
    """Pictures that workers prepare."""

    def __len__(self):
        """So many."""
        return 12

    def __getitem__(self, index):
        """A prepared picture."""
        return straight(picture(index))


def picture(number):
    """A picture of noise."""
    return np.random.default_rng(number).integers(0, 256, (60, 80, 3)).astype(np.uint8)


def plan(names=NAMES, more=()):
    """All of these functions on the device."""
    return {"context_device_map": dict.fromkeys((*(f"cv2.{name}" for name in names), *more), DEVICE)}


def moves(log):
    """How often whole values went there and came back."""
    return {"there": log.count("to device"), "back": log.count("to host")}


def outcomes(functions, more=(), **options):
    """By function: whether it gives what it gave, what its calls were counted as, and what moved in the last one."""
    before = {function: results(function) for function in functions}
    codes = [each.__code__ for each in FUNCTIONS]
    answer, counted = {}, {}
    with codedag.apply(plan(more=more), demote=False, **options) as migrator:
        for function in functions:
            after, log = results(function), list(second_device.LOG)
            stats = migrator.get_stats()
            same = before[function][1] == after[1] and all(map(alike, before[function][0], after[0]))
            answer[function.__name__] = {"same": same, "moves": moves(log), "stats": since(counted, stats)}
            counted = stats
    assert all(each.__code__ is code for each, code in zip(FUNCTIONS, codes, strict=True))
    return answer


def results(function):
    """What a function gives for ten pictures, and what others saw; the log is that of the last."""
    SEEN.clear()
    found = []
    for number in range(10):
        second_device.LOG.clear()
        found.append(function(picture(number)))
    return found, list(SEEN)


def alike(a, b):
    """Whether two arrays cannot be told apart."""
    facts = [(x.dtype, x.shape, x.strides, x.flags.owndata, x.flags.writeable, x.tobytes()) for x in (a, b)]
    return type(b) is np.ndarray and facts[0] == facts[1]


def since(before, after):
    """What was counted after the first statistics."""
    found = {}
    for name, counts in after.items():
        old = before.get(name, {})
        numbers = {key: value - old.get(key, 0) for key, value in counts.items() if type(value) is int}
        reasons = {key: count - old.get("declined", {}).get(key, 0) for key, count in counts["declined"].items()}
        found[name] = {**counts, **numbers, "declined": {key: count for key, count in reasons.items() if count}}
    return found


def broken(source, method, count=3):
    """What happens if a substitute, or fetching what is on the device, fails from now on."""
    (made,) = (one for one in find(source) if one.stays)
    run = made.run

    def failing(*args, **keywords):
        result = run(*args, **keywords)
        if method == "fetch":
            second_device.OnDevice.__torch_dispatch__ = classmethod(_lost)
        if method == "restore":
            migrators[-1].restore()
        if method == "run":
            raise RuntimeError("the device is gone")
        return result

    pictures = [picture(number) for number in range(count)]
    expected, dispatch = [straight(each) for each in pictures], second_device.OnDevice.__torch_dispatch__
    migrators = [codedag.apply(plan(), demote=False, mode="off")]
    found = [straight(pictures[0])]
    made.run = failing
    try:
        found += [straight(each) for each in pictures[1:]]
    finally:
        made.run = run
        second_device.OnDevice.__torch_dispatch__ = dispatch
    stats = migrators[-1].get_stats()
    migrators[-1].restore()
    same = all(type(b) is np.ndarray and a.tobytes() == b.tobytes() for a, b in zip(expected, found, strict=True))
    return {"same": same, "stats": stats}


def _lost(cls, func, types, args=(), kwargs=None):
    raise RuntimeError("the device is gone")


def wrong():
    """A substitute that gives other pixels: how the comparison takes it."""
    (made,) = (one for one in find("cv2.flip") if one.stays)
    run = made.run
    pictures = [picture(number) for number in range(10)]
    expected = [straight(each) for each in pictures]
    with codedag.apply(plan(), demote=False) as migrator:
        found = [straight(pictures[0])]
        made.run = lambda src, flipCode, dst=None: run(src, 1 - flipCode)
        found += [straight(each) for each in pictures[1:]]
        made.run = run
        stats, verdict = migrator.get_stats(), migrator.verdict()
    same = all(a.tobytes() == b.tobytes() for a, b in zip(expected, found, strict=True))
    return {"same": same, "stats": stats, "verdict": verdict}


def in_workers(start="fork"):
    """Whether worker processes hand on plain arrays, and what they counted."""
    data = Photos()
    expected = [data[number] for number in range(12)]
    with codedag.apply(plan(), demote=False, mode="off") as migrator:
        loader = DataLoader(data, batch_size=3, num_workers=2, multiprocessing_context=start)
        found = [item for batch in loader for item in batch]
        stats = migrator.get_stats()
    plain = all(type(one) is torch.Tensor and one.device.type == "cpu" for one in found)
    same = all(np.array_equal(a, b.numpy()) for a, b in zip(expected, found, strict=True))
    return {"same": same, "plain": plain, "stats": stats}


def followed():
    """Where a function of torch runs that a plan names: with its tensors, as ever."""
    with codedag.apply({"context_device_map": {"torch.nn.functional.interpolate": DEVICE}}) as migrator:
        there = torch.nn.functional.interpolate(torch.ones(1, 3, 8, 8).to("fakepu"), scale_factor=2)
        here = torch.nn.functional.interpolate(torch.ones(1, 3, 8, 8), scale_factor=2)
        reason = migrator.get_stats()["torch.nn.functional.interpolate"]["reason"]
    return {"there": there.device.type, "here": here.device.type, "reason": reason}


def in_threads():
    """Whether four threads get what one gets, while a fifth takes the plan back and applies it again."""
    pictures = [picture(number) for number in range(8)]
    expected = [straight(each) for each in pictures]
    wrong_ones, over = [], threading.Event()

    def work():
        for _ in range(3):
            for each, right in zip(pictures, expected, strict=True):
                if straight(each).tobytes() != right.tobytes():
                    wrong_ones.append(1)

    def change():
        while not over.is_set():
            with codedag.apply(plan(), demote=False, mode="off"):
                over.wait(0.02)

    changer, threads = threading.Thread(target=change), [threading.Thread(target=work) for _ in range(4)]
    for thread in (changer, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    changer.join()
    return {"same": not wrong_ones}


if __name__ == "__main__" and sys.argv[1:] == ["spawn"]:
    sys.stdout.write(json.dumps(in_workers("spawn")) + "\n")
elif __name__ == "__main__":
    answer = outcomes(FUNCTIONS, more=(*OTHERS, *PILLOW), mode="off")
    answer["checked portrait"] = outcomes([portrait], more=PILLOW, mode="shadow")["portrait"]
    answer["sampled"] = outcomes([straight])["straight"]
    answer["shadow"] = outcomes([straight], mode="shadow")["straight"]
    answer["strict"] = outcomes([nested], mode="strict")["nested"]
    answer["lost"] = broken("cv2.flip", "fetch")
    answer["failing"] = broken("cv2.flip", "run", count=6)
    answer["restored"] = broken("cv2.flip", "restore")
    answer["wrong"] = wrong()
    answer["workers"] = in_workers()
    answer["threads"] = in_threads()
    answer["followed"] = followed()
    sys.stdout.write(json.dumps(answer) + "\n")
