"""What numpy makes of an image, and what changes its contrast: memory, classes and images that are not plain."""

from __future__ import annotations

import importlib
import io

import numpy as np
import pytest

pytest.importorskip("PIL")

from PIL import Image, ImageEnhance

from codedag.backends.pil_ import convert, resize
from codedag.backends.pil_arrays_ import array, asarray
from codedag.backends.pil_blends_ import color, contrast
from codedag.backends.registry import attempt
from codedag.backends.same import same


@pytest.fixture
def image():
    return Image.fromarray(np.random.default_rng(3).integers(0, 256, (390, 371, 3), dtype=np.uint8))


def test_bytes_are_shown_and_cannot_be_written(image):
    ours, theirs = asarray.run(image), np.asarray(image)
    assert same(theirs, ours)
    assert type(ours.base) is type(theirs.base) is bytes


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "CMYK", "YCbCr", "HSV"])
@pytest.mark.parametrize("dtype", [None, "uint8", np.float32, np.dtype("int64"), float])
def test_an_array_is_a_copy_of_its_own(image, mode, dtype):
    picture = image.convert(mode)
    assert array.accepts((picture, dtype), {})
    ours, theirs = array.run(picture, dtype), np.array(picture, dtype)
    assert same(theirs, ours)
    assert ours.base is theirs.base is None
    ours[...] = 0
    assert same(theirs, np.array(picture, dtype))  # the image is as it was


@pytest.mark.parametrize("dtype", ["f4", np.int8, ">f4", np.floating, bool, object, "no type"])
def test_other_types_are_numpys_own(image, dtype):
    assert not array.accepts((image, dtype), {})
    assert not asarray.accepts((image, dtype), {})


def test_what_is_no_image_is_numpys_own(image):
    class Own(Image.Image):
        @property
        def __array_interface__(self):
            return {}

    own = Own()
    own._size, own._mode, own.im = image.size, image.mode, image.im
    for value in ([1, 2], np.zeros(9), None, own, image.resize((20, 20))):
        assert not array.accepts((value,), {})


def test_an_enhancer_is_what_it_holds(image):
    for kind, made in ((ImageEnhance.Contrast, contrast), (ImageEnhance.Color, color)):
        large = image.resize((200, 190))
        ours, theirs = made.run(large), kind(large)
        assert same(theirs, ours)
        assert list(vars(ours)) == list(vars(theirs))
        assert ours.image is large
        ours.degenerate.putpixel((3, 3), (1, 2, 3))
        assert not same(theirs, ours)


def test_a_class_that_was_changed_is_the_programs_own(image, monkeypatch):
    assert contrast.accepts((image,), {})
    monkeypatch.setattr(ImageEnhance.Contrast, "__init__", lambda self, image: None)
    assert not contrast.accepts((image,), {})


CALLS = ((array, ()), (asarray, ()), (contrast, ()), (color, ()), (resize, ((90, 80), 2)), (convert, ("L",)))


@pytest.mark.parametrize(("made", "more"), CALLS)
def test_a_file_is_read_by_pillow(image, made, more):
    """What was read in part before it failed would be taken for whole by whoever asks again."""
    file = io.BytesIO()
    image.resize((300, 300)).save(file, "PNG")
    damaged = bytearray(file.getvalue())
    damaged[2000] ^= 255
    opened = Image.open(io.BytesIO(damaged))
    if made.accepts((opened, *more), {}):
        attempt(made.run, opened, *more)
    assert isinstance(attempt(made.original(), opened, *more).error, OSError)
    whole = Image.open(io.BytesIO(file.getvalue()))
    assert not made.accepts((whole, *more), {})
    whole.load()
    assert made.accepts((whole, *more), {})
    assert same(made.original()(whole, *more), made.run(whole, *more))


@pytest.mark.parametrize(("made", "more"), CALLS)
def test_a_class_of_the_programs_is_its_own(image, made, more):
    class Own(Image.Image):
        def convert(self, *args, **options):
            return super().convert("L").convert("RGB")

    own = Own()
    own._size, own._mode, own.im = (200, 190), image.mode, image.resize((200, 190)).im
    assert not made.accepts((own, *more), {})


def test_what_an_image_or_a_dtype_has_of_its_own(image):
    assert not array.accepts((image, np.dtype("u1", metadata={"a": 1})), {})
    assert not asarray.accepts((image, np.dtype("f4", metadata={"a": 1})), {})
    image.tobytes = lambda *args: b"x" * 9
    assert not array.accepts((image,), {})
    assert not asarray.accepts((image,), {})


def test_the_class_is_the_one_that_was_called(image):
    before, names = contrast.original(), dict(vars(ImageEnhance))
    try:
        importlib.reload(ImageEnhance)
        assert not contrast.accepts((image,), {}) or type(contrast.run(image)) is before
    finally:
        vars(ImageEnhance).update(names)
