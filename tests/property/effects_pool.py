"""Arguments and objects to call library functions with: from the usual to the odd, new ones every time."""

import io
import pathlib
import random

import numpy as np
import pytest

cv2 = pytest.importorskip("cv2")
torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")


def maybe(name):
    try:
        return __import__(name)
    except ImportError:
        return None


def pool_of(library, rng, folder):
    """Makers of arguments, from the usual to the odd; each gives new objects every time."""
    numbers = np.random.default_rng(rng.getrandbits(32))
    side = rng.randint(4, 9)
    real, other = numbers.random((2, side, side))
    whole = numbers.integers(0, 200, (side, side), dtype=np.uint8)
    colour = numbers.integers(0, 256, (side + 12, side + 10, 3), dtype=np.uint8)
    flat, yes = numbers.random(side), real > 0.5
    own = {
        "python": _python_pool(),
        "cv2": _cv2_pool(colour, real.astype(np.float32), whole),
        "PIL": _pillow_pool(colour),
        "torch": _torch_pool(real, whole),
        "librosa": _audio_pool(numbers),
        "pandas": _pandas_pool(),
        "skimage": [((colour[..., 0] / 255.0,), {}), ((colour / 255.0,), {}), ((colour[..., 0] > 99,), {})],
    }.get(library, [])
    general = [
        ((), {}),
        ((real,), {}),
        ((real, other), {}),
        ((whole,), {}),
        ((flat,), {}),
        ((flat, flat[::-1].copy()), {}),
        ((yes,), {}),
        ((real, 1), {}),
        ((real, 2), {}),
        ((1, real), {}),
        (([real, other],), {}),
        ((3,), {}),
        ((0.4,), {}),
        ((2, 3), {}),
        ((1.5, 2.5), {}),
        (((2, 3),), {}),
        ((real, (1, 0)), {}),
        ((real, 0, 1), {}),
        ((yes, real, other), {}),
        ((flat, 2, 1), {}),
        ((whole, 3), {}),
        ((whole, whole), {}),
        ((whole, whole % 2), {}),
        ((real, real, 0.5), {}),
        ((flat, [1, 2]), {}),
        ((real, [1, 0], 0), {}),
        ((flat, 3, 0.2), {}),
        ((np.float32,), {}),
        ((real, np.float32), {}),
        ((flat, np.sort(flat)), {}),
        ((np.sort(flat), flat), {}),
        ((0, 5, 4), {}),
        ((flat.tobytes(),), {}),
        (("abc",), {}),
        (("abc", "b"), {}),
        ((real.astype(complex),), {}),
        ((side, side, 1), {}),
        ((real, 0, "x"), {}),
        ((3, 3, 1.5), {}),
        ((real, whole % 3 > 0), {}),
        ((np.cumsum(flat), 0.3), {}),
        (([1, 2, 3],), {}),
        ((real @ real.T + np.eye(side),), {}),
        ((whole.astype(np.int64),), {}),
        ((whole.astype(np.int64), whole.astype(np.int64) % 5 + 1), {}),
        ((flat, 3), {}),
        ((whole.ravel().astype(np.int64),), {}),
        ((2, 0.3), {}),
        ((3, 0.2, "low"), {}),
        ((2, 1, 0.3), {}),
        ((2, 1, 40, 0.3), {}),
        ((real, [1.0, 0.5], 1.0), {}),
        (([1.0, 0.5], [1.0, 0.2], flat.repeat(6)), {}),
        ((real, [[1, 0], [0, 1]]), {}),
        ((real, np.argsort(real, 0), 0), {}),
        ((real, np.argsort(real, 0), 1.0, 0), {}),
        ((side, 3), {}),
        (("ij,jk->ik", real, other), {}),
        ((real, [[1, 2], [1, 2]]), {}),
        ((whole, 3, 1), {}),
        ((real, 1, 0), {}),
        ((real,), {"size": 3}),
        ((yes, 2), {}),
        ((flat, flat, flat), {}),
        (([yes, ~yes], [real, other]), {}),
    ]
    paths = ["a.png", "a.npy", "a.csv", "a.json", "a.wav"]
    named = [((str(folder / name),), {}) for name in paths if (folder / name).exists()] + [((str(folder),), {})]
    if library in ("cv2", "PIL", "torch", "pandas"):
        general = []  # what cv2 does with arguments that make no sense is not what is asked here
    return [*own, *general, *named, ((str(folder / "a.png"), 0), {})]


