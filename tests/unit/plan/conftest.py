"""Plans of a number of steps: on a busy machine the clock would cut some searches and not others."""

from __future__ import annotations

import pytest

from codedag.plan import search


@pytest.fixture(autouse=True)
def no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "LATE", 1e9)
