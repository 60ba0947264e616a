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


def test_what_is_around_an_operation_is_found_beyond_calls_that_moved_no_data():
    """As in `sum(prepared(x) for x in items)`: `sum` is no operation, and the function around it is."""
    sites = [SiteInfo(at, CALL, "", "a.py", at + 1, 0, at + 1, 5, owner) for at, owner in enumerate(["", "f", "f"])]
    paths = list(zip((-1, 0, 1), sites, strict=True))
    templates = [
        Template(0, "a.f", "region", 0, sites[0], "", count=1, total_ns=5),
        Template(1, "numpy.sqrt", "call", 2, sites[2], "", count=1, self_ns=5, total_ns=5, least_ns=5),
    ]
    assert {op.name: op.parent for op in Gathered(paths, templates).graph().ops} == {"a.f": -1, "numpy.sqrt": 0}