def _python_pool():
    return [
        (([3, 1, 2],), {}),
        (({"a": 1},), {}),
        (("x,y", ","), {}),
        ((b"ab",), {}),
        ((b"ab", b"a"), {}),
        (("a", "b", "c"), {}),
        (([1, 2], 1), {}),
        (([1, 2], 0, 5), {}),
        ((7,), {}),
        ((7, 2), {}),
        ((2.5,), {}),
        ((2.5, 1.5), {}),
        (({1, 2}, {2}), {}),
        (({1, 2},), {}),
        (("%d", 3), {}),
        (("a",), {}),
        (([1.0, 2.0, 4.0],), {}),
        (("[1, 2]",), {}),
        (("(a)", "cab"), {}),
        (("(a)", "x", "cab"), {}),
        ((3, "big"), {}),
        ((b"\x01\x02", "big"), {}),
        (("<i", 3), {}),
        (("<i", b"\0\0\0\1"), {}),
        (("<i",), {}),
        ((b"YWI=",), {}),
        (("0x1p3",), {}),
        (("6162",), {}),
        ((int, "a"), {}),
        ((3, int), {}),
        ((bool, int), {}),
        (({"a": 1}, "a"), {}),
        (({"a": 1}, "b", 2), {}),
        ((1, 2, 3), {}),
        (([1], [2]), {}),
        (("md5", b"x"), {}),
        ((0,), {}),
        (([(1, 2)],), {}),
        ((5, 3, 2), {}),
        ((pathlib.PurePosixPath("a/b"),), {}),
        ((1,), {}),
        (("",), {}),
        ((b"",), {}),
        (("a", 5), {}),
        ((b"a", 5), {}),
        ((b"a", b"b"), {}),
        ((1, 0.5), {}),
        (("a", 1), {}),
    ]


