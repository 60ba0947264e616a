"""Pictures of Pillow as bytes: what is made from them is what a copy of the picture is."""

import io

import pytest

np = pytest.importorskip("numpy")
Image = pytest.importorskip("PIL.Image")

from codedag.backends.same import same  # noqa: E402
from codedag.migrate.memo.pictures import is_picture, packed, unpacked  # noqa: E402


def picture(mode, info=None, size=(37, 23)):
    bands = len(Image.new(mode, (1, 1)).getbands())
    numbers = np.random.default_rng(len(mode)).integers(0, 256, (size[1], size[0], bands), dtype=np.uint8)
    made = Image.frombytes(mode, size, numbers.tobytes())
    made.info = dict(info or {})
    return made


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "CMYK", "YCbCr", "HSV"])
@pytest.mark.parametrize(
    "info", [{}, {"dpi": (72.0, 71.5), "jfif": 257, "exif": b"\x00\xff", "comment": "\u00e9'\"\n", 1: None}]
)
def test_a_picture_comes_back_as_it_was(mode, info):
    original = picture(mode, info)
    made = unpacked(packed(original))
    assert same(original, made)
    assert vars(made).keys() == vars(original.copy()).keys()
    assert {key: type(value) for key, value in made.info.items()} == {key: type(value) for key, value in info.items()}
    made.putpixel((0, 0), 1 if mode == "L" else (1,) * len(made.getbands()))
    made.info["more"] = 1
    assert same(original, unpacked(packed(original)))


def test_what_was_read_from_a_file_comes_back():
    content = io.BytesIO()
    picture("RGB").save(content, "JPEG", dpi=(300, 300), comment=b"seen")
    with Image.open(content) as opened:
        original = opened.convert("RGB")
    assert is_picture(type(original))
    assert not is_picture(type(opened))
    assert same(original, unpacked(packed(original)))


@pytest.mark.parametrize("info", [{"list": [1]}, {"far": float("inf")}, {"none": float("nan")}, {"own": object()}])
def test_facts_that_could_not_be_written_out_are_not_packed(info):
    assert packed(picture("RGB", info)) is None


@pytest.mark.parametrize("mode", ["P", "1", "I", "F", "LA"])
def test_other_modes_are_not_packed(mode):
    assert packed(Image.new(mode, (4, 4))) is None


def test_other_bytes_are_no_picture():
    with pytest.raises(ValueError, match="picture"):
        unpacked(np.zeros(100, np.uint8))
