"""`pytest --codedag-plan FILE`: somebody's own test-suite under a plan, with what became of the calls at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from codedag.api.migrator import PipelineMigrator

pytest_plugins = ("codedag.plugins.pytest_budget",)  # one entry point for both
_MIGRATOR: pytest.StashKey[PipelineMigrator] = pytest.StashKey()
_WORKERS: pytest.StashKey[list[dict[str, Any]]] = pytest.StashKey()  # what the workers of pytest-xdist have counted


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("codedag", "a plan of CodeDAG in force while tests run")
    group.addoption("--codedag-plan", metavar="FILE", help="apply this plan.json or migration_plan.json")
    group.addoption("--codedag-mode", metavar="MODE", default="sample", help="off, sample, shadow or strict")
    group.addoption("--codedag-keep", action="store_true", help="keep substitutes that are not faster: more is tested")
    group.addoption("--codedag-stats", metavar="FILE", help="write what became of the calls as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Applies the plan before the tests are collected, so that what they import is reached too."""
    path = config.getoption("--codedag-plan")
    if not path:
        return
    from codedag.api.migrator import PipelineMigrator
    from codedag.ir import CodedagError

    try:
        demote = not config.getoption("--codedag-keep")
        migrator = PipelineMigrator.from_json(path, mode=config.getoption("--codedag-mode"), demote=demote)
        migrator.apply()
    except CodedagError as error:
        raise pytest.UsageError(str(error)) from error
    config.stash[_MIGRATOR] = migrator


def pytest_report_header(config: pytest.Config) -> str | None:
    """Says which plan is in force."""
    migrator = config.stash.get(_MIGRATOR, None)
    if migrator is None:
        return None
    return f"codedag: {config.getoption('--codedag-plan')} is in force, mode {config.getoption('--codedag-mode')}"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Says per function what became of its calls."""
    migrator = config.stash.get(_MIGRATOR, None)
    if migrator is None:
        return
    found = _all([_counted(migrator), *config.stash.get(_WORKERS, [])])
    verdict = found["verdict"]
    compared = f"{verdict['verdict']}, {verdict['checked']} results compared"
    terminalreporter.section(f"codedag: {compared if verdict['checked'] else 'no result was compared'}")
    for note in migrator.notes:
        terminalreporter.line(note)
    idle: dict[str, list[str]] = {}
    for name, stats in found["functions"].items():
        if stats["calls"]:
            terminalreporter.line(_line(name, stats))
        else:
            idle.setdefault(stats["reason"], []).append(name)
    for reason, names in idle.items():  # a line for each reason: a plan names many functions that a test never calls
        which = names[0] if len(names) == 1 else f"{len(names)} functions"
        terminalreporter.line(f"{which}: no calls" + (f" ({reason})" if reason else ""))


def _counted(migrator: PipelineMigrator) -> dict[str, Any]:
    return {"verdict": migrator.verdict(), "functions": migrator.get_stats()}


def _all(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """What several processes have counted, as if it had been one."""
    verdicts = [part["verdict"] for part in parts]
    kinds = {verdict["verdict"] for verdict in verdicts}
    sums = {key: sum(verdict[key] for verdict in verdicts) for key in ("checked", "mismatches", "unverified")}
    worst = next((kind for kind in ("DIFFERENT", "IDENTICAL") if kind in kinds), "UNCHECKED")
    functions: dict[str, dict[str, Any]] = {}
    for part in parts:
        for name, stats in part["functions"].items():
            known = functions.setdefault(name, {"declined": {}, "reason": ""})
            for key in ("calls", "fast", "checked", "mismatches"):
                known[key] = known.get(key, 0) + stats[key]
            for reason, count in stats["declined"].items():
                known["declined"][reason] = known["declined"].get(reason, 0) + count
            known["reason"] = known["reason"] or stats["reason"]
    return {"verdict": {"verdict": worst, **sums}, "functions": functions}


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist tells the process that shows the summary what it has counted."""
    migrator, told = session.config.stash.get(_MIGRATOR, None), getattr(session.config, "workeroutput", None)
    if migrator is not None and told is not None:
        told["codedag"] = json.dumps(_counted(migrator))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hears what a worker of pytest-xdist has counted; one that crashed says nothing."""
    told = getattr(node, "workeroutput", {}).get("codedag")
    if told:
        node.config.stash.setdefault(_WORKERS, []).append(json.loads(told))


def _line(name: str, stats: dict[str, Any]) -> str:
    declined = "; ".join(f"{count} {reason}" for reason, count in list(stats["declined"].items())[:3])
    counts = (
        f"{stats['calls']} calls, {stats['fast']} fast, {stats['checked']} compared, {stats['mismatches']} different"
    )
    return f"{name}: {counts}" + (f"; declined: {declined}" if declined else "")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Writes the counts if asked to, and puts every function back."""
    migrator = config.stash.get(_MIGRATOR, None)
    if migrator is None:
        return
    migrator.restore()
    path = config.getoption("--codedag-stats")
    if path:
        from codedag.ir import CodedagError, write_atomically

        try:
            write_atomically(Path(_own(config, path)), json.dumps(_counted(migrator), indent=1).encode())
        except CodedagError as error:
            raise pytest.UsageError(str(error)) from error


def _own(config: pytest.Config, path: str) -> str:
    """The file of this process: workers of pytest-xdist write beside the others."""
    worker = getattr(config, "workerinput", {}).get("workerid")
    return f"{path}.{worker}" if worker else path
