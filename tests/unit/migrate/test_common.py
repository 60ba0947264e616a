"""What workers keep for each other: all of them read what one has written, and nothing that is half written."""

from __future__ import annotations

import os
import random
import struct
import warnings

import numpy as np
import pytest

from codedag.backends.same import same
from codedag.migrate.memo import shared_store as common
from codedag.migrate.memo.shared_store import CHUNKS, Common, can_keep
from codedag.migrate.memo.store import Memory

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="there are no files in memory here")
DTYPES = ("uint8", "float32", "int64", "float64", "bool", "complex64", ">i2")


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
    "frozen": frozen(np.arange(4)),
}


def key(number: int) -> bytes:
    return number.to_bytes(16, "little")


def as_kept(value):
    """A copy with the flags of the value."""
    made = value.copy("K") if value.flags.owndata else value.copy("K")[...]
    made.flags.writeable = value.flags.writeable
    return made


@pytest.mark.parametrize("name", ARRAYS)
def test_what_is_read_is_what_was_kept(name):
    kept, value = Common(CHUNKS << 12), ARRAYS[name]
    assert kept.keep(key(1), np.arange(100))
    assert kept.keep(key(2), value)
    found = kept.read(kept.find(key(2)))
    assert same(as_kept(value), found)
    assert found.strides == as_kept(value).strides
    assert kept.find(key(3)) is None


@pytest.mark.parametrize(
    "value",
    [
        np.array([None]),
        np.zeros((0, 3)),
        [1, 2],
        np.zeros((1,) * 5),
        np.array([(1, 2.5)], "i4,f8"),
        np.arange(3, dtype=">i4"),
    ],
    ids=lambda value: str(getattr(value, "dtype", value)),
)
def test_what_is_more_than_its_elements_is_not_kept(value):
    kept = Common(CHUNKS << 12)
    assert not can_keep(value)
    assert not kept.keep(key(1), value)
    assert kept.find(key(1)) is None


def test_there_is_never_more_than_it_may_take():
    kept = Common(CHUNKS << 12)
    done = [kept.keep(key(number), np.full(1000, number % 256, np.uint8)) for number in range(5 * CHUNKS)]
    assert 2 * CHUNKS <= sum(done) <= 4 * CHUNKS
    assert kept.nbytes() <= (CHUNKS << 12) + 8192
    for number in range(5 * CHUNKS):
        found = kept.find(key(number))
        assert (found is not None) is done[number]
        assert found is None or (kept.read(found) == number % 256).all()
    assert not kept.keep(key(10**6), np.zeros(1 << 12, np.uint8)), "larger than a chunk"


def forked(work) -> int:
    """A process that does some work; it ends with 0 if that does not raise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other tests may have left threads: nothing of theirs is used here
        process = os.fork()
    if not process:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return process


def value_of(number: int):
    rng = np.random.default_rng(number)
    made = rng.integers(0, 2, tuple(rng.integers(1, 30, int(rng.integers(1, 4))))).astype(DTYPES[number % 6])
    return made.T if number % 3 == 1 else made[::2] if number % 3 == 2 else made


def test_processes_read_what_others_have_written(seed):
    kept = Common(CHUNKS << 14)

    def work(worker: int) -> None:
        draw = random.Random(f"{seed} {worker}")
        for _ in range(120):
            number = draw.randrange(80)
            lying, value = kept.find(key(number)), value_of(number)
            if lying is None:
                kept.keep(key(number), value)
            else:
                assert same(as_kept(value), kept.read(lying))

    for _ in range(2):  # the second ones go on in the chunks of the first
        workers = [forked(lambda worker=worker: work(worker)) for worker in range(3)]
        assert [os.waitpid(worker, 0)[1] for worker in workers] == [0, 0, 0], seed
    found = [number for number in range(80) if kept.find(key(number)) is not None]
    assert len(found) > 40
    assert all(same(as_kept(value_of(n)), kept.read(kept.find(key(n)))) for n in found)


@pytest.mark.parametrize("written", [1, 2])
def test_a_process_that_ends_half_way_leaves_nothing_to_be_seen(monkeypatch, written):
    kept = Common(CHUNKS << 12)
    assert kept.keep(key(1), np.arange(10))
    write, count = common.write_at, 0

    def ends(*args) -> None:
        nonlocal count
        count += 1
        if count > written:
            os._exit(9)
        write(*args)

    def work() -> None:
        monkeypatch.setattr(common, "write_at", ends)
        kept.keep(key(2), np.arange(20))

    assert os.waitpid(forked(work), 0)[1] != 0
    assert kept.find(key(2)) is None
    assert kept.keep(key(3), np.arange(30))
    assert (kept.read(kept.find(key(1))) == np.arange(10)).all()
    assert (kept.read(kept.find(key(3))) == np.arange(30)).all()


def test_two_processes_never_write_to_one_chunk():
    kept = Common(CHUNKS << 12)
    assert kept.keep(key(1), np.arange(10))
    assert os.waitpid(forked(lambda: kept.keep(key(2), np.arange(20))), 0)[1] == 0
    counts = struct.unpack(f"<{CHUNKS}q", os.pread(kept._file, 8 * CHUNKS, 0))
    assert counts[:3] == (1, 1, 0)


@pytest.mark.parametrize("reused", [False, True])
def test_a_file_that_the_program_has_closed_is_never_touched(tmp_path, reused):
    (tmp_path / "other").write_bytes(bytes(20_000))
    kept = Common(CHUNKS << 12)
    assert kept.keep(key(1), np.arange(10))
    lying, number = kept.find(key(1)), kept._file
    with open(tmp_path / "other", "r+b") as other:
        if reused:
            os.dup2(other.fileno(), number)
        else:
            os.close(number)
        assert not kept.keep(key(2), np.arange(10))
        with pytest.raises(OSError):
            kept.read(lying)
        with pytest.raises(OSError):
            kept.find(key(3))
    assert (tmp_path / "other").read_bytes() == bytes(20_000)
    del kept
    if reused:
        os.close(number)  # it was not closed for us


def test_half_of_what_is_left_is_set_aside_once():
    memory = Memory(CHUNKS << 22)
    assert memory.takes(CHUNKS << 20)
    memory.share()
    assert memory.common is not None
    assert memory.common.chunk_nbytes * CHUNKS <= (3 * CHUNKS << 20) // 2
    assert memory.most_nbytes == (CHUNKS << 22) - (3 * CHUNKS << 20) // 2
    before = memory.common
    memory.share()
    assert memory.common is before


def test_a_small_budget_is_not_divided():
    memory = Memory(1 << 20)
    memory.share()
    assert memory.common is None
    assert memory.most_nbytes == 1 << 20
    memory.paused = memory.in_worker = True
    assert not memory.is_open()
