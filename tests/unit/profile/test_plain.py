"""Captured calls: what goes in comes out again, in files that hold no code."""

from __future__ import annotations

import math
import os
import stat
import time

import numpy as np
import pytest

from codedag.backends.same import same
from codedag.ir import CannotWrite
from codedag.profile.sample import Samples, read
from codedag.trace import spool as spool_module
from codedag.trace.plain import NotPlain, Packer, unpack
from codedag.trace.spool import Spool, forget_expired

WHOLE = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
VALUES = [
    None, True, 3, 1 << 80, -0.5, math.inf, 1 + 2j, "text \udc80", b"\x00\xff", (1, (2,)), [1, [None]],
    {"a": (1,), 2: "b"},
    slice(1, None, -1), ..., range(3), float, np.float32, np.dtype(">f4"), np.float32(0.1), np.uint8(7), WHOLE, WHOLE.T,
    WHOLE[::-1, ::2], np.asfortranarray(WHOLE), np.empty((0, 3)), np.array(2.5), np.broadcast_to(WHOLE[:1], (2, 4, 5)),
    np.array([True, False]), np.array(["ab", "c"]),
]  # fmt: skip


def there_and_back(value):
    packer = Packer()
    node = packer.pack(value)
    return unpack(node, lambda number: packer.arrays[number].copy())


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_comes_back_as_it_was(value):
    back = there_and_back(value)
    assert type(back) is type(value)
    if isinstance(value, np.ndarray):
        assert back.dtype == value.dtype
        assert back.strides == value.strides or value.strides[0] == 0
        assert np.array_equal(back, value)
    elif isinstance(value, type | np.dtype):
        assert back == value
    else:
        assert same(back, value)


def test_an_array_that_is_there_twice_is_kept_once():
    packer = Packer()
    assert [node["at"] for node in packer.several((WHOLE, WHOLE))] == [0, 0]
    one, other = there_and_back((WHOLE, [WHOLE]))
    assert np.array_equal(one, other[0])


def test_nan_comes_back():
    assert math.isnan(there_and_back(math.nan))


def test_a_small_view_of_much_memory_is_kept_alone():
    view = np.zeros((1000, 1000))[::100, ::100]
    packer = Packer()
    assert packer.pack(view)["strides"] is None
    assert packer.nbytes == view.nbytes


def test_tensors_and_pictures_come_back():
    torch = pytest.importorskip("torch")
    image = pytest.importorskip("PIL.Image")
    tensor = torch.arange(12.0).reshape(3, 4).T.requires_grad_()
    back = there_and_back(tensor)
    assert same(back.detach(), tensor.detach())
    assert back.requires_grad
    assert there_and_back(torch.float16) is torch.float16
    picture = image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))
    assert there_and_back(picture).tobytes() == picture.tobytes()


@pytest.mark.parametrize(
    "value",
    [object(), np.array([None]), open, {1, 2}, [lambda: 0], np.zeros(2, "i4,f8")],
    ids=["object", "objects", "function", "set", "lambda", "records"],
)
def test_what_is_not_plain_is_refused(value):
    with pytest.raises(NotPlain):
        Packer().pack(value)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_torch_traces_does_not_see_us_look():
    torch = pytest.importorskip("torch")
    looked = []

    def double(x):
        with pytest.raises(NotPlain, match="tracing"):
            Packer().pack(x)
        looked.append(1)
        return x * 2

    graph = str(torch.jit.trace(double, torch.ones(3), check_trace=False).graph)
    assert looked
    assert "detach" not in graph


def test_an_unknown_node_is_refused():
    for node in (
        {"is": "os.system"},
        {"is": "scalar type", "name": "ndarray"},
        {"is": "torch.dtype", "name": "nn"},
        {},
    ):
        with pytest.raises(NotPlain):
            unpack(node, lambda number: None)


def test_an_array_with_pickles_in_it_is_not_loaded(keep, numbers):
    sample = keep("numpy.sort", numbers)
    np.save(sample.path.with_name(f"{sample.path.stem}-0.npy"), np.array([None]), allow_pickle=True)
    assert "damaged" in read(sample.path).reason


def test_the_folder_is_private_and_has_a_cap(spool: Spool, keep, numbers):
    assert stat.S_IMODE(os.stat(spool.folder).st_mode) == 0o700
    spool.most_nbytes = 60_000
    keep("numpy.sort", numbers)
    with pytest.raises(AssertionError, match="may take 0 MB, which are full"):
        keep("numpy.sort", numbers, line=2)
    assert sum(path.stat().st_size for path in spool.folder.iterdir()) < 60_000


def test_a_full_disk_leaves_no_half_sample(spool: Spool, keep, numbers, monkeypatch):
    def full(array, path):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spool_module, "saved", full)
    with pytest.raises(AssertionError, match="not kept any more"):
        keep("numpy.sort", numbers)
    assert "No space left" in spool.failure
    assert [path.name for path in spool.folder.iterdir()] == ["samples.json"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError("30000 requested and 20352 written"), "is the disk full? (30000 requested and 20352 written)"),
        (OSError(28, "No space left on device"), "cannot write to {folder}: No space left on device"),
        (CannotWrite("cannot write here: No space left on device", hint="Choose"), "more: cannot write here: No sp"),
    ],
)
def test_why_samples_are_not_kept_is_one_line_with_the_place(spool: Spool, keep, numbers, monkeypatch, error, words):
    def full(array, path):
        raise error

    monkeypatch.setattr(spool_module, "saved", full)
    with pytest.raises(AssertionError, match="not kept any more"):
        keep("numpy.sort", numbers)
    assert words.format(folder=spool.folder) in spool.failure
    assert "\n" not in spool.failure


def test_samples_past_their_time_are_removed(spool: Spool):
    runs = spool.folder.parent.parent
    assert not Samples(spool.folder.parent).expired()
    assert forget_expired(runs, time.time()) == 0
    assert forget_expired(runs, time.time() + 8 * 24 * 3600) == 1
    assert not spool.folder.exists()