def _cv2_pool(colour, real, whole):
    kernel, mask = np.ones((3, 3), np.uint8), whole // 2
    matrix = np.float32([[1, 0.1, 1], [0, 1, 2]])
    points = np.float32([[0, 0], [5, 0], [5, 6], [1, 7]])
    contour = points.astype(np.int32).reshape(-1, 1, 2)
    return [
        ((colour,), {}),
        ((colour, 6), {}),
        ((colour, (6, 5)), {}),
        ((colour, 1), {}),
        ((colour, colour), {}),
        ((colour, (3, 3), 1.0), {}),
        ((colour, 0.5, colour, 0.5, 0), {}),
        ((colour, kernel), {}),
        ((colour, 3), {}),
        ((colour, cv2.CV_32F), {}),
        ((colour, cv2.CV_32F, 1, 0), {}),
        ((colour, -1, kernel), {}),
        ((colour, -1, (3, 3)), {}),
        ((colour, 100, 255, 0), {}),
        ((colour, matrix, (8, 7)), {}),
        ((colour, np.eye(3), (8, 7)), {}),
        ((whole,), {}),
        ((whole, mask), {}),
        ((whole, 255, 0, 0, 3, 2), {}),
        ((whole, 1, 2, 3), {}),
        ((colour, 2, kernel), {}),
        ((colour, 1, 1, 2, 2, 4), {}),
        ((colour, 1, 1, 2, 2, cv2.BORDER_REFLECT), {}),
        ((colour, 5, 20, 20), {}),
        ((colour, np.arange(256, dtype=np.uint8)), {}),
        ((real,), {}),
        ((real, real), {}),
        ((real, 2.0), {}),
        ((real, real, 3), {}),
        ((points,), {}),
        ((contour,), {}),
        ((contour, True), {}),
        ((contour, 1.0, True), {}),
        ((contour, (2.0, 2.0), False), {}),
        ((points[:3], points[:3] + 1), {}),
        ((points, points + 1), {}),
        ((2, (3, 3)), {}),
        (((4.0, 4.0), 30, 1.0), {}),
        ((5, 1.0), {}),
        ((matrix,), {}),
        ((colour, (1, 1), (4, 4), (9, 9, 9)), {}),
        ((colour, (4, 4), 2, (9, 9, 9)), {}),
        ((colour, "a", (1, 9), 0, 0.4, (9, 9, 9)), {}),
        ((colour, [contour], (9, 9, 9)), {}),
        ((colour, [contour], True, (9, 9, 9)), {}),
        ((colour, contour, (9, 9, 9)), {}),
        ((colour, [contour], -1, (9, 9, 9)), {}),
        ((colour, (4, 4), (3, 2), 0, 0, 360, (9, 9, 9)), {}),
        (([colour, colour],), {}),
        (([whole], [0], None, [8], [0, 256]), {}),
        ((real, 1.5, real), {}),
        ((colour, (5, 5), (4.0, 4.0)), {}),
        ((whole, 1, 3), {}),
        ((whole, 0), {}),
        ((colour, 0, cv2.REDUCE_AVG, -1, cv2.CV_32F), {}),
        ((colour, real.astype(np.uint8)), {}),
        ((colour, *np.meshgrid(np.arange(6, dtype=np.float32), np.arange(5, dtype=np.float32)), 1), {}),
        ((whole, 1, 3, 3), {}),
        ((cv2.imencode(".png", colour)[1], 1), {}),
        ((".png", colour), {}),
        ((whole, 2, 3), {}),
        ((colour, (0, 0, 0), (99, 99, 99)), {}),
        ((colour, kernel[:3, :3].astype(np.float32) / 9), {}),
        ((colour, -1, np.float32([1, 2, 1]), np.float32([1, 2, 1])), {}),
        ((colour, np.float32([[1, 0, 0], [0, 1, 0], [0, 0, 1]]), np.float32([0.1, 0, 0, 0])), {}),
        ((whole, whole, 1), {}),
        ((real, real, real, 1, real, 1), {}),
        ((points.reshape(-1, 1, 2), np.eye(3, dtype=np.float32)), {}),
        (("abc", 0, 1.0, 1), {}),
        ((colour, colour[2:6, 2:6].copy(), cv2.TM_SQDIFF), {}),
        ((whole, 50, 100), {}),
        ((colour, real.astype(np.float64)), {}),
    ]


def _pillow_pool(colour):
    image, box = Image.fromarray(colour), (2, 2, 6, 7)
    from PIL import ImageFilter

    return [
        ((image,), {}),
        ((image, image), {}),
        ((image, image, 0.5), {}),
        ((image, (6, 5)), {}),
        ((image, 2), {}),
        (("L",), {}),
        ((box,), {}),
        (((6, 5),), {}),
        ((0,), {}),
        ((3,), {}),
        ((1.3,), {}),
        ((30,), {}),
        (("RGB", (4, 4)), {}),
        (("RGB", (2, 1), b"abcdef"), {}),
        ((image, image, image.convert("L")), {}),
        (("RGB", image.split()), {}),
        ((ImageFilter.GaussianBlur(1),), {}),
        ((list(range(256)) * 3,), {}),
        (((6, 5), Image.Transform.AFFINE, (1, 0, 0, 0, 1, 0)), {}),
        (((1, 1),), {}),
        (((1, 1), (3, 3, 3)), {}),
        ((image, "x"), {}),
        ((image.convert("L"), "black", "white"), {}),
        ((image.convert("RGBA"), image.convert("RGBA")), {}),
        ((colour,), {}),
        (("L",), {}),
        ((), {}),
        (((3, 3), list(range(9))), {}),
        ((3, 1), {}),
        (("RGB", (2, 1), b"abcdef", "raw"), {}),
    ]


