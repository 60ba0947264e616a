"""In a worker no loop runs ahead, so that none keeps sites in the code of its function."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from codedag.autopilot.loops import Loop, Loops
from codedag.autopilot.widen import Widen
from codedag.instrument.program import Program

SOURCE = b"def f(xs):\n    out = []\n    for x in xs:\n        out.append(abs(x) + 1)\n    return out\n"


@pytest.fixture
def watched(tmp_path):
    path = str(tmp_path / "m.py")
    program = Program([tmp_path])
    widen = Widen(program, None, lambda job: job(), lambda _: True, lambda *_: None, lambda *_: None)
    widen.threads = 2
    exec(program.load(path, SOURCE), space := {"__name__": "m"})
    file = program.files[path]
    Loops(widen).watch(file)
    return SimpleNamespace(widen=widen, program=program, file=file, f=space["f"])


@pytest.mark.parametrize("in_worker", [False, True])
def test_the_sites_of_loops_stay_only_where_loops_may_run_ahead(watched, in_worker):
    if in_worker:
        watched.widen.leave()
    assert any(isinstance(site.variant, Loop) for site in watched.file.sites)
    watched.program.settle(watched.file.path, "f")
    watched.widen.loops.keep(watched.file, "f")
    assert watched.widen.covers(watched.file.path, "f") is not in_worker
    watched.program.install(watched.file.path, ["f"])
    plain = next(c for c in watched.file.plain.co_consts if getattr(c, "co_name", "") == "f")
    assert (watched.f.__code__ is plain) is in_worker
    assert watched.f([-1, 2]) == [2, 3]
