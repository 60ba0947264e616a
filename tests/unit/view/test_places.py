"""Hot places: each second belongs to one line of the user's, with what was done there, or the one reason why not."""

from __future__ import annotations

import pytest

from codedag.ir import Change, Declined, Heat, HotCall, HotFunction, HotProcess, Proof, Report
from codedag.view.places import lines, places

PROOF = Proof(identical=True, checked=0, mismatches=0, how="")


def call(parent, name, line, text="", own=0.0, waiting=0.0, package="", file="a.py"):
    return HotCall(
        parent=parent, name=name, file=file, line=line, text=text, package=package, self_seconds=own,
        waiting_seconds=waiting,
    )  # fmt: skip


CALLS = [
    call(-1, "<module>", 9, "main()"),
    call(0, "main", 5, "Photos()[i]", 0.1),
    call(1, "Photos.__getitem__", 2, "cv2.imread()", 5.0),
    call(1, "Photos.__getitem__", 3, "x * 2", 1.0),
    call(0, "main", 6, "step()"),
    call(4, "Module._call_impl", 1700, own=2.0, package="torch", file="/lib/torch/m.py"),
    call(4, "Module._call_impl", 1701, own=1.0, package="torch", file="/lib/torch/m.py"),
    call(-1, "Thread.run", 1, own=3.0, waiting=90.0, package="python", file="/lib/threading.py"),
]


def report(calls=CALLS, **fields):
    heat = Heat(sampled_seconds=12.0, cpu_seconds=12.1, calls=calls)
    return Report(**{"verdict": PROOF, "heat": heat, "optimised_seconds": 12.0} | fields)


def test_seconds_belong_to_the_innermost_line_of_the_user():
    found = {place.what: place.seconds for place in places(report())}
    assert found == {"cv2.imread()": 5.0, "step()": 3.0, "x * 2": 1.0}
    assert [place.where for place in places(report())] == ["a.py:2", "a.py:6", "a.py:3"]  # most seconds first
    assert places(report())[0].share == pytest.approx(5.0 / 12.1)


def test_where_it_waits_nothing_is_computed():
    waits = [call(-1, "<module>", 4, "p.map()"), call(0, "wait", 9, own=0.01, waiting=6.0, package="python")]
    (place,) = places(report(waits))
    assert (place.what, place.waiting, place.why) == ("waiting at p.map()", 6.0, "the program waits for others here")


def test_what_was_done_or_the_one_reason_why_not():
    change = Change(what="imread > resize -> kept in memory", where="a.py:1-2")
    declined = Declined(what="torch.Module.step", where="a.py:6", reason="it draws random numbers")
    first, second, third = places(report(changes=[change], declined=[declined]))
    assert (first.done, first.why) == ("kept in memory", "")
    assert (second.done, second.why) == ("", "it draws random numbers")
    assert "Python code of your own" in third.why
    assert third.hint.words == "use numpy or numba.njit"


def test_a_short_run_and_imports_have_reasons_of_their_own():
    assert places(report(optimised_seconds=2.0))[0].why == "the run was too short for looking closer to pay"
    assert places(report())[0].why == "no faster variant was found for it"
    imports = [call(-1, "<module>", 1, "import torch"), call(0, "import_module", 1, own=4.0, package="python")]
    assert places(report(imports))[0].why == "it loads libraries"


def test_workers_are_told_apart():
    heat = Heat(
        sampled_seconds=12.0, cpu_seconds=1.0, workers=[HotProcess(process=7, seconds=10.0)],
        worker_calls=[call(-1, "Photos.__getitem__", 2, "cv2.imread()", 5.0, 40.0)],
    )  # fmt: skip
    (place,) = places(report(heat=heat))
    assert place.in_workers
    assert place.share == pytest.approx(0.5)
    assert place.waiting == 0.0
    assert any("a.py:2, in the workers" in line for line in lines(report(heat=heat)))


def test_a_run_whose_calls_were_not_kept_has_its_functions():
    heat = Heat(sampled_seconds=9.0, cpu_seconds=9.0, functions=[HotFunction(name="f", file="a.py", self_seconds=4.0)])
    assert [place.what for place in places(report(heat=heat))] == ["f"]
    assert places(report(heat=None)) == []


@pytest.mark.parametrize("width", [40, 80])
def test_lines_fit(width):
    told = lines(report(), width)
    assert len(told) > 3
    assert [line for line in told[1:] if len(line) > width] == []


def test_names_as_they_are_shown_mean_a_place():
    first, second, _ = places(report())
    assert first.is_named("cv2.imread")
    assert first.is_named("imread")
    assert not first.is_named("read")
    assert second.is_named("Module._call_impl")