def _torch_pool(real, whole):
    tensor, bytes_ = torch.from_numpy(real.astype(np.float32)), torch.from_numpy(whole.copy())
    index = bytes_.long() % 3
    picture = tensor[None, None].clone()
    return [
        ((), {}),
        ((tensor,), {}),
        ((tensor, tensor.flip(0)), {}),
        ((bytes_,), {}),
        ((tensor, 0), {}),
        ((tensor, 1.5), {}),
        ((tensor, 0, 1), {}),
        (([tensor, tensor],), {}),
        ((bytes_, bytes_ % 7), {}),
        ((tensor > 0.5, tensor, tensor), {}),
        ((tensor > 0.5,), {}),
        ((tensor > 0.5, tensor < 0.7), {}),
        ((index,), {}),
        ((index.ravel(),), {}),
        ((tensor, 0, index), {}),
        ((tensor, 0, index, tensor), {}),
        ((tensor, 0, index[0]), {}),
        ((tensor, 0, index[0], 1.0), {}),
        ((tensor, tensor > 0.5, 1.0), {}),
        ((tensor, tensor > 0.5), {}),
        ((tensor, tensor, tensor), {}),
        ((tensor, tensor, 0.5), {}),
        ((tensor[0], tensor[1]), {}),
        ((tensor, tensor[0]), {}),
        ((picture[0], picture[0]), {}),
        ((picture,), {}),
        ((picture, (8, 8)), {}),
        ((picture, 2), {}),
        ((picture, (1, 1)), {}),
        ((picture, picture[:, :, :2, :2].clone()), {}),
        ((3, 4), {}),
        (((3, 4),), {}),
        ((3,), {}),
        ((0, 5, (3,)), {}),
        (([[1.0, 2.0]],), {}),
        ((2, 0.5), {}),
        ((tensor, (0, 1)), {}),
        ((tensor, -1), {}),
        ((0.5, 1.5), {}),
        (((2, 2), 1.5), {}),
        ((tensor, [2], [0]), {}),
        ((tensor[0].contiguous(), 0.5), {}),
        ((tensor[0].sort().values, tensor), {}),
        ((-1,), {}),
        ((1,), {}),
        ((0.5,), {}),
        ((0, 1), {}),
        ((torch.float64,), {}),
        ((1, 0), {}),
        ((tensor,), {"dim": 0}),
        ((tensor, index[0]), {}),
        ((tensor, 1.0, 2.0), {}),
        (("ij,jk->ik", tensor, tensor), {}),
        ((tensor, tensor, 0), {}),
        ((picture, torch.zeros(1, 3, 3, 2)), {}),
        ((torch.eye(2, 3)[None], (1, 1, 4, 4)), {}),
        ((tensor, 2, 1, 1), {}),
        ((0, index[0], tensor), {}),
        ((0, index, tensor), {}),
        ((0, index, 1.0), {}),
        ((0, index[0], 1.0), {}),
        ((tensor > 0.5, 1.0), {}),
        ((tensor.double(),), {}),
        ((tensor.numpy(),), {}),
        ((tensor, index[0, : len(tensor)]), {}),
        ((tensor.numpy().tobytes(),), {"dtype": torch.float32}),
        ((tensor.clone(), 0, index, 1.0), {}),
        ((1, 1, 1), {}),
        ((0, 0, 1), {}),
        ((torch.rand(4), 2), {}),
        ((torch.rand(2, 3, 3),), {}),
        ((torch.rand(1, 4, 3, 3), 2), {}),
        ((torch.rand(64), 16), {"return_complex": True}),
        (((torch.zeros(2),), 0), {}),
        ((2, 3, torch.zeros(1)), {}),
        (((index,), tensor), {}),
        (((index[0],), torch.tensor(1.0)), {}),
    ]


def _audio_pool(numbers):
    sound = numbers.random(4096).astype(np.float32) - 0.5
    spectrum = np.abs(np.fft.rfft(sound.reshape(-1, 128), axis=1)).T.astype(np.float32)
    return [
        ((), {"y": sound, "sr": 8000}),
        ((), {"y": sound}),
        ((sound,), {}),
        ((spectrum,), {}),
        ((sound,), {"orig_sr": 8000, "target_sr": 4000}),
        ((), {"sr": 8000, "n_fft": 256}),
        ((100.0,), {}),
        ((sound,), {"size": 5000}),
        ((sound,), {"frame_length": 64, "hop_length": 32}),
        ((np.arange(3),), {}),
        (("hann", 64), {}),
        ((sound,), {"n_fft": 256}),
        ((), {"y": sound, "n_fft": 256}),
        ((spectrum.astype(complex),), {}),
        (("A4",), {}),
        ((), {"S": spectrum, "sr": 8000}),
        ((), {"y": sound, "rate": 1.5}),
        ((69,), {}),
        ((), {"y": sound, "sr": 8000, "n_steps": 2}),
        ((spectrum, np.linspace(1, 4000, len(spectrum))), {}),
        ((), {"window": "hann", "n_frames": 9}),
    ]


