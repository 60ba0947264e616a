"""The pages that lead a reader to code: every file, function and class that they name is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "codedag"
QUOTED = re.compile(r"`([^`]+)`")


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the table with this first heading."""
    lines = iter((ROOT / "docs" / page).read_text(encoding="utf-8").splitlines())
    for line in lines:
        if line.startswith(f"| {heading} |"):
            break
    found = []
    for line in lines:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found[1:]  # without the line below the headings


def names_in(file: Path) -> set[str]:
    """The functions, classes, methods and constants that a file defines at its outer levels."""
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        return set(re.findall(r"^(?:const|let|function\*?|class)\s+(\w+)", text, re.MULTILINE))
    found = set()
    for node in ast.parse(text).body:
        found |= _given(node)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{name}" for part in node.body for name in _given(part)}
    return found


def _given(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}


WHERE = rows("architecture.md", "change request")
GLOSSARY = rows("glossary.md", "word")


def test_the_table_answers_at_least_twenty_requests():
    requests = [row[0] for row in WHERE]
    assert len(requests) >= 20
    assert len(set(requests)) == len(requests)


@pytest.mark.parametrize("row", WHERE, ids=lambda row: row[0])
def test_what_the_table_names_is_there(row):
    _, file, names = row
    (path,) = QUOTED.findall(file)
    assert (SOURCE / path).is_file(), path
    wanted = QUOTED.findall(names)
    assert wanted
    assert [name for name in wanted if name not in names_in(SOURCE / path)] == []


def test_a_missing_name_would_be_seen():
    """The check itself: it knows methods and constants, and not what a file only imports."""
    known = names_in(SOURCE / "autopilot" / "judge" / "change.py")
    assert {"State", "LEGAL", "Account.net", "Change.move_to"} <= known
    assert not {"msgspec", "StrEnum", "Account.gross"} & known


def test_every_file_that_the_page_names_is_there():
    """Those in the walks too: `trace/session.py`, or a name alone in a row of the rooms."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    paths = {name for name in QUOTED.findall(text) if re.fullmatch(r"[\w/]+/\w+\.(py|c|js)", name)}
    assert len(paths) > 25
    assert [path for path in sorted(paths) if not (SOURCE / path).is_file() and not _in_a_room(path)] == []


def _in_a_room(path: str) -> bool:
    """Whether a room has the file: the row of a room names files without it."""
    return any((room / path).is_file() for room in SOURCE.iterdir() if room.is_dir())


@pytest.mark.parametrize("row", GLOSSARY, ids=lambda row: row[0])
def test_a_word_has_a_meaning_and_a_file(row):
    word, meaning, file = row
    assert meaning.endswith("."), word
    (path,) = QUOTED.findall(file)
    assert (SOURCE / path).is_file(), path


def test_words_are_in_order_and_stand_for_one_thing():
    words = [row[0].lower() for row in GLOSSARY]
    assert words == sorted(set(words))
    for word in ("change", "move", "variant", "guard", "proof", "judge", "policy", "turn", "block", "account", "heat"):
        assert word in words
