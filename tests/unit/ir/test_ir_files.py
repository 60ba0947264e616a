"""Where a file is written: links stay, and what is no file is written to, never taken away."""

from __future__ import annotations

import os
import stat

import pytest

from codedag.ir import CannotWrite, write_atomically


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomically(pipe, [b"one ", b"two"])
        assert os.read(reader, 100) == b"one two"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [each.name for each in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
def test_a_device_is_written_to_through_a_link_and_says_when_it_is_full(tmp_path):
    link = tmp_path / "page.html"  # through a link: should this fail, it is the link that is lost
    link.symlink_to("/dev/full")
    with pytest.raises(CannotWrite, match="No space left"):
        write_atomically(link, b"page")
    assert link.is_symlink()
    assert stat.S_ISCHR(link.stat().st_mode)


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "kept").mkdir()
    target, link = tmp_path / "kept" / "page.html", tmp_path / "page.html"
    link.symlink_to(target)
    for words in (b"first", b"second"):
        write_atomically(link, words)
        assert link.is_symlink()
        assert target.read_bytes() == words
    assert [each.name for each in target.parent.iterdir()] == ["page.html"]
