"""Hot functions: which share of the time a change could reach."""

from __future__ import annotations

import pytest

from codedag.autopilot.heat import HeatReport, HotFunction
from codedag.autopilot.hot import changeable_share

EINSUM = "/env/lib/python3.11/site-packages/numpy/_core/einsumfunc.py"
TORCH = "/env/lib/python3.11/site-packages/torch/functional.py"


def _function(file: str, name: str, itself: float, below: float) -> HotFunction:
    return HotFunction(file, name, 1, itself, below, below, below, itself, 0.0, ())


def _report(*functions: HotFunction) -> HeatReport:
    return HeatReport(1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 100.0, 100, 0, False, functions, (), None, 0.0)


@pytest.mark.parametrize(("library", "share"), [(EINSUM, 0.97), (TORCH, 0.02)])
def test_time_in_numpys_own_python_is_the_callers(library, share):
    """`np.einsum` is a function in Python: its time is that of a call in the user's code, which can be changed."""
    report = _report(_function("/home/own.py", "step", 0.02, 0.97), _function(library, "einsum", 0.95, 0.95))
    assert changeable_share(report) == pytest.approx(share)


def test_numpys_own_python_counts_only_below_code_that_may_be_changed():
    user, numpy = _function("/home/own.py", "step", 0.02, 0.97), _function(EINSUM, "einsum", 0.95, 0.95)
    assert changeable_share(_report(numpy)) == 0
    assert changeable_share(_report(user, numpy), left_alone={("/home/own.py", "step")}) == 0
