"""The floating-point mode of a thread is read off its results."""

from __future__ import annotations

import pytest

from codedag.instrument.floating_point import float_mode, is_usual


def test_the_mode_of_a_thread_is_told():
    torch = pytest.importorskip("torch")
    before = float_mode()
    assert is_usual()
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor does not flush")
    try:
        assert float_mode() != before
        assert not is_usual()
    finally:
        torch.set_flush_denormal(False)
    assert float_mode() == before


@pytest.mark.parametrize("direction", [0x400, 0x800, 0xC00])  # down, up, towards zero: fenv.h of x86
def test_rounding_is_part_of_it(direction):
    import ctypes
    import platform

    if platform.machine() != "x86_64":
        pytest.skip("the numbers are those of another processor")
    library, before = ctypes.CDLL("libm.so.6"), float_mode()
    library.fesetround(direction)
    changed = float_mode()
    library.fesetround(0)
    assert changed != before
    assert float_mode() == before
