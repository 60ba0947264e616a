"""`pytest --codedag-budget FILE`: CPU seconds of each test against those that a file keeps; too slow a test fails."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FORMAT = "codedag/budget"
NOISE_SECONDS = 0.05  # a test that takes so little more never fails: below this a collection or an import decides
_BUDGET: pytest.StashKey[Budget] = pytest.StashKey()


class Budget:
    """The seconds that tests may take, and those that they took in this session."""

    def __init__(self, path: Path, max_slower: float, update: bool) -> None:
        self.path, self.max_slower, self.update = path, max_slower, update
        self.known = _read(path)
        self.taken: dict[str, float] = {}

    def too_slow(self, name: str, seconds: float) -> str:
        """Why a test is too slow; empty if it is not, or has no budget."""
        base = self.known.get(name)
        if base is None or self.update or seconds <= base * (1 + self.max_slower) + NOISE_SECONDS:
            return ""
        return f"{seconds:.3f} s of CPU time, {seconds / base:.1f} times its budget of {base:.3f} s in {self.path}"

    def write(self) -> None:
        """Writes the seconds of tests that have no budget yet, or of all that ran if asked to."""
        new = self.taken if self.update else {k: s for k, s in self.taken.items() if k not in self.known}
        if not new:
            return
        from codedag.ir import write_atomically

        seconds = {name: round(one, 4) for name, one in sorted({**self.known, **new}.items())}
        text = json.dumps({"format": FORMAT, "version": 1, "seconds": seconds}, indent=1)
        write_atomically(self.path, f"{text}\n".encode())


def _read(path: Path) -> dict[str, float]:
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["format"] != FORMAT or found["version"] != 1:
            raise ValueError(f"format: is not {FORMAT} of version 1")
        return {str(name): float(seconds) for name, seconds in found["seconds"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise pytest.UsageError(f"--codedag-budget: {path} is not a file of budgets: {error}") from error


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("codedag")
    group.addoption(
        "--codedag-budget",
        metavar="FILE",
        help="fail tests that take more CPU time than FILE says; new tests are added",
    )
    group.addoption("--codedag-max-slower", metavar="SHARE", default="50%", help="how much more is allowed (50%%)")
    group.addoption("--codedag-budget-update", action="store_true", help="write the budgets anew, fail nothing")


def pytest_configure(config: pytest.Config) -> None:
    """Reads the budgets."""
    path = config.getoption("--codedag-budget")
    if path:
        share = _share(config.getoption("--codedag-max-slower"))
        config.stash[_BUDGET] = Budget(Path(path).absolute(), share, config.getoption("--codedag-budget-update"))


def _share(text: str) -> float:
    try:
        found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        found = -1.0
    if not found >= 0:
        raise pytest.UsageError(f"--codedag-max-slower {text}: not a share, such as 50% or 0.5")
    return found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Times the test itself, without fixtures; one that passed but took too long fails."""
    budget = item.config.stash.get(_BUDGET, None)
    begun = time.process_time()
    result = yield
    if budget is not None:
        seconds = time.process_time() - begun
        budget.taken[item.nodeid] = seconds
        if why := budget.too_slow(item.nodeid, seconds):
            pytest.fail(why, pytrace=False)
    return result


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keeps the budgets of new tests; a worker of pytest-xdist hands them to the process that writes."""
    budget = session.config.stash.get(_BUDGET, None)
    if budget is None:
        return
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["codedag-budget"] = json.dumps(budget.taken)
    else:
        budget.write()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hears what tests took in a worker of pytest-xdist."""
    budget = node.config.stash.get(_BUDGET, None)
    told = getattr(node, "workeroutput", {}).get("codedag-budget")
    if budget is not None and told:
        budget.taken.update(json.loads(told))
