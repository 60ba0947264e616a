"""What is slow, as text: shares of the whole process, own code and packages."""

from __future__ import annotations

import pytest
from synthetic_reports import heat as synthetic_heat

from codedag.ir import Heat, HotFunction
from codedag.view.heat import lines, parts


def test_the_parts_add_up_to_the_process():
    heat = synthetic_heat()
    found = {part.name: part.seconds for part in parts(heat)}
    assert sum(found.values()) == pytest.approx(heat.cpu_seconds)
    assert found["your code"] == pytest.approx(0.4 + 0.9 + 1.2)
    assert found["albumentations"] == pytest.approx(0.5 + 5.1 + 1.9)
    assert list(found)[-1] == "CodeDAG"


def test_packages_beyond_the_named_ones_are_other_code():
    many = [HotFunction(name="f", file="f.py", package=f"p{at}", self_seconds=1.0 + at) for at in range(7)]
    found = parts(Heat(sampled_seconds=40.0, cpu_seconds=40.0, functions=many))
    assert [part.name for part in found] == ["p6", "p5", "p4", "p3", "other code"]
    assert found[-1].seconds == pytest.approx(40 - 7 - 6 - 5 - 4)


def test_every_line_fits_and_the_first_says_what_the_shares_are_of():
    found = lines(synthetic_heat(), 60)
    assert "of the process's CPU time" in found[0]
    assert all(len(line) <= 60 for line in found[1:])
    assert found[1].split()[0] == "95%"
    assert lines(Heat(sampled_seconds=1.0)) == []
