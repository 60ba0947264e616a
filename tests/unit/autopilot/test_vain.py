"""A run that found nothing to gain is remembered: for how long, and what is no reason against it."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest

from codedag.autopilot.applied import Applied
from codedag.autopilot.vain import MOST_RUNS, RUNS, Entry, Vain, is_open
from codedag.migrate.trial import Trial

NOT_FASTER = "not faster here: 0.90x over 6 interleaved batches"


def applied(reason="", kind="substitute", names=("Photos.__getitem__",), pairs=((2.0, 1.0),)):
    trial = Trial("items", checked=len(pairs), pairs=list(pairs))
    if reason:
        trial.stop(reason)
    return Applied(kind, "a.py", "Photos.__getitem__", [3], list(names), trial, "2 threads")


def pilot(*changes):
    return SimpleNamespace(applied=list(changes), unplanned=[], refused=[])


def test_a_run_that_ended_before_a_change_was_judged_says_nothing():
    assert is_open(pilot(applied(pairs=())))
    assert not is_open(pilot(applied(), applied(NOT_FASTER)))
    assert not is_open(pilot(applied(kind="recall", pairs=())))
    assert is_open(SimpleNamespace(applied=[], unplanned=[("a.py", "f")], refused=[]))


@pytest.mark.parametrize(
    ("before", "runs"), [(None, RUNS), ((True, RUNS), 2 * RUNS), ((True, MOST_RUNS), MOST_RUNS), ((False, 8), RUNS)]
)
def test_what_is_in_vain_again_is_remembered_for_longer(monkeypatch, before, runs):
    entry = None
    if before is not None:
        facts = {"program": "a.py", "arguments": [], "machine": "m", "versions": {}, "sources": {}, "seconds": 2.0}
        entry = Entry(**facts, left=0, runs=before[1], nothing=before[0])
    monkeypatch.setattr(Vain, "_read", lambda self: entry)
    monkeypatch.setattr(Vain, "_holds", lambda self, _: True)
    assert Vain(None)._runs() == runs


def test_an_entry_with_what_older_versions_tried_is_read(tmp_path, monkeypatch):
    facts = {"program": "a.py", "arguments": [], "machine": "m", "versions": {}, "sources": {}, "seconds": 2.0}
    old = msgspec.json.decode(msgspec.json.encode(Entry(**facts, left=3)))
    old["tried"] = [{"kind": "widen", "file": "a.py", "function": "f", "site": -1, "reason": NOT_FASTER}]
    store = SimpleNamespace(path=tmp_path / "proven" / "a.json", target=SimpleNamespace(args=[]))
    vain = Vain(store)
    vain.path.parent.mkdir()
    vain.path.write_bytes(msgspec.json.encode(old))
    monkeypatch.setattr(Vain, "_holds", lambda self, _: True)
    assert vain.load() == Entry(**facts, left=3)


@pytest.mark.parametrize("freed", [[], ["freed memory is kept for the next arrays"]])
def test_memory_that_is_kept_is_no_change_and_is_kept_again(monkeypatch, freed):
    written = []
    monkeypatch.setattr(Vain, "_read", lambda self: None)
    monkeypatch.setattr(Vain, "_write", lambda self, entry: written.append(entry))
    ended = pilot()
    ended.heap = SimpleNamespace(notes=lambda: freed)
    ended.program = SimpleNamespace(files={})
    store = SimpleNamespace(program="a.py", target=SimpleNamespace(args=[]))
    Vain(store).keep(ended, SimpleNamespace(proven=[]), 2.0, ())
    (entry,) = written
    assert entry.nothing
    assert entry.keeps_freed is bool(freed)
