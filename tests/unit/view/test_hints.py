"""Hints name something to do for what is called; the editor of links is an address of an editor."""

from __future__ import annotations

import pytest

from codedag.view.hints import NOT_MEASURED, hint_for
from codedag.view.html.facts import editor


@pytest.mark.parametrize(
    ("text", "names", "words"),
    [
        ("df.iterrows()", [], "itertuples"),
        ("pd.read_csv()", [], "Parquet"),
        ("cv2.imread()", [], "smaller files"),
        ("self.load()", ["ImageFile.load"], "smaller files"),
        ("Parallel(n_jobs=2)()", ["Parallel.__call__"], "more work"),
    ],
)
def test_a_hint_by_what_is_called_or_by_what_takes_the_time_below_it(text, names, words):
    hint = hint_for(text, names)
    assert words in hint.words + hint.sentence
    assert hint.evidence == NOT_MEASURED


def test_of_most_calls_nothing_is_known():
    assert hint_for("x.sort()", ["quicksort"]) is None
    assert hint_for("") is None


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("", "vscode://file{file}:{line}"),
        ("idea://open?file={file}&line={line}", "idea://open?file={file}&line={line}"),
        ("javascript:alert('{file}')", "vscode://file{file}:{line}"),
        ("https://evil.example/{file}", "vscode://file{file}:{line}"),
        ("emacs", "vscode://file{file}:{line}"),
    ],
)
def test_the_editor_is_an_address_of_an_editor(monkeypatch, asked, shown):
    monkeypatch.setenv("CODEDAG_EDITOR", asked)
    assert editor() == shown
