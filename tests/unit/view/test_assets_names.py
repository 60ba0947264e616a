"""The scripts of the page share one scope: a name that two of them give stops them all before a page is drawn."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import codedag.view.html

ASSETS = Path(codedag.view.html.__file__).parent / "assets"
GIVEN = re.compile(r"^(?:const|let|class|function\*?|async function)\s+(\w+)", re.MULTILINE)


def test_no_name_is_given_twice():
    given = Counter(name for file in ASSETS.glob("*.js") for name in GIVEN.findall(file.read_text()))
    assert len(given) > 100
    assert [name for name, times in given.items() if times > 1] == []
