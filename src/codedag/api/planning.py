"""`codedag.optimise`: from a run to the plan for it, by what `codedag profile` and `codedag plan` do."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from codedag.api.run import Run
from codedag.ir import Plan, RunDirectory, Source, load, save

if TYPE_CHECKING:
    from codedag.backends.registry import Equivalence
    from codedag.profile.run import Settings

AnyRun = Run | RunDirectory | str | os.PathLike[str]


def optimise(
    run: AnyRun, *, budget: float = 120.0, pus: Collection[str] = (), allow: Collection[str] = (), seed: int = 0
) -> Plan:
    """The plan for a run: its operations are measured here on the inputs that were kept, and the best are chosen.

    The run is that of `codedag.trace`, or the directory of one; a directory gets costs.json, machine.json and plan.json
    as from `codedag profile` and `codedag plan`, and what was measured before is not measured again.  `budget` is the
    seconds to measure, `pus` the processing units to look at (all that are here), `allow` what may be used beside exact
    variants (ulp, level1).  `codedag.apply(plan)` puts it into force.
    """
    settings = _settings(budget, pus, allow)
    if isinstance(run, Run):
        with tempfile.TemporaryDirectory(prefix="codedag-optimise-") as folder:
            return _optimised(run.save(Path(folder) / "run"), settings, seed)
    if not isinstance(run, RunDirectory | str | os.PathLike):
        raise TypeError(f"optimise() takes a run or the path of one, not {type(run).__name__}")
    return _optimised(run.path if isinstance(run, RunDirectory) else Path(run), settings, seed)


def _settings(budget: float, pus: Collection[str], allow: Collection[str]) -> Settings:
    from codedag.profile.run import Settings

    names = ("exact", *((allow,) if isinstance(allow, str) else allow))
    units = (pus,) if isinstance(pus, str) else tuple(pus)
    return Settings(budget_seconds=budget, pus=units, allowed=tuple(_class(name) for name in dict.fromkeys(names)))


def _class(name: str) -> Equivalence:
    from codedag.api.migrator import equivalence

    return equivalence(name)


def _optimised(path: Path, settings: Settings, seed: int) -> Plan:
    from codedag.plan.decide import make_plan
    from codedag.profile.run import profile

    _need_samples(path)
    done = profile(path, settings)
    if done.interrupted:
        raise KeyboardInterrupt
    plan = make_plan(done.run.graph, done.costs, done.machine, seed=seed, sources=sources_of(done.run))
    save(plan, path / "plan.json")
    return plan


def _need_samples(path: Path) -> None:
    """Raises if no inputs were kept: the plan would say that nothing is faster, though nothing was tried."""
    from codedag.profile.run import CannotProfile
    from codedag.trace.spool import FOLDER

    load(path)  # says what is wrong with a path that is no run
    if not (path / FOLDER).is_dir():
        hint = "Trace it again: `codedag trace` and `codedag.trace()` keep them unless told not to."
        raise CannotProfile("this run has no inputs to measure its operations with", hint=hint)


def sources_of(directory: RunDirectory) -> list[Source]:
    """The user's files that the graph of a run names, as they are now."""
    from hashlib import sha256

    home = Path(directory.run.cwd) if directory.has("run") else Path()
    found = []
    for file in sorted(set(directory.graph.op_columns.file)):
        path = home / file
        if file and path.is_file():
            found.append(Source(file=file, sha256=sha256(path.read_bytes()).hexdigest()))
    return found
