"""The call tree of a report: what is called on the user's lines, as they are written."""

from __future__ import annotations

import pytest

from codedag.autopilot.heat import HotCall
from codedag.autopilot.report.calls import calls_of

SOURCE = """import cv2, glob
for path in sorted(glob.glob("*.jpg")):
    image = cv2.resize(cv2.imread(path), (9, 9)); image = image / 255.0
    print(
        image.mean())
x = Parallel(n_jobs=2)(range(9))
"""


def seen(file, line, column, end_line, end_column, parent=-1, name="<module>"):
    return HotCall(parent, str(file), name, 1, line, column, end_line, end_column, 1.0, 0.0)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ((3, 12, 3, 48), "cv2.resize()"),
        ((3, 23, 3, 39), "cv2.imread()"),
        ((3, 58, 3, 71), "image / 255.0"),
        ((4, 4, 5, 21), "print()"),
        ((5, 8, 5, 20), "image.mean()"),
        ((2, 0, 5, 21), "for path in sorted()"),
        ((1, 0, 1, 16), "import cv2, glob"),
        ((6, 4, 6, 32), "Parallel()()"),
        ((3, 13, 3, 40), "image = cv2.resize(cv2.imread(path), (9, 9)); image = image "),
        ((3, -1, 3, -1), ""),
        ((30, 1, 30, 9), ""),
    ],
)
def test_what_stands_at_a_place(tmp_path, place, text):
    (tmp_path / "a.py").write_text(SOURCE)
    (found,) = calls_of([[seen(tmp_path / "a.py", *place)]])
    assert found.text == text[:60]


def test_calls_of_the_same_on_one_line_are_one_and_trees_are_joined(tmp_path):
    (tmp_path / "a.py").write_text("f(g(1), g(2))\n")
    places = ((2, 6), (8, 12), (0, 13))
    tree = [seen(tmp_path / "a.py", 1, first, 1, last) for first, last in places]
    found = calls_of([tree, tree[:1]])
    assert [(call.text, call.self_seconds) for call in found] == [("g()", 3.0), ("f()", 1.0)]


def test_a_file_that_is_gone_has_no_text(tmp_path):
    (found,) = calls_of([[seen(tmp_path / "gone.py", 1, 0, 1, 9)]])
    assert (found.text, found.line) == ("", 1)
