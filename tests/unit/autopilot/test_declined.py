"""What was left as it is has one reason: a variant that was refused is not said to be unknown."""

from __future__ import annotations

from codedag.autopilot.report.outcome import is_named
from codedag.ir import Op
from codedag.ir.report import Declined


def _op(line: int, name: str = "scipy.ndimage.median_filter") -> Op:
    return Op(
        id=0, name=name, kind="call", file="a.py", line=line, context="", count=1,
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


def test_a_method_and_the_function_of_its_library_are_the_same():
    """The variants of `x.sum()` are those of numpy.sum: it was said to have one that came too late, and none."""
    refused = [Declined(what="numpy.sum -> codedag", where="a.py:10", reason="the program ended before it was proven")]
    assert is_named(_op(10, "numpy.ndarray.sum"), refused)
    assert not is_named(_op(10, "torch.Tensor.sum"), refused)
    assert not is_named(_op(10, "numpy.ndarray.mean"), refused)
