"""Functions that only juggle numbers get their plain code back, and are looked at again."""

from __future__ import annotations

import importlib.util
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codedag.instrument import _twin, sites
from codedag.instrument.program import Program
from codedag.trace import idle as idle_module
from codedag.trace.idle import Idle
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

def mixed(rounds, data):
    for i in range(rounds):
        step(i, 1)
    return np.sqrt(data)

def guarded(rounds):
    total = 0
    for i in range(rounds):
        total = total + i * 2
        if total < 0:
            raise ValueError(
                "below " + str(total)
            )
    return total

def rare(rounds, when, data):
    total = 0
    for i in range(rounds):
        total = total + i * 5
        if i > when:
            data = np.sqrt(data)
            when = rounds
    return data

class KernelPool:
    def __init__(self, items):
        self.items = items

    def __getitem__(self, key):
        return self.items[key]

def shelves(rounds):
    shelf = KernelPool({1: {"a": [1]}})
    for i in range(rounds):
        shelf[1].get("a")
    return shelf
"""


@pytest.fixture(params=["c", "twin"])
def loaded(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    before = sites.native
    if request.param == "twin":
        sites.use(_twin)
    path = tmp_path / "numbers.py"
    path.write_text(SOURCE)
    program = Program([tmp_path])
    spec = importlib.util.spec_from_file_location("numbers_", path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    exec(program.load(str(path), path.read_bytes()), module.__dict__)
    recorder = Recorder(program.names)
    idle = Idle(program, recorder)
    sites.native.start(recorder, program.names)
    sites.native.idle_by(idle)
    yield module, program, recorder, idle
    sites.native.idle_by(None)
    sites.native.stop()
    sites.use(before)


def _is_plain(function: types.FunctionType) -> bool:
    return not any("Site" in type(constant).__name__ for constant in function.__code__.co_consts)


def test_plain_code_is_given_back_and_taken_away_again(loaded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module, _, recorder, idle = loaded
    monkeypatch.setattr(idle_module, "TOGETHER", 0.0)
    assert module.drive(40_000, 1) == 39_999 * 3 + 1
    assert _is_plain(module.step)
    assert not recorder.templates
    module.drive(10, np.ones(3))  # not seen: the function runs its plain code
    assert not recorder.templates
    monkeypatch.setattr(idle_module.time, "perf_counter", lambda: 1e12)
    idle.look_again()
    assert not _is_plain(module.step)
    module.drive(10, np.ones(3))
    assert {t.name for t in recorder.templates if t.kind == "operator"} == {"operator.add"}


def test_a_function_that_moves_data_stays_observed(loaded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module, _, recorder, _ = loaded
    monkeypatch.setattr(idle_module, "TOGETHER", 0.0)
    for _ in range(3):
        module.mixed(20_000, np.ones(3))
    assert not _is_plain(module.mixed)
    assert [t.count for t in recorder.templates if t.name == "numpy.sqrt"] == [3]


def test_restoring_after_rest_gives_identical_code(loaded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module, program, _, _ = loaded
    monkeypatch.setattr(idle_module, "TOGETHER", 0.0)
    module.drive(40_000, 1)
    program.wake({(module.__spec__.origin, "step", -1)})
    program.restore()
    assert _is_plain(module.step)
    assert _is_plain(module.drive)


def _modes(program: Program, path: str, owner: str) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for site in program.files[path].sites_of(owner):
        found.setdefault(site.info.line, set()).add(site.mode)
    return found


def _line(text: str) -> int:
    return SOURCE.splitlines().index(text) + 1


def test_what_a_raise_would_say_keeps_no_loop_awake(loaded: Any) -> None:
    module, program, _, idle = loaded
    assert module.guarded(3_000) == 2_999 * 3_000
    assert (module.__spec__.origin, "guarded", 0) in {(path, owner, 0) for path, owner, _ in idle.seen}
    modes = _modes(program, module.__spec__.origin, "guarded")
    assert modes[_line("        total = total + i * 2")] == {sites.PASS}


def test_a_branch_not_yet_taken_is_seen_when_it_is(loaded: Any) -> None:
    module, program, recorder, _ = loaded
    module.rare(20_000, 19_000, np.ones(3))
    assert [t.count for t in recorder.templates if t.name == "numpy.sqrt"] == [1]
    modes = _modes(program, module.__spec__.origin, "rare")
    assert modes[_line("            data = np.sqrt(data)")] == {sites.RECORD}


def test_a_loop_that_ran_long_keeps_only_the_sites_that_never_did(loaded: Any) -> None:
    module, program, _, idle = loaded
    module.rare(20_000, 30_000, np.ones(3))
    modes = _modes(program, module.__spec__.origin, "rare")
    assert modes[_line("            data = np.sqrt(data)")] == {sites.RECORD}
    assert modes[_line("        total = total + i * 5")] == {sites.PASS}
    idle.end()
    assert set().union(*_modes(program, module.__spec__.origin, "rare").values()) == {sites.RECORD}


def test_a_method_that_operators_call_rests_too(loaded: Any) -> None:
    module, _, recorder, idle = loaded
    module.shelves(5_000)
    assert not recorder.templates
    assert "KernelPool.__getitem__" in {owner for _, owner, _ in idle.seen}
