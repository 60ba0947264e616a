"""What was left as it is has one reason: a variant that was refused is not said to be unknown."""

from __future__ import annotations

from codedag.autopilot.outcome import is_named
from codedag.ir import Op
from codedag.ir.report import Declined


def _op(line: int) -> Op:
    return Op(
        id=0, name="scipy.ndimage.median_filter", kind="call", file="a.py", line=line, context="", count=1,
        self_seconds=1.0, total_seconds=1.0, out_nbytes=0,
    )  # fmt: skip


def test_a_refused_variant_is_the_reason():
    refused = [
        Declined(what="scipy.ndimage.median_filter -> cv2", where="a.py:10", reason="not proven"),
        Declined(what="scipy.ndimage.median_filter2 -> cv2", where="a.py:11", reason="not proven"),
    ]
    assert is_named(_op(10), refused)
    assert not is_named(_op(11), refused)
    assert not is_named(_op(12), refused)
