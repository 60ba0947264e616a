"""Functions and loops that only juggle numbers get their plain code back as soon as they have shown all of it."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from codedag.autopilot.moves.idle_code import SCALAR, SHOWN, IdleCode
from codedag.instrument import _twin, sites
from codedag.instrument.program import Program
from codedag.trace.recorder import Recorder

SOURCE = """
import numpy as np

def step(x, y):
    return x * 3 + y

def drive(rounds, y):
    total = 0
    for i in range(rounds):
        total = step(i, y)
    return total

def prepare(rounds, data):
    total = 0
    for i in range(rounds):
        total = total + i * 5
    for j in range(3):
        data = np.sqrt(data)
    return data

def rare(rounds, when, data):
    for i in range(rounds):
        when = when * 1 + 0
        if i > when:
            data = np.sqrt(data)
    return data
"""


class Told(SimpleNamespace):
    """What IdleCode asks of a pilot; what is to be done soon waits until the test does it."""

    def soon(self, job: Any) -> None:
        self.jobs.append(job)

    def install(self, path: str, owners: list[str], near: bool = False) -> None:
        self.program.install(path, owners, near=near)


@pytest.fixture(params=["c", "twin"])
def loaded(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Any, Any, IdleCode]]:
    before = sites.native
    if request.param == "twin":
        sites.use(_twin)
    path = tmp_path / "numbers.py"
    path.write_text(SOURCE)
    program = Program([tmp_path])
    spec = importlib.util.spec_from_file_location("numbers_", path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "numbers_", module)
    exec(program.load(str(path), path.read_bytes()), module.__dict__)
    pilot = Told(planning=None, program=program, recorder=Recorder(program.names), jobs=[], barren=set())
    pilot.planning = pilot
    scalars = IdleCode(pilot)  # type: ignore[arg-type]
    sites.native.start(pilot.recorder, program.names)
    sites.native.idle_by(scalars.told)
    yield module, pilot, scalars
    sites.native.idle_by(None)
    sites.native.stop()
    sites.use(before)


def is_plain(function: types.FunctionType) -> bool:
    return not any("Site" in type(constant).__name__ for constant in function.__code__.co_consts)


def modes(module: Any, pilot: Any, owner: str, text: str) -> set[int]:
    line = SOURCE.splitlines().index(text) + 1
    file = pilot.program.files[module.__spec__.origin]
    return {site.mode for site in file.sites_of(owner) if site.info.line == line}


def test_what_has_shown_everything_is_let_go_at_once(loaded: Any) -> None:
    module, pilot, _ = loaded
    assert module.drive(3 * SHOWN, 1) == (3 * SHOWN - 1) * 3 + 1
    assert len(pilot.jobs) == 1  # whoever tells while the look is to come adds none
    assert not is_plain(module.step)
    pilot.jobs.pop()()
    assert is_plain(module.step)
    assert module.drive(10, 1) == 28


def test_few_executions_say_nothing(loaded: Any) -> None:
    module, pilot, scalars = loaded
    module.drive(SHOWN // 2, 1)
    scalars.look()
    assert not pilot.jobs
    assert not is_plain(module.step)


def test_a_loop_is_let_go_and_what_comes_after_it_is_seen(loaded: Any) -> None:
    module, pilot, scalars = loaded
    module.prepare(3 * SHOWN, np.ones(3))
    scalars.look()
    assert modes(module, pilot, "prepare", "        total = total + i * 5") == {sites.PASS}
    assert modes(module, pilot, "prepare", "        data = np.sqrt(data)") == {sites.RECORD}
    module.prepare(10, np.ones(3))
    assert [t.count for t in pilot.recorder.templates if t.name == "numpy.sqrt"] == [6]


def test_a_branch_not_yet_taken_is_waited_for(loaded: Any) -> None:
    module, pilot, scalars = loaded
    module.rare(SHOWN + 100, 10 * SHOWN, np.ones(3))
    scalars.look()
    assert modes(module, pilot, "rare", "            data = np.sqrt(data)") == {sites.RECORD}
    module.rare(3, -1, np.ones(3))
    assert [t.count for t in pilot.recorder.templates if t.name == "numpy.sqrt"] == [3]


def test_but_not_for_ever(loaded: Any) -> None:
    module, _, scalars = loaded
    module.rare(SCALAR + 100, 10 * SCALAR, np.ones(3))
    scalars.look()
    assert is_plain(module.rare)


def test_what_moves_data_stays_observed(loaded: Any) -> None:
    module, pilot, scalars = loaded
    module.drive(3 * SHOWN, np.ones(3))
    scalars.look()
    assert not is_plain(module.step)
    assert {t.name for t in pilot.recorder.templates if t.kind == "operator"} == {"operator.add"}


def test_a_forked_process_is_asked_anew(loaded: Any) -> None:
    module, pilot, scalars = loaded
    module.drive(3 * SHOWN, 1)
    pilot.jobs.clear()  # which the parent did
    scalars.forget()
    module.drive(3 * SHOWN, 1)
    assert pilot.jobs
