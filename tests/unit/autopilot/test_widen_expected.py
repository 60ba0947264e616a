"""What a second run expects of imports is expected once, and is over at the end."""

import sys

from codedag.autopilot.widen import FETCHER, Widen


def test_imports_are_watched_once_however_many_changes_are_known(monkeypatch):
    monkeypatch.delitem(sys.modules, FETCHER, raising=False)
    before = [*sys.meta_path]
    widen = Widen(None, None, None, None, None, None)
    for _ in range(3):
        widen.expect()
    assert len(sys.meta_path) == len(before) + 1
    widen.restore()
    assert sys.meta_path == before
