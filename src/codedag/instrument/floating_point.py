"""Floating-point mode of the processor in this thread: rounding, and whether subnormal numbers are flushed to zero.

The mode (MXCSR on x86, FPCR on ARM) is part of no value, yet the same operation on the same numbers gives others in
another mode: `torch.set_flush_denormal(True)` changes it.  It is read off five operations, on any processor.
"""

from __future__ import annotations

import struct

# variables: the compiler would compute what only constants are part of
_SMALLEST, _SUBNORMAL, _HALF = 2.0**-1022, 2.0**-1074, 0.5
_ONE, _LITTLE, _LARGE = 1.0, 2.0**-60, 2.0**1000
_bits = struct.Struct("5d").pack  # a comparison of floats takes subnormals for zero where the mode says so


def float_mode() -> bytes:
    """What tells the floating-point mode of this thread from others."""
    return _bits(_SMALLEST * _HALF, _SUBNORMAL * _LARGE, _ONE + _LITTLE, _ONE - _LITTLE, -_ONE - _LITTLE)


_USUAL = _bits(2.0**-1023, 2.0**-74, 1.0, 1.0, -1.0)  # IEEE 754: to nearest, with subnormals


def is_usual() -> bool:
    """Whether this thread rounds to nearest and keeps subnormal numbers, as it did when substitutes were proven."""
    return float_mode() == _USUAL
