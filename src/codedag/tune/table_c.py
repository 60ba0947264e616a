"""The C engine: a compiled and proven library, called by ctypes, which releases the GIL meanwhile."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

from codedag.ir.verdict import No
from codedag.tune.addresses import address_of
from codedag.tune.layout import Array, Layout
from codedag.tune.table_source import SYMBOL

Apply = Callable[[Layout, tuple[int, ...], Array, Array, Array], None]


def load_c(library: Path) -> Apply | No:
    """The kernel in a shared library as a function of arrays, or why it cannot be loaded."""
    try:
        entry = getattr(ctypes.CDLL(str(library)), SYMBOL)
    except (OSError, AttributeError) as error:
        return No(f"the kernel cannot be loaded: {error}")
    entry.argtypes, entry.restype = (ctypes.c_void_p,) * 4, None
    address = address_of()

    def apply_c(layout: Layout, row_step: tuple[int, ...], view: Array, table: Array, out: Array) -> None:
        entry(address(view), address(table), address(out), layout.address)

    apply_c.entry = ctypes.cast(entry, ctypes.c_void_p).value  # type: ignore[attr-defined]
    return apply_c
