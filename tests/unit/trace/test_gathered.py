"""What was gathered is a legal graph, whatever the clocks said."""

from __future__ import annotations

from codedag.instrument.sites import CALL, SiteInfo
from codedag.ir import check
from codedag.trace.gathered import Gathered
from codedag.trace.templates import Template


def _gathered(own: int) -> Gathered:
    site = SiteInfo(0, CALL, "", "a.py", 1, 0, 1, 5, "f")
    return Gathered(
        [(-1, site)], [Template(0, "numpy.sqrt", "call", 0, site, "", count=1, self_ns=own, total_ns=5, least_ns=own)]
    )


def test_a_call_that_took_less_than_what_ran_inside_it_took_no_time_of_its_own():
    """Functions inside it may rest while it runs, and then their time is an estimate."""
    made = _gathered(-7)
    check(made.graph())
    assert made.graph().ops[0].self_seconds == 0.0
    assert made.costs().rows[0].seconds == 0.0
    assert made.costs().rows[0].low == 0.0


def test_other_times_are_as_they_were_measured():
    assert _gathered(4).graph().ops[0].self_seconds == 4e-9
