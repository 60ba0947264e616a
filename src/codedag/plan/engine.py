"""The model's loops: the C extension, or its plain-Python twin, which gives the same plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codedag.plan import _sim

    Model = _sim.Model
    ENGINE: str
else:
    try:
        from codedag.plan import _sim

        Model, ENGINE = _sim.Model, "C"
    except ImportError:  # not built here: slower, same plans
        from codedag.plan._twin import Model

        ENGINE = "Python"

__all__ = ["ENGINE", "Model"]
