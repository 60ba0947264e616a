"""Substitutes by torch on the processor: arithmetic of arrays in all its threads, and what the accelerators' room has.

The results of + - * / and of whole numbers are the same bits by any code; sums, products of matrices and transforms
are added up in another order (ULP).  Its roots are rounded otherwise than numpy's at times (ULP too).
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from codedag.backends import torch_device_, torch_device_arrays_, torch_device_pillow_
from codedag.backends.on_device import using
from codedag.backends.registry import Substitution, substitutes
from codedag.backends.runtimes import EXACT, ULP, Array, Runtime, binary, is_forked, product, reduction, unary
from codedag.ir.verdict import No, Verdict

PU, TORCH = "torch:cpu", "torch>=2.2"
_NAMES = {"divide": "true_divide", "absolute": "abs", "negative": "neg", "rint": "round", "max": "amax", "min": "amin"}


def _compute(name: str, operands: tuple[Array, ...], made: Array) -> tuple[float, float] | None:
    torch = sys.modules["torch"]
    what, _, axis = name.partition(" ")
    function = getattr(torch, _NAMES.get(what, what))
    tensors, result = [torch.from_numpy(each) for each in operands], torch.from_numpy(made)
    if axis:
        function(tensors[0], dim=int(axis), out=result)
    else:
        function(*tensors, out=result)
    if made.dtype.kind != "f":
        return None
    low, high = torch.aminmax(result)  # in all threads, unlike numpy's
    return float(low), float(high)


def _needs_parent() -> bool:
    """Whether a forked process would wait for threads that only its parent has."""
    return is_forked() and sys.modules["torch"].get_num_threads() > 1


class _Torch(Runtime):
    """Torch, which works in a forked process as long as it has one thread there."""

    def absent(self) -> str:
        """The reason why it cannot be used in this process, or empty."""
        return "a forked process cannot use the threads of its parent" if _needs_parent() else ""


RUNTIME = _Torch(PU, TORCH, _compute, home=__name__)
for _name in ("add", "subtract", "multiply"):
    binary(RUNTIME, _name, "fdliB" if _name != "multiply" else "fdli")
for _name in ("divide", "maximum", "minimum"):
    binary(RUNTIME, _name, "fd" if _name == "divide" else "fdliB")
for _name, _gives in (("sqrt", ULP), ("absolute", EXACT), ("negative", EXACT), ("floor", EXACT), ("ceil", EXACT),
                      ("rint", EXACT), ("square", EXACT), ("exp", ULP), ("log", ULP), ("tanh", ULP)):  # fmt: skip
    unary(RUNTIME, _name, "fd", _gives)
for _name in ("sum", "mean"):
    reduction(RUNTIME, _name, "fd")
for _name in ("max", "min"):
    reduction(RUNTIME, _name, "fd", EXACT)
product(RUNTIME, "fd")
product(RUNTIME, "fd", "dot")


# What the accelerators' rooms have, on the processor's own tensors.


def _here(there: Substitution) -> Substitution:
    """A substitute for an accelerator, registered for the processor."""

    @functools.wraps(there.run)
    def run(*args: Any, **keywords: Any) -> Any:
        with using("cpu"):
            return there.run(*args, **keywords)

    def guard(call: Any) -> Verdict:
        with using("cpu"):
            return (
                No("a forked process cannot use the threads of its parent") if _needs_parent() else there._guard(call)
            )

    guard.__doc__ = there._guard.__doc__
    run.__module__ = __name__
    made = substitutes(
        there.source, into=PU, gives=there.equivalence, needs=there.needs, source_needs=there.source_needs, pu=PU
    )(run)
    made.guard(guard)
    made.calls(there.random_call)
    return made


OWN = frozenset(
    f"numpy.{name}"
    for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "sqrt", "absolute", "negative", "floor",
                 "ceil", "log", "tanh", "sum", "mean", "max", "min")
)  # fmt: skip
for _module in (torch_device_, torch_device_arrays_, torch_device_pillow_):
    for _made in [each for each in vars(_module).values() if isinstance(each, Substitution)]:
        if _made.pu == torch_device_.PU and _made.source not in OWN:
            _here(_made)
