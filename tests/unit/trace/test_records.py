"""Records of processes that ended while they wrote: the last whole ones are read, and what is missing is said."""

from __future__ import annotations

from codedag.trace.records import Records, read


def test_the_last_whole_records_are_read_where_new_ones_were_being_written(tmp_path):
    Records(process=12).write(tmp_path / "12.json")
    (tmp_path / ".12.json.5af3").write_bytes(b'{"format": "codedag/rec')
    found, bad = read(tmp_path)
    assert [records.process for records in found] == [12]
    assert bad == []


def test_a_process_that_ended_while_it_wrote_its_first_is_said(tmp_path):
    Records(process=12).write(tmp_path / "12.json")
    (tmp_path / ".13.json.5af3").write_bytes(b"")
    found, bad = read(tmp_path)
    assert [records.process for records in found] == [12]
    assert bad == ["13.json was never written to its end: its process ended meanwhile"]


def test_records_that_are_cut_off_are_said_and_the_others_read(tmp_path):
    Records(process=12).write(tmp_path / "12.json")
    (tmp_path / "13.json").write_bytes((tmp_path / "12.json").read_bytes()[:40])
    found, bad = read(tmp_path)
    assert [records.process for records in found] == [12]
    assert len(bad) == 1
    assert "13.json cannot be read" in bad[0]
