"""Pipelines of albumentations taken apart: what the items give, draw and leave behind is what the library gives."""

import copy
import random

import numpy as np
import pytest

A = pytest.importorskip("albumentations")
pytorch = pytest.importorskip("albumentations.pytorch")

from codedag.autopilot.pipelines import Kind, Pipelines  # noqa: E402
from codedag.backends.same import same  # noqa: E402

SIDE = 40
MAKERS = {
    "flip": lambda: A.HorizontalFlip(p=0.5),
    "upside down": lambda: A.VerticalFlip(p=0.4),
    "turn": lambda: A.RandomRotate90(p=0.5),
    "transpose": lambda: A.Transpose(p=0.5),
    "brightness": lambda: A.RandomBrightnessContrast(p=0.6),
    "brightness by mean": lambda: A.RandomBrightnessContrast(brightness_by_max=False, p=0.6),
    "jitter": lambda: A.ColorJitter(p=0.6),
    "hue": lambda: A.HueSaturationValue(p=0.5),
    "gamma": lambda: A.RandomGamma(p=0.5),
    "shift": lambda: A.RGBShift(p=0.5),
    "noise": lambda: A.GaussNoise(p=0.5),
    "grains": lambda: A.ISONoise(p=0.5),
    "times": lambda: A.MultiplicativeNoise(p=0.5),
    "salt": lambda: A.SaltAndPepper(p=0.5),
    "tone": lambda: A.RandomToneCurve(p=0.5),
    "channels": lambda: A.ChannelDropout(p=0.5),
    "gray": lambda: A.ToGray(p=0.3),
    "blur": lambda: A.GaussianBlur(p=0.5),
    "median": lambda: A.MedianBlur(p=0.5),
    "motion": lambda: A.MotionBlur(p=0.5),
    "clahe": lambda: A.CLAHE(p=0.5),
    "compression": lambda: A.ImageCompression(p=0.5),
    "sharpen": lambda: A.Sharpen(p=0.5),
    "posterize": lambda: A.Posterize(p=0.5),
    "equalize": lambda: A.Equalize(p=0.5),
    "affine": lambda: A.Affine(rotate=(-20, 20), scale=(0.8, 1.2), p=0.6),
    "fitted": lambda: A.Affine(rotate=(-20, 20), fit_output=True, p=0.6),
    "rotate": lambda: A.Rotate(limit=30, p=0.5),
    "cut": lambda: A.Rotate(limit=30, crop_border=True, p=0.5),
    "perspective": lambda: A.Perspective(p=0.5),
    "elastic": lambda: A.ElasticTransform(p=0.4),
    "grid": lambda: A.GridDistortion(p=0.4),
    "optical": lambda: A.OpticalDistortion(p=0.4),
    "holes": lambda: A.CoarseDropout(p=0.5),
    "squares": lambda: A.GridDropout(p=0.3),
    "pixels": lambda: A.PixelDropout(p=0.5),
    "crop": lambda: A.RandomCrop(24, 30, pad_if_needed=True),
    "middle": lambda: A.CenterCrop(20, 20, pad_if_needed=True),
    "resized crop": lambda: A.RandomResizedCrop(size=(28, 32)),
    "resize": lambda: A.Resize(36, 28),
    "longest": lambda: A.LongestMaxSize(48),
    "pad": lambda: A.PadIfNeeded(50, 50),
    "scale": lambda: A.RandomScale(p=0.5),
    "one of": lambda: A.OneOf([A.GaussianBlur(p=1), A.RandomBrightnessContrast(p=0.5), A.Rotate(p=0.2)], p=0.7),
    "one of ones": lambda: A.OneOf([A.OneOf([A.VerticalFlip(), A.RandomGamma()]), A.RandomRotate90()], p=0.8),
    "some of": lambda: A.SomeOf([A.HorizontalFlip(), A.RandomGamma(), A.CoarseDropout()], n=2, p=0.6),
    "in a row": lambda: A.Sequential([A.HorizontalFlip(p=0.5), A.GaussNoise(p=0.5)], p=0.5),
    "pipeline": lambda: A.Compose([A.VerticalFlip(p=0.5), A.RandomGamma(p=0.3)], p=0.6),
}  # fmt: skip
ENDS = {
    "as it is": list,
    "normalised": lambda: [A.Normalize()],
    "a tensor": lambda: [A.Normalize(), pytorch.ToTensorV2()],
    "floats": lambda: [A.ToFloat(), A.HorizontalFlip(p=0.5)],
}


class Item:
    """Begins the next item as soon as it may, so that items work in the reverse of their order."""

    def __init__(self, work, number):
        self.work, self.number, self.gave_up = work, number, ""

    def draw(self, generator, name, check):
        assert generator is self.work.pipeline

    def drew(self, check):
        self.work.item(self.number + 1)

    def give_up(self, reason, check=None, wants=False):
        raise GaveUp(reason)


class GaveUp(BaseException):
    pass


