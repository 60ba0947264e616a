"""The state of a file: what tells that it was changed, also through memory."""

from __future__ import annotations

import mmap
import os
import sys
from pathlib import Path

import pytest

from codedag.migrate.memo import file_state as module
from codedag.migrate.memo.file_state import file_state

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only there the system tells of mappings")


def test_a_file_has_the_same_state_until_it_is_changed(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"one")
    before = file_state(str(path))
    assert before is not None
    assert file_state(os.fsencode(path)) == before
    path.write_bytes(b"other")
    assert file_state(str(path)) != before


def test_a_file_that_is_mapped_to_write_has_none_any_more(tmp_path):
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_bytes(bytes(8192)), other.write_bytes(bytes(8192))
    assert file_state(path) is not None
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        assert file_state(path) is None
        assert file_state(other) is not None
        mapped[0] = 1
    assert file_state(path) is None  # nobody knows when it was written last


def test_reading_through_a_mapping_is_no_writing(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(bytes(8192))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert mapped[0] == 0
        assert file_state(path) is not None
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        mapped[0] = 1
        assert file_state(path) is not None


def test_a_file_in_memory_is_known_by_its_content(monkeypatch):
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK) or shared.stat().st_dev not in module._in_memory():
        pytest.skip("no file system in memory")
    path = shared / f"codedag-test-{os.getpid()}"
    try:
        path.write_bytes(bytes(8192))
        before = file_state(path)
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:  # gone before anybody looks
            mapped[0] = 1
        assert before is not None
        assert file_state(path) != before
        monkeypatch.setattr(module, "LARGEST_DIGEST", 100)
        assert file_state(path) is None
    finally:
        path.unlink()


def test_without_a_system_that_tells_stamps_decide(tmp_path, monkeypatch):
    for name in ("_MAPS", "_SIZES", "_MOUNTS"):
        monkeypatch.setattr(module, name, str(tmp_path / "none"))
    monkeypatch.setattr(module, "_mappings", module.Mappings())
    path = tmp_path / "a"
    path.write_bytes(b"one")
    assert file_state(path) is not None


@pytest.mark.parametrize("asks", [True, False])
def test_both_ways_of_looking_through_mappings_find_the_same(tmp_path, monkeypatch, asks):
    if asks and module._asked() is None:
        pytest.skip("this system cannot be asked for mappings")
    look = module._asked if asks else module._read
    before = look()
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_bytes(bytes(8192))
    with paths[0].open("r+b") as first, paths[1].open("r+b") as second, paths[2].open("r+b") as third:
        own = mmap.mmap(third.fileno(), 0, access=mmap.ACCESS_COPY)
        with mmap.mmap(first.fileno(), 0), mmap.mmap(second.fileno(), 0), own:
            assert look() - before == {path.stat().st_ino for path in paths[:2]}
    assert look() == before


def test_a_system_that_cannot_be_asked_is_read(monkeypatch):
    monkeypatch.setattr(module, "_QUERY", 0xC0006611)  # one that no system knows
    monkeypatch.setattr(module, "_can_ask", True)
    assert module._written_now() == module._read()
    assert not module._can_ask