def _pandas_pool():
    pandas = maybe("pandas")
    if pandas is None:
        return []
    table = pandas.DataFrame({"a": [3.0, 1.0, 2.0, None], "b": [1, 2, 2, 4], "c": ["x", "y", "y", "z"]})
    return [
        ((table,), {}),
        ((table["b"],), {}),
        (([table, table],), {}),
        ((table, table), {"on": "b"}),
        ((table["b"], 2), {}),
        ((1.0,), {}),
        ((2,), {}),
        (("b",), {}),
        (([1, 2],), {}),
        ((), {"columns": {"a": "d"}}),
        ((float,), {}),
        ((1, 2), {}),
        ((table["b"],), {}),
        ((table["b"] > 1,), {}),
        ((2, "b"), {}),
        ((table["b"], table["c"]), {}),
        ((2, 3), {}),
        (([1.0, 2.0],), {}),
        ((["b"],), {}),
        ((), {"numeric_only": True}),
        ((), {"index": "c", "columns": "b", "values": "a"}),
        (({"b": 2},), {}),
        (("x", "y"), {}),
        ((), {}),
    ]


def owners_of(kind, folder):
    """Objects of a type to call its methods on."""
    colour = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    made = {
        "ndarray": [np.arange(6.0).reshape(2, 3), np.arange(3), np.arange(4.0).reshape(2, 2), np.array(5.0)],
        "Tensor": [
            torch.rand(3, 3),
            torch.arange(4),
            torch.tensor([[True, False]]),
            torch.tensor(2.0),
            torch.rand(1, 3),
        ],
        "Image": [Image.fromarray(colour), Image.fromarray(colour[..., 0].copy())],
        "str": ["a b", "12", "{}"],
        "bytes": [b"a b"],
        "list": [[3, 1, 2], []],
        "tuple": [(1, 2)],
        "dict": [{"a": 1}],
        "set": [{1, 2}],
        "frozenset": [frozenset({1, 2})],
        "int": [5],
        "float": [2.5],
        "range": [range(5)],
        "Random": [random.Random(1)],
        "BytesIO": [io.BytesIO(b"abc")],
        "StringIO": [io.StringIO("abc")],
        "PosixPath": [pathlib.PosixPath(folder / "a.json")],
        "PurePosixPath": [pathlib.PurePosixPath("a/b.c")],
        "RandomState": [np.random.RandomState(1)],
        "Generator": [np.random.default_rng(1)],
        "ufunc": [np.add, np.maximum],
        "float32": [np.float32(1.5)],
        "int64": [np.int64(3)],
        "float64": [np.float64(1.5)],
    }.get(kind.__name__)
    if kind.__name__ in ("DataFrame", "Series") and (pandas := maybe("pandas")) is not None:
        table = pandas.DataFrame({"a": [3.0, 1.0, 2.0], "b": [1, 2, 2]})
        made = [table, table.assign(c=["x", "y", "y"])] if kind.__name__ == "DataFrame" else [table["a"], table["b"]]
    if kind.__module__ == "PIL.ImageEnhance":
        made = [kind(Image.fromarray(colour))]
    if kind.__name__ in ("Pattern", "Match"):
        import re

        made = [re.compile("(a)")] if kind.__name__ == "Pattern" else [re.match("(?P<n>a)", "ab")]
    if kind.__module__ == "datetime":
        made = [kind(2020, 1, 2) if kind.__name__ in ("date", "datetime") else kind(1)]
    if kind.__name__ == "CLAHE":
        made = [cv2.createCLAHE(2.0, (4, 4))]
    if kind.__name__ in ("TextIOWrapper", "BufferedReader", "FileIO"):
        return [
            (folder / "a.json").open("rb", 0 if kind.__name__ == "FileIO" else -1)
            if kind.__name__ != "TextIOWrapper"
            else (folder / "a.json").open()
        ]
    return made or []
