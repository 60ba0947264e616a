"""Record what a program does as a dataflow graph.

This package can be called: `codedag.trace(...)` is the public face of that name, and stays so whichever module of the
package was imported first.
"""

from __future__ import annotations

import sys
import types
from typing import Any


class _Callable(types.ModuleType):
    """This package as a function: what the root package calls `trace`, since no room imports the one above it."""

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return sys.modules["codedag"].__dict__["_trace"](*args, **keywords)


sys.modules[__name__].__class__ = _Callable
