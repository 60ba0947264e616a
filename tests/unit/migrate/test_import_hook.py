"""Whoever waits for a module is told once it is loaded, and the finders are asked as Python would ask them."""

import sys
from functools import partial

import pytest

from codedag.migrate.patches.import_hook import ImportWatcher


class Counting:
    """A finder that finds nothing, and counts how often it is asked."""

    def __init__(self):
        self.asked = []

    def find_spec(self, name, path, target=None):
        if name.startswith("watched_"):  # a thread that another test has left may import something too
            self.asked.append(name)


def _note(told, module):
    if module.__name__.startswith("watched_"):
        told.append(module.__name__)


@pytest.fixture
def watching(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    for name in ("watched_a", "watched_b"):
        (tmp_path / f"{name}.py").write_text("here = True\n")
        monkeypatch.delitem(sys.modules, name, raising=False)

    def start(count):
        told = [[] for _ in range(count)]
        for each in told:
            ImportWatcher(partial(_note, each)).start()
        return told

    yield start
    for name in ("watched_a", "watched_b"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_all_are_told_and_no_finder_is_asked_again_and_again(watching, count):
    counting = Counting()
    sys.meta_path.insert(0, counting)
    told = watching(count)
    import watched_a
    import watched_b

    assert watched_a.here
    assert watched_b.here
    assert told == [["watched_a", "watched_b"]] * count
    assert counting.asked == ["watched_a", "watched_b"]
    with pytest.raises(ModuleNotFoundError):
        import watched_nowhere  # noqa: F401


def test_one_that_is_in_no_list_asks_none_of_us(watching):
    watching(2)
    found = ImportWatcher(lambda module: None).find_spec("watched_a", None)
    assert found.name == "watched_a"
