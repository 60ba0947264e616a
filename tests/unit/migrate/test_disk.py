"""Arrays on disk: what is read is what was kept, and a disk that fails or is slow is left alone."""

from __future__ import annotations

import os

import numpy as np
import pytest

from codedag.backends.same import same
from codedag.migrate.memo.disk_store import Disk
from codedag.migrate.trial import FIRST

pytestmark = pytest.mark.skipif(not hasattr(os, "preadv"), reason="there is no reading at a place here")


def frozen(array):
    array.flags.writeable = False
    return array


ARRAYS = {
    "rows": np.arange(24, dtype=np.float32).reshape(4, 6),
    "columns": np.asfortranarray(np.arange(24.0).reshape(4, 6)),
    "turned": np.arange(24, dtype=np.uint8).reshape(2, 3, 4).transpose(2, 0, 1),
    "reversed": np.arange(24, dtype=np.int16).reshape(4, 6)[::-1, ::2],
    "view": np.arange(24)[3:9],
    "repeated": np.broadcast_to(np.arange(3.0), (5, 3)),
    "scalar": np.array(7.5),
    "swapped": np.arange(5, dtype=">i4"),
    "times": np.array(["2020-01-01", "NaT"], "datetime64[D]"),
    "fields": np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")]),
    "frozen": frozen(np.arange(4)),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_what_is_read_is_what_was_kept(name):
    disk, value = Disk(1 << 20), ARRAYS[name]
    disk.keep(np.arange(100))
    stored = disk.keep(value)
    like = value.copy("K") if value.flags.owndata else value.copy("K")[...]
    like.flags.writeable = value.flags.writeable
    found = disk.read(stored)
    assert same(like, found)
    assert found.strides == like.strides
    assert not np.shares_memory(found, disk.read(stored))


@pytest.mark.parametrize("value", [np.array([None]), np.zeros((0, 3)), [1, 2], "text"], ids=repr)
def test_what_is_no_plain_array_is_not_kept(value):
    assert Disk(1 << 20).keep(value) is None


def test_the_budget_holds():
    disk = Disk(1000)
    assert disk.keep(np.zeros(900, np.uint8)) is not None
    assert disk.keep(np.zeros(101, np.uint8)) is None
    assert disk.keep(np.zeros(100, np.uint8)) is not None
    assert disk.nbytes == 1000


def test_a_full_disk_is_left_alone(monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    disk = Disk(1 << 20)
    first = disk.keep(np.arange(3))
    monkeypatch.setattr(os, "pwrite", full)
    assert disk.keep(np.arange(3)) is None
    monkeypatch.undo()
    assert disk.keep(np.arange(3)) is None, "it was tried again"
    assert disk.read(first).tolist() == [0, 1, 2]
    assert disk.notes() == ["kept on disk: 0.0 MB, gone with this process; it takes no more: No space left on device"]


def test_a_folder_that_cannot_be_made_is_no_error(codedag_home, monkeypatch):
    (codedag_home / "file").write_text("")
    monkeypatch.setenv("CODEDAG_HOME", str(codedag_home / "file"))
    disk = Disk(1 << 20)
    assert disk.keep(np.arange(3)) is None
    assert "it takes no more" in disk.notes()[0]


def test_a_disk_that_is_not_faster_is_not_read():
    disk = Disk(1 << 20)
    for _ in range(FIRST):
        disk.timed(anew=0.001, read=0.002)
    assert disk.is_slow
    assert "not faster (0.50x)" in disk.notes()[0]


def test_nothing_is_left_in_the_folder(codedag_home):
    disk = Disk(1 << 20)
    disk.keep(np.arange(1000))
    assert [path for path in codedag_home.rglob("*") if path.is_file()] == []


def test_a_forked_process_reads_and_does_not_write(monkeypatch):
    disk = Disk(1 << 20)
    stored = disk.keep(np.arange(3))
    monkeypatch.setattr(disk, "_process", -1)
    assert disk.keep(np.arange(3)) is None
    assert disk.read(stored).tolist() == [0, 1, 2]