class Work:
    def __init__(self, pipelines, pipeline, every):
        self.pipelines, self.pipeline, self.every = pipelines, pipeline, every
        self.results = [None] * len(every)

    def item(self, number):
        if number < len(self.every):
            data = self.every[number]
            assert self.pipelines.takes(self.pipeline, tuple(data), tuple(data.values()))
            self.results[number] = self.pipelines.run(None, Item(self, number), self.pipeline, **data)


def left(transform):
    """What a pipeline has drawn and kept."""
    states = [transform.random_generator.bit_generator.state, transform.py_random.getstate()]
    inside = transform.transforms if isinstance(transform, A.BaseCompose) else ()
    return [states, getattr(transform, "params", None), *map(left, inside)]


def items(rng, masks):
    found = []
    for _ in range(rng.randint(2, 6)):
        height, width = SIDE + rng.randint(0, 9), SIDE + rng.randint(0, 9)
        numbers = np.random.default_rng(rng.randrange(1 << 30))
        item = {"image": numbers.integers(0, 256, (height, width, 3), dtype=np.uint8)}
        found.append(item | ({"mask": numbers.integers(0, 3, (height, width), dtype=np.uint8)} if masks else {}))
    return found


def compared(rng):
    names = rng.sample(sorted(MAKERS), rng.randint(1, 6))
    end, seed = rng.choice(sorted(ENDS)), rng.randrange(1000)
    pipeline = A.Compose([*(MAKERS[name]() for name in names), *ENDS[end]()], seed=seed, p=rng.choice([1.0, 1.0, 0.7]))
    every, pipelines = items(rng, masks=rng.random() < 0.4), Pipelines()
    plain, tries = copy.deepcopy(pipeline), 0
    while True:
        apart = copy.deepcopy(pipeline)
        work = Work(pipelines, apart, copy.deepcopy(every))
        try:
            work.item(0)
            break
        except GaveUp:  # each class of transforms may be wrong about shapes once
            tries += 1
            assert tries <= len(names) + 4
    expected = [plain(**item) for item in copy.deepcopy(every)]
    assert same(expected, work.results), (names, end)
    assert same(left(plain), left(apart)), (names, end)


@pytest.mark.filterwarnings("ignore")  # some transforms warn about sizes
def test_items_are_what_the_library_makes(seed):
    for case in range(30):
        compared(random.Random(f"{seed}:{case}"))


@pytest.mark.filterwarnings("ignore")
def test_what_raises_in_the_library_raises():
    pipeline = A.Compose([A.RandomCrop(100, 100), A.Normalize()], seed=1)
    image = np.zeros((SIDE, SIDE, 3), np.uint8)
    work = Work(Pipelines(), pipeline, [{"image": image}])
    with pytest.raises(Exception, match="size") as raised:
        pipeline(image=image)
    with pytest.raises(raised.type):
        work.item(0)


@pytest.mark.parametrize("name", ["image", "bboxes", "keypoints", "kept", "inside", "own", "list"])
def test_other_pipelines_are_left_to_the_library(name):
    image, more, given = np.zeros((SIDE, SIDE, 3), np.uint8), {}, {}
    if name == "bboxes":
        more, given = {"bbox_params": A.BboxParams("coco")}, {"bboxes": []}
    elif name == "keypoints":
        more, given = {"keypoint_params": A.KeypointParams("xy")}, {"keypoints": []}
    elif name == "kept":
        more = {"save_applied_params": True}
    elif name == "list":
        given = {"masks": [np.zeros((SIDE, SIDE), np.uint8)]}
    pipeline = A.Compose([A.HorizontalFlip()], **more)
    if name == "inside":
        A.Compose([pipeline])
    if name == "own":
        pipeline = A.Sequential([A.HorizontalFlip()])
    data = {"image": image, **given}
    assert Pipelines().takes(pipeline, tuple(data), tuple(data.values())) is (name == "image")


def test_the_work_of_transforms_draws_nothing():
    """What the order of draws rests on, for every class that is taken apart and can be made without arguments."""
    seen = 0
    numbers = np.random.default_rng(5)
    for name in sorted(vars(A)):
        kind = vars(A)[name]
        if not isinstance(kind, type) or not issubclass(kind, A.BasicTransform) or not Kind(kind).is_apart:
            continue
        transform = made(kind)
        if transform is None or transform.targets_as_params:
            continue
        image = numbers.integers(0, 256, (64, 64, 3), dtype=np.uint8)
        try:
            params = transform.update_transform_params(params=transform.get_params(), data={"image": image})
            params.update(transform.get_params_dependent_on_data(params=params, data={"image": image}))
            before, kept = left(transform), sorted(vars(transform))
            transform.apply_with_params(params, image=image)
        except Exception:  # noqa: BLE001 - volumes, channels: another kind of image is wanted
            continue
        assert same(left(transform), before), name
        assert sorted(vars(transform)) == kept, name
        seen += 1
    assert seen > 60


def made(kind):
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return kind(p=1.0)
    except Exception:  # noqa: BLE001 - it has arguments that must be given
        return None
